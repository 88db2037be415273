// SPDX-License-Identifier: GPL-2.0
/*
 * On whose account a call and a run work: who is told of reads, in whose cgroup
 * and with whose niceness a run's thread is, what it leaves to others, and which
 * socket security modules see.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>

#include "smoke.h"

#define GROUPS "/tmp/smoke-groups"
#define GROUP GROUPS "/one"
#define TRACING "/sys/kernel/tracing/"
#define UNBOUNDED_RUNS 8

static void reads_are_told(const struct data *data, struct pair pair)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char event[sizeof(struct inotify_event) + 256];
	long long before, after;
	off_t offset = 0;

	if (watch < 0)
		SKIP("no inotify");
	else
		CHECK(inotify_add_watch(watch, where, IN_ACCESS) >= 0);
	before = number_of("/proc/self/io", "rchar: ");
	CHECK(wirepath_ksendfile(device, pair.from, data->file, &offset, 100000, 1000) == 100000);
	after = number_of("/proc/self/io", "rchar: ");
	expect_plain(pair.to, data->bytes, 100000, 1000);
	/* Reading /proc/self/io twice counts, too. */
	if (before < 0)
		SKIP("no accounts of what tasks read");
	else
		CHECK(after - before >= 100000 && after - before < 110000, "%lld", after - before);
	if (watch < 0)
		return;
	CHECK(read(watch, event, sizeof(event)) > 0);
	close(watch);
}

/* Pages of a private mapping are copied since Linux 6.2, and `copied_bytes` says so. */
static void private_mapping(const struct data *data, struct pair pair)
{
	int flags[2] = { MAP_PRIVATE, MAP_SHARED };

	for (int i = 0; i < 2; i++) {
		void *memory = mmap(NULL, 100000, PROT_READ, flags[i], data->file, 0);
		struct wirepath_send send = cut(wirepath_send_of(pair.from, -1, (__u64)(size_t)memory,
								 100000), 1000, 0);
		struct wirepath_start start = start_of(&send, 100000000);
		struct wirepath_status status;
		int run = ioctl(device, WIREPATH_START, &start);

		CHECK(run >= 0);
		status = status_of(run, WIREPATH_WAIT);
		CHECK(status.state == WIREPATH_RUN_ENDED && status.error == 0 && status.packets == 100);
		if (i == 0)
			CHECK(status.copied_bytes >= 100000, "%llu", status.copied_bytes);
		else if (references)
			CHECK(status.copied_bytes < 100000, "%llu", status.copied_bytes);
		expect_plain(pair.to, data->bytes, 100000, 1000);
		close(run);
		munmap(memory, 100000);
	}
}

/* A task of the same niceness has its share, and half of that at least. */
static void others_go_on(void)
{
	__u64 time_ns = 300000000, began, had;
	int from = socket_to_nobody(), runs[UNBOUNDED_RUNS];

	for (int i = 0; i < UNBOUNDED_RUNS; i++)
		CHECK((runs[i] = unbounded(from)) >= 0);
	began = now_ns();
	had = processor_ns();
	while (now_ns() - began < time_ns)
		;
	had = processor_ns() - had;
	CHECK(had >= time_ns / (UNBOUNDED_RUNS + 1) / 2, "%llu ns", (unsigned long long)had);
	for (int i = 0; i < UNBOUNDED_RUNS; i++) {
		struct wirepath_status status = status_of(runs[i], WIREPATH_STATUS);

		CHECK(status.state == WIREPATH_RUN_GOING && status.packets > 0);
		close(runs[i]);
	}
	close(from);
}

/* The run's thread among a group's tasks, or 0. */
static pid_t thread_of_the_run(void)
{
	char tasks[4096], name[64], *line, *rest;

	snprintf(tasks, sizeof(tasks), "%.4000s", read_text(GROUP "/cgroup.procs"));
	for (line = strtok_r(tasks, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		snprintf(name, sizeof(name), "/proc/%s/comm", line);
		if (strncmp(read_text(name), "wirepath/", 9))
			continue;
		return atoi(line);
	}
	return 0;
}

/* Starts a run in the group, says so, and stays until it is killed. */
static pid_t starter_in_the_group(void)
{
	int said[2];
	char byte;
	pid_t child;

	if (pipe(said))
		die("pipe");
	child = fork();
	if (child == 0) {
		byte = write_text(GROUP "/cgroup.procs", "0") || setpriority(PRIO_PROCESS, 0, 5) ||
		       sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 }) ||
		       unbounded(socket_to_nobody()) < 0;
		if (write(said[1], &byte, 1) != 1)
			die("write");
		for (;;)
			pause();
	}
	CHECK(read(said[0], &byte, 1) == 1 && byte == 0);
	close(said[0]);
	close(said[1]);
	return child;
}

/* A tenth of a processor is what starter and run have together. */
static void in_the_starters_group(void)
{
	struct timespec second = { .tv_sec = 1 };
	long long before, used;
	pid_t child, thread;

	if (mkdir(GROUPS, 0700) || mount("none", GROUPS, "cgroup2", 0, NULL)) {
		SKIP("no cgroups of version 2");
		return;
	}
	if (write_text(GROUPS "/cgroup.subtree_control", "+cpu") || mkdir(GROUP, 0700) ||
	    write_text(GROUP "/cpu.max", "10000 100000")) {
		SKIP("no limits of processor time in cgroups");
		rmdir(GROUP);
		CHECK(!umount(GROUPS) && !rmdir(GROUPS));
		return;
	}
	child = starter_in_the_group();
	thread = thread_of_the_run();
	CHECK(thread && getpriority(PRIO_PROCESS, thread) == 5);
	CHECK(sched_getscheduler(thread) == SCHED_BATCH, "%d", sched_getscheduler(thread));
	before = number_of(GROUP "/cpu.stat", "usage_usec ");
	nanosleep(&second, NULL); /* the window that is measured, ten periods of the quota */
	used = number_of(GROUP "/cpu.stat", "usage_usec ") - before;
	CHECK(used > 50000 && used < 200000, "%lld us", used);
	CHECK(number_of(GROUP "/cpu.stat", "nr_throttled ") > 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	wait_for_tasks(GROUP "/cgroup.events");
	CHECK(!rmdir(GROUP));
	CHECK(!umount(GROUPS) && !rmdir(GROUPS));
}

/* Is the struct socket of all sends since tracing began the same? And how many were there? */
static int sockets_asked(int *sends)
{
	const char *line = read_text(TRACING "trace");
	char first[32] = "", socket_[32];
	int same = 1;

	*sends = 0;
	while ((line = strstr(line, "socket_=0x"))) {
		if (sscanf(line, "socket_=%31s", socket_) != 1)
			break;
		if (!first[0])
			strcpy(first, socket_);
		same &= !strcmp(first, socket_);
		++*sends;
		line++;
	}
	return same;
}

static void security_sees_the_socket(const struct data *data, struct pair pair)
{
	unsigned char packet[65536];
	off_t offset = 0;
	int sends;

	if (write_text(TRACING "kprobe_events", "p:smoke security_socket_sendmsg socket_=%di:x64\n")) {
		SKIP("no probes of the kernel");
		return;
	}
	write_text(TRACING "trace_marker", "begin");
	CHECK(!write_text(TRACING "events/kprobes/smoke/enable", "1"));
	CHECK(send(pair.from, "by send()", 9, 0) == 9);
	CHECK(wirepath_ksendfile(device, pair.from, data->file, &offset, 3000, 1000) == 3000);
	CHECK(!write_text(TRACING "events/kprobes/smoke/enable", "0"));
	CHECK(sockets_asked(&sends) && sends >= 2, "%d sends", sends);
	close(open(TRACING "trace", O_WRONLY | O_TRUNC));
	CHECK(!write_text(TRACING "kprobe_events", "-:smoke\n"));
	CHECK(receive(pair.to, packet) == 9);
	expect_plain(pair.to, data->bytes, 3000, 1000);
}

void account(const struct data *data, struct pair pair)
{
	reads_are_told(data, pair);
	private_mapping(data, pair);
	security_sees_the_socket(data, pair);
}

void account_of_others(const struct data *data)
{
	(void)data;
	if (nobody_add()) {
		SKIP("no device on which nobody answers");
		return;
	}
	others_go_on();
	in_the_starters_group();
	CHECK(!nobody_remove());
}
