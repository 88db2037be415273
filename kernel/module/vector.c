// SPDX-License-Identifier: GPL-2.0
/*
 * SENDFILEW: parts of files, of mappings and of buffers, in any order, as
 * packets over UDP or as bytes over TCP. A train (UDP: a packet and those of its
 * size that follow it; TCP: some 64 pieces) is gathered from its parts and sent,
 * and then the place in the vector moves on by what was sent.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "counters.h"
#include "request.h"
#include "send.h"
#include "switches.h"
#include "vector.h"

/* Skip the next @bytes of the vector; false if it has fewer. */
static bool wp_vector_advance(struct wp_vector *vector, u64 bytes)
{
	while (bytes && vector->index < vector->count) {
		u64 rest = vector->parts[vector->index].length - vector->skip;

		if (bytes < rest) {
			vector->skip += bytes;
			return true;
		}
		bytes -= rest;
		vector->skip = 0;
		vector->index++;
	}
	return !bytes;
}

static int wp_vector_check(const struct wirepath_part *part)
{
	u64 end = part->offset + part->length;

	if ((part->flags & ~(WIREPATH_PART_COPY | WIREPATH_PART_END)) ||
	    !part->length || end < part->offset)
		return -EINVAL;
	if (part->file == -1) {
		if (!wp_allow_mappings)
			return -EOPNOTSUPP;
		return end > ULONG_MAX ? -EFAULT : 0;
	}
	if (!wp_allow_files)
		return -EOPNOTSUPP;
	return end > LLONG_MAX || (part->flags & WIREPATH_PART_COPY) ? -EINVAL : 0;
}

/*
 * Gather for TCP some parts, up to an end. After an error what was gathered is
 * sent, and the error is returned by the next gathering.
 */
static int wp_vector_gather_bytes(struct wp_vector *vector)
{
	struct wp_train *train = &vector->train;
	u64 skip = vector->skip;
	u32 index = vector->index;
	bool ended = false;
	int err = 0;

	vector->wait = vector->sending.wait;
	vector->follows = false;
	while (!ended && index < vector->count) {
		const struct wirepath_part *part = &vector->parts[index];
		u64 want = train->bytes + part->length - skip;

		err = wp_vector_add_part(vector, part, skip);
		if (err || train->bytes < want)
			break;
		ended = part->flags & WIREPATH_PART_END;
		skip = 0;
		index++;
		if (train->pieces >= WP_VECTOR_PIECES)
			break;
	}
	if (err && !train->bytes)
		return err;
	train->packets = 1;
	train->packet_bytes = train->bytes;
	vector->sending.more = !ended && !err && index < vector->count;
	return 0;
}

/*
 * True if a train was refused that its packets may not be: they are sent one by one.
 * The route may have another MTU than expected, or be unknown here (EMSGSIZE, EINVAL).
 * IPsec takes no trains (EIO), nor do devices without checksum offload before Linux
 * 6.11. A packet filter or a program may drop long packets (EPERM).
 */
static bool wp_vector_refused(struct wp_vector *vector, int err)
{
	if (vector->train.packets == 1 ||
	    (err != -EMSGSIZE && err != -EINVAL && err != -EIO && err != -EPERM))
		return false;
	vector->singly = true;
	return true;
}

static int wp_vector_send(struct wp_vector *vector)
{
	int sent;

	do {
		wp_train_empty(&vector->train);
		sent = vector->packets ? wp_vector_gather_packets(vector) :
					 wp_vector_gather_bytes(vector);
		if (sent)
			break;
		sent = wp_train_send(&vector->train, &vector->sending);
	} while (sent < 0 && wp_vector_refused(vector, sent));
	return sent;
}

static int wp_vector_all(struct wp_vector *vector, u64 trains_max)
{
	while (vector->index < vector->count) {
		u32 packets;
		int sent;

		if (vector->trains >= trains_max)
			return WP_TURN_OVER;
		/* As in wp_send_all(). */
		if (vector->trains && trains_max == U64_MAX && signal_pending(current))
			return -EINTR;
		sent = wp_vector_send(vector);
		packets = vector->train.packets;
		wp_train_empty(&vector->train);
		if (sent == -EAGAIN)
			wp_count(WP_FULL, 1);
		if (sent < 0)
			return sent;
		/* Cannot fail: no more was sent than the parts that are left have. */
		wp_vector_advance(vector, sent);
		vector->bytes += sent;
		vector->sent += packets;
		vector->trains++;
		if (vector->packets)
			wp_count(WP_PACKETS, packets);
		cond_resched();
	}
	return 0;
}

static int wp_vector_take_parts(struct wp_vector *vector,
				const struct wirepath_sendfilew *request)
{
	u32 i;

	if (!request->part_count || request->part_count > WIREPATH_PART_COUNT_MAX ||
	    request->part_bytes < sizeof(*vector->parts))
		return -EINVAL;
	if (request->part_bytes > sizeof(*vector->parts))
		return -E2BIG;
	vector->parts = vmemdup_user(u64_to_user_ptr(request->parts),
				     (size_t)request->part_count *
				     sizeof(*vector->parts));
	if (IS_ERR(vector->parts))
		return PTR_ERR(vector->parts);
	vector->count = request->part_count;
	for (i = 0; i < vector->count; i++) {
		int err = wp_vector_check(&vector->parts[i]);

		if (err) {
			kvfree(vector->parts);
			return err;
		}
	}
	return 0;
}

/* Go to where the last call ended: for UDP that is where a packet begins. */
static int wp_vector_begin(struct wp_vector *vector, u64 bytes)
{
	if (!wp_vector_advance(vector, bytes))
		return -EINVAL;
	if (!vector->packets || !bytes || vector->index == vector->count)
		return 0;
	return vector->skip ||
	       !(vector->parts[vector->index - 1].flags & WIREPATH_PART_END) ?
	       -EINVAL : 0;
}

/* All but the pieces of source and train, which are far more. */
static void wp_vector_clear(struct wp_vector *vector)
{
	memset(vector, 0, offsetof(struct wp_vector, source));
	vector->source.file = NULL;
	vector->source.available = 0;
	vector->train.owned = 0;
	wp_train_empty(&vector->train);
}

static int wp_vector_open(struct wp_vector *vector,
			  const struct wirepath_sendfilew *request, bool wait)
{
	int err;

	if (!wp_allow_sendfilew)
		return -EOPNOTSUPP;
	if ((request->flags & ~(WIREPATH_DONTWAIT | WIREPATH_COPY)) ||
	    request->reserved)
		return -EINVAL;
	err = wp_sending_open(&vector->sending, request->socket, request->address,
			      request->address_bytes);
	if (err)
		return err;
	vector->packets = vector->sending.segments;
	vector->sending.wait = wait && !(request->flags & WIREPATH_DONTWAIT);
	vector->sending.references = !(request->flags & WIREPATH_COPY) &&
				     wp_allow_references && WP_REFERENCES;
	err = wp_vector_take_parts(vector, request);
	if (err)
		goto close_sending;
	err = wp_vector_begin(vector, request->bytes);
	if (err)
		goto free_parts;
	return 0;

free_parts:
	kvfree(vector->parts);
close_sending:
	wp_sending_close(&vector->sending);
	return err;
}

/**
 * wp_vector_request() - Answer WIREPATH_SENDFILEW.
 * @argument: struct wirepath_sendfilew in the caller's memory
 * @wait: false to return -EAGAIN where it would wait, WP_TURN_OVER after a while
 *
 * Return: as the protocol's prose says.
 */
int wp_vector_request(void __user *argument, bool wait)
{
	struct wirepath_sendfilew request;
	struct wp_vector *vector;
	int err, answer;

	err = wp_request_read(&request, sizeof(request),
			      WIREPATH_SENDFILEW_SIZE_VER1, argument);
	if (err)
		return err;
	vector = kmalloc(sizeof(*vector), GFP_KERNEL);
	if (!vector)
		return -ENOMEM;
	wp_vector_clear(vector);
	err = wp_vector_open(vector, &request, wait);
	if (err)
		goto free;
	wp_count(WP_CALLS, 1);
	answer = wp_vector_all(vector, wait ? U64_MAX : WP_TURN_TRAINS);
	request.bytes += vector->bytes;
	request.packets += vector->sent;
	request.copied_bytes += vector->sending.copied;
	err = wp_request_write(&request, sizeof(request), argument) ?: answer;
	wp_sending_close(&vector->sending);
	kvfree(vector->parts);
free:
	kfree(vector);
	return err;
}
