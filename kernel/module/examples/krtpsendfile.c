// SPDX-License-Identifier: GPL-2.0
/*
 * One call of the module: a file as RTP packets of 1,316 bytes over loopback, to a
 * socket of this program, which counts what arrives.
 *
 *   krtpsendfile FILE	of at most 100 kB, which is what the socket has room for
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "../uapi/wirepath_calls.h"

static int fail(const char *what)
{
	fprintf(stderr, "krtpsendfile: %s: %s\n", what, strerror(errno));
	return 1;
}

int main(int count, char **arguments)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct wirepath_rtp rtp = {
		.size = sizeof(rtp), .ssrc = 7, .timestamp_step = 90, .payload_type = 33,
	};
	int device = open(WIREPATH_DEVICE, O_RDWR), file = count == 2 ? open(arguments[1], O_RDONLY) : -1;
	int sender = socket(AF_INET, SOCK_DGRAM, 0), receiver = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t to_bytes = sizeof(to);
	unsigned char packet[1500];
	unsigned int packets = 0;
	off_t offset = 0;
	ssize_t sent;

	if (count != 2) {
		fprintf(stderr, "usage: krtpsendfile FILE\n");
		return 64;
	}
	if (device < 0)
		return fail(WIREPATH_DEVICE);
	if (file < 0)
		return fail(arguments[1]);
	if (bind(receiver, (void *)&to, sizeof(to)) || getsockname(receiver, (void *)&to, &to_bytes) ||
	    connect(sender, (void *)&to, sizeof(to)))
		return fail("loopback");
	sent = wirepath_krtpsendfile(device, sender, file, &offset, WIREPATH_TO_END, 1316, &rtp);
	if (sent < 0)
		return fail("krtpsendfile");
	while (recv(receiver, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		packets++;
	printf("one call sent %zd bytes as %llu packets; %u packets arrived\n", sent,
	       (unsigned long long)rtp.packets, packets);
	return packets != rtp.packets;
}
