/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_RTP_H
#define _WP_RTP_H

#include <linux/types.h>

#include "uapi/wirepath.h"

#define WP_RTP_HEADER_BYTES 12

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
void wp_rtp_write(struct wp_rtp *rtp, u8 *header, u32 payload_bytes);

#endif /* _WP_RTP_H */
