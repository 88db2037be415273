/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_SCHEDULE_H
#define _WP_SCHEDULE_H

#include <linux/types.h>

#include "uapi/wirepath.h"

/* When a run's trains depart: by rate, or by a table of departures. */
struct wp_schedule {
	u64 start_ns;
	u64 rate_bytes_per_second;	/* 0: by the table */
	struct wirepath_departure *departures;
	u32 count;
	u32 index;		/* of the next departure */
	u32 packets;		/* of it that were sent */
};

int wp_schedule_open(struct wp_schedule *schedule,
		     const struct wirepath_start *start);
void wp_schedule_close(struct wp_schedule *schedule);
bool wp_schedule_next(const struct wp_schedule *schedule, u64 bytes,
		      u64 *due_ns, u32 *packets_max);
bool wp_schedule_begins(const struct wp_schedule *schedule);
void wp_schedule_sent(struct wp_schedule *schedule, u32 packets);

void *wp_schedule_copy(u64 address, size_t count, size_t bytes, size_t count_max);

#endif /* _WP_SCHEDULE_H */
