/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_COUNTERS_H
#define _WP_COUNTERS_H

#include <linux/percpu.h>
#include <linux/sysfs.h>
#include <linux/types.h>

/* What is counted; counters.c gives each its name. */
enum wp_counter {
	WP_CALLS,	/* requests that sent or began to send */
	WP_PACKETS,	/* datagrams sent */
	WP_BYTES,	/* bytes sent, headers included */
	WP_TRAINS,	/* sends into the network: trains, packets by themselves */
	WP_COPIED_BYTES,	/* payload that the kernel copied */
	WP_LOANS,	/* parts of pages lent to the network by reference */
	WP_FULL,	/* times a socket's buffer was full and nobody waited */
	WP_RUNS,	/* paced runs started */
	WP_LATE,	/* departures of paced runs late by more than 1 ms */
	WP_COUNTER_COUNT
};

struct wp_counters {
	u64 value[WP_COUNTER_COUNT];
};

DECLARE_PER_CPU(struct wp_counters, wp_counters);

static inline void wp_count(enum wp_counter counter, u64 by)
{
	this_cpu_add(wp_counters.value[counter], by);
}

extern const struct attribute_group *wp_counter_groups[];

#endif /* _WP_COUNTERS_H */
