/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_SWITCHES_H
#define _WP_SWITCHES_H

#include <linux/types.h>

/*
 * One switch for each mechanism, as the papers' kernels had: files in
 * /sys/module/wirepath/parameters/, also given when the module is loaded. A
 * request that names a mechanism which is off is refused (EOPNOTSUPP), except
 * for references, trains, lists and folios: these change how it is done, not what
 * is sent.
 */
extern bool wp_allow_files, wp_allow_mappings, wp_allow_rtp, wp_allow_references, wp_allow_trains;
extern bool wp_allow_lists, wp_allow_folios, wp_allow_sendfilew, wp_allow_uring, wp_allow_runs;
extern ulong wp_run_packets_max, wp_user_runs_max;

u64 wp_features(void);

#endif /* _WP_SWITCHES_H */
