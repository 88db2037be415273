// SPDX-License-Identifier: GPL-2.0
/* The switches and limits that whoever runs the machine sets. */
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "compat.h"
#include "handler.h"
#include "member.h"
#include "switches.h"
#include "uapi/wirepath.h"

bool wp_allow_files = true;
module_param_named(files, wp_allow_files, bool, 0644);
MODULE_PARM_DESC(files, "payload from files");

bool wp_allow_mappings = true;
module_param_named(mappings, wp_allow_mappings, bool, 0644);
MODULE_PARM_DESC(mappings, "payload from the caller's memory");

bool wp_allow_rtp = true;
module_param_named(rtp, wp_allow_rtp, bool, 0644);
MODULE_PARM_DESC(rtp, "headers by the RTP engine");

bool wp_allow_references = true;
module_param_named(references, wp_allow_references, bool, 0644);
MODULE_PARM_DESC(references, "pages by reference; off: copies (Linux 6.5)");

bool wp_allow_trains = true;
module_param_named(trains, wp_allow_trains, bool, 0644);
MODULE_PARM_DESC(trains, "UDP-segmented trains; off: packet by packet");

bool wp_allow_lists = true;
module_param_named(lists, wp_allow_lists, bool, 0644);
MODULE_PARM_DESC(lists, "buffers and lists of them made here; off: by UDP, a train of one each (Linux 6.5)");

bool wp_allow_folios = true;
module_param_named(folios, wp_allow_folios, bool, 0644);
MODULE_PARM_DESC(folios, "cached pages without splice_read, where known to be right (Linux 6.5)");

bool wp_allow_sendfilew = true;
module_param_named(sendfilew, wp_allow_sendfilew, bool, 0644);
MODULE_PARM_DESC(sendfilew, "vectors of parts");

bool wp_allow_uring = true;
module_param_named(uring, wp_allow_uring, bool, 0644);
MODULE_PARM_DESC(uring, "io_uring commands");

bool wp_allow_runs = true;
module_param_named(runs, wp_allow_runs, bool, 0644);
MODULE_PARM_DESC(runs, "paced runs");

ulong wp_run_packets_max = 1UL << 30;
module_param_named(run_packets_max, wp_run_packets_max, ulong, 0644);
MODULE_PARM_DESC(run_packets_max, "packets of one call or run");

/* Runs have a thread each. */
ulong wp_user_runs_max = 64;
module_param_named(user_runs_max, wp_user_runs_max, ulong, 0644);
MODULE_PARM_DESC(user_runs_max, "runs of one user that go at a time");

/* What a caller can have now: WIREPATH_FEATURE_*. */
u64 wp_features(void)
{
	return (wp_allow_files ? WIREPATH_FEATURE_FILES : 0) |
	       (wp_allow_mappings ? WIREPATH_FEATURE_MAPPINGS : 0) |
	       (wp_allow_rtp ? WIREPATH_FEATURE_RTP : 0) |
	       (wp_allow_references && WP_REFERENCES ? WIREPATH_FEATURE_REFERENCES : 0) |
	       (wp_allow_trains ? WIREPATH_FEATURE_TRAINS : 0) |
	       (wp_allow_lists && wp_member_lists ? WIREPATH_FEATURE_MEMBERS : 0) |
	       (wp_allow_sendfilew ? WIREPATH_FEATURE_SENDFILEW : 0) |
	       (wp_allow_uring && IS_ENABLED(CONFIG_IO_URING) ? WIREPATH_FEATURE_URING : 0) |
	       (wp_allow_runs ? WIREPATH_FEATURE_RUNS : 0) |
	       (wp_allow_runs && wp_handler_possible() ? WIREPATH_FEATURE_HANDLERS : 0);
}
