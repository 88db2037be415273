/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_SEND_H
#define _WP_SEND_H

#include <linux/errno.h>
#include <linux/types.h>

#include "chain.h"
#include "header.h"
#include "source.h"
#include "train.h"
#include "uapi/wirepath.h"

/* One SEND under way, or a run's. */
struct wp_send {
	u32 packet_bytes;	/* payload; 0: all of it is one packet */
	u32 skip_bytes;		/* of the source, before each packet's payload */
	u32 train_packets;
	u32 skb_packets;	/* that always fit an skb, see wp_list_member_packets() */
	u64 left;		/* of the source, or WIREPATH_TO_END */
	bool run;		/* a run's, by itself in memory */
	bool copy;		/* WIREPATH_COPY */
	bool wait;		/* for storage; for the socket: sending.wait */
	const bool *halting;		/* of a run: it is to send no more; or NULL */
	bool single;		/* the next train is one skb, though chain.c makes it */
	u32 gathered;		/* bytes of the source that the train takes up */
	u32 refused_packets;	/* of the train that the network refused, or 0 */
	u64 packets;
	u64 trains;
	u64 bytes;		/* payload */
	u64 lost_packets;	/* given up */
	u64 passed_packets;	/* sent, given up, or dropped by the handler */
	u64 passed_bytes;	/* of these, headers too */
	struct wp_header header;
	struct wp_sending sending;
	struct wp_source source;
	struct wp_train train;
	struct wp_chain chain;		/* the train, where it is a list */
};

/*
 * Trains that a ring's first try sends: it is made in a system call which the
 * caller expects to be short. Then it answers WP_TURN_OVER, no error, and one
 * of the ring's workers goes on.
 */
#define WP_TURN_TRAINS 64
#define WP_TURN_OVER (-ERESTARTNOINTR)

int wp_send_setup(void);
void wp_send_teardown(void);

struct wp_send *wp_send_open(const struct wirepath_send *request,
			     const struct wirepath_rtp *rtp, bool run);
void wp_send_close(struct wp_send *send);
int wp_send_train(struct wp_send *send, u32 packets_max);
int wp_send_lose(struct wp_send *send);
bool wp_send_done(const struct wp_send *send);
int wp_send_remains(struct wp_send *send);

int wp_send_read(struct wirepath_send *request, struct wirepath_rtp *rtp,
		 const void __user *argument);
int wp_send_request(void __user *argument, bool wait);

int wp_sending_open(struct wp_sending *sending, int socket, u64 address,
		    u32 address_bytes);
void wp_sending_close(struct wp_sending *sending);

#endif /* _WP_SEND_H */
