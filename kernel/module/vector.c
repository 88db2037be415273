// SPDX-License-Identifier: GPL-2.0
/*
 * SENDFILEW: parts of files, of mappings and of buffers, in any order, as
 * packets over UDP or as bytes over TCP. A packet (TCP: some 64 pieces) is
 * gathered from its parts, sent, and then the place in the vector moves on by
 * what was sent. Each part is opened when it is come to and closed when its
 * pieces are in the train, which has references of its own to their pages.
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

/* Pieces after which TCP is given what there is. */
#define WP_VECTOR_PIECES 64

struct wp_vector {
	struct wirepath_part *parts;
	u32 count;
	u32 index;		/* the part that is next */
	u64 skip;		/* bytes of it that were sent */
	bool packets;		/* UDP */
	u64 bytes;		/* sent by this call */
	u64 sent;		/* packets, or calls into TCP */
	struct wp_sending sending;
	struct wp_source source;
	struct wp_train train;
};

/* Go on behind the next @bytes; false if the vector has no so many. */
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

/* Copy up to @bytes of a buffer, one page fragment at a time. */
static int wp_vector_copy(struct wp_vector *vector, u64 address, u64 bytes)
{
	while (bytes && vector->train.pieces < WP_TRAIN_PIECES) {
		unsigned int some = min_t(u64, bytes, PAGE_SIZE / 2);
		struct bio_vec piece;
		void *room = wp_header_room(&piece, some);
		unsigned long missing;

		if (!room)
			return -ENOMEM;
		/* As in wp_header_write(). */
		get_page(piece.bv_page);
		missing = copy_from_user(room, u64_to_user_ptr(address), some);
		put_page(piece.bv_page);
		if (missing)
			return -EFAULT;
		if (!wp_train_add(&vector->train, &piece, true))
			break;
		address += some;
		bytes -= some;
		if (!vector->packets && vector->train.pieces >= WP_VECTOR_PIECES)
			break;
	}
	return 0;
}

static int wp_vector_refer(struct wp_vector *vector, int file, u64 position,
			   u64 bytes)
{
	struct wp_source *source = &vector->source;
	int err;

	err = wp_source_open(source, file, position);
	while (!err && bytes) {
		size_t some;

		err = wp_source_fill(source, bytes, vector->sending.wait);
		if (!err && !source->available)
			err = -ENODATA;
		some = min_t(u64, bytes, source->available);
		if (err || !wp_train_take_payload(&vector->train, source, some))
			break;
		bytes -= some;
		if (!vector->packets && vector->train.pieces >= WP_VECTOR_PIECES)
			break;
	}
	if (source->file || source->available)
		wp_source_close(source);
	return err;
}

/* Add what a part has left, or (TCP) as much of it as makes a train. */
static int wp_vector_add_part(struct wp_vector *vector,
			      const struct wirepath_part *part, u64 skip)
{
	u64 position = part->offset + skip, bytes = part->length - skip;

	/* By itself first, as a sum could overflow. */
	if (vector->packets && (bytes > WP_TRAIN_BYTES ||
				vector->train.bytes + bytes > WP_TRAIN_BYTES))
		return -EMSGSIZE;
	if (part->flags & WIREPATH_PART_COPY)
		return wp_vector_copy(vector, position, bytes);
	return wp_vector_refer(vector, part->file, position, bytes);
}

/*
 * Gather the next packet, or for TCP some parts up to an end. UDP never sends
 * a part of a packet: an error drops what was gathered of it. TCP sends what
 * it got, and the error comes again with the next gathering.
 */
static int wp_vector_gather(struct wp_vector *vector)
{
	struct wp_train *train = &vector->train;
	u64 skip = vector->skip;
	u32 index = vector->index;
	bool ended = false;
	int err = 0;

	wp_train_empty(train);
	while (!ended && index < vector->count) {
		const struct wirepath_part *part = &vector->parts[index];
		u64 want = train->bytes + part->length - skip;

		err = wp_vector_add_part(vector, part, skip);
		if (!err && train->bytes < want && vector->packets)
			err = -EMSGSIZE;	/* more pieces than a train has */
		if (err || train->bytes < want)
			break;
		ended = part->flags & WIREPATH_PART_END;
		skip = 0;
		index++;
		if (!vector->packets && train->pieces >= WP_VECTOR_PIECES)
			break;
	}
	if (err && (vector->packets || !train->bytes))
		return err;
	train->packets = 1;
	train->packet_bytes = train->bytes;
	vector->sending.more = !vector->packets && !ended && !err &&
			       index < vector->count;
	return 0;
}

static int wp_vector_all(struct wp_vector *vector, u64 sent_max)
{
	while (vector->index < vector->count) {
		int sent;

		if (vector->sent >= sent_max)
			return WP_TURN_OVER;
		/* As in wp_send_all(). */
		if (vector->sent && sent_max == U64_MAX && signal_pending(current))
			return -EINTR;
		sent = wp_vector_gather(vector);
		if (!sent)
			sent = wp_train_send(&vector->train, &vector->sending);
		wp_train_empty(&vector->train);
		if (sent == -EAGAIN)
			wp_count(WP_FULL, 1);
		if (sent < 0)
			return sent;
		/* Cannot fail: no more was sent than the parts that are left have. */
		wp_vector_advance(vector, sent);
		vector->bytes += sent;
		vector->sent++;
		wp_count(WP_PACKETS, vector->packets);
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
	vector = kzalloc(sizeof(*vector), GFP_KERNEL);
	if (!vector)
		return -ENOMEM;
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
