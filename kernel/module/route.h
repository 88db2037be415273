/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_ROUTE_H
#define _WP_ROUTE_H

#include <linux/types.h>
#include <net/sock.h>

/* What is known of the way that a socket's next packet takes. */
struct wp_route {
	bool known;
	bool gathers;		/* the device takes fragments (NETIF_F_SG) */
	u32 checksum_bytes;	/* up to which payload the device checksums */
};

struct wp_route wp_route_of(struct sock *sk, bool addressed);
u32 wp_route_packet_bytes(const struct sock *sk);
u32 wp_route_train_packets(const struct sock *sk, u32 packet_bytes);

#endif /* _WP_ROUTE_H */
