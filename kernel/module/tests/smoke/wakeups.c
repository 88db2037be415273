// SPDX-License-Identifier: GPL-2.0
/*
 * A normal task beside many runs without a limit of rate: it wakes up, and gets
 * its share of the processor, as beside as many tasks that send. Times are
 * compared with the scheduler's slices, since a guest's clock says nothing else.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>

#include "smoke.h"

#define OTHERS 64
#define WAKEUPS 100
#define WAKEUPS_LEAST 20
#define SLEEP_NS 2000000

/* How late a task woke up, how often. */
struct lateness {
	__u64 median_ns, p99_ns, worst_ns;
	int wakeups;
};

/* Time that the scheduler lets a task run before another one: a slice, or the tick, which is longer. */
static __u64 slice_ns(void)
{
	static const char * const names[] = {
		"/sys/kernel/debug/sched/base_slice_ns", "/sys/kernel/debug/sched/min_granularity_ns",
	};
	struct timespec tick;
	__u64 slice = 0;

	for (size_t i = 0; i < COUNT(names) && !slice; i++)
		slice = strtoull(read_text(names[i]), NULL, 10);
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick))
		die("clock_getres");
	return slice > (__u64)tick.tv_nsec ? slice : (__u64)tick.tv_nsec;
}

static int compare(const void *one, const void *other)
{
	__u64 left = *(const __u64 *)one, right = *(const __u64 *)other;

	return (left > right) - (left < right);
}

static struct lateness lateness(void)
{
	__u64 late[WAKEUPS], began = now_ns();
	int count = 0;

	while (goes_on(count, WAKEUPS_LEAST, WAKEUPS, began)) {
		__u64 due = now_ns() + SLEEP_NS;
		struct timespec time = { .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
		late[count++] = now_ns() - due;
	}
	qsort(late, count, sizeof(late[0]), compare);
	return (struct lateness){ late[count / 2], late[count * 99 / 100 - 1], late[count - 1], count };
}

/* The part of a fair share that a busy task gets, in percent, on one processor. */
static __u64 share(__u64 slice)
{
	__u64 time_ns = 4 * (OTHERS + 1) * slice, began = now_ns(), had = processor_ns();

	while (now_ns() - began < time_ns)
		;
	return (processor_ns() - had) * 100 * (OTHERS + 1) / time_ns;
}

static void tell(const char *others, struct lateness late)
{
	printf("counted: smoke: beside %d %s a task woke up %d times late by %llu us (median), %llu us (p99), %llu us (most)\n",
	       OTHERS, others, late.wakeups, late.median_ns / 1000, late.p99_ns / 1000,
	       late.worst_ns / 1000);
}

/* The same beside processes that send: for comparison. */
static void beside_senders(void)
{
	pid_t senders[OTHERS];
	int sent[2];
	char byte;

	if (pipe(sent))
		die("pipe");
	for (int i = 0; i < OTHERS; i++) {
		senders[i] = fork();
		if (senders[i])
			continue;
		int to = socket_to_nobody();
		unsigned char packet[1000] = { 0 };

		for (int first = 1;; first = 0) {
			send(to, packet, sizeof(packet), 0);
			if (first && write(sent[1], "", 1) != 1)
				_exit(1);
		}
	}
	for (int i = 0; i < OTHERS; i++)
		CHECK(read(sent[0], &byte, 1) == 1);
	tell("processes that send", lateness());
	for (int i = 0; i < OTHERS; i++) {
		kill(senders[i], SIGKILL);
		CHECK(waitpid(senders[i], NULL, 0) == senders[i]);
	}
	close(sent[0]);
	close(sent[1]);
}

/* Each of the others may have two turns before the task that woke up, and no more. */
static void beside_runs(void)
{
	__u64 slice = slice_ns(), most = 2 * OTHERS * slice, part;
	int from = socket_to_nobody(), runs[OTHERS];
	struct wirepath_status status;
	struct lateness late;

	for (int i = 0; i < OTHERS; i++)
		CHECK((runs[i] = unbounded(from)) >= 0);
	for (int i = 0; i < OTHERS; i++)
		while ((status = status_of(runs[i], WIREPATH_STATUS)).state == WIREPATH_RUN_GOING &&
		       !status.packets)
			sched_yield();
	late = lateness();
	part = share(slice);
	for (int i = 0; i < OTHERS; i++) {
		status = status_of(runs[i], WIREPATH_STATUS);
		CHECK(status.state == WIREPATH_RUN_GOING && status.packets > 0);
		close(runs[i]);
	}
	close(from);
	tell("runs", late);
	CHECK(late.worst_ns <= most, "%llu ns, slices of %llu ns", late.worst_ns, slice);
	CHECK(part >= 50, "%llu %% of a fair share", part);
}

void wakeups(const struct data *data)
{
	int users = module_users();

	(void)data;
	if (nobody_add()) {
		SKIP("no device on which nobody answers");
		return;
	}
	beside_senders();
	beside_runs();
	while (module_users() > users)
		;
	CHECK(!nobody_remove());
}
