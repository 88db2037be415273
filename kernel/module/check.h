/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_CHECK_H
#define _WP_CHECK_H

#include "uapi/wirepath.h"

int wp_send_check(const struct wirepath_send *request, const struct wirepath_rtp *rtp);

#endif /* _WP_CHECK_H */
