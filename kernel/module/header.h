/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_HEADER_H
#define _WP_HEADER_H

#include <linux/bvec.h>
#include <linux/types.h>

#include "handler.h"
#include "rtp.h"

/* Where the headers of packets come from. */
struct wp_header {
	u32 kind;		/* WIREPATH_HEADER_* */
	u32 bytes;		/* of each header */
	u64 given;		/* address in the caller's memory */
	const u8 *kept;		/* of a run: the same, in our memory */
	struct wp_rtp rtp;
	struct wp_handling handling;
};

/* Copy it; the states of engine and handler only where they are used. */
static inline void wp_header_set(struct wp_header *to, const struct wp_header *from)
{
	to->kind = from->kind;
	to->bytes = from->bytes;
	to->given = from->given;
	to->kept = from->kept;
	if (from->kind == WIREPATH_HEADER_RTP)
		to->rtp = from->rtp;
	to->handling.handler = from->handling.handler;
	if (from->handling.handler)
		to->handling = from->handling;
}

/* Room for bytes of our own, in pages that socket buffers can refer to. */
void *wp_header_room(struct bio_vec *piece, unsigned int bytes);

bool wp_header_block(struct bio_vec *block, unsigned int bytes, unsigned int count);

int wp_header_take(struct wp_header *header, u8 *to);
int wp_header_write(struct wp_header *header, struct bio_vec *piece,
		    u32 payload_bytes);

/**
 * wp_header_make() - Make the next packet's header.
 * @header: where from; goes on to the next
 * @to: where it is written, @header->bytes of them
 * @payload_bytes: what follows it
 *
 * Return: 0, -EFAULT.
 */
static inline int wp_header_make(struct wp_header *header, u8 *to, u32 payload_bytes)
{
	if (header->kind != WIREPATH_HEADER_RTP)
		return wp_header_take(header, to);
	wp_rtp_write(&header->rtp, to, payload_bytes);
	return 0;
}

#endif /* _WP_HEADER_H */
