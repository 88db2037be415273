// SPDX-License-Identifier: GPL-2.0
/*
 * SEND: packets of payload from a source, each behind a header, gathered into a
 * train (one skb or a list of skbs) and sent. Source, headers and counters advance
 * only after a train was sent, so the state always names the first packet that was
 * not, whatever ends the call.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <net/sock.h>

#include "compat.h"
#include "counters.h"
#include "list.h"
#include "request.h"
#include "route.h"
#include "send.h"
#include "switches.h"

/*
 * struct wp_send is too large for the stack, and allocating it for each call costs
 * too much: each processor caches one. Those of runs are charged to the starter's
 * memory cgroup and not cached.
 */
static struct kmem_cache *wp_sends;
static DEFINE_PER_CPU(struct wp_send *, wp_send_spare);

int wp_send_setup(void)
{
	wp_sends = KMEM_CACHE_USERCOPY(wp_send, 0, train.head);
	return wp_sends ? 0 : -ENOMEM;
}

void wp_send_teardown(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct wp_send *spare = per_cpu(wp_send_spare, cpu);

		if (spare)
			kmem_cache_free(wp_sends, spare);
	}
	kmem_cache_destroy(wp_sends);
}

static struct wp_send *wp_send_alloc(bool run)
{
	struct wp_send *send;

	send = run ? NULL : this_cpu_xchg(wp_send_spare, NULL);
	if (!send)
		send = kmem_cache_alloc(wp_sends, run ? GFP_KERNEL_ACCOUNT : GFP_KERNEL);
	if (send)
		send->run = run;
	return send;
}

static void wp_send_free(struct wp_send *send)
{
	if (!send->run)
		send = this_cpu_xchg(wp_send_spare, send);
	if (send)
		kmem_cache_free(wp_sends, send);
}

static int wp_send_check_packets(const struct wirepath_send *request,
				 u32 header_bytes)
{
	u64 payload = request->packet_bytes;

	if (!payload) {
		if (request->length == WIREPATH_TO_END)
			return -EINVAL;
		payload = request->length -
			  min_t(u64, request->length, request->skip_bytes);
	}
	/* By itself first, as a sum could overflow, below as well. */
	if (payload > WP_TRAIN_BYTES || payload + header_bytes > WP_TRAIN_BYTES)
		return -EMSGSIZE;
	if (request->packet_bytes && request->length != WIREPATH_TO_END &&
	    div_u64(request->length, payload + request->skip_bytes) >=
	    wp_run_packets_max)
		return -E2BIG;
	return 0;
}

static int wp_send_check_header(const struct wirepath_send *request,
				const struct wirepath_rtp *rtp)
{
	switch (request->header_kind) {
	case WIREPATH_HEADER_NONE:
		return request->header || request->header_bytes ? -EINVAL : 0;
	case WIREPATH_HEADER_GIVEN:
		return !request->header_bytes ||
		       request->header_bytes > WIREPATH_HEADER_BYTES_MAX ? -EINVAL : 0;
	case WIREPATH_HEADER_RTP:
		if (!wp_allow_rtp)
			return -EOPNOTSUPP;
		return request->header_bytes != rtp->size ? -EINVAL :
							    wp_rtp_check(rtp);
	default:
		return -EINVAL;
	}
}

static int wp_send_check(const struct wirepath_send *request,
			 const struct wirepath_rtp *rtp)
{
	u64 end = request->length == WIREPATH_TO_END ? request->offset :
						       request->offset + request->length;
	int err;

	if ((request->flags & ~(WIREPATH_DONTWAIT | WIREPATH_COPY)) ||
	    request->skip_bytes > WIREPATH_HEADER_BYTES_MAX || end < request->offset ||
	    request->train_packets > WIREPATH_TRAIN_PACKETS_MAX)
		return -EINVAL;
	if (request->file == -1) {
		if (!wp_allow_mappings)
			return -EOPNOTSUPP;
		if (request->length == WIREPATH_TO_END)
			return -EINVAL;
		if (end > ULONG_MAX)
			return -EFAULT;
	} else {
		if (!wp_allow_files)
			return -EOPNOTSUPP;
		if (end > LLONG_MAX)
			return -EINVAL;
	}
	err = wp_send_check_header(request, rtp);
	if (err)
		return err;
	return wp_send_check_packets(request,
				     request->header_kind == WIREPATH_HEADER_RTP ?
				     WP_RTP_HEADER_BYTES : request->header_bytes);
}

static void wp_send_set_header(struct wp_send *send,
			       const struct wirepath_send *request,
			       const struct wirepath_rtp *rtp)
{
	struct wp_header *header = &send->header;

	header->kind = request->header_kind;
	header->bytes = request->header_bytes;
	header->given = request->header;
	header->kept = NULL;
	/* A run tells of the engine's state, with or without one. */
	if (header->kind == WIREPATH_HEADER_RTP || send->run)
		memset(&header->rtp, 0, sizeof(header->rtp));
	header->handling.handler = NULL;
	if (send->run)
		memset(&header->handling, 0, sizeof(header->handling));
	if (header->kind == WIREPATH_HEADER_RTP) {
		header->bytes = WP_RTP_HEADER_BYTES;
		header->rtp.state = *rtp;
	}
}

/**
 * wp_send_open() - Begin what a request asks for.
 * @request: the request, unchecked
 * @rtp: its RTP state, if it has one
 * @run: whether it is a run's
 *
 * Return: what wp_send_train() goes on with and wp_send_close() ends, or the
 * errors of the protocol's prose.
 */
struct wp_send *wp_send_open(const struct wirepath_send *request,
			     const struct wirepath_rtp *rtp, bool run)
{
	struct wp_send *send;
	int err;

	err = wp_send_check(request, rtp);
	if (err)
		return ERR_PTR(err);
	send = wp_send_alloc(run);
	if (!send)
		return ERR_PTR(-ENOMEM);
	err = wp_source_open(&send->source, request->file, request->offset);
	if (err)
		goto free;
	err = wp_sending_open(&send->sending, request->socket, request->address,
			      request->address_bytes);
	if (err)
		goto close_source;
	if (!send->sending.segments) {
		err = -EPROTONOSUPPORT;
		goto close_sending;
	}
	send->packet_bytes = request->packet_bytes;
	send->skip_bytes = request->skip_bytes;
	send->train_packets = max(request->train_packets, 1U);
	send->left = request->length;
	send->copy = request->flags & WIREPATH_COPY;
	send->wait = !(request->flags & WIREPATH_DONTWAIT);
	send->sending.wait = send->wait;
	send->halting = NULL;
	send->refused_packets = 0;
	send->packets = 0;
	send->trains = 0;
	send->bytes = 0;
	send->lost_packets = 0;
	send->passed_packets = 0;
	send->passed_bytes = 0;
	wp_send_set_header(send, request, rtp);
	send->train.owned = 0;
	send->chain.skb = NULL;
	wp_train_empty(&send->train);
	return send;

close_sending:
	wp_sending_close(&send->sending);
close_source:
	wp_source_close(&send->source);
free:
	wp_send_free(send);
	return ERR_PTR(err);
}

void wp_send_close(struct wp_send *send)
{
	wp_train_empty(&send->train);
	wp_sending_close(&send->sending);
	wp_source_close(&send->source);
	wp_send_free(send);
}

/*
 * Payload bytes of the next packet: 0 at the end, -EAGAIN if the window has too few.
 * At the end of the source the RTP table is not asked, since it may end there, too.
 * @cursor is at the skipped bytes before the payload.
 */
static __always_inline int wp_send_payload(struct wp_send *send, struct wp_header *header,
					   const struct wp_cursor *cursor, u64 left)
{
	u64 want = left - send->skip_bytes;
	bool shown = cursor->available > send->skip_bytes;
	int err;

	if (left <= send->skip_bytes || (send->source.ended && !shown))
		return 0;
	if (left == WIREPATH_TO_END && !shown)
		return -EAGAIN;
	if (send->packet_bytes)
		want = min_t(u64, want, send->packet_bytes);
	if (header->kind == WIREPATH_HEADER_RTP && header->rtp.state.table) {
		err = wp_rtp_group(&header->rtp, send->packet_bytes ?: want, &want);
		if (err)
			return err;
	}
	if (cursor->available >= send->skip_bytes + want)
		return want;
	return send->source.ended ? cursor->available - send->skip_bytes : -EAGAIN;
}

/* Does a packet fit the train: by size, and by fragments if it leaves by reference? */
static bool wp_send_fits(const struct wp_send *send, const struct wp_header *header,
			 const struct wp_cursor *cursor, unsigned int payload)
{
	unsigned int pieces_max = send->sending.references ? wp_fragments_max() :
							     WP_TRAIN_PIECES;
	const struct wp_train *train = &send->train;
	unsigned int bytes = header->bytes + payload;
	unsigned int pieces;

	/* A single packet may have more pieces than an skb has fragments: it is copied. */
	if (!train->packets)
		pieces_max = WP_TRAIN_PIECES;
	else if (bytes > train->packet_bytes || train->bytes + bytes > WP_TRAIN_BYTES)
		return false;
	/* Usually everything in the window would fit: no need to count. */
	if (train->pieces + 1 + send->source.end - cursor->piece <= pieces_max)
		return true;
	pieces = wp_train_pieces(train, &send->source, cursor, payload,
				 header->kind != WIREPATH_HEADER_NONE);
	return pieces <= pieces_max;
}

/* Packets that the handler dropped from @before to @after. */
static u32 wp_send_dropped(const struct wp_header *before, const struct wp_header *after)
{
	return after->handling.handler ? after->handling.dropped_packets -
					 before->handling.dropped_packets : 0;
}

/*
 * Calls the handler, which may write to the header (no skb refers to it yet).
 * Returns its verdict, or an error. @cursor is at the payload.
 */
static int wp_send_handle(const struct wp_send *send, struct wp_header *header, u8 *bytes,
			  const struct wp_cursor *cursor, u32 payload)
{
	struct wp_handling *handling = &header->handling;
	u32 shown = min_t(u32, header->bytes, WIREPATH_HANDLER_SEES);
	struct wirepath_packet packet = {
		.number = handling->packets,
		.position = send->source.position + send->source.available - cursor->available,
		.header_bytes = header->bytes,
		.payload_bytes = payload,
	};
	int verdict;

	memcpy(packet.state, handling->state, sizeof(packet.state));
	memcpy(packet.header, bytes, shown);
	wp_source_peek(&send->source, *cursor, packet.payload,
		       min_t(u32, payload, WIREPATH_HANDLER_SEES));
	verdict = wp_handler_call(handling->handler, &packet);
	if (verdict < 0)
		return verdict;
	memcpy(handling->state, packet.state, sizeof(packet.state));
	memcpy(bytes, packet.header, shown);
	handling->packets++;
	return verdict;
}

/* Pass over a packet that the handler dropped: RTCP does not count it. */
static void wp_send_drop(const struct wp_send *send, struct wp_header *header,
			 struct wp_cursor *cursor, u32 payload)
{
	wp_source_pass(&send->source, cursor, payload);
	header->handling.dropped_packets++;
	header->handling.dropped_bytes += header->bytes + payload;
	if (header->kind == WIREPATH_HEADER_RTP) {
		header->rtp.state.packets--;
		header->rtp.state.octets -= payload;
	}
}

/* Add one packet, of which wp_send_fits() says that it can be, or drop it. */
static int wp_send_add_packet(struct wp_send *send, struct wp_header *header,
			      struct wp_cursor *cursor, unsigned int payload)
{
	struct wp_train *train = &send->train;
	struct bio_vec piece;
	u8 *bytes = NULL;
	int err;

	if (header->kind != WIREPATH_HEADER_NONE) {
		err = wp_header_write(header, &piece, payload);
		if (err)
			return err;
		bytes = page_address(piece.bv_page) + piece.bv_offset;
	}
	if (header->handling.handler) {
		int verdict = wp_send_handle(send, header, bytes, cursor, payload);

		if (verdict < 0)
			return verdict;
		if (verdict == WIREPATH_HANDLER_DROP) {
			wp_send_drop(send, header, cursor, payload);
			return 0;
		}
	}
	/* Cannot fail: wp_send_fits() has counted the pieces of both. */
	if (header->kind != WIREPATH_HEADER_NONE)
		wp_train_add(train, &piece, true);
	wp_train_add_payload(train, &send->source, cursor, payload);
	if (!train->packets)
		train->packet_bytes = train->bytes;
	train->packets++;
	return 0;
}

/* Gather up to @packets_max packets, dropped ones too; @header moves on with each. */
static int wp_send_gather(struct wp_send *send, struct wp_header *header,
			  u32 packets_max)
{
	struct wp_cursor cursor = wp_source_cursor(&send->source);
	struct wp_train *train = &send->train;
	u64 left = send->left;
	int payload = 0, err = 0;

	wp_train_empty(train);
	send->gathered = 0;
	while (train->packets + wp_send_dropped(&send->header, header) < packets_max) {
		payload = wp_send_payload(send, header, &cursor, left);
		if (payload <= 0)
			break;
		wp_source_pass(&send->source, &cursor, send->skip_bytes);
		if (!wp_send_fits(send, header, &cursor, payload)) {
			err = -EMSGSIZE;
			break;
		}
		err = wp_send_add_packet(send, header, &cursor, payload);
		if (err)
			break;
		send->gathered = send->source.available - cursor.available;
		if (left != WIREPATH_TO_END)
			left -= send->skip_bytes + payload;
		/* A shorter packet is a train's last. */
		if (header->bytes + payload < train->packet_bytes)
			break;
	}
	/* What is gathered goes first; an error comes again with the next. */
	if (send->gathered)
		return 0;
	return payload < 0 ? payload : err;
}

/* How many of the next @most packets have this payload size, without asking the table? */
static u32 wp_send_alike(const struct wp_send *send, const struct wp_header *header,
			 const struct wp_cursor *cursor, u64 left, u32 payload, u32 most)
{
	u32 stride = send->skip_bytes + payload;

	if (header->handling.handler || payload < send->packet_bytes ||
	    (header->kind == WIREPATH_HEADER_RTP && header->rtp.state.table))
		return 1;
	return min(most, (u32)min_t(u64, left, cursor->available) / stride);
}

/* Add so many packets to a list. */
static __always_inline int wp_send_chain_packets(struct wp_send *send, struct wp_header *header,
						 struct wp_cursor *cursor, u32 payload, u32 count)
{
	struct wp_train *train = &send->train;
	struct wp_chain *chain = &send->chain;
	int err = 0;
	u32 i;

	for (i = 0; i < count; i++) {
		u8 *bytes = wp_chain_header(chain);

		err = IS_ERR(bytes) ? PTR_ERR(bytes) : wp_header_make(header, bytes, payload);
		if (err)
			break;
		if (send->skip_bytes)
			wp_source_pass(&send->source, cursor, send->skip_bytes);
		if (!wp_chain_add(chain, &send->source, cursor, payload)) {
			err = -EMSGSIZE;
			break;
		}
	}
	train->packets += i;
	train->bytes += i * (header->bytes + payload);
	train->payload += i * payload;
	return err;
}

/* Add one packet to a list, or drop it, as the handler says. */
static int wp_send_chain_handled(struct wp_send *send, struct wp_header *header,
				 struct wp_cursor *cursor, u32 payload)
{
	struct wp_train *train = &send->train;
	u8 *bytes = wp_chain_header(&send->chain);
	struct wp_cursor at = *cursor;
	int err, verdict;

	err = IS_ERR(bytes) ? PTR_ERR(bytes) : wp_header_make(header, bytes, payload);
	if (err)
		return err;
	wp_source_pass(&send->source, &at, send->skip_bytes);
	verdict = wp_send_handle(send, header, bytes, &at, payload);
	if (verdict < 0)
		return verdict;
	if (verdict == WIREPATH_HANDLER_DROP) {
		wp_send_drop(send, header, &at, payload);
		*cursor = at;
		return 0;
	}
	if (!wp_chain_add(&send->chain, &send->source, &at, payload))
		return -EMSGSIZE;
	*cursor = at;
	train->packets++;
	train->bytes += header->bytes + payload;
	train->payload += payload;
	return 0;
}

/*
 * Gathers up to @packets_max packets as a list, dropped ones included. Returns 1 if
 * the list would have less than two members, or a member too few fragments; else as
 * wp_send_gather(), or with send->refused_packets an error of the network.
 */
static int wp_send_gather_list(struct wp_send *send, struct wp_header *header,
			       u32 packets_max)
{
	struct wp_cursor cursor = wp_source_cursor(&send->source);
	struct wp_train *train = &send->train;
	int payload = 0, err = 0;
	u64 left = send->left;
	u32 seen, some;

	wp_train_empty(train);
	for (seen = 0; seen < packets_max; seen += some) {
		payload = wp_send_payload(send, header, &cursor, left);
		if (payload <= 0)
			break;
		if (!send->chain.skb) {
			err = wp_chain_begin(&send->chain, train, &send->sending,
					     header->bytes + send->packet_bytes, header->bytes);
			send->refused_packets = err < 0 ? packets_max : 0;
			if (err)
				return err;
			train->packet_bytes = header->bytes + payload;
		}
		/* As in wp_send_fits(). */
		if (header->bytes + payload > train->packet_bytes)
			break;
		some = wp_send_alike(send, header, &cursor, left, payload, packets_max - seen);
		if (header->handling.handler)
			err = wp_send_chain_handled(send, header, &cursor, payload);
		else
			err = wp_send_chain_packets(send, header, &cursor, payload, some);
		if (err)
			break;
		if (left != WIREPATH_TO_END)
			left -= (u64)some * (send->skip_bytes + payload);
		/* A shorter packet is a train's last. */
		if (header->bytes + payload < train->packet_bytes)
			break;
	}
	send->gathered = send->source.available - cursor.available;
	/* What is gathered goes first; an error comes again with the next. */
	if (err != -EMSGSIZE && train->packets >= 2 * send->sending.member_packets)
		return 0;
	wp_chain_drop(&send->chain);
	if (train->packets || err == -EMSGSIZE)
		return 1;
	if (send->gathered)
		return 0;
	return payload < 0 ? payload : err;
}

/* Gather a packet by itself, which fits whatever it is. */
static int wp_send_gather_one(struct wp_send *send, struct wp_header *header)
{
	struct wp_cursor cursor = wp_source_cursor(&send->source);
	struct wp_train *train = &send->train;
	int payload, err;

	wp_train_empty(train);
	payload = wp_send_payload(send, header, &cursor, send->left);
	if (payload <= 0)
		return payload;
	if (send->skip_bytes)
		wp_source_pass(&send->source, &cursor, send->skip_bytes);
	if (header->kind != WIREPATH_HEADER_NONE) {
		err = wp_header_make(header, train->head, payload);
		if (err)
			return err;
		wp_train_add_head(train, header->bytes);
	}
	/* Cannot fail: the window has fewer pieces than a train takes. */
	wp_train_add_payload(train, &send->source, &cursor, payload);
	train->packet_bytes = train->bytes;
	train->packets = 1;
	send->gathered = send->source.available - cursor.available;
	return 0;
}

/*
 * Fills the window until it has a whole train, or the file ends, and gathers.
 * Returns as wp_send_gather(), for lists as wp_send_gather_list().
 */
static int wp_send_prepare(struct wp_send *send, struct wp_header *header,
			   u32 packets_max)
{
	u64 skip_bytes = (u64)send->skip_bytes * packets_max;
	u64 train_bytes = send->packet_bytes ?
			  (u64)send->packet_bytes * packets_max + skip_bytes : send->left;
	u64 want = min3(send->left, train_bytes, WP_TRAIN_BYTES + skip_bytes);
	u64 target = min_t(u64, send->left, (WP_SOURCE_PIECES - 1) * PAGE_SIZE);
	int filling = 0, err;

	while (!filling && !send->source.ended && send->source.available < want)
		filling = wp_source_fill(&send->source, target, send->wait);
	if (send->sending.member_packets)
		err = wp_send_gather_list(send, header, packets_max);
	else if (packets_max == 1 && !header->handling.handler)
		err = wp_send_gather_one(send, header);
	else
		err = wp_send_gather(send, header, packets_max);
	/* -EAGAIN, but of the network: the window had too little, and this is why. */
	return err == -EAGAIN && filling && !send->refused_packets ? filling : err;
}

/* The train is over: source and header go on behind it. */
static void wp_send_pass(struct wp_send *send, const struct wp_header *header)
{
	const struct wp_train *train = &send->train;
	u32 dropped = wp_send_dropped(&send->header, header);

	send->passed_packets += train->packets + dropped;
	send->passed_bytes += train->bytes;
	if (dropped)
		send->passed_bytes += header->handling.dropped_bytes -
				      send->header.handling.dropped_bytes;
	wp_header_set(&send->header, header);
	if (send->left != WIREPATH_TO_END)
		send->left -= send->gathered;
	wp_source_consume(&send->source, send->gathered);
}

/* The train was sent. */
static void wp_send_commit(struct wp_send *send, struct wp_header *header)
{
	const struct wp_train *train = &send->train;

	if (header->kind == WIREPATH_HEADER_RTP)
		header->rtp.state.last_ns = ktime_get_ns();
	send->packets += train->packets;
	send->trains++;
	send->bytes += train->payload;
	wp_send_pass(send, header);
	wp_count(WP_PACKETS, train->packets);
}

/* The most packets of the next train, as asked for and as its device cuts. */
static u32 wp_send_train_packets(const struct wp_send *send)
{
	const struct sock *sk = send->sending.sock->sk;
	u32 packet_bytes = send->packet_bytes + send->header.bytes;

	if (!READ_ONCE(wp_allow_trains) || send->train_packets == 1)
		return 1;
	if (!send->packet_bytes || send->sending.address_bytes)
		return send->train_packets;
	return min(send->train_packets, wp_route_train_packets(sk, packet_bytes));
}

/*
 * Decides whether the next train is a list, of as many packets as fill its members.
 * Without headers one skb holds 46 packets, and no list is needed.
 */
static u32 wp_send_choose_lists(struct wp_send *send, u32 packets_max)
{
	u32 packets, member;

	send->sending.member_packets = 0;
	if (packets_max == 1 || !send->packet_bytes ||
	    send->header.kind == WIREPATH_HEADER_NONE ||
	    !wp_list_members_possible(&send->sending,
				      send->packet_bytes + send->header.bytes))
		return packets_max;
	member = wp_list_member_packets(send->packet_bytes + send->skip_bytes);
	packets = min(packets_max, (u32)WP_TRAIN_BYTES /
				   (send->packet_bytes + send->header.bytes));
	if (packets < 2 * member)
		return packets_max;
	send->sending.member_packets = member;
	return rounddown(packets, member);
}

/* Hand what was gathered to the network: as wp_train_send(). */
static int wp_send_gathered(struct wp_send *send)
{
	int sent;

	/* Storage may have taken long, and the run's owner be gone. */
	if (send->halting && READ_ONCE(*send->halting)) {
		wp_chain_drop(&send->chain);
		return -EINTR;
	}
	sent = send->chain.skb ? wp_chain_send(&send->chain, &send->source, &send->sending) :
				 wp_train_send(&send->train, &send->sending);
	send->refused_packets = sent < 0 ? send->train.packets : 0;
	return sent;
}

/**
 * wp_send_train() - Send one train.
 * @send: what is under way
 * @packets_max: at most so many packets, at least 1
 *
 * Return: packets sent, and dropped by the handler; 0: there is nothing left;
 * -ENODATA: the source or the RTP table ended before the length did; -EAGAIN,
 * -EINTR and other errors, after which nothing of the next packet was sent.
 */
int wp_send_train(struct wp_send *send, u32 packets_max)
{
	struct wp_header header;
	int sent, err;
	u32 dropped;

	send->refused_packets = 0;
	if (wp_send_done(send))
		return 0;
	send->sending.references = !send->copy && READ_ONCE(wp_allow_references) &&
				   WP_REFERENCES;
	packets_max = min(packets_max, wp_send_train_packets(send));
	packets_max = wp_send_choose_lists(send, packets_max);
	for (;;) {
		wp_header_set(&header, &send->header);
		err = wp_send_prepare(send, &header, packets_max);
		if (err <= 0)
			break;
		/* Not as a list: as much of it as one buffer takes. */
		send->sending.member_packets = 0;
	}
	if (err && !send->refused_packets)
		return err;
	dropped = wp_send_dropped(&send->header, &header);
	if (!err && !send->train.packets && dropped) {
		wp_send_pass(send, &header);
		return dropped;
	}
	if (!err && !send->train.packets)
		return send->left == WIREPATH_TO_END ? 0 : -ENODATA;
	sent = err ?: wp_send_gathered(send);
	if (sent > 0) {
		sent = send->train.packets + dropped;
		wp_send_commit(send, &header);
	} else if (sent == -EAGAIN) {
		wp_count(WP_FULL, 1);
	}
	wp_train_empty(&send->train);
	return sent;
}

/**
 * wp_send_lose() - Give up the next packet, as if the network had lost it.
 * @send: what is under way
 *
 * Its sequence number is used up, and RTCP does not count it.
 *
 * Return: 1, also if the handler dropped it; 0: there is nothing left; errors as
 * of wp_send_train().
 */
int wp_send_lose(struct wp_send *send)
{
	const struct wirepath_rtp *before = &send->header.rtp.state;
	struct wp_header header;
	int passed, err;

	wp_header_set(&header, &send->header);
	send->sending.member_packets = 0;
	send->refused_packets = 0;
	err = wp_send_prepare(send, &header, 1);
	passed = send->train.packets + wp_send_dropped(&send->header, &header);
	if (!err && passed) {
		if (header.kind == WIREPATH_HEADER_RTP) {
			header.rtp.state.packets = before->packets;
			header.rtp.state.octets = before->octets;
		}
		wp_send_pass(send, &header);
		send->lost_packets += send->train.packets;
	}
	wp_train_empty(&send->train);
	return err ?: passed;
}

/* Is no payload left? False if only reading can tell. */
bool wp_send_done(const struct wp_send *send)
{
	return send->left <= send->skip_bytes;
}

/**
 * wp_send_remains() - Is there more than has been sent?
 * @send: what is under way
 *
 * Return: 0: no, as far as reading tells; -ENODATA: yes; -EAGAIN and other
 * errors of reading.
 */
int wp_send_remains(struct wp_send *send)
{
	struct wp_source *source = &send->source;

	if (send->left != WIREPATH_TO_END)
		return wp_send_done(send) ? 0 : -ENODATA;
	while (!source->ended && source->available <= send->skip_bytes) {
		int err = wp_source_fill(source, send->skip_bytes + 1, send->wait);

		if (err)
			return err;
	}
	return source->available > send->skip_bytes ? -ENODATA : 0;
}

/*
 * The first train is sent whatever signal is pending, so that a call that is repeated
 * because of io_uring's task work makes progress. @trains_max limits the ring's first
 * try, which does not look at signals.
 */
static int wp_send_all(struct wp_send *send, u64 trains_max)
{
	int sent;

	for (;;) {
		sent = wp_send_train(send, WIREPATH_TRAIN_PACKETS_MAX);
		if (sent <= 0 || wp_send_done(send))
			return min(sent, 0);
		if (send->packets >= wp_run_packets_max)
			return -E2BIG;
		if (send->trains >= trains_max)
			return WP_TURN_OVER;
		if (trains_max == U64_MAX && signal_pending(current))
			return -EINTR;
		cond_resched();
	}
}

static void wp_send_report(const struct wp_send *send,
			   struct wirepath_send *request,
			   struct wirepath_rtp *rtp)
{
	request->offset = send->source.position;
	request->length = send->left;
	request->packets += send->packets;
	request->trains += send->trains;
	request->bytes += send->bytes;
	request->copied_bytes += send->sending.copied;
	if (request->header_kind == WIREPATH_HEADER_GIVEN)
		request->header = send->header.given;
	if (request->header_kind == WIREPATH_HEADER_RTP)
		*rtp = send->header.rtp.state;
}

/* Read a request and the RTP state it points to. */
int wp_send_read(struct wirepath_send *request, struct wirepath_rtp *rtp,
		 const void __user *argument)
{
	int err;

	err = wp_request_read(request, sizeof(*request),
			      WIREPATH_SEND_SIZE_VER1, argument);
	if (err || request->header_kind != WIREPATH_HEADER_RTP)
		return err;
	return wp_request_read(rtp, sizeof(*rtp), WIREPATH_RTP_SIZE_VER1,
			       u64_to_user_ptr(request->header));
}

/* Give back what a call may have changed: fields that the first version had. */
static int wp_send_write(const struct wirepath_send *request, struct wirepath_send __user *to)
{
	if (!user_write_access_begin(to, WIREPATH_SEND_SIZE_VER1))
		return -EFAULT;
	unsafe_put_user(request->offset, &to->offset, fault);
	unsafe_put_user(request->length, &to->length, fault);
	unsafe_put_user(request->header, &to->header, fault);
	unsafe_put_user(request->packets, &to->packets, fault);
	unsafe_put_user(request->trains, &to->trains, fault);
	unsafe_put_user(request->bytes, &to->bytes, fault);
	unsafe_put_user(request->copied_bytes, &to->copied_bytes, fault);
	user_write_access_end();
	return 0;
fault:
	user_write_access_end();
	return -EFAULT;
}

/**
 * wp_send_request() - Answer WIREPATH_SEND.
 * @argument: struct wirepath_send in the caller's memory
 * @wait: false to return -EAGAIN where it would wait, WP_TURN_OVER after a while
 *
 * Return: as the protocol's prose says.
 */
int wp_send_request(void __user *argument, bool wait)
{
	struct wirepath_send request;
	struct wirepath_rtp rtp;
	struct wp_send *send;
	int err, answer;

	err = wp_send_read(&request, &rtp, argument);
	if (err)
		return err;
	send = wp_send_open(&request, &rtp, false);
	if (IS_ERR(send))
		return PTR_ERR(send);
	if (!wait) {
		send->wait = false;
		send->sending.wait = false;
	}
	wp_count(WP_CALLS, 1);
	answer = wp_send_all(send, wait ? U64_MAX : WP_TURN_TRAINS);
	wp_send_report(send, &request, &rtp);
	wp_send_close(send);
	err = wp_send_write(&request, argument);
	if (!err && request.header_kind == WIREPATH_HEADER_RTP)
		err = wp_request_write(&rtp, sizeof(rtp),
				       u64_to_user_ptr(request.header));
	return err ?: answer;
}
