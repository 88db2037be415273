// SPDX-License-Identifier: GPL-2.0
/*
 * Gathers the packets of a SEND's next train from its source and its headers: one packet,
 * a train for wp_train_send(), or by gather_chain.c a chain. Source and headers of the SEND stay
 * where they are until the train was sent.
 */
#include "compat.h"
#include "gather.h"
#include "gather_chain.h"

/*
 * Calls the handler, which may write to the header (no skb refers to it yet).
 * Returns its verdict, or an error. @cursor is at the payload.
 */
int wp_send_handle(const struct wp_send *send, struct wp_header *header, u8 *bytes,
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
void wp_send_drop(const struct wp_send *send, struct wp_header *header,
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
 * Returns as wp_send_gather(), for chains as wp_send_gather_chain().
 */
int wp_send_prepare(struct wp_send *send, struct wp_header *header, u32 packets_max)
{
	u64 skip_bytes = (u64)send->skip_bytes * packets_max;
	u64 train_bytes = send->packet_bytes ?
			  (u64)send->packet_bytes * packets_max + skip_bytes : send->left;
	u64 want = min3(send->left, train_bytes, WP_TRAIN_BYTES + skip_bytes);
	u64 target = min_t(u64, send->left, (WP_SOURCE_PIECES - 1) * PAGE_SIZE);
	int filling = 0, err;

	send->source.joins = send->sending.member_packets;
	while (!filling && !send->source.ended && send->source.available < want)
		filling = wp_source_fill(&send->source, target, send->wait);
	if (!send->sending.member_packets)
		wp_source_split(&send->source);
	if (send->sending.member_packets)
		err = wp_send_gather_chain(send, header, packets_max);
	else if (packets_max == 1 && !header->handling.handler)
		err = wp_send_gather_one(send, header);
	else
		err = wp_send_gather(send, header, packets_max);
	/* -EAGAIN, but of the network: the window had too little, and this is why. */
	return err == -EAGAIN && filling && !send->refused_packets ? filling : err;
}
