/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_TRAIN_H
#define _WP_TRAIN_H

#include <linux/bvec.h>
#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/socket.h>

#include "source.h"
#include "uapi/wirepath.h"

#define WP_TRAIN_PIECES 160
/* The most that UDP takes over IPv4: 65535 less the headers of IP and UDP. */
#define WP_TRAIN_BYTES 65507

/*
 * What one call into the network sends: a packet, or packets of one size of
 * which the last may be shorter.
 */
struct wp_train {
	unsigned int pieces;
	unsigned int packets;
	unsigned int bytes;		/* headers and payload */
	unsigned int payload;
	unsigned int packet_bytes;	/* of the first: the segment size */
	bool odd;			/* a piece begins at an odd offset */
	unsigned int head_bytes;	/* the first piece is so much of @head, or 0 */
	unsigned int owned;
	struct page *own[WP_TRAIN_PIECES];	/* pages it refers to itself */
	struct bio_vec piece[WP_TRAIN_PIECES];
	/*
	 * The header of a packet by itself: it is copied, as a copy of so little
	 * costs less than a reference, and no buffer may refer to it here.
	 */
	u8 head[WIREPATH_HEADER_BYTES_MAX];
};

/* How to send it. */
struct wp_sending {
	struct socket *sock;
	struct sockaddr_storage address;
	int address_bytes;		/* 0: where it is connected to */
	bool references;		/* may pages be sent by reference */
	bool wait;
	bool segments;			/* UDP: give each send its segment size */
	u32 member_packets;		/* UDP: of each skb but the last; 0: no list, no chain */
	bool listed;			/* UDP: trains leave by list.c, else -EMSGSIZE */
	bool more;			/* TCP: MSG_MORE */
	u64 copied;			/* payload that the kernel copied; grows */
};

/* Does a send wait for room in the socket's buffer? */
static inline bool wp_sending_waits(const struct wp_sending *sending)
{
	return sending->wait && !(sending->sock->file->f_flags & O_NONBLOCK);
}

void wp_train_empty(struct wp_train *train);
void wp_train_add_head(struct wp_train *train, unsigned int bytes);
bool wp_train_add(struct wp_train *train, const struct bio_vec *piece, bool own);
bool wp_train_add_payload(struct wp_train *train, const struct wp_source *source,
			  struct wp_cursor *cursor, size_t bytes);
bool wp_train_take_payload(struct wp_train *train, struct wp_source *source,
			   size_t bytes);
unsigned int wp_train_pieces(const struct wp_train *train,
			     const struct wp_source *source,
			     const struct wp_cursor *cursor, size_t bytes,
			     bool header);
int wp_train_note(const struct wp_train *train, struct wp_sending *sending, bool references,
		  bool lent, int sent);
int wp_train_send(struct wp_train *train, struct wp_sending *sending);

#endif /* _WP_TRAIN_H */
