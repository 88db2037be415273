/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_VECTOR_H
#define _WP_VECTOR_H

#include <linux/types.h>

#include "source.h"
#include "train.h"

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

int wp_vector_add_part(struct wp_vector *vector, const struct wirepath_part *part, u64 skip);
int wp_vector_gather_packets(struct wp_vector *vector);
int wp_vector_request(void __user *argument, bool wait);

#endif /* _WP_VECTOR_H */
