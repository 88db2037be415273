/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_LIST_H
#define _WP_LIST_H

#include "train.h"

/* Addresses, ports and route of an skb. */
struct wp_list_way {
	__be32 saddr, daddr;
	__be16 sport, dport;
	struct dst_entry *dst;		/* with a reference */
	int room;			/* headroom that its device needs */
};

bool wp_list_possible(const struct wp_sending *sending);
bool wp_list_trains_possible(const struct wp_sending *sending, unsigned int packet_bytes);
unsigned int wp_list_member_packets(unsigned int stride_bytes);
int wp_list_send(const struct wp_train *train, const struct wp_sending *sending);

/* Parts of wp_list_send(), for chain.c. */
int wp_list_open(struct wp_list_way *way, const struct wp_sending *sending,
		 unsigned int packet_bytes);
void wp_list_close(struct wp_list_way *way);
struct sk_buff *wp_list_skb(const struct wp_list_way *way, const struct wp_sending *sending,
			       unsigned int head_bytes);
int wp_list_hook(const struct wp_train *train, struct socket *sock);
int wp_list_pass(struct sk_buff *skb, const struct wp_train *train, struct wp_list_way *way);

#endif /* _WP_LIST_H */
