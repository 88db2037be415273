/*
 * Trains paced by a timer, as the server does, and by the queueing discipline fq: what each costs, and how late trains leave.
 *
 *   pacing DEVICE SESSIONS ROUNDS
 *
 * To be run as root, with nothing else, on a kernel that has fq, in a namespace whose 10.81.0.0/16 is routed to DEVICE, which
 * drops (dummy). Each session is a connected UDP socket that sends a train of 9 packets (UDP_SEGMENT) each 20 ms, sessions one
 * after the other within these. Packets are short, since pacing does not depend on their length, and an emulated processor counts
 * each byte that is copied as an instruction. Ways:
 *
 *   timer       wakes at each millisecond at which a train is due, sends those that are
 *   txtime      wakes each 20 ms, sends all of the next 20 ms with the time of each (SO_TXTIME): one time a train
 *   txtime_100  the same each 100 ms
 *   rate        as timer, with SO_MAX_PACING_RATE of twice the bit rate
 *   together    wakes each 20 ms, sends all of the next 20 ms at once: what a call costs without pacing
 *
 * Prints a line for each way and round (CSV): busy microseconds of the machine for each train, from /proc/stat, and then, in a run
 * of its own with a packet socket on DEVICE, by how many microseconds trains left too late: median, 99 % and most; and how many
 * are missing.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PACKET 100
#define TRAIN (9 * PACKET)
#define PERIOD 20000000ull /* ns */
#define PERIODS 250	   /* of a run: 5 s */
#define TICK 1000000ull
#define MOST_SESSIONS 4000
#define UDP_SEGMENT 103

enum { TIMER, TXTIME, TXTIME_100, RATE, TOGETHER, WAYS };
static const char *const names[] = { "timer", "txtime", "txtime_100", "rate", "together" };

static unsigned sessions;
static int sockets[MOST_SESSIONS];
static char train[TRAIN];
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
		unsigned rate = 2 * TRAIN * (1000000000ull / PERIOD);

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

/* Sends the train of a session that is due at this time. */
static void train_send(unsigned session, uint64_t due, int has_time)
{
	union {
		char bytes[CMSG_SPACE(sizeof(uint64_t))];
		struct cmsghdr aligned;
	} control = { 0 };
	struct iovec vector = { train, TRAIN };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };

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
	if (sendmsg(sockets[session], &message, 0) != TRAIN)
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

/* Takes what left: the kernel's time of each train against the one that is in it. */
static void tap_read(int tap, int64_t realtime_offset)
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
		memcpy(&time, CMSG_DATA(header), sizeof(time));
		left = time.tv_sec * 1000000000ull + time.tv_nsec - realtime_offset;
		if (due && late_count < sessions * PERIODS)
			late[late_count++] = left > due ? left - due : 0;
	}
}

/* All trains of a run. Without a tap nothing but the trains is done. */
static void run(unsigned way, int tap)
{
	int64_t offset = now(CLOCK_REALTIME) - now(CLOCK_MONOTONIC);
	uint64_t start = (now(CLOCK_MONOTONIC) / PERIOD + 2) * PERIOD, gap = PERIOD / sessions;
	uint64_t total = (uint64_t)sessions * PERIODS, sent = 0;
	uint64_t step = way == TIMER || way == RATE ? TICK : way == TXTIME_100 ? 5 * PERIOD : PERIOD;
	int is_ahead = step > TICK;

	while (sent < total) {
		/* The next wake-up at which something is due; ahead of time by a step where times go along. */
		uint64_t due = start + sent * gap, wakeup = is_ahead ? due / step * step : (due + step - 1) / step * step;
		uint64_t until = is_ahead ? wakeup + step : wakeup;

		sleep_until(way == TOGETHER ? wakeup : is_ahead ? wakeup - TICK : wakeup);
		while (sent < total && (due = start + sent * gap) <= until - is_ahead) {
			train_send(sent % sessions, due, way == TXTIME || way == TXTIME_100);
			sent++;
		}
		if (tap >= 0)
			tap_read(tap, offset);
	}
	sleep_until(now(CLOCK_MONOTONIC) + 10 * PERIOD);
	if (tap >= 0)
		tap_read(tap, offset);
}

/* Microseconds that the machine was not idle. */
static double busy_us(void)
{
	unsigned long long field[8], idle;
	FILE *file = fopen("/proc/stat", "r");

	if (!file || fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", field, field + 1, field + 2, field + 3, field + 4,
			    field + 5, field + 6, field + 7) != 8)
		err(1, "/proc/stat");
	fclose(file);
	idle = field[3] + field[4];
	return now(CLOCK_MONOTONIC) / 1e3 * sysconf(_SC_NPROCESSORS_ONLN) - idle * 1e6 / sysconf(_SC_CLK_TCK);
}

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

int main(int count, char **arguments)
{
	if (count != 4 || !(sessions = atoi(arguments[2])) || sessions > MOST_SESSIONS)
		errx(1, "usage: pacing DEVICE SESSIONS ROUNDS");
	late = calloc((size_t)sessions * PERIODS, sizeof(*late));
	if (!late)
		err(1, "calloc");
	puts("round,sessions,way,busy_us,late_p50_us,late_p99_us,late_most_us,missing");
	for (unsigned round = 0; round < (unsigned)atoi(arguments[3]); round++)
		for (unsigned step = 0; step < WAYS; step++) {
			unsigned way = round % 2 ? WAYS - 1 - step : step;
			double busy;
			int tap;

			sockets_open(way);
			sleep_until(now(CLOCK_MONOTONIC) + 10 * PERIOD);
			busy = busy_us();
			run(way, -1);
			busy = busy_us() - busy;
			tap = tap_open(arguments[1]);
			late_count = 0;
			run(way, tap);
			close(tap);
			sockets_close();
			qsort(late, late_count, sizeof(*late), compare);
			printf("%u,%u,%s,%.3f,%.0f,%.0f,%.0f,%u\n", round, sessions, names[way], busy / sessions / PERIODS,
			       late_count ? late[late_count / 2] / 1e3 : 0, late_count ? late[late_count * 99 / 100] / 1e3 : 0,
			       late_count ? late[late_count - 1] / 1e3 : 0, sessions * PERIODS - late_count);
			fflush(stdout);
		}
	return 0;
}
