// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of everything the module has sent since it was loaded, one file
 * each in /sys/class/misc/wirepath/counters/. They are kept by processor, so
 * that counting costs nothing, and added up by who reads them.
 */
#include <linux/device.h>

#include "counters.h"

DEFINE_PER_CPU(struct wp_counters, wp_counters);

static ssize_t wp_counter_show(struct device *device,
			       struct device_attribute *attribute, char *text)
{
	struct dev_ext_attribute *file =
		container_of(attribute, struct dev_ext_attribute, attr);
	enum wp_counter counter = (uintptr_t)file->var;
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(wp_counters, cpu).value[counter]);
	return sysfs_emit(text, "%llu\n", sum);
}

#define WP_COUNTER_FILE(name, counter)                                         \
	static struct dev_ext_attribute wp_counter_##name = {                  \
		__ATTR(name, 0444, wp_counter_show, NULL), (void *)(counter)   \
	}

WP_COUNTER_FILE(calls, WP_CALLS);
WP_COUNTER_FILE(packets, WP_PACKETS);
WP_COUNTER_FILE(bytes, WP_BYTES);
WP_COUNTER_FILE(trains, WP_TRAINS);
WP_COUNTER_FILE(copied_bytes, WP_COPIED_BYTES);
WP_COUNTER_FILE(loans, WP_LOANS);
WP_COUNTER_FILE(full, WP_FULL);
WP_COUNTER_FILE(runs, WP_RUNS);
WP_COUNTER_FILE(late, WP_LATE);

static struct attribute *wp_counter_files[] = {
	&wp_counter_calls.attr.attr,
	&wp_counter_packets.attr.attr,
	&wp_counter_bytes.attr.attr,
	&wp_counter_trains.attr.attr,
	&wp_counter_copied_bytes.attr.attr,
	&wp_counter_loans.attr.attr,
	&wp_counter_full.attr.attr,
	&wp_counter_runs.attr.attr,
	&wp_counter_late.attr.attr,
	NULL
};

static const struct attribute_group wp_counter_group = {
	.name = "counters",
	.attrs = wp_counter_files,
};

const struct attribute_group *wp_counter_groups[] = { &wp_counter_group, NULL };
