/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_RTP_H
#define _WP_RTP_H

#include <linux/minmax.h>
#include <linux/types.h>

#include "compat.h"
#include "uapi/wirepath.h"

#define WP_RTP_HEADER_BYTES 12
#define WP_RTP_VERSION 0x80000000	/* 2, in the first two bits */
#define WP_RTP_MARKER 0x800000		/* the first bit of the second byte */

/*
 * The engine's state is the caller's structure. It is small, so that a train
 * is made with a copy of it, which becomes the state when the train was sent.
 */
struct wp_rtp {
	struct wirepath_rtp state;
	/* Of a run: the table in our memory; else it is in the caller's. */
	const struct wirepath_rtp_time *table;
	struct wirepath_rtp_time group;	/* the table's first, when loaded */
	bool group_loaded;
};

int wp_rtp_check(const struct wirepath_rtp *state);
int wp_rtp_group(struct wp_rtp *rtp, u32 packet_bytes, u64 *left);
void wp_rtp_write_some(struct wp_rtp *rtp, u8 *header, u32 payload_bytes, u32 count);

static inline u32 wp_rtp_group_packets(const struct wp_rtp *rtp)
{
	if (rtp->state.table)
		return rtp->group.packets;
	return max(rtp->state.step_packets, 1U);
}

static inline bool wp_rtp_marked(const struct wp_rtp *rtp)
{
	switch (rtp->state.marker) {
	case WIREPATH_MARKER_ALWAYS:
		return true;
	case WIREPATH_MARKER_LAST_OF_GROUP:
		return rtp->state.position + 1 == wp_rtp_group_packets(rtp);
	case WIREPATH_MARKER_FIRST:
		return !rtp->state.packets;
	default:
		return false;
	}
}

static inline void wp_rtp_advance(struct wp_rtp *rtp, u32 payload_bytes)
{
	struct wirepath_rtp *state = &rtp->state;

	state->sequence++;
	state->packets++;
	state->octets += payload_bytes;
	state->last_timestamp = state->timestamp;
	if (++state->position < wp_rtp_group_packets(rtp))
		return;
	state->position = 0;
	if (!state->table) {
		state->timestamp += state->timestamp_step;
		return;
	}
	state->table += sizeof(rtp->group);
	state->table_count--;
	if (rtp->table)
		rtp->table++;
	rtp->group_loaded = false;
}

/**
 * wp_rtp_write() - Make the next packet's header and go on to the one after.
 * @rtp: the engine; with a table, wp_rtp_group() has just answered 0
 * @header: WP_RTP_HEADER_BYTES of them
 * @payload_bytes: what follows the header
 */
static inline void wp_rtp_write(struct wp_rtp *rtp, u8 *header, u32 payload_bytes)
{
	struct wirepath_rtp *state = &rtp->state;
	u32 word = WP_RTP_VERSION | state->payload_type << 16 | state->sequence;

	if (state->table)
		state->timestamp = rtp->group.timestamp;
	if (state->marker && wp_rtp_marked(rtp))
		word |= WP_RTP_MARKER;
	put_unaligned_be32(word, header);
	put_unaligned_be32(state->timestamp, header + 4);
	put_unaligned_be32(state->ssrc, header + 8);
	wp_rtp_advance(rtp, payload_bytes);
}

#endif /* _WP_RTP_H */
