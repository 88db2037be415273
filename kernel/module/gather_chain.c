// SPDX-License-Identifier: GPL-2.0
/*
 * Gathers the packets of a SEND's next train as a chain (chain.c): a list, or one skb if
 * the train is short or the kernel cuts lists wrongly.
 */
#include "gather.h"
#include "gather_chain.h"
#include "list.h"
#include "member.h"

/*
 * Packets that an skb holds at most: of each a header and a payload, and one boundary in
 * all. Their headers are in one page (wp_header_block()).
 */
static u32 wp_send_skb_packets_max(const struct wp_send *send)
{
	return min_t(u32, (MAX_SKB_FRAGS - 1) / 2, PAGE_SIZE / send->header.bytes);
}

/*
 * Decides whether chain.c makes the next train, and whether as a list. Returns the most
 * packets. Without headers one skb holds 46 packets, and udp_sendmsg() makes it.
 */
u32 wp_send_choose_chain(struct wp_send *send, u32 packets_max)
{
	struct wp_sending *sending = &send->sending;
	u32 packet_bytes = send->packet_bytes + send->header.bytes;

	sending->member_packets = 0;
	if (packets_max == 1 || !send->packet_bytes ||
	    send->header.kind == WIREPATH_HEADER_NONE ||
	    !wp_list_trains_possible(sending, packet_bytes))
		return packets_max;
	sending->member_packets = min(send->skb_packets, wp_send_skb_packets_max(send));
	send->single = !wp_member_lists;
	return min3(packets_max, (u32)WP_TRAIN_BYTES / packet_bytes,
		    send->single ? wp_send_skb_packets_max(send) : U32_MAX);
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

/*
 * Adds so many packets to a chain. The headers of an skb are made together, if making
 * one cannot fail.
 */
static int wp_send_chain_packets(struct wp_send *send, struct wp_header *header,
				 struct wp_cursor *cursor, u32 payload, u32 count)
{
	struct wp_chain *chain = &send->chain;
	struct wp_train *train = &send->train;
	u32 done, some;
	int err = 0;

	for (done = 0; done < count; done += some) {
		u8 *bytes = wp_chain_header(chain);

		err = PTR_ERR_OR_ZERO(bytes);
		if (err)
			break;
		some = 1;
		if (header->kind == WIREPATH_HEADER_RTP) {
			some = min(count - done, chain->packets_max - chain->packets);
			wp_rtp_write_some(&header->rtp, bytes, payload, some);
		} else {
			err = wp_header_take(header, bytes);
			if (err)
				break;
		}
		if (!wp_chain_add(chain, &send->source, cursor, send->skip_bytes, payload, some)) {
			err = -EMSGSIZE;
			break;
		}
	}
	train->packets += done;
	train->bytes += done * (header->bytes + payload);
	train->payload += done * payload;
	return err;
}

/* Add one packet to a chain, or drop it, as the handler says. */
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
	if (!wp_chain_add(&send->chain, &send->source, &at, 0, payload, 1))
		return -EMSGSIZE;
	*cursor = at;
	train->packets++;
	train->bytes += header->bytes + payload;
	train->payload += payload;
	return 0;
}

/*
 * True if the pieces of the next @bytes are so long that an skb of @skb_packets packets
 * crosses at most one boundary. A handler may drop packets: then what an skb holds is
 * not known before.
 */
static bool wp_send_joined(const struct wp_send *send, const struct wp_cursor *cursor,
			   u64 bytes, u32 skb_packets)
{
	const struct bio_vec *piece = &send->source.pieces[cursor->piece];
	const struct bio_vec *end = &send->source.pieces[send->source.end];
	u32 skb_bytes = skb_packets * (send->skip_bytes + send->packet_bytes);
	u64 seen = piece->bv_len - cursor->skip;

	if (!send->source.joined || send->header.handling.handler || bytes < 2 * (u64)skb_bytes)
		return false;
	while (seen < bytes && ++piece < end) {
		seen += piece->bv_len;
		/* Both of its ends are boundaries in the list. */
		if (seen < bytes && piece->bv_len < skb_bytes)
			return false;
	}
	return true;
}

/*
 * Begins a chain of at most @packets_max packets: a list if the window has two full skbs
 * for it, which then are all of them but the last, else one skb.
 */
static int wp_send_chain_begin(struct wp_send *send, const struct wp_cursor *cursor, u64 left,
			       u32 *packets_max)
{
	struct wp_sending *sending = &send->sending;
	u32 stride = send->skip_bytes + send->packet_bytes;
	u32 bytes = min3(left, (u64)cursor->available, (u64)*packets_max * stride);
	u32 skb_packets_max = wp_send_skb_packets_max(send);
	u32 header_bytes = send->header.bytes;
	int err;

	if (bytes / stride < 2 * sending->member_packets)
		send->single = true;
	/* A shorter last packet counts, too: it may cross a boundary. */
	if (!send->single && wp_send_joined(send, cursor, bytes, skb_packets_max))
		sending->member_packets = skb_packets_max;
	if (send->single)
		*packets_max = min(*packets_max, skb_packets_max);
	else
		*packets_max = rounddown(*packets_max, sending->member_packets);
	err = wp_chain_begin(&send->chain, &send->train, sending,
			     header_bytes + send->packet_bytes, header_bytes,
			     send->single ? *packets_max : sending->member_packets);
	send->refused_packets = err < 0 ? *packets_max : 0;
	return err;
}

/*
 * Number of the next @some packets that fit. A list holds all of them. One skb holds
 * member_packets in any case; further ones are checked one by one.
 */
static u32 wp_send_fitting(const struct wp_send *send, const struct wp_header *header,
			   const struct wp_cursor *cursor, u32 payload, u32 some)
{
	u32 always = send->sending.member_packets, packets = send->train.packets;
	struct wp_cursor at = *cursor;

	if (!send->single)
		return some;
	if (packets < always && !header->handling.handler)
		return min(some, always - packets);
	wp_source_pass(&send->source, &at, send->skip_bytes);
	return wp_chain_fits(&send->chain, &send->source, &at, payload);
}

/*
 * Gathers up to @packets_max packets as a chain, dropped ones included. Returns 1 if the
 * list would have less than two full skbs, or an skb too few fragments; else as
 * wp_send_gather(), or with send->refused_packets an error of the network.
 */
int wp_send_gather_chain(struct wp_send *send, struct wp_header *header, u32 packets_max)
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
			err = wp_send_chain_begin(send, &cursor, left, &packets_max);
			if (err)
				return err;
			train->packet_bytes = header->bytes + payload;
		}
		/* As in wp_send_fits(). */
		if (header->bytes + payload > train->packet_bytes)
			break;
		some = wp_send_alike(send, header, &cursor, left, payload, packets_max - seen);
		some = wp_send_fitting(send, header, &cursor, payload, some);
		if (!some) {
			err = train->packets ? 0 : -EMSGSIZE;
			break;
		}
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
	if (err != -EMSGSIZE && train->packets &&
	    (send->single || train->packets >= 2 * send->sending.member_packets))
		return 0;
	wp_chain_drop(&send->chain);
	if (train->packets || err == -EMSGSIZE)
		return 1;
	if (send->gathered)
		return 0;
	return payload < 0 ? payload : err;
}
