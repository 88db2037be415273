/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_GATHER_CHAIN_H
#define _WP_GATHER_CHAIN_H

#include "send.h"

u32 wp_send_choose_chain(struct wp_send *send, u32 packets_max);
int wp_send_gather_chain(struct wp_send *send, struct wp_header *header, u32 packets_max);

#endif /* _WP_GATHER_CHAIN_H */
