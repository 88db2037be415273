// SPDX-License-Identifier: GPL-2.0
/*
 * Every call of the module once and more, as a C program makes them: sent over
 * loopback, received, and compared byte for byte; then each argument misused.
 *
 *   smoke FILE...   files with at least 1 MiB, one for each kind of file
 *                   system; they are only read
 *
 * Prints a line for each check that fails and a count at the end; the exit
 * code is 0 if all passed. Needs no other program, so that it can be linked
 * statically and run as a machine's only one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../uapi/wirepath_calls.h"

#define DATA_BYTES (1 << 20)
#define PACKET_BYTES 1316

static int device, failures, checks, references;
static const char *where = "";

#define CHECK(condition, ...)                                                  \
	do {                                                                   \
		checks++;                                                      \
		if (!(condition)) {                                            \
			failures++;                                            \
			printf("FAIL %s %s:%d: %s: ", where, __func__,         \
			       __LINE__, #condition);                          \
			printf(" " __VA_ARGS__);                               \
			printf(" (errno %d %s)\n", errno, strerror(errno));    \
		}                                                              \
	} while (0)

/* One file, as descriptor, as mapping, and as bytes read for comparison. */
struct data {
	int file;
	const unsigned char *mapping;
	unsigned char *bytes;
};

/* A connected pair of UDP sockets. */
struct pair {
	int from, to;
};

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static struct pair pair_open(int family)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr *address = family == AF_INET ? (void *)&four : (void *)&six;
	socklen_t bytes = family == AF_INET ? sizeof(four) : sizeof(six);
	struct pair pair = { socket(family, SOCK_DGRAM, 0), socket(family, SOCK_DGRAM, 0) };
	int room = 16 << 20;

	setsockopt(pair.to, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	if (bind(pair.to, address, bytes) || getsockname(pair.to, address, &bytes) ||
	    connect(pair.from, address, bytes))
		die("pair of sockets");
	return pair;
}

static void pair_close(struct pair pair)
{
	close(pair.from);
	close(pair.to);
}

/* The next packet's size, or -1 when none comes. */
static ssize_t receive(int socket, unsigned char *packet)
{
	struct pollfd ready = { .fd = socket, .events = POLLIN };

	if (poll(&ready, 1, 5000) != 1)
		return -1;
	return recv(socket, packet, 65536, 0);
}

static int nothing_more(int socket)
{
	unsigned char packet;

	return recv(socket, &packet, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Receive `bytes` of payload in packets of `packet_bytes`, no headers. */
static void expect_plain(int socket, const unsigned char *payload, size_t bytes,
			 size_t packet_bytes)
{
	static unsigned char packet[65536];
	size_t at = 0;

	while (at < bytes) {
		size_t want = bytes - at < packet_bytes ? bytes - at : packet_bytes;
		ssize_t got = receive(socket, packet);

		CHECK(got == (ssize_t)want, "at %zu: %zd, not %zu", at, got, want);
		if (got != (ssize_t)want)
			return;
		CHECK(!memcmp(packet, payload + at, want), "bytes at %zu", at);
		at += want;
	}
	CHECK(nothing_more(socket), "after %zu", bytes);
}

static void expect_one(int socket, const unsigned char *payload, size_t bytes)
{
	static unsigned char packet[65536];
	ssize_t got = receive(socket, packet);

	CHECK(got == (ssize_t)bytes && !memcmp(packet, payload, bytes), "%zd, not %zu", got, bytes);
}

struct rtp_expected {
	unsigned short sequence;
	unsigned int timestamp, ssrc;
	int marker, payload_type;
};

static void expect_rtp(int socket, const struct rtp_expected *header,
		       const unsigned char *payload, size_t bytes)
{
	static unsigned char packet[65536];
	ssize_t got = receive(socket, packet);
	unsigned char want[12] = {
		0x80, (header->marker << 7) | header->payload_type,
		header->sequence >> 8, header->sequence,
		header->timestamp >> 24, header->timestamp >> 16,
		header->timestamp >> 8, header->timestamp,
		header->ssrc >> 24, header->ssrc >> 16, header->ssrc >> 8, header->ssrc,
	};

	CHECK(got == (ssize_t)bytes + 12, "%zd", got);
	CHECK(!memcmp(packet, want, 12), "header %u: %02x %02x %02x %02x", header->sequence,
	      packet[0], packet[1], packet[2], packet[3]);
	if (got == (ssize_t)bytes + 12)
		CHECK(!memcmp(packet + 12, payload, bytes), "payload of %u", header->sequence);
}

static struct wirepath_rtp rtp_of(void)
{
	struct wirepath_rtp rtp = {
		.size = sizeof(rtp), .ssrc = 0x01020384, .timestamp = 0xfffffff0,
		.timestamp_step = 90, .sequence = 0xfffe, .payload_type = 33,
	};
	return rtp;
}

/* Offsets even and odd, in a page, at its end, across several. */
static const size_t offsets[] = { 0, 1, 188, 4095, 4096, 4097, 65535, 131071, 300001 };

#define EACH_OFFSET(i) (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)

static void one_packet(const struct data *data, struct pair pair)
{
	static const size_t sizes[] = { 1, 1316, 1317, 1472, 4097, 9000, 65495 };
	unsigned char header[12] = "twelve byte";
	unsigned char packet[12 + 65495];

	for EACH_OFFSET(i) {
		for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			const unsigned char *from = data->mapping + offsets[i];
			off_t offset = offsets[i];

			CHECK(msend(device, pair.from, from, sizes[j]) == (ssize_t)sizes[j]);
			expect_plain(pair.to, data->bytes + offsets[i], sizes[j], 65507);
			memcpy(packet, header, 12);
			memcpy(packet + 12, data->bytes + offsets[i], sizes[j]);
			CHECK(rtpmsend(device, pair.from, header, 12, from, sizes[j]) ==
			      (ssize_t)sizes[j]);
			expect_plain(pair.to, packet, 12 + sizes[j], 65507);
			CHECK(rtpsendfile(device, pair.from, header, 12, data->file, &offset,
					  sizes[j]) == (ssize_t)sizes[j]);
			CHECK(offset == (off_t)(offsets[i] + sizes[j]));
			expect_plain(pair.to, packet, 12 + sizes[j], 65507);
		}
	}
}

static void runs_of_packets(const struct data *data, struct pair pair)
{
	size_t bytes = 201 * PACKET_BYTES + 7;

	for EACH_OFFSET(i) {
		struct wirepath_rtp rtp = rtp_of();
		struct rtp_expected header = { .sequence = rtp.sequence, .ssrc = rtp.ssrc,
					       .timestamp = rtp.timestamp, .payload_type = 33 };
		off_t offset = offsets[i];

		CHECK(kmsend(device, pair.from, data->mapping + offsets[i], bytes, PACKET_BYTES) ==
		      (ssize_t)bytes);
		expect_plain(pair.to, data->bytes + offsets[i], bytes, PACKET_BYTES);
		CHECK(ksendfile(device, pair.from, data->file, &offset, bytes, PACKET_BYTES) ==
		      (ssize_t)bytes);
		CHECK(offset == (off_t)(offsets[i] + bytes));
		expect_plain(pair.to, data->bytes + offsets[i], bytes, PACKET_BYTES);

		offset = offsets[i];
		CHECK(krtpsendfile(device, pair.from, data->file, &offset, bytes / 2, PACKET_BYTES,
				   &rtp) == (ssize_t)(bytes / 2));
		CHECK(krtpmsend(device, pair.from, data->mapping + offsets[i] + bytes / 2,
				bytes - bytes / 2, PACKET_BYTES, &rtp) ==
		      (ssize_t)(bytes - bytes / 2));
		for (size_t half = 0, at = 0; half < 2; half++) {
			size_t end = half ? bytes : bytes / 2;

			for (size_t size; at < end; at += size) {
				size = end - at < PACKET_BYTES ? end - at : PACKET_BYTES;
				expect_rtp(pair.to, &header, data->bytes + offsets[i] + at, size);
				header.sequence++;
				header.timestamp += 90;
			}
		}
		CHECK(nothing_more(pair.to));
		CHECK(rtp.octets == bytes && rtp.packets == (unsigned short)(rtp.sequence + 2));
		CHECK(rtp.last_timestamp + 90 == rtp.timestamp && rtp.last_ns != 0);
	}
}

/* Packets by themselves, trains of some, copies: the same bytes. */
static void ways(const struct data *data, struct pair pair)
{
	size_t bytes = 100 * 1200 + 5;

	for (unsigned int train = 0; train <= 64; train = train ? train * 4 : 1) {
		for (int copy = 0; copy < 2; copy++) {
			struct wirepath_send send = wirepath_send_of(pair.from, data->file, 4093, bytes);
			struct wirepath_rtp rtp = rtp_of();
			struct rtp_expected header = { .sequence = rtp.sequence, .ssrc = rtp.ssrc,
						       .timestamp = rtp.timestamp, .payload_type = 33 };

			send.packet_bytes = 1200;
			send.train_packets = train;
			send.flags = copy ? WIREPATH_COPY : 0;
			send.header_kind = WIREPATH_HEADER_RTP;
			send.header = (__u64)(size_t)&rtp;
			send.header_bytes = sizeof(rtp);
			CHECK(!ioctl(device, WIREPATH_SEND, &send), "train %u", train);
			CHECK(send.length == 0 && send.bytes == bytes && send.packets == 101);
			CHECK(send.offset == 4093 + bytes);
			CHECK(send.copied_bytes == (copy || !references ? bytes : 0) ||
			      (train <= 1 && send.copied_bytes < bytes), "%llu copied",
			      (unsigned long long)send.copied_bytes);
			CHECK(train > 1 ? send.trains < 30 : send.trains == 101, "%llu trains",
			      (unsigned long long)send.trains);
			for (size_t at = 0; at < bytes; at += 1200) {
				expect_rtp(pair.to, &header, data->bytes + 4093 + at,
					   bytes - at < 1200 ? bytes - at : 1200);
				header.sequence++;
				header.timestamp += 90;
			}
			CHECK(nothing_more(pair.to));
		}
	}
}

/* Headers of the caller's in a run; a table of frames; markers. */
static void headers(const struct data *data, struct pair pair)
{
	static unsigned char given[50][20], packet[20 + 1000], got[65536];
	static struct wirepath_rtp_time table[3] = {
		{ .timestamp = 1000, .packets = 3, .bytes = 2 * 1000 + 1 },
		{ .timestamp = 900, .packets = 1, .bytes = 999 },
		{ .timestamp = 4600, .packets = 4 },
	};
	static const size_t sizes[8] = { 1000, 1000, 1, 999, 1000, 1000, 1000, 1000 };
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 77, 50 * 1000);
	struct wirepath_rtp rtp = rtp_of();
	size_t at = 77;

	for (int i = 0; i < 50; i++)
		memset(given[i], i, 20);
	send.packet_bytes = 1000;
	send.train_packets = 64;
	send.header_kind = WIREPATH_HEADER_GIVEN;
	send.header = (__u64)(size_t)given;
	send.header_bytes = 20;
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	CHECK(send.header == (__u64)(size_t)given[50]);
	for (int i = 0; i < 50; i++) {
		memcpy(packet, given[i], 20);
		memcpy(packet + 20, data->bytes + 77 + i * 1000, 1000);
		CHECK(receive(pair.to, got) == 1020 && !memcmp(got, packet, 1020), "given %d", i);
	}

	send = wirepath_send_of(pair.from, data->file, 77, 100000);
	rtp.table = (__u64)(size_t)table;
	rtp.table_count = 3;
	rtp.marker = WIREPATH_MARKER_LAST_OF_GROUP;
	send.packet_bytes = 1000;
	send.train_packets = 64;
	send.header_kind = WIREPATH_HEADER_RTP;
	send.header = (__u64)(size_t)&rtp;
	send.header_bytes = sizeof(rtp);
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == ENODATA);
	CHECK(send.packets == 8 && rtp.table_count == 0 && rtp.packets == 8);
	for (int i = 0; i < 8; i++) {
		struct rtp_expected header = {
			.sequence = 0xfffe + i, .ssrc = rtp.ssrc, .payload_type = 33,
			.timestamp = table[i < 3 ? 0 : i < 4 ? 1 : 2].timestamp,
			.marker = i == 2 || i == 3 || i == 7,
		};
		expect_rtp(pair.to, &header, data->bytes + at, sizes[i]);
		at += sizes[i];
	}
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == ENODATA && nothing_more(pair.to));
}

static void end_of_file(struct pair pair)
{
	static unsigned char bytes[10000];
	char name[] = "/tmp/smoke-XXXXXX";
	int file = mkstemp(name);
	struct wirepath_send send;
	off_t offset = 9000;

	unlink(name);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = i * 7;
	if (write(file, bytes, sizeof(bytes)) != sizeof(bytes))
		die("write");
	send = wirepath_send_of(pair.from, file, 0, 12000);
	send.packet_bytes = 3000;
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == ENODATA);
	CHECK(send.bytes == 10000 && send.length == 2000 && send.packets == 4);
	expect_plain(pair.to, bytes, 10000, 3000);
	CHECK(ksendfile(device, pair.from, file, &offset, WIREPATH_TO_END, 900) == 1000);
	expect_plain(pair.to, bytes + 9000, 1000, 900);
	/* A hole, and a file that is cut while its pages are on their way. */
	if (ftruncate(file, 100000))
		die("ftruncate");
	offset = 20000;
	CHECK(ksendfile(device, pair.from, file, &offset, 70000, 1000) == 70000);
	expect_plain(pair.to, (unsigned char *)calloc(1, 70000), 70000, 1000);
	offset = 0;
	CHECK(ksendfile(device, pair.from, file, &offset, 8000, 1000) == 8000);
	if (ftruncate(file, 0))
		die("ftruncate");
	offset = 0;
	CHECK(ksendfile(device, pair.from, file, &offset, 8000, 1000) == 0);
	{
		unsigned char packet[65536];

		/* The bytes of before or the zeros of a cut page, whole packets. */
		for (int i = 0; i < 8; i++)
			CHECK(receive(pair.to, packet) == 1000);
	}
	CHECK(nothing_more(pair.to));
	close(file);
}

static void destinations(const struct data *data)
{
	struct pair pair = pair_open(AF_INET);
	struct sockaddr_in to;
	socklen_t bytes = sizeof(to);
	int unconnected = socket(AF_INET, SOCK_DGRAM, 0);
	struct wirepath_send send = wirepath_send_of(unconnected, data->file, 4095, 20000);

	getsockname(pair.to, (struct sockaddr *)&to, &bytes);
	send.packet_bytes = 1400;
	send.train_packets = 64;
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == EDESTADDRREQ);
	send.address = (__u64)(size_t)&to;
	send.address_bytes = sizeof(to);
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	expect_plain(pair.to, data->bytes + 4095, 20000, 1400);
	/* Packet by packet at odd offsets without a known route. */
	send = wirepath_send_of(unconnected, data->file, 4095, 20001);
	send.address = (__u64)(size_t)&to;
	send.address_bytes = sizeof(to);
	send.packet_bytes = 1401;
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	expect_plain(pair.to, data->bytes + 4095, 20001, 1401);
	/* An address of its own goes before the one it is connected to. */
	{
		struct pair other = pair_open(AF_INET);

		send = wirepath_send_of(other.from, data->file, 4095, 20001);
		send.address = (__u64)(size_t)&to;
		send.address_bytes = sizeof(to);
		send.packet_bytes = 1401;
		CHECK(!ioctl(device, WIREPATH_SEND, &send));
		CHECK(send.copied_bytes > 0, "of pages crossed at odd offsets");
		expect_plain(pair.to, data->bytes + 4095, 20001, 1401);
		CHECK(nothing_more(other.to));
		pair_close(other);
	}
	/* Corked: the packets of a call become one, which leaves uncorked. */
	{
		int cork = 1;

		send = wirepath_send_of(pair.from, data->file, 4095, 8999);
		send.packet_bytes = 1401;
		CHECK(!setsockopt(pair.from, SOL_UDP, UDP_CORK, &cork, sizeof(cork)));
		CHECK(!ioctl(device, WIREPATH_SEND, &send));
		CHECK(send.copied_bytes == 8999);
		CHECK(nothing_more(pair.to));
		cork = 0;
		CHECK(!setsockopt(pair.from, SOL_UDP, UDP_CORK, &cork, sizeof(cork)));
		expect_one(pair.to, data->bytes + 4095, 8999);
	}
	close(unconnected);
	pair_close(pair);
}

/* A full socket buffer: DONTWAIT stops, calling again goes on, nothing is lost. */
static void full_buffer(const struct data *data)
{
	struct pair pair = pair_open(AF_INET);
	int least = 4608, full = 0;
	struct wirepath_send send;

	setsockopt(pair.from, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	send = wirepath_send_of(pair.from, data->file, 0, 400000);
	send.packet_bytes = 1316;
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

static int answer(struct wirepath_send send)
{
	int got = ioctl(device, WIREPATH_SEND, &send);

	CHECK(send.bytes == 0 && send.packets == 0);
	return got < 0 ? errno : 0;
}

static void misuse(const struct data *data, struct pair pair)
{
	struct wirepath_send good = wirepath_send_of(pair.from, data->file, 0, 1000), send;
	struct wirepath_rtp rtp = rtp_of();
	struct {
		struct wirepath_send send;
		__u64 more;
	} longer = { .send = good };
	unsigned char packet[65536];
	int pipes[2], directory = open("/", O_RDONLY), write_only = open("/tmp/smoke-wo", O_WRONLY | O_CREAT, 0600);
	int raw = socket(AF_UNIX, SOCK_DGRAM, 0);

	if (pipe(pipes) || directory < 0 || write_only < 0)
		die("descriptors");
#define ANSWERS(error, ...)                                                    \
	do {                                                                   \
		send = good;                                                   \
		__VA_ARGS__;                                                   \
		CHECK(answer(send) == (error), #__VA_ARGS__);                  \
	} while (0)
	ANSWERS(EINVAL, send.size = WIREPATH_SEND_SIZE_VER1 - 1);
	ANSWERS(E2BIG, send.size = 5000);
	ANSWERS(EINVAL, send.flags = 0x80000000);
	ANSWERS(EBADF, send.socket = -1);
	ANSWERS(ENOTSOCK, send.socket = data->file);
	ANSWERS(EPROTONOSUPPORT, send.socket = raw);
	ANSWERS(EBADF, send.file = -2);
	ANSWERS(EBADF, send.file = 1 << 20);
	ANSWERS(EBADF, send.file = write_only);
	ANSWERS(EINVAL, send.file = directory);
	ANSWERS(EINVAL, send.file = pipes[0]);
	ANSWERS(EINVAL, send.offset = 1ULL << 63);
	ANSWERS(EINVAL, send.offset = ~0ULL - 10);
	ANSWERS(EINVAL, send.length = WIREPATH_TO_END);
	ANSWERS(EINVAL, send.length = WIREPATH_TO_END - 1);
	ANSWERS(EMSGSIZE, send.length = 65508);
	ANSWERS(EMSGSIZE, send.packet_bytes = 65508);
	ANSWERS(EMSGSIZE, send.offset = 0; send.file = -1; send.length = WIREPATH_TO_END - 1);
	ANSWERS(EMSGSIZE, send.offset = 0; send.file = -1; send.length = WIREPATH_TO_END - 11;
		send.header_kind = 1; send.header_bytes = 12; send.header = (__u64)(size_t)packet);
	ANSWERS(EINVAL, send.train_packets = WIREPATH_TRAIN_PACKETS_MAX + 1);
	ANSWERS(EINVAL, send.header_kind = 3);
	ANSWERS(EINVAL, send.header_bytes = 12);
	ANSWERS(EINVAL, send.header_kind = 1; send.header_bytes = 0);
	ANSWERS(EINVAL, send.header_kind = 1; send.header_bytes = 257);
	ANSWERS(EFAULT, send.header_kind = 1; send.header_bytes = 12; send.header = 8);
	ANSWERS(EFAULT, send.header_kind = 2; send.header_bytes = sizeof(rtp); send.header = 8);
	ANSWERS(EINVAL, send.address = (__u64)(size_t)packet);
	ANSWERS(EINVAL, send.address_bytes = 16);
	ANSWERS(EINVAL, send.address = (__u64)(size_t)packet; send.address_bytes = 4096);
	ANSWERS(EFAULT, send.address = 8; send.address_bytes = 16);
	ANSWERS(EINVAL, send.reserved = 1);
	ANSWERS(EFAULT, send.file = -1; send.offset = 4096);
	ANSWERS(EFAULT, send.file = -1; send.offset = 0xffff800000000000ULL);
	ANSWERS(ENODATA, send.offset = 1ULL << 40);
	send = good;
	send.header_kind = WIREPATH_HEADER_RTP;
	send.header = (__u64)(size_t)&rtp;
	send.header_bytes = sizeof(rtp);
#define RTP_ANSWERS(error, ...)                                                \
	do {                                                                   \
		rtp = rtp_of();                                                \
		__VA_ARGS__;                                                   \
		CHECK(answer(send) == (error), #__VA_ARGS__);                  \
	} while (0)
	RTP_ANSWERS(EINVAL, rtp.size = 8);
	RTP_ANSWERS(EINVAL, rtp.flags = 1);
	RTP_ANSWERS(EINVAL, rtp.payload_type = 128);
	RTP_ANSWERS(EINVAL, rtp.marker = 4);
	RTP_ANSWERS(EINVAL, rtp.position = 1);
	RTP_ANSWERS(EINVAL, rtp.table_count = 1);
	RTP_ANSWERS(ENODATA, rtp.table = 8);
	RTP_ANSWERS(EFAULT, rtp.table = 8; rtp.table_count = 1);

	longer.send.size = sizeof(longer);
	longer.more = 1;
	CHECK(ioctl(device, WIREPATH_SEND, &longer) < 0 && errno == E2BIG);
	CHECK(nothing_more(pair.to));
	longer.more = 0;
	CHECK(!ioctl(device, WIREPATH_SEND, &longer));
	CHECK(receive(pair.to, packet) == 1000);
	CHECK(ioctl(device, WIREPATH_SEND, 8) < 0 && errno == EFAULT);
	CHECK(ioctl(device, _IO(WIREPATH_IOC, 99), 0) < 0 && errno == ENOTTY);
	close(pipes[0]);
	close(pipes[1]);
	close(directory);
	close(write_only);
	unlink("/tmp/smoke-wo");
	close(raw);
}

/* Memory that goes away after the call is still what was sent. */
static void memory_that_goes(struct pair pair)
{
	size_t bytes = 40000;
	unsigned char *memory = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *copy = malloc(bytes);

	for (size_t i = 0; i < bytes; i++)
		memory[i] = copy[i] = i ^ (i >> 8);
	CHECK(kmsend(device, pair.from, memory, bytes, 1000) == (ssize_t)bytes);
	munmap(memory, bytes + 4096);
	expect_plain(pair.to, copy, bytes, 1000);
	/* Half of it is not there: what is, is sent. */
	memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(memory + 4096, 4096);
	memcpy(memory, copy, 4096);
	CHECK(kmsend(device, pair.from, memory, 8192, 1000) == 4000);
	expect_plain(pair.to, copy, 4000, 1000);
	munmap(memory, 4096);
	free(copy);
}

/* One packet of six parts and one of two; then all of it over TCP. */
static void vectors(const struct data *data, struct pair pair)
{
	static unsigned char expected[200000];
	char buffer[] = "bytes between";
	struct wirepath_part parts[] = {
		{ .file = -1, .offset = (__u64)(size_t)buffer, .length = 13, .flags = WIREPATH_PART_COPY },
		{ .file = data->file, .offset = 4000, .length = 5001 },
		{ .file = -1, .offset = (__u64)(size_t)buffer, .length = 5, .flags = WIREPATH_PART_COPY },
		{ .file = -1, .offset = (__u64)(size_t)buffer, .length = 6, .flags = WIREPATH_PART_COPY },
		{ .file = -1, .offset = (__u64)(size_t)data->mapping + 9, .length = 7001 },
		{ .file = data->file, .offset = 1, .length = 1, .flags = WIREPATH_PART_END },
		{ .file = data->file, .offset = 77777, .length = 100 },
		{ .file = -1, .offset = (__u64)(size_t)buffer, .length = 13, .flags = WIREPATH_PART_COPY },
	};
	size_t count = sizeof(parts) / sizeof(parts[0]), first = 0, bytes = 0;
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t to_bytes = sizeof(to);
	int listener = socket(AF_INET, SOCK_STREAM, 0), from = socket(AF_INET, SOCK_STREAM, 0), end;
	struct wirepath_sendfilew vector = { .size = sizeof(vector), .socket = pair.from,
		.part_count = count, .part_bytes = sizeof(parts[0]), .parts = (__u64)(size_t)parts };
	struct wirepath_sendfilew bad;
	pid_t child;

	for (size_t i = 0; i < count; i++) {
		if (parts[i].file >= 0)
			memcpy(expected + bytes, data->bytes + parts[i].offset, parts[i].length);
		else
			memcpy(expected + bytes, (void *)(size_t)parts[i].offset, parts[i].length);
		bytes += parts[i].length;
		if (i == 5)
			first = bytes;
	}
	CHECK(sendfilew(device, pair.from, parts, count) == (ssize_t)bytes);
	expect_one(pair.to, expected, first);
	expect_one(pair.to, expected + first, bytes - first);
	CHECK(nothing_more(pair.to));
#define VECTOR_ANSWERS(error, ...)                                             \
	do {                                                                   \
		bad = vector;                                                  \
		__VA_ARGS__;                                                   \
		CHECK(ioctl(device, WIREPATH_SENDFILEW, &bad) < 0 && errno == (error), \
		      #__VA_ARGS__);                                           \
	} while (0)
	VECTOR_ANSWERS(EINVAL, bad.size = 8);
	VECTOR_ANSWERS(EINVAL, bad.flags = 8);
	VECTOR_ANSWERS(EINVAL, bad.reserved = 8);
	VECTOR_ANSWERS(EINVAL, bad.part_count = 0);
	VECTOR_ANSWERS(EINVAL, bad.part_count = 1025);
	VECTOR_ANSWERS(EINVAL, bad.part_bytes = 8);
	VECTOR_ANSWERS(E2BIG, bad.part_bytes = 32);
	VECTOR_ANSWERS(EFAULT, bad.parts = 8);
	VECTOR_ANSWERS(EINVAL, bad.bytes = 1);
	VECTOR_ANSWERS(EINVAL, bad.bytes = bytes + 1);
	VECTOR_ANSWERS(EBADF, bad.socket = -1);

	if (bind(listener, (void *)&to, sizeof(to)) || listen(listener, 1) ||
	    getsockname(listener, (void *)&to, &to_bytes) || connect(from, (void *)&to, to_bytes))
		die("TCP");
	end = accept(listener, NULL, NULL);
	child = fork();
	if (!child) {
		for (int i = 0; i < 40; i++) {
			if (sendfilew(device, from, parts, count) != (ssize_t)bytes)
				_exit(1);
		}
		_exit(0);
	}
	close(from);
	for (int i = 0; i < 40; i++) {
		static unsigned char got[200000];
		size_t have = 0;

		while (have < bytes) {
			ssize_t some = recv(end, got + have, bytes - have, 0);

			if (some <= 0)
				break;
			have += some;
		}
		CHECK(have == bytes && !memcmp(got, expected, bytes), "over TCP, round %d", i);
	}
	waitpid(child, &end, 0);
	CHECK(end == 0, "child answered %x", end);
	close(listener);
}

/* The least that io_uring needs, by its own system calls. */
struct ring {
	int fd;
	unsigned int *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static struct ring ring_open(void)
{
	struct io_uring_params params = { 0 };
	struct ring ring = { .fd = syscall(__NR_io_uring_setup, 8, &params) };
	char *sq, *cq;

	if (ring.fd < 0)
		die("io_uring_setup");
	sq = mmap(NULL, params.sq_off.array + 8 * 4, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
	cq = mmap(NULL, params.cq_off.cqes + 16 * sizeof(struct io_uring_cqe),
		  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_CQ_RING);
	ring.sqes = mmap(NULL, 8 * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || ring.sqes == MAP_FAILED)
		die("ring");
	ring.sq_tail = (void *)(sq + params.sq_off.tail);
	ring.sq_mask = (void *)(sq + params.sq_off.ring_mask);
	ring.sq_array = (void *)(sq + params.sq_off.array);
	ring.cq_head = (void *)(cq + params.cq_off.head);
	ring.cq_tail = (void *)(cq + params.cq_off.tail);
	ring.cq_mask = (void *)(cq + params.cq_off.ring_mask);
	ring.cqes = (void *)(cq + params.cq_off.cqes);
	return ring;
}

/* Submit one command and wait for its answer. */
static int ring_command(struct ring *ring, unsigned int request, void *argument, __u64 reserved)
{
	unsigned int at = *ring->sq_tail & *ring->sq_mask;
	struct wirepath_command command = { (__u64)(size_t)argument, reserved };
	struct io_uring_sqe *sqe = &ring->sqes[at];
	int answer;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = device;
	sqe->cmd_op = request;
	memcpy(sqe->cmd, &command, sizeof(command));
	ring->sq_array[at] = at;
	__atomic_store_n(ring->sq_tail, *ring->sq_tail + 1, __ATOMIC_RELEASE);
	if (syscall(__NR_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		die("io_uring_enter");
	if (__atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) == *ring->cq_head)
		return -1000;
	answer = ring->cqes[*ring->cq_head & *ring->cq_mask].res;
	__atomic_store_n(ring->cq_head, *ring->cq_head + 1, __ATOMIC_RELEASE);
	return answer;
}

static void commands(const struct data *data, struct pair pair)
{
	struct ring ring = ring_open();
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 5, 300000);
	struct wirepath_query query = { .size = sizeof(query) };
	struct wirepath_sendfilew vector = { .size = sizeof(vector), .socket = -1 };

	send.packet_bytes = 1316;
	send.train_packets = 64;
	/* Cold pages: the first try would wait, a worker goes on. */
	posix_fadvise(data->file, 0, 0, POSIX_FADV_DONTNEED);
	CHECK(ring_command(&ring, WIREPATH_SEND, &send, 0) == 0);
	CHECK(send.bytes == 300000 && send.length == 0);
	expect_plain(pair.to, data->bytes + 5, 300000, 1316);
	/* More packets than a first try sends are no reason for EAGAIN. */
	send = wirepath_send_of(pair.from, -1, (__u64)(size_t)data->bytes, 200 * 500);
	send.packet_bytes = 500;
	send.flags = WIREPATH_DONTWAIT;
	CHECK(ring_command(&ring, WIREPATH_SEND, &send, 0) == 0);
	CHECK(send.packets == 200 && send.length == 0);
	expect_plain(pair.to, data->bytes, 200 * 500, 500);
	CHECK(ring_command(&ring, WIREPATH_QUERY, &query, 0) == 0 && query.version == 1);
	CHECK(ring_command(&ring, WIREPATH_QUERY, &query, 1) == -EINVAL);
	CHECK(ring_command(&ring, WIREPATH_QUERY, NULL, 0) == -EFAULT);
	CHECK(ring_command(&ring, WIREPATH_SENDFILEW, &vector, 0) == -EBADF);
	CHECK(ring_command(&ring, 1234, &query, 0) == -ENOTTY);
	close(ring.fd);
}

static __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static struct wirepath_status status_of(int run, unsigned int request)
{
	struct wirepath_status status = { .size = sizeof(status) };

	CHECK(!ioctl(run, request, &status));
	return status;
}

static void paced_runs(const struct data *data, struct pair pair)
{
	static unsigned char given[40][16], packet[16 + 1000], got[65536];
	static struct wirepath_departure departures[40];
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 33, 100 * 1316 + 1);
	struct wirepath_start start = { .size = sizeof(start), .send = (__u64)(size_t)&send };
	struct wirepath_rtp rtp = rtp_of();
	struct rtp_expected header = { .sequence = rtp.sequence, .ssrc = rtp.ssrc,
				       .timestamp = rtp.timestamp, .payload_type = 33 };
	struct wirepath_status status;
	struct pollfd ready;
	__u64 began, took;
	int run, stopped;

	/* By rate: 133 KB at 1 MB/s. */
	send.packet_bytes = 1316;
	send.train_packets = 7;
	send.header_kind = WIREPATH_HEADER_RTP;
	send.header = (__u64)(size_t)&rtp;
	send.header_bytes = sizeof(rtp);
	start.rate_bytes_per_second = 1000000;
	began = now_ns();
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
	for (size_t at = 0; at < 131601; at += 1316) {
		expect_rtp(pair.to, &header, data->bytes + 33 + at, 131601 - at < 1316 ? 131601 - at : 1316);
		header.sequence++;
		header.timestamp += 90;
	}
	close(run);

	/* By departures, memory, headers of the caller's; memory unmapped meanwhile. */
	for (int i = 0; i < 40; i++) {
		memset(given[i], i + 1, 16);
		departures[i] = (struct wirepath_departure){ .time_ns = i * 5000000ULL, .packets = 1 };
	}
	{
		unsigned char *memory = mmap(NULL, 40000, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memcpy(memory, data->bytes, 40000);
		send = wirepath_send_of(pair.from, -1, (__u64)(size_t)memory, 40000);
		send.packet_bytes = 1000;
		send.header_kind = WIREPATH_HEADER_GIVEN;
		send.header = (__u64)(size_t)given;
		send.header_bytes = 16;
		start.rate_bytes_per_second = 0;
		start.departures = (__u64)(size_t)departures;
		start.departure_count = 40;
		run = ioctl(device, WIREPATH_START, &start);
		CHECK(run >= 0);
		munmap(memory, 40000);
	}
	memset(departures, 0, sizeof(departures));
	for (int i = 0; i < 40; i++) {
		memset(packet, i + 1, 16);
		memcpy(packet + 16, data->bytes + i * 1000, 1000);
		CHECK(receive(pair.to, got) == 1016 && !memcmp(got, packet, 1016), "departure %d", i);
	}
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.packets == 40 && status.error == 0);
	close(run);

	/* Stopped; closed while it goes; its table too short; misuse. */
	send = wirepath_send_of(pair.from, data->file, 0, 1000000);
	send.packet_bytes = 1000;
	start.departures = 0;
	start.departure_count = 0;
	start.rate_bytes_per_second = 10000;
	run = ioctl(device, WIREPATH_START, &start);
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
	while (recv(pair.to, got, sizeof(got), MSG_DONTWAIT) > 0)
		;
	departures[0].packets = 2;
	start.departures = (__u64)(size_t)departures;
	start.departure_count = 1;
	start.rate_bytes_per_second = 0;
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

/*
 * A network that answers nobody: packets to a neighbour that is not there wait
 * for it, in the socket's buffer. Needs an interface with 10.9.0.1/24 on such
 * a network (tests/vm makes one); skips, and says so, without.
 */
static int skips;

static void on_alarm(int number)
{
	(void)number;
}

static void nobody_there(const struct data *data)
{
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.9.0.1") };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr("10.9.0.2"),
				  .sin_port = htons(9) };
	int udp = socket(AF_INET, SOCK_DGRAM, 0), room = 8192;
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval soon = { .it_value.tv_usec = 200000 };
	struct wirepath_send send = wirepath_send_of(udp, data->file, 0, 500000);
	struct wirepath_start start = { .size = sizeof(start), .send = (__u64)(size_t)&send,
					.rate_bytes_per_second = 100000000 };
	struct wirepath_status status;
	__u64 sent;
	int run;

	if (bind(udp, (void *)&from, sizeof(from))) {
		printf("SKIP nobody_there: no interface with 10.9.0.1\n");
		skips++;
		close(udp);
		return;
	}
	setsockopt(udp, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (connect(udp, (void *)&to, sizeof(to)))
		die("connect");
	/* Trains of packets above the MTU are refused and not cut by IP. */
	send.packet_bytes = 2000;
	send.train_packets = 64;
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && (errno == EMSGSIZE || errno == EINVAL));
	send.flags = WIREPATH_COPY;
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && (errno == EMSGSIZE || errno == EINVAL));
	CHECK(send.bytes == 0);
	send.train_packets = 0;
	send.packet_bytes = 1000;
	send.flags = WIREPATH_DONTWAIT;
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == EAGAIN);
	CHECK(send.bytes > 0 && send.bytes < 500000 && send.offset == send.bytes);
	sent = send.bytes;
	/* It waits, a signal comes, and what was sent is told. */
	send.flags = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == EINTR);
	CHECK(send.bytes >= sent && send.bytes < 500000);
	/* A run waits without keeping anyone, counts it, and is stopped. */
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	for (status = status_of(run, WIREPATH_STATUS); status.state == WIREPATH_RUN_GOING && !status.full;)
		status = status_of(run, WIREPATH_STATUS);
	CHECK(status.full > 0, "state %u error %d", status.state, status.error);
	soon.it_value.tv_usec = 100000;
	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(ioctl(run, WIREPATH_WAIT, &status) < 0 && errno == EINTR);
	close(udp);	/* the run still has the socket */
	status = status_of(run, WIREPATH_STATUS);
	CHECK(!ioctl(run, WIREPATH_STOP, 0));
	close(run);
}

/* An owner that is killed takes its run along. */
static void killed_owner(const struct data *data, struct pair pair)
{
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 0, WIREPATH_TO_END);
	struct wirepath_start start = { .size = sizeof(start), .send = (__u64)(size_t)&send,
					.rate_bytes_per_second = 200000 };
	unsigned char packet[65536];
	pid_t child;

	send.packet_bytes = 1000;
	child = fork();
	if (!child) {
		if (ioctl(device, WIREPATH_START, &start) >= 0)
			pause();
		_exit(1);
	}
	CHECK(receive(pair.to, packet) == 1000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	while (recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		;
	poll(&(struct pollfd){ .fd = pair.to, .events = POLLIN }, 1, 100);
	CHECK(nothing_more(pair.to));
}

/* Files that are cut, punched and written to while runs send them. */
static void changing_file(struct pair pair)
{
	static unsigned char page[65536];
	char name[] = "/tmp/smoke-XXXXXX";
	int file = mkstemp(name);
	struct wirepath_rtp rtp;
	int strange = 0;

	unlink(name);
	memset(page, 0xaa, sizeof(page));
	for (int round = 0; round < 100; round++) {
		pid_t child;
		off_t offset = 0;

		for (int i = 0; i < 8; i++)
			if (pwrite(file, page, sizeof(page), i * (off_t)sizeof(page)) < 0)
				die("pwrite");
		child = fork();
		if (!child) {
			if (round & 1)
				fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 200000);
			else if (ftruncate(file, 1234 * round))
				_exit(1);
			_exit(0);
		}
		rtp = rtp_of();
		CHECK(krtpsendfile(device, pair.from, file, &offset, WIREPATH_TO_END, 1300, &rtp) >= 0);
		waitpid(child, NULL, 0);
		for (ssize_t got; (got = recv(pair.to, page, sizeof(page), MSG_DONTWAIT)) > 0;)
			for (ssize_t i = 12; i < got; i++)
				strange += page[i] != 0xaa && page[i] != 0;
		memset(page, 0xaa, sizeof(page));
	}
	CHECK(!strange, "%d bytes that never were in the file", strange);
	close(file);
}

/* Descriptors and live runs that hold the module; -1: the kernel does not say. */
static int module_users(void)
{
	FILE *file = fopen("/sys/module/wirepath/refcnt", "r");
	int users = -1;

	if (file && fscanf(file, "%d", &users) != 1)
		users = -1;
	if (file)
		fclose(file);
	return users;
}

/* R, S, D, Z, ... or 0. */
static char process_state(pid_t process)
{
	char name[50], state = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/stat", process);
	file = fopen(name, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state;
}

/*
 * Serve a file system that is one file, by FUSE, and never answer a read: of
 * each a byte is written to `asked`. Whoever kills the process ends it.
 */
static void serve_silence(int fuse, int asked)
{
	static char request[1 << 20];
	const struct fuse_in_header *in = (void *)request;

	while (read(fuse, request, sizeof(request)) > 0) {
		struct {
			struct fuse_out_header head;
			union {
				struct fuse_init_out init;
				struct fuse_attr_out attr;
				struct fuse_open_out open;
			} body;
		} out = { .head.unique = in->unique };
		size_t bytes = 0;

		switch (in->opcode) {
		case FUSE_READ:
			if (write(asked, "", 1) != 1)
				_exit(1);
			continue;
		case FUSE_FORGET:
		case FUSE_INTERRUPT:
			continue;
		case FUSE_INIT:
			out.body.init = (struct fuse_init_out){
				.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
				.max_write = 4096, .max_readahead = 65536,
			};
			bytes = sizeof(out.body.init);
			break;
		case FUSE_GETATTR:
			out.body.attr.attr = (struct fuse_attr){
				.ino = 1, .size = DATA_BYTES, .mode = S_IFREG | 0444, .nlink = 1,
			};
			bytes = sizeof(out.body.attr);
			break;
		case FUSE_OPEN:
			bytes = sizeof(out.body.open);
			break;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			break;
		default:
			out.head.error = -ENOSYS;
		}
		out.head.len = sizeof(out.head) + bytes;
		if (write(fuse, &out, out.head.len) != (ssize_t)out.head.len)
			_exit(1);
	}
	_exit(0);
}

/*
 * Storage that does not answer: STOP of a run that waits for it can be killed,
 * closing the run does not wait, and the run ends with its reading.
 */
static void silent_storage(struct pair pair)
{
	char name[] = "/tmp/smoke-fuse-XXXXXX", options[100];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC), point = mkstemp(name);
	struct wirepath_start start = { .size = sizeof(start), .rate_bytes_per_second = 1000000 };
	struct wirepath_send send;
	struct wirepath_status status;
	struct pollfd ready[2];
	struct stat size;
	int file, run, asked[2], users = module_users(), state;
	pid_t server, stopper;

	close(point);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100444,user_id=0,group_id=0", fuse);
	if (fuse < 0 || users < 0 || mount("smoke", name, "fuse", 0, options)) {
		printf("SKIP silent_storage: no FUSE, or no /sys/module/wirepath/refcnt (%s)\n",
		       strerror(errno));
		skips++;
		close(fuse);
		unlink(name);
		return;
	}
	if (pipe(asked))
		die("pipe");
	server = fork();
	if (!server)
		serve_silence(fuse, asked[1]);
	close(fuse);	/* the server has the only one: killing it ends the mount */
	close(asked[1]);
	file = open(name, O_RDONLY);
	/* Only asking makes the size known, without which the file is empty. */
	CHECK(!fstat(file, &size) && size.st_size == DATA_BYTES);
	send = wirepath_send_of(pair.from, file, 0, 100000);
	send.packet_bytes = 1000;
	start.send = (__u64)(size_t)&send;
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	/* Either it reads, or it has ended, which is a failure and no hang. */
	ready[0] = (struct pollfd){ .fd = asked[0], .events = POLLIN };
	ready[1] = (struct pollfd){ .fd = run, .events = POLLIN };
	CHECK(poll(ready, 2, -1) == 1 && ready[0].revents == POLLIN);
	status = status_of(run, WIREPATH_STATUS);
	CHECK(status.state == WIREPATH_RUN_GOING && status.packets == 0);
	stopper = fork();
	if (!stopper) {
		ioctl(run, WIREPATH_STOP, 0);
		_exit(1);
	}
	while (process_state(stopper) != 'D')
		;
	kill(stopper, SIGKILL);
	CHECK(waitpid(stopper, &state, 0) == stopper && WIFSIGNALED(state));
	close(run);
	close(file);
	CHECK(module_users() > users, "%d, %d before", module_users(), users);
	kill(server, SIGKILL);
	CHECK(waitpid(server, NULL, 0) == server);
	while (module_users() > users)
		;
	CHECK(nothing_more(pair.to));
	CHECK(!umount2(name, MNT_DETACH));
	CHECK(!unlink(name));
	close(asked[0]);
}

/* A user without CAP_SYS_RESOURCE has so many runs, and not one more. */
static void runs_of_a_user(const struct data *data, struct pair pair)
{
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 0, 100000);
	struct wirepath_start start = { .size = sizeof(start), .send = (__u64)(size_t)&send,
					.start_ns = now_ns() + 3600 * 1000000000ULL,
					.rate_bytes_per_second = 1000 };
	FILE *parameter = fopen("/sys/module/wirepath/parameters/user_runs_max", "r+");
	unsigned long most = 0;
	pid_t child;
	int state;

	CHECK(parameter && fscanf(parameter, "%lu", &most) == 1 && most == 256);
	if (!parameter)
		return;
	rewind(parameter);
	CHECK(fprintf(parameter, "3") == 1 && !fflush(parameter));
	send.packet_bytes = 1000;
	child = fork();
	if (!child) {
		int run = -1, more;

		if (setuid(65534))
			_exit(1);
		for (int i = 0; i < 3; i++) {
			run = ioctl(device, WIREPATH_START, &start);
			if (run < 0)
				_exit(2);
		}
		if (ioctl(device, WIREPATH_START, &start) >= 0 || errno != EDQUOT)
			_exit(3);
		if (ioctl(run, WIREPATH_STOP, 0))
			_exit(4);
		more = ioctl(device, WIREPATH_START, &start);
		if (more < 0)
			_exit(5);
		_exit(0);
	}
	CHECK(waitpid(child, &state, 0) == child && state == 0, "child answered %x", state);
	for (int i = 0; i < 4; i++) {
		int run = ioctl(device, WIREPATH_START, &start);

		CHECK(run >= 0, "the privileged have no limit");
		close(run);
	}
	rewind(parameter);
	CHECK(fprintf(parameter, "%lu", most) > 0 && !fclose(parameter));
}

static struct data data_open(const char *name)
{
	struct data data = { .file = open(name, O_RDONLY), .bytes = malloc(DATA_BYTES) };

	if (data.file < 0 || pread(data.file, data.bytes, DATA_BYTES, 0) != DATA_BYTES)
		die(name);
	data.mapping = mmap(NULL, DATA_BYTES, PROT_READ, MAP_SHARED, data.file, 0);
	if (data.mapping == MAP_FAILED)
		die(name);
	posix_fadvise(data.file, 0, 0, POSIX_FADV_DONTNEED);
	return data;
}

static void query(void)
{
	struct wirepath_query query = { .size = sizeof(query) };

	CHECK(!ioctl(device, WIREPATH_QUERY, &query));
	CHECK(query.version == WIREPATH_VERSION && query.fragments_max >= 17);
	references = !!(query.features & WIREPATH_FEATURE_REFERENCES);
	printf("version %u, features 0x%llx, fragments %u\n", query.version,
	       (unsigned long long)query.features, query.fragments_max);
}

int main(int count, char **names)
{
	device = open(WIREPATH_DEVICE, O_RDWR | O_CLOEXEC);
	if (device < 0)
		die(WIREPATH_DEVICE);
	query();
	for (int i = 1; i < count; i++) {
		struct data data = data_open(names[i]);

		for (int six = 0; six < 2; six++) {
			struct pair pair = pair_open(six ? AF_INET6 : AF_INET);

			where = names[i];
			one_packet(&data, pair);
			runs_of_packets(&data, pair);
			ways(&data, pair);
			headers(&data, pair);
			memory_that_goes(pair);
			end_of_file(pair);
			misuse(&data, pair);
			vectors(&data, pair);
			commands(&data, pair);
			paced_runs(&data, pair);
			killed_owner(&data, pair);
			changing_file(pair);
			silent_storage(pair);
			runs_of_a_user(&data, pair);
			pair_close(pair);
		}
		destinations(&data);
		full_buffer(&data);
		nobody_there(&data);
		close(data.file);
	}
	printf("%d checks, %d failed, %d skipped\n", checks, failures, skips);
	return failures ? 1 : 0;
}
