// SPDX-License-Identifier: GPL-2.0
/*
 * SENDFILEW: parts of files, of mappings and of buffers, in any order, as
 * packets over UDP or as bytes over TCP. A train (UDP: a packet and those of its
 * size that follow it; TCP: some 64 pieces) is gathered from its parts and sent,
 * and then the place in the vector moves on by what was sent. A part's file is
 * open while its pages are added to the train, which holds references to them.
 */
#include <linux/net_tstamp.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>

#include "compat.h"
#include "counters.h"
#include "list.h"
#include "member.h"
#include "request.h"
#include "route.h"
#include "send.h"
#include "switches.h"
#include "vector.h"

/* Pieces after which TCP is given what there is. */
#define WP_VECTOR_PIECES 64
/* The most that one page fragment has of a buffer that is copied. */
#define WP_VECTOR_COPY_BYTES ((u32)PAGE_SIZE / 2)

struct wp_vector {
	struct wirepath_part *parts;
	u32 count;
	u32 index;		/* the part that is next */
	u64 skip;		/* bytes of it that were sent */
	bool packets;		/* UDP */
	bool singly;		/* no more trains: one was refused */
	bool wait;		/* for the storage of the packet that is being added */
	bool follows;		/* this packet joins a train: it takes no page faults */
	u64 bytes;		/* sent by this call */
	u64 sent;		/* packets, or calls into TCP */
	u64 trains;
	struct wp_sending sending;
	struct wp_source source;
	struct wp_train train;
};

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
 * copy_from_user(), or without page faults -EAGAIN for a page that is not present. @page
 * keeps its reference while the caller may sleep, as in wp_header_write().
 */
static int wp_vector_copy_piece(struct page *page, void *room, u64 address,
				unsigned int bytes, bool faults)
{
	unsigned long missing;

	get_page(page);
	if (!faults)
		pagefault_disable();
	missing = copy_from_user(room, u64_to_user_ptr(address), bytes);
	if (!faults)
		pagefault_enable();
	put_page(page);
	if (!missing)
		return 0;
	return faults ? -EFAULT : -EAGAIN;
}

/* Copy up to @bytes of a buffer, one page fragment at a time. */
static int wp_vector_copy(struct wp_vector *vector, u64 address, u64 bytes)
{
	while (bytes && vector->train.pieces < WP_TRAIN_PIECES) {
		unsigned int some = min_t(u64, bytes, WP_VECTOR_COPY_BYTES);
		struct bio_vec piece;
		void *room = wp_header_room(&piece, some);
		int err;

		if (!room)
			return -ENOMEM;
		err = wp_vector_copy_piece(piece.bv_page, room, address, some,
					   !vector->follows);
		if (err)
			return err;
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
	source->present = vector->follows;
	while (!err && bytes) {
		size_t some;

		err = wp_source_fill(source, bytes, vector->wait);
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

/* Add the packet that begins with the part @index, all of it or an error. */
static int wp_vector_add_packet(struct wp_vector *vector, u32 *index)
{
	struct wp_train *train = &vector->train;
	bool ended = false;

	while (!ended && *index < vector->count) {
		const struct wirepath_part *part = &vector->parts[(*index)++];
		u64 want = train->bytes + part->length;
		int err = wp_vector_add_part(vector, part, 0);

		if (err)
			return err;
		/* More pieces than a train has. */
		if (train->bytes < want)
			return -EMSGSIZE;
		ended = part->flags & WIREPATH_PART_END;
	}
	train->packets++;
	return 0;
}

/* True if the bytes of a part follow those of the part before it, in the same page. */
static bool wp_vector_follows(const struct wirepath_part *part,
			      const struct wirepath_part *before)
{
	if ((part->flags ^ before->flags) & WIREPATH_PART_COPY)
		return false;
	/* Page fragments are taken one after the other. */
	if (part->flags & WIREPATH_PART_COPY)
		return true;
	return part->file == before->file && offset_in_page(part->offset) &&
	       part->offset == before->offset + before->length;
}

/*
 * The packet that begins with the part @index: how many bytes, or 0 if more than
 * @bytes_max; @pieces becomes the most pieces that it should add to the train,
 * @first by how many fewer these are as its first part joins the last piece.
 */
static u32 wp_vector_look(const struct wp_vector *vector, u32 index, u32 bytes_max,
			  u32 *pieces, bool *first)
{
	const struct wirepath_part *part = &vector->parts[index];
	u32 bytes = 0, i;

	*pieces = 0;
	*first = wp_vector_follows(part, part - 1);
	for (i = index; i < vector->count; i++, part++) {
		if (part->length > bytes_max - bytes)
			return 0;
		bytes += part->length;
		if (part->flags & WIREPATH_PART_COPY)
			*pieces += DIV_ROUND_UP((u32)part->length, WP_VECTOR_COPY_BYTES);
		else
			*pieces += DIV_ROUND_UP(offset_in_page(part->offset) +
						(u32)part->length, PAGE_SIZE);
		if (i > index && wp_vector_follows(part, part - 1))
			--*pieces;
		if (part->flags & WIREPATH_PART_END)
			break;
	}
	return bytes;
}

/*
 * True if the next packets are sent over IPv4, or if this is not known: an IPv6 socket
 * sends to v4-mapped addresses over IPv4, and to the unspecified address if it is bound
 * to a v4-mapped one.
 */
static bool wp_vector_over_ipv4(const struct wp_sending *sending)
{
#if IS_ENABLED(CONFIG_IPV6)
	const struct sockaddr_in6 *to = (const struct sockaddr_in6 *)&sending->address;
	const struct sock *sk = sending->sock->sk;

	if (sk->sk_family == AF_INET6 && !sending->address_bytes)
		return ipv6_addr_v4mapped(&sk->sk_v6_daddr);
	if (sk->sk_family == AF_INET6)
		return to->sin6_family != AF_INET6 || ipv6_addr_any(&to->sin6_addr) ||
		       ipv6_addr_v4mapped(&to->sin6_addr);
#endif
	return true;
}

/*
 * True if packets of a train that udp_sendmsg() makes have other IPv4 headers than
 * single packets: no IP_DF, and IP ids that repeat, as a train gets one id. With
 * IP_PMTUDISC_DO and IP_PMTUDISC_PROBE both have IP_DF, and the ids are not used.
 */
static bool wp_vector_headers_differ(const struct wp_sending *sending)
{
	u8 discover = READ_ONCE(inet_sk(sending->sock->sk)->pmtudisc);

	return discover != IP_PMTUDISC_DO && discover != IP_PMTUDISC_PROBE &&
	       wp_vector_over_ipv4(sending);
}

/*
 * True if IP drops packets of this socket that exceed the MTU, instead of fragmenting
 * them. If the route gets a smaller MTU while a train is sent, its full packets are
 * dropped with -EMSGSIZE, and a shorter last packet would be sent, and sent again with
 * the single packets.
 */
static bool wp_vector_drops_long(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	/* A bit field before Linux 6.8: no READ_ONCE(). */
	if (sk->sk_family == AF_INET6 && inet6_sk(sk)->pmtudisc >= IPV6_PMTUDISC_DO)
		return true;
#endif
	return READ_ONCE(inet_sk(sk)->pmtudisc) >= IP_PMTUDISC_DO;
}

/*
 * The most packets of the next train; @listed: list.c can send it. A train of a socket
 * with an error pending would hide the error, see wp_vector_refused(); a train of a
 * corked socket would change how the packet in the cork is sent; and a train of a socket
 * with TX time stamps would get a single time stamp.
 */
static u32 wp_vector_packets_max(const struct wp_vector *vector, bool listed)
{
	u32 packet_bytes = vector->train.packet_bytes;
	const struct sock *sk = vector->sending.sock->sk;

	if (READ_ONCE(sk->sk_err) || wp_udp_corked(sk) ||
	    READ_ONCE(sk->sk_tsflags) & SOF_TIMESTAMPING_TX_RECORD_MASK ||
	    (!listed && wp_vector_headers_differ(&vector->sending)))
		return 1;
	if (vector->sending.address_bytes)
		return WIREPATH_TRAIN_PACKETS_MAX;
	if (packet_bytes > wp_route_packet_bytes(sk))
		return 1;
	return min_t(u32, WIREPATH_TRAIN_PACKETS_MAX,
		     wp_route_train_packets(sk, packet_bytes));
}

/* A train that is being gathered, and the skb of it that is being filled. */
struct wp_vector_gathering {
	u32 packets_max;
	u32 fragments_max;	/* of each skb */
	bool lists;		/* the train may have members */
	bool shorter;		/* the last packet may be shorter */
	u32 member_packets;	/* of each skb but the last, or 0: no members */
	u32 packets;		/* of the skb */
	u32 fragments;		/* of the skb */
};

/*
 * Begin another member if the packet needs one; false if the train has to end before
 * the packet. @joins: the packet's first part joins the last piece.
 */
static bool wp_vector_place(struct wp_vector_gathering *gathering, u32 pieces, bool joins)
{
	bool full = gathering->packets == gathering->member_packets ||
		    gathering->fragments + pieces - joins > gathering->fragments_max;

	if (!full)
		return true;
	/* All skbs but the last have the same number of packets. */
	if (!gathering->lists || pieces > gathering->fragments_max ||
	    (gathering->member_packets && gathering->packets < gathering->member_packets))
		return false;
	gathering->member_packets = gathering->packets;
	gathering->packets = 0;
	gathering->fragments = 0;
	return true;
}

/*
 * Add the next packet to the train, if it fits; true if another may follow. The train
 * does not wait for the packet's storage. A packet that does not fit or fails is
 * removed from the train again: the next gathering waits for it, or returns its error.
 */
static bool wp_vector_join(struct wp_vector *vector, struct wp_vector_gathering *gathering,
			   u32 *index)
{
	struct wp_train *train = &vector->train;
	struct bio_vec *last = &train->piece[train->pieces - 1];
	u32 had_pieces = train->pieces, had_bytes = train->bytes;
	u32 had_payload = train->payload, had_last = last->bv_len;
	bool had_odd = train->odd, joins;
	u32 bytes, pieces;

	bytes = wp_vector_look(vector, *index,
			       min(train->packet_bytes, WP_TRAIN_BYTES - train->bytes),
			       &pieces, &joins);
	if (!bytes || (bytes < train->packet_bytes && !gathering->shorter) ||
	    !wp_vector_place(gathering, pieces, joins))
		return false;
	if (!wp_vector_add_packet(vector, index)) {
		/* A piece that began in the skb before is a fragment of both. */
		gathering->fragments += train->pieces - had_pieces;
		if (!gathering->packets && last->bv_len > had_last)
			gathering->fragments++;
		gathering->packets++;
		if (gathering->fragments <= gathering->fragments_max)
			return bytes == train->packet_bytes;
		train->packets--;
	}
	train->pieces = had_pieces;
	train->bytes = had_bytes;
	train->payload = had_payload;
	train->odd = had_odd;
	last->bv_len = had_last;
	return false;
}

/*
 * Gather the next packet, and as a train with it the packets of its size behind it. The
 * last may be shorter. By reference, a train has at most as many pieces as an skb has
 * fragments, or is a list (list.c).
 */
static int wp_vector_gather_packets(struct wp_vector *vector)
{
	struct wp_vector_gathering gathering = {};
	struct wp_sending *sending = &vector->sending;
	struct wp_train *train = &vector->train;
	u32 index = vector->index;
	bool listed;
	int err;

	sending->member_packets = 0;
	sending->listed = false;
	vector->wait = sending->wait;
	vector->follows = false;
	err = wp_vector_add_packet(vector, &index);
	if (err)
		return err;
	train->packet_bytes = train->bytes;
	if (index == vector->count || vector->singly || !READ_ONCE(wp_allow_trains))
		return 0;
	listed = wp_list_trains_possible(sending, train->packet_bytes);
	gathering.packets_max = wp_vector_packets_max(vector, listed);
	if (gathering.packets_max == 1)
		return 0;
	gathering.fragments_max = sending->references ? wp_fragments_max() : WP_TRAIN_PIECES;
	gathering.packets = 1;
	gathering.fragments = train->pieces;
	/* The packet has to be copied, and with it the whole train. */
	if (train->pieces > gathering.fragments_max)
		return 0;
	gathering.lists = listed && wp_member_lists;
	gathering.shorter = !wp_vector_drops_long(sending->sock->sk);
	sending->listed = listed && wp_vector_headers_differ(sending);
	vector->wait = false;
	vector->follows = true;
	while (index < vector->count && train->packets < gathering.packets_max)
		if (!wp_vector_join(vector, &gathering, &index))
			break;
	if (train->pieces > gathering.fragments_max)
		sending->member_packets = gathering.member_packets;
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
