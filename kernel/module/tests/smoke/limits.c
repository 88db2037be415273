// SPDX-License-Identifier: GPL-2.0
/*
 * Runs in a cgroup whose memory is limited: their headers, their tables and the
 * memory that they pin count there. Starting one too many answers ENOMEM, or the
 * kernel kills the starter; nothing is left of it then.
 */
#include <sys/ioctl.h>
#include <sys/mount.h>

#include "smoke.h"

#define GROUPS "/tmp/smoke-memory"
#define GROUP GROUPS "/one"
#define SUBTREE GROUPS "/cgroup.subtree_control"
#define MIB (1 << 20)
/* Headers and departures of a run: 16 MiB each, the most there may be. */
#define PACKETS MIB
#define HEADER 16
#define RUNS 3
/* Memory that the kernel may keep for a group without tasks. */
#define KEPT MIB

/* What a run takes along. */
enum kept { TABLES, PINS, KINDS };

/* Made before, so that they count elsewhere. */
struct given {
	unsigned char *headers;
	struct wirepath_departure *departures;
};

static const char * const kinds[] = { "headers and tables", "pins" };

static void *shared_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	memset(memory, 1, bytes);
	return memory;
}

static int start_one(const struct data *data, int from, const struct given *given, enum kept kept)
{
	struct wirepath_send send;
	struct wirepath_start start;

	if (kept == TABLES) {
		send = with_given(cut(wirepath_send_of(from, data->file, 0, PACKETS), 1, 0),
				  given->headers, HEADER);
		start = start_of(&send, 0);
		start.departures = (__u64)(size_t)given->departures;
		start.departure_count = PACKETS;
	} else {
		/* Not written to: Linux 6.1 pins the zero page for it, which counts nowhere. */
		void *memory = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);

		send = cut(wirepath_send_of(from, -1, (__u64)(size_t)memory, 16 * MIB), 1000, 0);
		start = start_of(&send, 1000000);
	}
	start.start_ns = now_ns() + 3600 * 1000000000ULL;
	return ioctl(device, WIREPATH_START, &start);
}

/*
 * In the child: 0 if all runs started, 1 if one was refused by ENOMEM, 2 with
 * another error, 3 outside of the group. @spared: the kernel does not kill this process for memory.
 */
static int start_all(const struct data *data, int from, const struct given *given, enum kept kept,
		     int spared)
{
	if (write_text(GROUP "/cgroup.procs", "0") ||
	    write_text("/proc/self/oom_score_adj", spared ? "-1000" : "0"))
		return 3;
	for (int i = 0; i < RUNS; i++)
		if (start_one(data, from, given, kept) < 0)
			return errno == ENOMEM ? 1 : 2;
	return 0;
}

static __u64 pinned_bytes(void)
{
	struct wirepath_query query = { .size = sizeof(query) };

	CHECK(!ioctl(device, WIREPATH_QUERY, &query));
	return query.pinned_bytes;
}

/* One starter, under one limit: what start_all() answers; -1: killed. */
static int started(const struct data *data, int from, const struct given *given, enum kept kept,
		   int spared, int mebibytes)
{
	int users = module_users(), state, answer;
	__u64 pinned = pinned_bytes();
	char limit[32];
	pid_t child;

	snprintf(limit, sizeof(limit), "%d", mebibytes * MIB);
	CHECK(!write_text(GROUP "/memory.max", limit));
	fflush(stdout);
	child = fork();
	if (!child)
		_exit(start_all(data, from, given, kept, spared));
	CHECK(waitpid(child, &state, 0) == child);
	answer = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
	CHECK(answer == 0 || answer == 1 || (answer == -1 && WTERMSIG(state) == SIGKILL && !spared),
	      "%s in %d MiB: %x", kinds[kept], mebibytes, state);
	while (module_users() > users)
		;
	wait_for_tasks(GROUP "/cgroup.events");
	/* Pages are given back a little later. */
	for (int i = 0; i < 200 && strtoull(read_text(GROUP "/memory.current"), NULL, 10) > KEPT; i++)
		usleep(10000);
	CHECK(strtoull(read_text(GROUP "/memory.current"), NULL, 10) <= KEPT, "%s in %d MiB: %s bytes left",
	      kinds[kept], mebibytes, read_text(GROUP "/memory.current"));
	CHECK(pinned_bytes() == pinned, "%llu bytes pinned", pinned_bytes());
	return answer;
}

/* By limits below what the runs take, in the middle of it, and above. */
static void in_the_group(const struct data *data, const struct given *given)
{
	static const int limits[] = { 4, 17, 40, 200 };
	struct pair pair = pair_open(AF_INET);
	int counts[5] = { 0 };
	char dump[16];

	/* The kernel's report of each is long enough without all tasks. */
	snprintf(dump, sizeof(dump), "%s", read_text("/proc/sys/vm/oom_dump_tasks"));
	write_text("/proc/sys/vm/oom_dump_tasks", "0");

	for (int kept = 0; kept < KINDS; kept++)
		for (int spared = 0; spared < 2; spared++)
			for (size_t i = 0; i < COUNT(limits); i++)
				counts[started(data, pair.from, given, kept, spared, limits[i]) + 1]++;
	CHECK(!write_text("/proc/sys/vm/oom_dump_tasks", dump));
	printf("counted: smoke: in small groups %d starters were killed, %d refused; %d had enough\n",
	       counts[0], counts[2], counts[1]);
	CHECK(counts[0] > 0 && counts[2] > 0 && counts[1] >= 2 * KINDS);
	CHECK(nothing_more(pair.to));
	pair_close(pair);
}

void limits(const struct data *data)
{
	struct given given = { shared_memory((size_t)PACKETS * HEADER),
			       shared_memory(PACKETS * sizeof(struct wirepath_departure)) };
	int had_memory;

	for (int i = 0; i < PACKETS; i++)
		given.departures[i] = (struct wirepath_departure){ .time_ns = i, .packets = 1 };
	if (mkdir(GROUPS, 0700) || mount("none", GROUPS, "cgroup2", 0, NULL)) {
		SKIP("no cgroups of version 2");
	} else {
		had_memory = !!strstr(read_text(SUBTREE), "memory");
		if (write_text(SUBTREE, "+memory")) {
			SKIP("no limits of memory in cgroups");
		} else {
			if (mkdir(GROUP, 0700))
				die(GROUP);
			in_the_group(data, &given);
			CHECK(!rmdir(GROUP));
			/* As it was: this may be a host. */
			CHECK(had_memory || !write_text(SUBTREE, "-memory"));
		}
		CHECK(!umount(GROUPS));
	}
	rmdir(GROUPS);
	munmap(given.headers, (size_t)PACKETS * HEADER);
	munmap(given.departures, PACKETS * sizeof(struct wirepath_departure));
}
