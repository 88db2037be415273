// SPDX-License-Identifier: GPL-2.0
/*
 * What the module's calls cost beside what programs can do without it: user
 * and system time for payload of a file, in packets of 1,316 bytes (PAYLOAD)
 * with RTP headers (where there is one), to an address behind a device that
 * drops.
 *
 *   measure ADDRESS FILE MIB [WAY]
 *
 * WAY: only the ways whose name has this in it.
 *
 * The file is read once before. Figures are only worth comparing with others
 * of the same boot; under QEMU with -icount they repeat to the instruction.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../uapi/wirepath_calls.h"

#ifndef PAYLOAD
#define PAYLOAD 1316
#endif
#define PACKET (12 + PAYLOAD)
#define TRAIN 44

static int device, udp, file;
static const char *mapping;
static size_t file_bytes;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void segment(int size)
{
	if (setsockopt(udp, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)))
		die("UDP_SEGMENT");
}

static struct wirepath_rtp rtp_of(void)
{
	struct wirepath_rtp rtp = { .size = sizeof(rtp), .timestamp_step = 1, .payload_type = 33 };

	return rtp;
}

/* The module: a whole file a call. */
static void run(int from_file, int header, unsigned int train, unsigned int flags)
{
	struct wirepath_send send = wirepath_send_of(udp, from_file ? file : -1,
						     from_file ? 0 : (__u64)(size_t)mapping,
						     file_bytes);
	struct wirepath_rtp rtp = rtp_of();

	send.packet_bytes = PAYLOAD;
	send.train_packets = train;
	send.flags = flags;
	if (header) {
		send.header_kind = WIREPATH_HEADER_RTP;
		send.header = (__u64)(size_t)&rtp;
		send.header_bytes = sizeof(rtp);
	}
	if (ioctl(device, WIREPATH_SEND, &send))
		die("WIREPATH_SEND");
}

static void krtpsendfile_trains(void) { run(1, 1, 64, 0); }
static void krtpsendfile_packets(void) { run(1, 1, 1, 0); }
static void krtpsendfile_copied(void) { run(1, 1, 64, WIREPATH_COPY); }
static void krtpmsend_trains(void) { run(0, 1, 64, 0); }
static void krtpmsend_packets(void) { run(0, 1, 1, 0); }
static void ksendfile_trains(void) { run(1, 0, 64, 0); }
static void kmsend_trains(void) { run(0, 0, 64, 0); }

/* The module: a call for each packet, the header the caller's. */
static void rtpsendfile_packets(void)
{
	char header[12] = "\x80!";

	for (off_t at = 0; at < (off_t)file_bytes;)
		if (wirepath_rtpsendfile(device, udp, header, 12, file, &at,
				file_bytes - at < PAYLOAD ? file_bytes - at : PAYLOAD) < 0)
			die("rtpsendfile");
}

static void rtpmsend_packets(void)
{
	char header[12] = "\x80!";

	for (size_t at = 0; at < file_bytes; at += PAYLOAD)
		if (wirepath_rtpmsend(device, udp, header, 12, mapping + at,
			     file_bytes - at < PAYLOAD ? file_bytes - at : PAYLOAD) < 0)
			die("rtpmsend");
}

/* The module: a vector of headers and parts of the file for each train. */
static void sendfilew_packets(void)
{
	char header[12] = "\x80!";

	for (size_t at = 0; at < file_bytes;) {
		struct wirepath_part parts[2 * TRAIN];
		int count = 0;

		for (; count < 2 * TRAIN && at < file_bytes; count += 2) {
			size_t bytes = file_bytes - at < PAYLOAD ? file_bytes - at : PAYLOAD;

			parts[count] = (struct wirepath_part){
				-1, WIREPATH_PART_COPY, (__u64)(size_t)header, 12 };
			parts[count + 1] = (struct wirepath_part){
				file, WIREPATH_PART_END, at, bytes };
			at += bytes;
		}
		if (wirepath_sendfilew(device, udp, parts, count) < 0)
			die("sendfilew");
	}
}

/* Without the module: a read and a send, the header before the payload. */
static void read_send(void)
{
	char packet[PACKET] = "\x80!";

	if (lseek(file, 0, SEEK_SET))
		die("lseek");
	for (;;) {
		ssize_t got = read(file, packet + 12, PAYLOAD);

		if (got < 0)
			die("read");
		if (!got)
			return;
		if (send(udp, packet, 12 + got, 0) < 0)
			die("send");
	}
}

/* Without the module: a header and a part of the mapping, one call a packet. */
static void mmap_writev(void)
{
	char header[12] = "\x80!";

	for (size_t at = 0; at < file_bytes; at += PAYLOAD) {
		size_t bytes = file_bytes - at < PAYLOAD ? file_bytes - at : PAYLOAD;
		struct iovec parts[2] = { { header, 12 }, { (void *)(mapping + at), bytes } };

		if (writev(udp, parts, 2) < 0)
			die("writev");
	}
}

/* Without the module: the same for 44 packets a call. */
static void sendmmsg_packets(void)
{
	char header[12] = "\x80!";

	for (size_t at = 0; at < file_bytes;) {
		struct iovec parts[2 * TRAIN];
		struct mmsghdr packets[TRAIN] = {};
		int count = 0;

		for (; count < TRAIN && at < file_bytes; count++) {
			size_t bytes = file_bytes - at < PAYLOAD ? file_bytes - at : PAYLOAD;

			parts[2 * count] = (struct iovec){ header, 12 };
			parts[2 * count + 1] = (struct iovec){ (void *)(mapping + at), bytes };
			packets[count].msg_hdr.msg_iov = parts + 2 * count;
			packets[count].msg_hdr.msg_iovlen = 2;
			at += bytes;
		}
		if (sendmmsg(udp, packets, count, 0) != count)
			die("sendmmsg");
	}
}

/* Without the module: 44 headers and parts of the mapping as one train. */
static void gso_writev(void)
{
	static char headers[TRAIN][12];

	segment(PACKET);
	for (size_t at = 0; at < file_bytes;) {
		struct iovec parts[2 * TRAIN];
		int count = 0;

		for (; count < 2 * TRAIN && at < file_bytes; count += 2) {
			size_t bytes = file_bytes - at < PAYLOAD ? file_bytes - at : PAYLOAD;

			headers[count / 2][0] = (char)0x80;
			headers[count / 2][3]++;
			parts[count] = (struct iovec){ headers[count / 2], 12 };
			parts[count + 1] = (struct iovec){ (void *)(mapping + at), bytes };
			at += bytes;
		}
		if (writev(udp, parts, count) < 0)
			die("writev");
	}
	segment(0);
}

/* Without the module: trains straight from the file, no headers of their own. */
static void wire_sendfile(void)
{
	segment(PACKET);
	for (off_t at = 0; at < (off_t)file_bytes;)
		if (sendfile(udp, file, &at, TRAIN * PACKET) < 0)
			die("sendfile");
	segment(0);
}

static double seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static const struct {
	const char *name;
	void (*send)(void);
} ways[] = {
	{ "krtpsendfile, trains", krtpsendfile_trains },
	{ "krtpsendfile, packets", krtpsendfile_packets },
	{ "krtpsendfile, copied trains", krtpsendfile_copied },
	{ "krtpmsend, trains", krtpmsend_trains },
	{ "ksendfile, trains", ksendfile_trains },
	{ "kmsend, trains", kmsend_trains },
	{ "krtpmsend, packets", krtpmsend_packets },
	{ "rtpsendfile, calls", rtpsendfile_packets },
	{ "rtpmsend, calls", rtpmsend_packets },
	{ "sendfilew", sendfilew_packets },
	{ "read_send", read_send },
	{ "mmap_writev", mmap_writev },
	{ "sendmmsg (44)", sendmmsg_packets },
	{ "gso_writev (44)", gso_writev },
	{ "wire_sendfile (44)", wire_sendfile },
};

int main(int count, char **arguments)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct stat stat;

	if (count != 4 && count != 5) {
		fprintf(stderr, "usage: measure ADDRESS FILE MIB [WAY]\n");
		return 64;
	}
	device = open(WIREPATH_DEVICE, O_RDWR);
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	file = open(arguments[2], O_RDONLY);
	to.sin_addr.s_addr = inet_addr(arguments[1]);
	if (device < 0 || udp < 0 || file < 0 || fstat(file, &stat) ||
	    connect(udp, (void *)&to, sizeof(to)))
		die("open");
	file_bytes = stat.st_size;
	mapping = mmap(NULL, file_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
	if (mapping == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		size_t times = ((size_t)atoi(arguments[3]) << 20) / file_bytes + 1;
		double before;

		if (count == 5 && !strstr(ways[i].name, arguments[4]))
			continue;
		ways[i].send();
		before = seconds();
		for (size_t j = 0; j < times; j++)
			ways[i].send();
		printf("%-28s %7.1f ns/packet\n", ways[i].name,
		       (seconds() - before) * 1e9 / (times * ((file_bytes + PAYLOAD - 1) / PAYLOAD)));
	}
	return 0;
}
