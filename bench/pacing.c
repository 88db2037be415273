/*
 * Trains paced by a timer, as the server does, by the queueing discipline fq, and by the kernel module's runs: what each costs,
 * and how late trains leave.
 *
 *   pacing DEVICE SESSIONS ROUNDS [FILE]
 *
 * To be run as root, with nothing else, on a kernel that has fq, in a namespace whose 10.81.0.0/16 is routed to DEVICE, which
 * drops (dummy). Each session is a connected UDP socket that sends a train of 9 packets (with FILE 8) each 20 ms, sessions one
 * after the other within these. Packets are short, since pacing does not depend on their length, and an emulated processor counts
 * each byte that is copied as an instruction. Ways:
 *
 *   timer       wakes at each millisecond at which a train is due, sends those that are
 *   txtime      wakes each 20 ms, sends all of the next 20 ms with the time of each (SO_TXTIME): one time a train
 *   txtime_100  the same each 100 ms
 *   rate        as timer, with SO_MAX_PACING_RATE of twice the bit rate
 *   together    wakes each 20 ms, sends all of the next 20 ms at once: what a call costs without pacing
 *
 * With FILE, which is made, on a file system whose pages can be sent, and with the kernel module, in place of the last four:
 *
 *   sendfile    as timer, but the trains are in FILE and sent by sendfile(): a wire image, headers included
 *   send        as timer, by WIREPATH_SEND: RTP headers of the module's, payload from FILE
 *   start       the same packets by WIREPATH_START: the kernel wakes a thread for each train of each session
 *
 * Prints a line for each way and round (CSV): busy microseconds of the machine for each train, from /proc/stat, context switches
 * for each train, and then, in a run of its own with a packet socket on DEVICE, by how many microseconds trains left too late:
 * median, 99 % and most; and how many are missing.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../kernel/module/uapi/wirepath_calls.h"

#define PACKET 100
#define MOST_PACKETS 9 /* of a train */
#define PAYLOAD (PACKET - 12) /* of a packet with an RTP header */
#define PERIOD 20000000ull /* ns */
#define PERIODS 250	   /* of a run: 5 s */
#define TICK 1000000ull
#define MOST_SESSIONS 4000
#define UDP_SEGMENT 103

enum { TIMER, TXTIME, TXTIME_100, RATE, TOGETHER, WITHOUT_FILE, SENDFILE = WITHOUT_FILE, SEND, START, WAYS };
static const char *const names[] = { "timer", "txtime", "txtime_100", "rate", "together", "sendfile", "send", "start" };

static unsigned sessions;
static int sockets[MOST_SESSIONS];
static int device, file;
static struct wirepath_send sends[MOST_SESSIONS]; /* of the module's ways, */
static struct wirepath_rtp headers[MOST_SESSIONS];
static int runs[MOST_SESSIONS]; /* and of its runs */
static unsigned arrived[MOST_SESSIONS];
static unsigned packets = MOST_PACKETS;
static char train[MOST_PACKETS * PACKET];
static uint64_t *late;
static unsigned late_count;

static uint64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void sleep_until(uint64_t time)
{
	struct timespec until = { time / 1000000000, time % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void sockets_open(unsigned way)
{
	for (unsigned i = 0; i < sessions; i++) {
		struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(5000) };
		struct sock_txtime txtime = { .clockid = CLOCK_MONOTONIC };
		int size = PACKET, buffer = 4 << 20;
		unsigned rate = 2 * packets * PACKET * (1000000000ull / PERIOD);

		to.sin_addr.s_addr = htonl((10u << 24 | 81u << 16) + 256 + i);
		sockets[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (sockets[i] < 0 || connect(sockets[i], (struct sockaddr *)&to, sizeof(to)) ||
		    setsockopt(sockets[i], IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) ||
		    setsockopt(sockets[i], SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)))
			err(1, "socket");
		if ((way == TXTIME || way == TXTIME_100) &&
		    setsockopt(sockets[i], SOL_SOCKET, SO_TXTIME, &txtime, sizeof(txtime)))
			err(1, "SO_TXTIME");
		if (way == RATE && setsockopt(sockets[i], SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)))
			err(1, "SO_MAX_PACING_RATE");
	}
}

static void sockets_close(void)
{
	for (unsigned i = 0; i < sessions; i++)
		close(sockets[i]);
}

/* The packets of a session as the module sends them: all trains of a run. */
static void send_prepare(unsigned session)
{
	headers[session] = (struct wirepath_rtp){ .size = sizeof(headers[0]), .ssrc = session, .timestamp_step = 1800,
						  .step_packets = packets, .payload_type = 33 };
	sends[session] = wirepath_send_of(sockets[session], file, 0, PERIODS * packets * PAYLOAD);
	sends[session].packet_bytes = PAYLOAD;
	sends[session].train_packets = packets;
	sends[session].header_kind = WIREPATH_HEADER_RTP;
	sends[session].header = (uint64_t)(uintptr_t)&headers[session];
	sends[session].header_bytes = sizeof(headers[0]);
}

/* Starts the runs of all sessions, whose first trains are due one after the other from `start` on. */
static void runs_start(uint64_t start, uint64_t gap)
{
	static struct wirepath_departure departures[PERIODS];

	for (unsigned i = 0; i < PERIODS; i++)
		departures[i] = (struct wirepath_departure){ .time_ns = i * PERIOD, .packets = packets };
	for (unsigned i = 0; i < sessions; i++) {
		struct wirepath_start run = { .size = sizeof(run), .send = (uint64_t)(uintptr_t)&sends[i],
					      .start_ns = start + i * gap, .departures = (uint64_t)(uintptr_t)departures,
					      .departure_count = PERIODS };

		send_prepare(i);
		runs[i] = ioctl(device, WIREPATH_START, &run);
		if (runs[i] < 0)
			err(1, "WIREPATH_START");
	}
	if (now(CLOCK_MONOTONIC) > start)
		errx(1, "starting %u runs took too long", sessions);
}

/* Fails unless all have sent all. */
static void runs_end(void)
{
	for (unsigned i = 0; i < sessions; i++) {
		struct wirepath_status status = { .size = sizeof(status) };

		if (ioctl(runs[i], WIREPATH_STATUS, &status) || status.state != WIREPATH_RUN_ENDED || status.error ||
		    status.packets != PERIODS * packets)
			errx(1, "run %u: state %u, error %d, %llu packets", i, status.state, status.error,
			     (unsigned long long)status.packets);
		close(runs[i]);
	}
}

/* Sends the train of a session that is due at this time. */
static void train_send(unsigned way, unsigned session, uint64_t due)
{
	int has_time = way == TXTIME || way == TXTIME_100;
	union {
		char bytes[CMSG_SPACE(sizeof(uint64_t))];
		struct cmsghdr aligned;
	} control = { 0 };
	struct iovec vector = { train, packets * PACKET };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };

	if (way == SENDFILE) {
		off_t at = sends[session].offset;

		if (sendfile(sockets[session], file, &at, packets * PACKET) != packets * PACKET)
			err(1, "sendfile");
		sends[session].offset = at;
		return;
	}
	if (way == SEND) {
		sends[session].length = packets * PAYLOAD;
		if (ioctl(device, WIREPATH_SEND, &sends[session]))
			err(1, "WIREPATH_SEND");
		return;
	}
	memcpy(train, &due, sizeof(due)); /* where the packet socket finds it */
	if (has_time) {
		struct cmsghdr *header = &control.aligned;

		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_TXTIME;
		header->cmsg_len = CMSG_LEN(sizeof(due));
		memcpy(CMSG_DATA(header), &due, sizeof(due));
	}
	if (sendmsg(sockets[session], &message, 0) != packets * PACKET)
		err(1, "sendmsg");
}

static int tap_open(const char *device)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = if_nametoindex(device) };
	int tap = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL)), one = 1, size = 1 << 28;

	if (tap < 0 || bind(tap, (struct sockaddr *)&at, sizeof(at)) ||
	    setsockopt(tap, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(tap, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one)))
		err(1, "packet socket");
	return tap;
}

/*
 * Takes what left: the kernel's time of each train against the one that is in it. Of what comes from FILE, the trains of a session,
 * which its address tells, are due in the order in which they come.
 */
static void tap_read(int tap, int64_t realtime_offset, unsigned way, uint64_t start, uint64_t gap)
{
	for (;;) {
		char bytes[64], control[128];
		struct iovec vector = { bytes, sizeof(bytes) };
		struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
					  .msg_controllen = sizeof(control) };
		ssize_t length = recvmsg(tap, &message, MSG_DONTWAIT);
		struct cmsghdr *header;
		struct timespec time;
		uint64_t due, left;

		if (length < 0)
			return;
		header = CMSG_FIRSTHDR(&message);
		if (length < 36 || bytes[0] != 0x45 || !header)
			continue;
		memcpy(&due, bytes + 28, sizeof(due));
		if (way >= WITHOUT_FILE) {
			unsigned session = ((unsigned char)bytes[18] << 8 | (unsigned char)bytes[19]) - 256;

			if (session >= sessions)
				continue;
			due = start + ((uint64_t)arrived[session]++ * sessions + session) * gap;
		}
		memcpy(&time, CMSG_DATA(header), sizeof(time));
		left = time.tv_sec * 1000000000ull + time.tv_nsec - realtime_offset;
		if (due && late_count < sessions * PERIODS)
			late[late_count++] = left > due ? left - due : 0;
	}
}

/* The policy of this process: SCHED_IDLE gives way to all others. */
static void policy_set(int policy)
{
	struct sched_param none = { 0 };

	if (sched_setscheduler(0, policy, &none))
		err(1, "sched_setscheduler");
}

/* All trains of a run. Without a tap nothing but the trains is done. */
static void run(unsigned way, int tap, uint64_t start, uint64_t gap)
{
	int64_t offset = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC);
	uint64_t total = (uint64_t)sessions * PERIODS, sent = 0;
	uint64_t step = way == TXTIME_100 ? 5 * PERIOD : way == TXTIME || way == TOGETHER ? PERIOD : TICK;
	int is_ahead = step > TICK;

	if (way == START) {
		/* Whatever reads the tap must not keep the runs from the processor. */
		if (tap >= 0)
			policy_set(SCHED_IDLE);
		while (tap >= 0 && now(CLOCK_MONOTONIC) < start + PERIODS * PERIOD) {
			sleep_until(now(CLOCK_MONOTONIC) + PERIOD);
			tap_read(tap, offset, way, start, gap);
		}
		sleep_until(start + (PERIODS + 10) * PERIOD);
		if (tap >= 0)
			tap_read(tap, offset, way, start, gap);
		policy_set(SCHED_OTHER);
		return;
	}
	while (sent < total) {
		/* The next wake-up at which something is due; ahead of time by a step where times go along. */
		uint64_t due = start + sent * gap, wakeup = is_ahead ? due / step * step : (due + step - 1) / step * step;
		uint64_t until = is_ahead ? wakeup + step : wakeup;

		sleep_until(way == TOGETHER ? wakeup : is_ahead ? wakeup - TICK : wakeup);
		while (sent < total && (due = start + sent * gap) <= until - is_ahead) {
			train_send(way, sent % sessions, due);
			sent++;
		}
		if (tap >= 0)
			tap_read(tap, offset, way, start, gap);
	}
	sleep_until(now(CLOCK_MONOTONIC) + 10 * PERIOD);
	if (tap >= 0)
		tap_read(tap, offset, way, start, gap);
}

/* Microseconds that the machine was not idle, and its context switches. */
struct load {
	double busy_us;
	unsigned long long switches;
};

static struct load load_read(void)
{
	unsigned long long field[8], idle;
	struct load load = { 0 };
	FILE *stat = fopen("/proc/stat", "r");
	char line[4096];

	if (!stat || fscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", field, field + 1, field + 2, field + 3, field + 4,
			    field + 5, field + 6, field + 7) != 8)
		err(1, "/proc/stat");
	while (fgets(line, sizeof(line), stat))
		sscanf(line, "ctxt %llu", &load.switches);
	fclose(stat);
	idle = field[3] + field[4];
	load.busy_us = now(CLOCK_MONOTONIC) / 1e3 * sysconf(_SC_NPROCESSORS_ONLN) - idle * 1e6 / sysconf(_SC_CLK_TCK);
	return load;
}

/* Begins a run, of which nothing is due yet; returns when its first train is. */
static uint64_t prepare(unsigned way, uint64_t gap)
{
	uint64_t periods = way == START ? 2 + sessions / 10 : 2;
	uint64_t start = (now(CLOCK_MONOTONIC) / PERIOD + periods) * PERIOD;

	memset(arrived, 0, sizeof(arrived));
	if (way == START)
		runs_start(start, gap);
	for (unsigned i = 0; (way == SENDFILE || way == SEND) && i < sessions; i++)
		send_prepare(i);
	sleep_until(start - 2 * PERIOD);
	return start;
}

/* A file of as many trains as a session has. */
static void file_make(const char *name)
{
	file = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	device = open(WIREPATH_DEVICE, O_RDWR | O_CLOEXEC);
	if (file < 0 || device < 0)
		err(1, "%s", file < 0 ? name : WIREPATH_DEVICE);
	for (unsigned i = 0; i < PERIODS; i++)
		if (write(file, train, packets * PACKET) != packets * PACKET)
			err(1, "%s", name);
	if (fsync(file))
		err(1, "%s", name);
}

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

int main(int count, char **arguments)
{
	/* TIMER, and others. */
	unsigned others = count == 5 ? WITHOUT_FILE : TIMER + 1, ways = 1 + (count == 5 ? WAYS : WITHOUT_FILE) - others;
	struct rlimit files = { 4 * MOST_SESSIONS, 4 * MOST_SESSIONS };
	uint64_t gap;

	if (count < 4 || count > 5 || !(sessions = atoi(arguments[2])) || sessions > MOST_SESSIONS)
		errx(1, "usage: pacing DEVICE SESSIONS ROUNDS [FILE]");
	late = calloc((size_t)sessions * PERIODS, sizeof(*late));
	if (!late || setrlimit(RLIMIT_NOFILE, &files))
		err(1, "calloc or setrlimit");
	gap = PERIOD / sessions;
	if (count == 5) {
		packets = 8; /* with headers, one socket buffer has no more */
		file_make(arguments[4]);
	}
	puts("round,sessions,way,busy_us,switches,late_p50_us,late_p99_us,late_most_us,missing");
	for (unsigned round = 0; round < (unsigned)atoi(arguments[3]); round++)
		for (unsigned step = 0; step < ways; step++) {
			unsigned place = round % 2 ? ways - 1 - step : step, way = place ? others + place - 1 : TIMER;
			double trains = (double)sessions * PERIODS;
			struct load before, after;
			uint64_t start;
			int tap;

			sockets_open(way);
			sleep_until(now(CLOCK_MONOTONIC) + 10 * PERIOD);
			start = prepare(way, gap);
			before = load_read();
			run(way, -1, start, gap);
			after = load_read();
			if (way == START)
				runs_end();
			tap = tap_open(arguments[1]);
			late_count = 0;
			start = prepare(way, gap);
			run(way, tap, start, gap);
			if (way == START)
				runs_end();
			close(tap);
			sockets_close();
			qsort(late, late_count, sizeof(*late), compare);
			printf("%u,%u,%s,%.3f,%.3f,%.0f,%.0f,%.0f,%u\n", round, sessions, names[way],
			       (after.busy_us - before.busy_us) / trains, (after.switches - before.switches) / trains,
			       late_count ? late[late_count / 2] / 1e3 : 0, late_count ? late[late_count * 99 / 100] / 1e3 : 0,
			       late_count ? late[late_count - 1] / 1e3 : 0, sessions * PERIODS - late_count);
			fflush(stdout);
		}
	return 0;
}
