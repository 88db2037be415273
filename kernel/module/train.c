// SPDX-License-Identifier: GPL-2.0
/*
 * A train is gathered from pieces of pages and handed to the network in one
 * call of sock_sendmsg(), where security modules, BPF and the socket's buffer
 * see it as any other send. By UDP, or in buffers that list.c makes.
 *
 * By reference: the pieces are the fragments of one socket buffer, each with
 * a reference of its own that the network takes; ours may go when the call
 * returns. The network marks them as shared (SKBFL_SHARED_FRAG), so that
 * nothing further down writes into a page of a file. There is no MSG_MORE,
 * which keeps UDP on its way without the socket's lock, and lets the device
 * compute the checksum.
 */
#include <linux/mm.h>
#include <linux/udp.h>
#include <net/sock.h>

#include "compat.h"
#include "counters.h"
#include "header.h"
#include "list.h"
#include "route.h"
#include "trace.h"
#include "train.h"

/* Let go of the pages that the train refers to itself. */
void wp_train_empty(struct wp_train *train)
{
	while (train->owned)
		put_page(train->own[--train->owned]);
	train->pieces = 0;
	train->packets = 0;
	train->bytes = 0;
	train->payload = 0;
	train->packet_bytes = 0;
	train->odd = false;
	train->head_bytes = 0;
}

/* Would these bytes become part of the last piece? */
static inline bool wp_train_joins(const struct wp_train *train,
				  const struct bio_vec *piece)
{
	const struct bio_vec *last;

	if (!train->pieces)
		return false;
	last = &train->piece[train->pieces - 1];
	return last->bv_page == piece->bv_page &&
	       last->bv_offset + last->bv_len == piece->bv_offset;
}

/* Once for each fragment of each packet: inline, as is what calls it. */
static __always_inline bool wp_train_append(struct wp_train *train,
					    const struct bio_vec *piece)
{
	if (wp_train_joins(train, piece)) {
		train->piece[train->pieces - 1].bv_len += piece->bv_len;
	} else {
		if (train->pieces == WP_TRAIN_PIECES)
			return false;
		if (train->bytes & 1)
			train->odd = true;
		train->piece[train->pieces++] = *piece;
	}
	train->bytes += piece->bv_len;
	return true;
}

/**
 * wp_train_add_head() - Begin with what is in @train->head.
 * @train: the train, empty
 * @bytes: how much
 */
void wp_train_add_head(struct wp_train *train, unsigned int bytes)
{
	bvec_set_page(&train->piece[0], virt_to_page(train->head), bytes,
		      offset_in_page(train->head));
	train->pieces = 1;
	train->bytes = bytes;
	train->head_bytes = bytes;
}

/* Have the first piece be where buffers can refer to it. */
static int wp_train_move_head(struct wp_train *train)
{
	unsigned int bytes = train->head_bytes;
	void *room;

	if (!bytes)
		return 0;
	room = wp_header_room(&train->piece[0], bytes);
	if (!room)
		return -ENOMEM;
	memcpy(room, train->head, bytes);
	get_page(train->piece[0].bv_page);
	train->own[train->owned++] = train->piece[0].bv_page;
	train->head_bytes = 0;
	return 0;
}

/**
 * wp_train_add() - Add a part of a page.
 * @train: the train
 * @piece: the part; bytes that follow those of the last piece in the same
 *         page become part of that one
 * @own: whether the train takes a reference; else the caller keeps one until
 *       the train is empty
 *
 * Return: false if the train takes no more pieces.
 */
bool wp_train_add(struct wp_train *train, const struct bio_vec *piece, bool own)
{
	if (!wp_train_append(train, piece))
		return false;
	/* One reference of a page is enough for all headers in it. */
	if (own && (!train->owned || train->own[train->owned - 1] != piece->bv_page)) {
		get_page(piece->bv_page);
		train->own[train->owned++] = piece->bv_page;
	}
	return true;
}

/**
 * wp_train_pieces() - How many pieces would the train have with more payload?
 * @train: the train
 * @source: the source
 * @cursor: where in its window
 * @bytes: how much; the window has it
 * @header: whether a header, a piece of its own, comes before
 */
unsigned int wp_train_pieces(const struct wp_train *train,
			     const struct wp_source *source,
			     const struct wp_cursor *cursor, size_t bytes,
			     bool header)
{
	const struct bio_vec *from = &source->pieces[cursor->piece];
	struct bio_vec first = *from;
	unsigned int pieces = train->pieces + header + 1;
	size_t got = from->bv_len - cursor->skip;

	first.bv_offset += cursor->skip;
	if (!header && wp_train_joins(train, &first))
		pieces--;
	for (; got < bytes; pieces++)
		got += (++from)->bv_len;
	return pieces;
}

/**
 * wp_train_add_payload() - Add payload from a source's window.
 * @train: the train
 * @source: the source, whose window keeps the pages until the train was sent
 * @cursor: where in the window; moves on
 * @bytes: how much; the window has it
 *
 * Return: false if the train takes no more pieces.
 */
bool wp_train_add_payload(struct wp_train *train, const struct wp_source *source,
			  struct wp_cursor *cursor, size_t bytes)
{
	train->payload += bytes;
	cursor->available -= bytes;
	while (bytes) {
		const struct bio_vec *from = &source->pieces[cursor->piece];
		unsigned int rest = from->bv_len - cursor->skip;
		struct bio_vec piece = {
			.bv_page = from->bv_page,
			.bv_len = min_t(size_t, rest, bytes),
			.bv_offset = from->bv_offset + cursor->skip,
		};

		if (!wp_train_append(train, &piece))
			return false;
		bytes -= piece.bv_len;
		cursor->skip += piece.bv_len;
		if (piece.bv_len == rest) {
			cursor->piece++;
			cursor->skip = 0;
		}
	}
	return true;
}

/**
 * wp_train_take_payload() - Add payload, and have it leave the source's window.
 * @train: the train, which takes references of its own
 * @source: the source
 * @bytes: how much; the window has it
 *
 * Return: false if the train takes no more pieces, and then the window keeps
 * the bytes that were not taken.
 */
bool wp_train_take_payload(struct wp_train *train, struct wp_source *source,
			   size_t bytes)
{
	while (bytes) {
		struct bio_vec piece = source->pieces[source->first];

		piece.bv_len = min_t(size_t, piece.bv_len, bytes);
		if (!wp_train_add(train, &piece, true))
			return false;
		train->payload += piece.bv_len;
		bytes -= piece.bv_len;
		wp_source_consume(source, piece.bv_len);
	}
	return true;
}

/*
 * Does a packet wait in a corked socket that has room for the train, and whose
 * checksum the device computes, as where UDP_SEGMENT was set? What comes in
 * between at the same time, and is not such, is a race of the caller's, who may
 * get a wrong checksum as from sendfile().
 */
static bool wp_train_joins_unsummed(const struct wp_train *train, struct sock *sk)
{
	const struct sk_buff *waiting;
	bool joins;

	lock_sock(sk);
	waiting = skb_peek_tail(&sk->sk_write_queue);
	joins = waiting && waiting->ip_summed == CHECKSUM_PARTIAL &&
		skb_shinfo(waiting)->nr_frags + train->pieces <= wp_fragments_max();
	release_sock(sk);
	return joins;
}

/*
 * May this train go by reference? TCP cuts it into as many buffers as it
 * needs and always has the device's checksum or sums piece by piece. For UDP,
 * it must fit one buffer; a segmented one is never summed in software
 * before it is segmented; for others see route.c. What becomes part of a
 * packet that is corked is summed in software, and where in it is not known:
 * unless what waits there is to be summed by the device.
 */
static bool wp_train_by_reference(const struct wp_train *train,
				  const struct wp_sending *sending,
				  const struct wp_route *route)
{
	if (!WP_REFERENCES || !sending->references)
		return false;
	if (!sending->segments)
		return true;
	if (wp_udp_corked(sending->sock->sk))
		return wp_train_joins_unsummed(train, sending->sock->sk);
	if (train->pieces > wp_fragments_max())
		return false;
	return !train->odd || train->packets > 1 ||
	       train->bytes <= route->checksum_bytes;
}

/* May it leave in buffers that are made by list.c, which only does so by reference? */
static bool wp_train_by_list(const struct wp_train *train, const struct wp_sending *sending)
{
	return (train->pieces <= MAX_SKB_FRAGS || sending->member_packets) &&
	       wp_list_possible(sending);
}

/* By sock_sendmsg(); @references: whether by reference. */
static int wp_train_send_message(const struct wp_train *train, struct wp_sending *sending,
				 bool references)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(u16))];
	} control;
	struct msghdr message = { .msg_flags = MSG_NOSIGNAL };
	u16 size = train->packets > 1 ? train->packet_bytes : 0;

	if (references)
		message.msg_flags |= WP_REFERENCES;
	if (!wp_sending_waits(sending))
		message.msg_flags |= MSG_DONTWAIT;
	if (sending->more)
		message.msg_flags |= MSG_MORE;
	if (sending->address_bytes) {
		message.msg_name = &sending->address;
		message.msg_namelen = sending->address_bytes;
	}
	/* Also for a packet by itself, if the socket has a size set. */
	if (sending->segments &&
	    (size || READ_ONCE(udp_sk(sending->sock->sk)->gso_size))) {
		control.head.cmsg_level = SOL_UDP;
		control.head.cmsg_type = UDP_SEGMENT;
		control.head.cmsg_len = CMSG_LEN(sizeof(size));
		*(u16 *)CMSG_DATA(&control.head) = size;
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	iov_iter_bvec(&message.msg_iter, ITER_SOURCE, train->piece,
		      train->pieces, train->bytes);
	return sock_sendmsg(sending->sock, &message);
}

/**
 * wp_train_note() - Count what was handed to the network.
 * @train: the train
 * @sending: how
 * @references: whether by reference
 * @lent: whether the network took the pages so, as far as is known
 * @sent: what it answered
 *
 * Return: bytes sent, or the error.
 */
int wp_train_note(const struct wp_train *train, struct wp_sending *sending, bool references,
		  bool lent, int sent)
{
	trace_wirepath_train(sending->sock->sk, train, references, sent);
	if (sent <= 0)
		return sent ?: -EIO;
	if (lent) {
		wp_count(WP_LOANS, train->pieces - !!train->head_bytes);
	} else {
		u64 copied = min_t(unsigned int, sent, train->payload);

		sending->copied += copied;
		wp_count(WP_COPIED_BYTES, copied);
	}
	wp_count(WP_TRAINS, 1);
	wp_count(WP_BYTES, sent);
	return sent;
}

/**
 * wp_train_send() - Hand a train to the network.
 * @train: the train; stays as it is
 * @sending: how
 *
 * Return: bytes sent, headers included (UDP: all); -EAGAIN: the socket's
 * buffer is full and @sending does not wait; -EMSGSIZE: list.c cannot send the
 * train and @sending wants nothing else; else an error of the network.
 */
int wp_train_send(struct wp_train *train, struct wp_sending *sending)
{
	bool references = true, lent = true;
	int sent = 0;

	if (wp_train_by_list(train, sending))
		sent = wp_list_send(train, sending);
	if (!sent && sending->listed && train->packets > 1)
		sent = -EMSGSIZE;
	if (!sent) {
		struct wp_route route = wp_route_of(sending->sock->sk,
						    sending->address_bytes);

		references = wp_train_by_reference(train, sending, &route);
		if (references && wp_train_move_head(train))
			return -ENOMEM;
		lent = references && (!route.known || route.gathers);
		sent = wp_train_send_message(train, sending, references);
	}
	return wp_train_note(train, sending, references, lent, sent);
}
