// SPDX-License-Identifier: GPL-2.0
/* START: by rate and by departures, stopped, closed, and misused. */
#include "smoke.h"

/* 133 KB at 1 MB/s. */
static void by_rate(const struct data *data, struct pair pair)
{
	struct wirepath_rtp rtp = rtp_of(), header = rtp;
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 33, 100 * 1316 + 1);
	struct wirepath_start start = start_of(&send, 1000000);
	struct wirepath_status status;
	struct pollfd ready;
	__u64 began = now_ns(), took;
	int run;

	send = with_rtp(cut(send, 1316, 7), &rtp);
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	CHECK(fcntl(run, F_GETFD) == FD_CLOEXEC);
	ready = (struct pollfd){ .fd = run, .events = POLLIN };
	CHECK(poll(&ready, 1, 30000) == 1);
	took = now_ns() - began;
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == 0, "state %u error %d",
	      status.state, status.error);
	CHECK(status.packets == 101 && status.rtp_packets == 101 && status.bytes == 131601 &&
	      status.rtp_octets == 131601 && status.rtp_sequence == (unsigned short)(0xfffe + 101));
	CHECK(status.rtp_last_timestamp == rtp.timestamp + 100 * 90 &&
	      status.position == 33 + 131601);
	/* Never too early: the last train departs after what was before it. */
	CHECK(took >= (100 / 7 * 7 - 7) * 1328 * 1000ULL, "%llu ns", (unsigned long long)took);
	expect_rtp_run(pair.to, &header, data->bytes + 33, 131601, 1316, 0);
	close(run);
}

/* Of memory, with headers of the caller's, all of which goes meanwhile. */
static void by_departures(const struct data *data, struct pair pair)
{
	static unsigned char given[40][16];
	struct wirepath_departure departures[40];
	unsigned char *memory = mmap(NULL, 40000, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), header[16];
	struct wirepath_send send = wirepath_send_of(pair.from, -1, (__u64)(size_t)memory, 40000);
	struct wirepath_start start = start_of(&send, 0);
	struct wirepath_status status;
	int run;

	for (int i = 0; i < 40; i++) {
		memset(given[i], i + 1, 16);
		departures[i] = (struct wirepath_departure){ .time_ns = i * 5000000ULL, .packets = 1 };
	}
	memcpy(memory, data->bytes, 40000);
	send = with_given(cut(send, 1000, 0), given, 16);
	start.departures = (__u64)(size_t)departures;
	start.departure_count = 40;
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	munmap(memory, 40000);
	memset(departures, 0, sizeof(departures));
	memset(given, 0, sizeof(given));
	for (int i = 0; i < 40; i++) {
		memset(header, i + 1, 16);
		expect_with(pair.to, header, 16, data->bytes + i * 1000, 1000);
	}
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.packets == 40 && status.error == 0);
	close(run);
}

static void stopped_and_closed(const struct data *data, struct pair pair)
{
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 0, 1000000), 1000, 0);
	/* The first packet at once, the second after 100 s: closing does not wait for one on its way. */
	struct wirepath_start start = start_of(&send, 10);
	int run = ioctl(device, WIREPATH_START, &start), stopped;
	struct wirepath_status status;
	unsigned char packet[65536];

	CHECK(receive(pair.to, packet) == 1000);
	stopped = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0 && stopped >= 0);
	CHECK(!ioctl(stopped, WIREPATH_STOP, 0));
	status = status_of(stopped, WIREPATH_STATUS);
	CHECK(status.state == WIREPATH_RUN_STOPPED && status.packets < 1000);
	CHECK(!ioctl(stopped, WIREPATH_STOP, 0));
	CHECK(ioctl(stopped, WIREPATH_STOP, 1) < 0 && errno == EINVAL);
	CHECK(ioctl(stopped, WIREPATH_SEND, 0) < 0 && errno == ENOTTY);
	status = status_of(run, WIREPATH_STATUS);
	CHECK(status.state == WIREPATH_RUN_GOING);
	close(run);
	close(stopped);
	while (recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		;
}

static void misused(const struct data *data, struct pair pair)
{
	struct wirepath_departure departures[2] = { { .packets = 2 } };
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 0, 1000000), 1000, 0);
	struct wirepath_start start = start_of(&send, 0);
	struct wirepath_status status;
	int run;

	/* Departures for fewer packets than there are. */
	start.departures = (__u64)(size_t)departures;
	start.departure_count = 1;
	run = ioctl(device, WIREPATH_START, &start);
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == ENODATA && status.packets == 2);
	close(run);
	expect_plain(pair.to, data->bytes, 2000, 1000);
#define START_ANSWERS(error, ...)                                              \
	do {                                                                   \
		struct wirepath_start keep = start;                            \
		__VA_ARGS__;                                                   \
		CHECK(ioctl(device, WIREPATH_START, &start) < 0 && errno == (error), \
		      #__VA_ARGS__);                                           \
		start = keep;                                                  \
	} while (0)
	START_ANSWERS(EINVAL, start.size = 4);
	START_ANSWERS(EINVAL, start.flags = 1);
	START_ANSWERS(EINVAL, start.reserved = 1);
	START_ANSWERS(EINVAL, start.rate_bytes_per_second = 1);
	START_ANSWERS(EINVAL, start.departures = 0);
	START_ANSWERS(EINVAL, start.departure_count = 0);
	START_ANSWERS(EINVAL, start.departure_count = 2);
	START_ANSWERS(E2BIG, start.departure_count = (1 << 20) + 1);
	START_ANSWERS(EFAULT, start.departures = 8);
	START_ANSWERS(EFAULT, start.send = 8);
	/* Files whose content depends on who reads are not for a run. */
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "/sys/module/wirepath/parameters/runs" : "/proc/self/stat";
		int file = open(name, O_RDONLY);

		CHECK(file >= 0);
		START_ANSWERS(EINVAL, send.file = file);
		send.file = data->file;
		close(file);
	}
	CHECK(nothing_more(pair.to));
}

void paced_runs(const struct data *data, struct pair pair)
{
	by_rate(data, pair);
	by_departures(data, pair);
	stopped_and_closed(data, pair);
	misused(data, pair);
}
