// SPDX-License-Identifier: GPL-2.0
/* The switches and limits that whoever runs the machine sets. */
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "compat.h"
#include "switches.h"
#include "uapi/wirepath.h"

#define WP_SWITCH(name, meaning)                                               \
	bool wp_allow_##name = true;                                                 \
	module_param_named(name, wp_allow_##name, bool, 0644);                       \
	MODULE_PARM_DESC(name, meaning)

WP_SWITCH(files, "payload from files");
WP_SWITCH(mappings, "payload from the caller's memory");
WP_SWITCH(rtp, "headers by the RTP engine");
WP_SWITCH(references, "pages by reference; off: copies (Linux 6.5)");
WP_SWITCH(trains, "UDP-segmented trains; off: packet by packet");
WP_SWITCH(sendfilew, "vectors of parts");
WP_SWITCH(uring, "io_uring commands");
WP_SWITCH(runs, "paced runs");

ulong wp_run_packets_max = 1UL << 30;
module_param_named(run_packets_max, wp_run_packets_max, ulong, 0644);
MODULE_PARM_DESC(run_packets_max, "packets of one call or run");

/* What a caller can have now: WIREPATH_FEATURE_*. */
u64 wp_features(void)
{
	return (wp_allow_files ? WIREPATH_FEATURE_FILES : 0) |
	       (wp_allow_mappings ? WIREPATH_FEATURE_MAPPINGS : 0) |
	       (wp_allow_rtp ? WIREPATH_FEATURE_RTP : 0) |
	       (wp_allow_references && WP_REFERENCES ? WIREPATH_FEATURE_REFERENCES : 0) |
	       (wp_allow_trains ? WIREPATH_FEATURE_TRAINS : 0) |
	       (wp_allow_sendfilew ? WIREPATH_FEATURE_SENDFILEW : 0) |
	       (wp_allow_uring && IS_ENABLED(CONFIG_IO_URING) ? WIREPATH_FEATURE_URING : 0) |
	       (wp_allow_runs ? WIREPATH_FEATURE_RUNS : 0);
}
