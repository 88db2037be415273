// SPDX-License-Identifier: GPL-2.0
/*
 * A schedule says when the next packets are due and how many of them. It does
 * not read the clock: what is late is late by the clock of who asks.
 */
#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "run.h"
#include "schedule.h"

/**
 * wp_schedule_copy() - Copy a table of the caller's, charged to its cgroup.
 * @address: in the caller's memory
 * @count: entries, at least 1
 * @bytes: of an entry
 * @count_max: entries allowed
 *
 * Return: to be freed by kvfree(); or -EINVAL, -E2BIG, -ENOMEM, -EFAULT.
 */
void *wp_schedule_copy(u64 address, size_t count, size_t bytes, size_t count_max)
{
	void *table;

	if (!count)
		return ERR_PTR(-EINVAL);
	if (count > count_max)
		return ERR_PTR(-E2BIG);
	/* The caller chooses the size: a failure is the caller's, no warning. */
	table = kvmalloc_array(count, bytes, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!table)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(table, u64_to_user_ptr(address), count * bytes)) {
		kvfree(table);
		return ERR_PTR(-EFAULT);
	}
	return table;
}

static int wp_schedule_check(const struct wp_schedule *schedule)
{
	u64 before = 0;
	u32 i;

	for (i = 0; i < schedule->count; i++) {
		const struct wirepath_departure *departure = &schedule->departures[i];

		/* Of what is longer than 292 years the timer knows nothing. */
		if (!departure->packets || departure->reserved ||
		    departure->time_ns < before ||
		    departure->time_ns > KTIME_MAX / 2)
			return -EINVAL;
		before = departure->time_ns;
	}
	return 0;
}

/**
 * wp_schedule_open() - Take the schedule of a request.
 * @schedule: to be set up
 * @start: the request
 *
 * Return: 0; -EINVAL: neither a rate nor a table, both, or one that makes no
 * sense; -E2BIG, -ENOMEM, -EFAULT.
 */
int wp_schedule_open(struct wp_schedule *schedule,
		     const struct wirepath_start *start)
{
	int err;

	if (start->start_ns > KTIME_MAX / 2 ||
	    !start->rate_bytes_per_second == !start->departures ||
	    !start->departures != !start->departure_count)
		return -EINVAL;
	*schedule = (struct wp_schedule){
		.start_ns = start->start_ns ?: ktime_get_ns(),
		.rate_bytes_per_second = start->rate_bytes_per_second,
		.count = start->departure_count,
	};
	if (!start->departures)
		return 0;
	schedule->departures = wp_schedule_copy(start->departures,
						start->departure_count,
						sizeof(*schedule->departures),
						WP_RUN_TABLE_MAX);
	if (IS_ERR(schedule->departures)) {
		err = PTR_ERR(schedule->departures);
		schedule->departures = NULL;
		return err;
	}
	err = wp_schedule_check(schedule);
	if (err)
		wp_schedule_close(schedule);
	return err;
}

void wp_schedule_close(struct wp_schedule *schedule)
{
	kvfree(schedule->departures);
	schedule->departures = NULL;
}

/**
 * wp_schedule_next() - What is next?
 * @schedule: the schedule
 * @bytes: sent so far, headers and payload
 * @due_ns: becomes the time of the next packets (CLOCK_MONOTONIC)
 * @packets_max: becomes how many may go then
 *
 * Return: false if the table has ended.
 */
bool wp_schedule_next(const struct wp_schedule *schedule, u64 bytes,
		      u64 *due_ns, u32 *packets_max)
{
	const struct wirepath_departure *departure;

	if (schedule->rate_bytes_per_second) {
		/*
		 * Cannot overflow, which would trap on x86: what was sent is at
		 * most a train ahead of the time that has passed.
		 */
		u64 after = mul_u64_u64_div_u64(bytes, NSEC_PER_SEC,
						schedule->rate_bytes_per_second);

		*due_ns = schedule->start_ns + min_t(u64, after, KTIME_MAX / 2);
		*packets_max = U32_MAX;
		return true;
	}
	if (schedule->index == schedule->count)
		return false;
	departure = &schedule->departures[schedule->index];
	*due_ns = schedule->start_ns + departure->time_ns;
	*packets_max = departure->packets - schedule->packets;
	return true;
}

/* Are the next packets a departure's first? By rate, each train departs. */
bool wp_schedule_begins(const struct wp_schedule *schedule)
{
	return !schedule->packets;
}

/* @packets were sent, at most as many as wp_schedule_next() allowed. */
void wp_schedule_sent(struct wp_schedule *schedule, u32 packets)
{
	if (schedule->rate_bytes_per_second)
		return;
	schedule->packets += packets;
	if (schedule->packets < schedule->departures[schedule->index].packets)
		return;
	schedule->packets = 0;
	schedule->index++;
}
