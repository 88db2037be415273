// SPDX-License-Identifier: GPL-2.0
/* What a run survives, as a loop around send() would. */
#include <net/if.h>
#include <sys/ioctl.h>

#include "smoke.h"

#define PACKETS 200

/* Each port unreachable is told once, in place of a send, which is made again. */
static void nobody_listens(const struct data *data, int family)
{
	struct pair pair = pair_open(family);
	struct wirepath_rtp rtp = rtp_of();
	struct wirepath_send send = with_rtp(cut(wirepath_send_of(pair.from, data->file, 0,
								  PACKETS * 1000), 1000, 0), &rtp);
	struct wirepath_start start = start_of(&send, 1000000);
	struct wirepath_status status;
	int run;

	close(pair.to);
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == 0, "state %u error %d",
	      status.state, status.error);
	CHECK(status.packets == PACKETS && status.rtp_packets == PACKETS && !status.lost_packets,
	      "%llu sent, %llu lost", status.packets, status.lost_packets);
	CHECK(status.errors > 0 && status.last_error == ECONNREFUSED, "%llu errors, %d",
	      status.errors, status.last_error);
	close(run);
	close(pair.from);
}

/* Packets to where none can go are lost, and the run comes to its end. */
static void no_way(const struct data *data, const char *address, int error)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9),
				  .sin_addr.s_addr = inet_addr(address) };
	struct wirepath_rtp rtp = rtp_of();
	struct wirepath_send send = with_rtp(cut(wirepath_send_of(-1, data->file, 0, 20000), 1000, 0),
					     &rtp);
	struct wirepath_start start = start_of(&send, 10000000);
	struct wirepath_status status;
	int run;

	send.socket = socket(AF_INET, SOCK_DGRAM, 0);
	send = sent_to(send, &to);
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == 0, "state %u error %d",
	      status.state, status.error);
	CHECK(status.packets == 0 && status.lost_packets == 20 && status.rtp_packets == 0);
	CHECK(status.rtp_sequence == (unsigned short)(rtp.sequence + 20) && status.position == 20000);
	CHECK(status.errors == 40 && status.last_error == error, "%llu errors, %d",
	      status.errors, status.last_error);
	close(run);
	close(send.socket);
}

static void set_loopback_mtu(int mtu)
{
	struct ifreq asked = { .ifr_name = "lo", .ifr_mtu = mtu };
	int socket_ = socket(AF_INET, SOCK_DGRAM, 0);

	if (ioctl(socket_, SIOCSIFMTU, &asked))
		die("SIOCSIFMTU");
	close(socket_);
}

/* Trains become too long for the path on the way: IP cuts their packets instead. */
static void path_becomes_narrow(const struct data *data, struct pair pair)
{
	struct wirepath_departure departures[PACKETS / 4];
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 0, PACKETS * 2000),
					2000, 4);
	struct wirepath_start start = start_of(&send, 0);
	struct wirepath_status status;
	unsigned char packet[65536];
	int run;

	for (int i = 0; i < PACKETS / 4; i++)
		departures[i] = (struct wirepath_departure){ .time_ns = i * 4000000ULL, .packets = 4 };
	start.departures = (__u64)(size_t)departures;
	start.departure_count = COUNT(departures);
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	for (int i = 0; i < PACKETS; i++) {
		if (i == 8)
			set_loopback_mtu(1280);
		CHECK(receive(pair.to, packet) == 2000 &&
		      !memcmp(packet, data->bytes + i * 2000, 2000), "packet %d", i);
	}
	status = status_of(run, WIREPATH_WAIT);
	set_loopback_mtu(65536);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == 0 && status.packets == PACKETS,
	      "state %u error %d, %llu sent", status.state, status.error, status.packets);
	CHECK(status.errors > 0 && !status.lost_packets, "%llu errors, %llu lost", status.errors,
	      status.lost_packets);
	CHECK(nothing_more(pair.to));
	close(run);
}

void survives(const struct data *data, struct pair pair)
{
	path_becomes_narrow(data, pair);
	nobody_listens(data, AF_INET);
	nobody_listens(data, AF_INET6);
	/* No route; and a broadcast without SO_BROADCAST. */
	no_way(data, "203.0.113.1", ENETUNREACH);
	no_way(data, "127.255.255.255", EACCES);
}
