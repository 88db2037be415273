// SPDX-License-Identifier: GPL-2.0
/*
 * SEND: packets of payload from a source, each behind a header, gathered into a
 * train (one skb or a list of skbs) and sent. Source, headers and counters advance
 * only after a train was sent, so the state always names the first packet that was
 * not, whatever ends the call.
 */
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <net/sock.h>

#include "check.h"
#include "compat.h"
#include "counters.h"
#include "gather.h"
#include "gather_chain.h"
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
	send->skb_packets = wp_list_member_packets(request->packet_bytes + request->skip_bytes);
	send->left = request->length;
	send->copy = request->flags & WIREPATH_COPY;
	send->wait = !(request->flags & WIREPATH_DONTWAIT);
	send->sending.wait = send->wait;
	send->halting = NULL;
	send->single = false;
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
	packets_max = wp_send_choose_chain(send, packets_max);
	for (;;) {
		wp_header_set(&header, &send->header);
		err = wp_send_prepare(send, &header, packets_max);
		if (err <= 0)
			break;
		/* Not as a list: as much of it as one skb takes. */
		if (send->single)
			send->sending.member_packets = 0;
		send->single = true;
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
