// SPDX-License-Identifier: GPL-2.0
/*
 * Full buffers: of a socket, and of one whose packets wait for a neighbour that
 * is not there.
 */
#include "smoke.h"

#include <sys/time.h>

/* A full socket buffer: DONTWAIT stops, calling again goes on, nothing is lost. */
static void full_buffer(const struct data *data)
{
	struct pair pair = pair_open(AF_INET);
	int least = 4608, full = 0;
	struct wirepath_send send;

	setsockopt(pair.from, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	send = wirepath_send_of(pair.from, data->file, 0, 400000);
	send = cut(send, 1316, 0);
	send.flags = WIREPATH_DONTWAIT;
	while (ioctl(device, WIREPATH_SEND, &send) < 0) {
		CHECK(errno == EAGAIN);
		if (errno != EAGAIN || ++full > 100000)
			break;
	}
	CHECK(send.bytes == 400000);
	expect_plain(pair.to, data->bytes, 400000, 1316);
	pair_close(pair);
}

static void on_alarm(int number)
{
	(void)number;
}

static void alarm_after(unsigned int ms)
{
	/* Also with SA_RESTART a signal ends a call. */
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval soon = { .it_value.tv_usec = ms * 1000 };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
}

/* Trains of packets above the MTU are refused and not cut by IP. */
static void above_the_mtu(const struct data *data, int udp)
{
	for (int copy = 0; copy < 2; copy++) {
		struct wirepath_send send = wirepath_send_of(udp, data->file, 0, 500000);

		send = cut(send, 2000, 64);
		send.flags = copy ? WIREPATH_COPY : 0;
		CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 &&
		      (errno == EMSGSIZE || errno == EINVAL));
		CHECK(send.bytes == 0);
	}
}

static void waits(const struct data *data, int udp)
{
	struct wirepath_send send = cut(wirepath_send_of(udp, data->file, 0, 500000), 1000, 0);
	__u64 sent;

	send.flags = WIREPATH_DONTWAIT;
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == EAGAIN);
	CHECK(send.bytes > 0 && send.bytes < 500000 && send.offset == send.bytes);
	sent = send.bytes;
	/* It waits, a signal comes, and what was sent is told. */
	send.flags = 0;
	alarm_after(200);
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == EINTR);
	CHECK(send.bytes >= sent && send.bytes < 500000);
}

/* A run waits without keeping anyone, counts it, and is stopped. */
static void paced(const struct data *data, int udp)
{
	struct wirepath_send send = cut(wirepath_send_of(udp, data->file, 0, 500000), 1000, 0);
	struct wirepath_start start = start_of(&send, 100000000);
	int run = ioctl(device, WIREPATH_START, &start);
	struct wirepath_status status;

	CHECK(run >= 0);
	do {
		status = status_of(run, WIREPATH_STATUS);
	} while (status.state == WIREPATH_RUN_GOING && !status.full);
	CHECK(status.full > 0, "state %u error %d", status.state, status.error);
	alarm_after(100);
	CHECK(ioctl(run, WIREPATH_WAIT, &status) < 0 && errno == EINTR);
	close(udp);	/* the run still has the socket */
	status = status_of(run, WIREPATH_STATUS);
	CHECK(!ioctl(run, WIREPATH_STOP, 0));
	close(run);
}

/*
 * A network that answers nobody: packets to a neighbour that is not there wait
 * for it, in the socket's buffer. Needs an interface with 10.9.0.1/24 on such
 * a network (a veth whose other end has no address is one); skips, and says so,
 * without.
 */
static void nobody_there(const struct data *data)
{
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.9.0.1") };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.9.0.2"),
				  .sin_port = htons(9) };
	int udp = socket(AF_INET, SOCK_DGRAM, 0), room = 8192;

	if (bind(udp, (void *)&from, sizeof(from))) {
		SKIP("no interface with 10.9.0.1");
		close(udp);
		return;
	}
	setsockopt(udp, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (connect(udp, (void *)&to, sizeof(to)))
		die("connect");
	above_the_mtu(data, udp);
	waits(data, udp);
	paced(data, udp);
}

void full_buffers(const struct data *data)
{
	full_buffer(data);
	nobody_there(data);
}
