// SPDX-License-Identifier: GPL-2.0
/* Where to: addresses of a send's own, sockets that are corked, or have an MTU of their own. */
#include "smoke.h"

/* Packet by packet at odd offsets without a known route. */
static void addressed(const struct data *data, int from, const struct sockaddr_in *to, int receiver)
{
	struct wirepath_send send = wirepath_send_of(from, data->file, 4095, 20001);

	send = cut(sent_to(send, to), 1401, 0);
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	CHECK(send.copied_bytes > 0, "of pages crossed at odd offsets");
	expect_plain(receiver, data->bytes + 4095, 20001, 1401);
}

/* The packets of a call become one, which leaves uncorked. */
static void corked(const struct data *data, struct pair pair)
{
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 4095, 8999), 1401, 0);
	int cork = 1;

	CHECK(!setsockopt(pair.from, SOL_UDP, UDP_CORK, &cork, sizeof(cork)));
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	CHECK(send.copied_bytes == 8999);
	CHECK(nothing_more(pair.to));
	cork = 0;
	CHECK(!setsockopt(pair.from, SOL_UDP, UDP_CORK, &cork, sizeof(cork)));
	expect_one(pair.to, data->bytes + 4095, 8999);
}

/*
 * A header waits in the socket, and a payload completes its packet: where the
 * device computes the checksum of what waits, it does so by reference.
 */
static void completed(const struct data *data, struct pair pair)
{
	int segment = 1401;

	for (int by_segment = 0; by_segment < 2; by_segment++) {
		struct wirepath_send send = wirepath_send_of(pair.from, data->file, 4095, 1400);
		unsigned char got[1402] = { 0 };

		if (by_segment)
			CHECK(!setsockopt(pair.from, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)));
		CHECK(sendto(pair.from, "h", 1, MSG_MORE, NULL, 0) == 1);
		CHECK(!ioctl(device, WIREPATH_SEND, &send));
		CHECK(send.copied_bytes == (by_segment && references ? 0 : 1400));
		CHECK(recv(pair.to, got, sizeof(got), 0) == 1401);
		CHECK(got[0] == 'h' && !memcmp(got + 1, data->bytes + 4095, 1400));
	}
	segment = 0;
	CHECK(!setsockopt(pair.from, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)));
}

/* IP cuts what is longer than the socket's own MTU, and so sums it in software. */
static void shorter_than_the_route(const struct data *data)
{
	struct pair pair = pair_open(AF_INET6);
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 4095, 20001), 1401, 0);
	int mtu = 1280;

	CHECK(!setsockopt(pair.from, IPPROTO_IPV6, IPV6_MTU, &mtu, sizeof(mtu)));
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	CHECK(send.copied_bytes > 0, "of pages crossed at odd offsets");
	expect_plain(pair.to, data->bytes + 4095, 20001, 1401);
	pair_close(pair);
}

void destinations(const struct data *data)
{
	struct pair pair = pair_open(AF_INET), other = pair_open(AF_INET);
	struct sockaddr_in to;
	socklen_t bytes = sizeof(to);
	int unconnected = socket(AF_INET, SOCK_DGRAM, 0);
	struct wirepath_send send = wirepath_send_of(unconnected, data->file, 4095, 20000);

	getsockname(pair.to, (struct sockaddr *)&to, &bytes);
	send = cut(send, 1400, 64);
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == EDESTADDRREQ);
	send = sent_to(send, &to);
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	expect_plain(pair.to, data->bytes + 4095, 20000, 1400);
	addressed(data, unconnected, &to, pair.to);
	/* An address of its own goes before the one it is connected to. */
	addressed(data, other.from, &to, pair.to);
	CHECK(nothing_more(other.to));
	corked(data, pair);
	completed(data, pair);
	shorter_than_the_route(data);
	close(unconnected);
	pair_close(other);
	pair_close(pair);
}
