/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_LIST_H
#define _WP_LIST_H

#include "train.h"

bool wp_list_possible(const struct wp_sending *sending);
bool wp_list_members_possible(const struct wp_sending *sending, unsigned int packet_bytes);
unsigned int wp_list_member_packets(unsigned int stride_bytes);
int wp_list_send(const struct wp_train *train, const struct wp_sending *sending);

#endif /* _WP_LIST_H */
