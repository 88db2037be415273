/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_GATHER_H
#define _WP_GATHER_H

#include "send.h"

int wp_send_prepare(struct wp_send *send, struct wp_header *header, u32 packets_max);

/* Parts of wp_send_prepare(), for gather_chain.c. */
int wp_send_handle(const struct wp_send *send, struct wp_header *header, u8 *bytes,
		   const struct wp_cursor *cursor, u32 payload);
void wp_send_drop(const struct wp_send *send, struct wp_header *header,
		  struct wp_cursor *cursor, u32 payload);

/* Packets that the handler dropped from @before to @after. */
static inline u32 wp_send_dropped(const struct wp_header *before, const struct wp_header *after)
{
	return after->handling.handler ? after->handling.dropped_packets -
					 before->handling.dropped_packets : 0;
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

#endif /* _WP_GATHER_H */
