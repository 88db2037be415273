/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_HANDLER_H
#define _WP_HANDLER_H

#include <linux/types.h>

#include "uapi/wirepath_handler.h"

struct wp_handler;

/* Progress of a run's handler: kept when a train was sent, put back if it was not. */
struct wp_handling {
	struct wp_handler *handler;	/* or NULL */
	u64 packets;			/* that it was asked about */
	u64 dropped_packets;
	u64 dropped_bytes;		/* headers and payload */
	u64 state[WIREPATH_HANDLER_STATES];
};

int wp_handler_setup(void);
bool wp_handler_possible(void);

struct wp_handler *wp_handler_get(const char *name);
void wp_handler_put(struct wp_handler *handler);
int wp_handler_call(struct wp_handler *handler, struct wirepath_packet *packet);

#endif /* _WP_HANDLER_H */
