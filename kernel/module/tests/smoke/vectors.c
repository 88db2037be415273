// SPDX-License-Identifier: GPL-2.0
/* SENDFILEW: over UDP, misused, and over TCP. */
#include <linux/net_tstamp.h>
#include <stdbool.h>

#include "smoke.h"

/* One packet of six parts and one of two. */
struct vector {
	struct wirepath_part parts[8];
	unsigned char expected[200000];
	size_t first, bytes;	/* of the first packet, of all */
};

static void vector_of(struct vector *vector, const struct data *data)
{
	static const char buffer[] = "bytes between";
	const __u64 at = (__u64)(size_t)buffer;
	const struct wirepath_part parts[] = {
		{ .file = -1, .offset = at, .length = 13, .flags = WIREPATH_PART_COPY },
		{ .file = data->file, .offset = 4000, .length = 5001 },
		{ .file = -1, .offset = at, .length = 5, .flags = WIREPATH_PART_COPY },
		{ .file = -1, .offset = at, .length = 6, .flags = WIREPATH_PART_COPY },
		{ .file = -1, .offset = (__u64)(size_t)data->mapping + 9, .length = 7001 },
		{ .file = data->file, .offset = 1, .length = 1, .flags = WIREPATH_PART_END },
		{ .file = data->file, .offset = 77777, .length = 100 },
		{ .file = -1, .offset = at, .length = 13, .flags = WIREPATH_PART_COPY },
	};

	memcpy(vector->parts, parts, sizeof(parts));
	vector->bytes = 0;
	for (size_t i = 0; i < COUNT(parts); i++) {
		const void *from = parts[i].file < 0 ? (void *)(size_t)parts[i].offset :
						       data->bytes + parts[i].offset;

		memcpy(vector->expected + vector->bytes, from, parts[i].length);
		vector->bytes += parts[i].length;
		if (i == 5)
			vector->first = vector->bytes;
	}
}

static void misused(const struct vector *of, struct pair pair)
{
	struct wirepath_sendfilew vector = {
		.size = sizeof(vector), .socket = pair.from, .part_count = COUNT(of->parts),
		.part_bytes = sizeof(of->parts[0]), .parts = (__u64)(size_t)of->parts,
	};
	struct wirepath_sendfilew bad;

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
	VECTOR_ANSWERS(EINVAL, bad.bytes = of->bytes + 1);
	VECTOR_ANSWERS(EBADF, bad.socket = -1);
}

static void over_tcp(const struct wirepath_part *parts, size_t count,
		     const unsigned char *expected, size_t bytes)
{
	static unsigned char got[200000];
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t to_bytes = sizeof(to);
	int listener = socket(AF_INET, SOCK_STREAM, 0), from = socket(AF_INET, SOCK_STREAM, 0);
	int end, state;
	pid_t child;

	if (bind(listener, (void *)&to, sizeof(to)) || listen(listener, 1) ||
	    getsockname(listener, (void *)&to, &to_bytes) || connect(from, (void *)&to, to_bytes))
		die("TCP");
	end = accept(listener, NULL, NULL);
	child = fork();
	if (!child) {
		for (int i = 0; i < 40; i++) {
			if (wirepath_sendfilew(device, from, parts, count) != (ssize_t)bytes)
				_exit(1);
		}
		_exit(0);
	}
	close(from);
	for (int i = 0; i < 40; i++) {
		ssize_t have = recv(end, got, bytes, MSG_WAITALL);

		CHECK(have == (ssize_t)bytes && !memcmp(got, expected, bytes),
		      "%zu parts over TCP, round %d", count, i);
	}
	waitpid(child, &state, 0);
	CHECK(state == 0, "child answered %x", state);
	close(end);
	close(listener);
}

/*
 * A packet of many pieces: more than a buffer has by reference is copied, more
 * than the module takes is refused. TCP takes them all.
 */
static void many_parts(const struct data *data, struct pair pair)
{
	static struct wirepath_part parts[161];
	static unsigned char expected[161 * 7];
	static const size_t counts[] = { 17, 18, 64, 160 };

	for (size_t i = 0; i < COUNT(parts); i++) {
		size_t at = i * 100 + 1;

		parts[i] = (struct wirepath_part){
			.file = i & 1 ? -1 : data->file, .length = 7,
			.offset = i & 1 ? (__u64)(size_t)data->mapping + at : at,
		};
		memcpy(expected + i * 7, data->bytes + at, 7);
	}
	for (size_t i = 0; i < COUNT(counts); i++) {
		CHECK(wirepath_sendfilew(device, pair.from, parts, counts[i]) == (ssize_t)counts[i] * 7);
		expect_one(pair.to, expected, counts[i] * 7);
	}
	CHECK(wirepath_sendfilew(device, pair.from, parts, 161) < 0 && errno == EMSGSIZE);
	CHECK(nothing_more(pair.to));
	over_tcp(parts, COUNT(parts), expected, sizeof(expected));
}

static long long trains_counted(void)
{
	FILE *file = fopen("/sys/class/misc/wirepath/counters/trains", "r");
	long long trains = -1;

	if (!file)
		die("counters/trains");
	CHECK(fscanf(file, "%lld", &trains) == 1);
	fclose(file);
	return trains;
}

/* 100 packets of one size, a shorter one, a longer one, and another of the first size. */
struct packets_of_one_size {
	struct wirepath_part parts[2 * 103];
	size_t bytes;
};

#define FIRST 3		/* offset of their payload */
static const char header[15] = "header for each";

static void packets_of_one_size(struct packets_of_one_size *packets, const struct data *data)
{
	struct wirepath_part *parts = packets->parts;
	size_t at = FIRST;

	packets->bytes = 0;
	for (size_t i = 0; i < COUNT(packets->parts); i += 2) {
		size_t payload = i == 200 ? 700 : i == 202 ? 1400 : PACKET_BYTES;

		parts[i] = (struct wirepath_part){
			.file = -1, .offset = (__u64)(size_t)header,
			.length = sizeof(header), .flags = WIREPATH_PART_COPY };
		parts[i + 1] = (struct wirepath_part){
			.file = data->file, .offset = at, .length = payload,
			.flags = WIREPATH_PART_END };
		at += payload;
		packets->bytes += sizeof(header) + payload;
	}
}

/* Sends them, and checks what arrives, and in how many trains it left. */
static void leave_in_trains(const struct packets_of_one_size *packets, const struct data *data,
			    struct pair pair, int trains_min, int trains_max)
{
	const struct wirepath_part *parts = packets->parts;
	long long trains = trains_counted();
	size_t at = FIRST;

	CHECK(wirepath_sendfilew(device, pair.from, parts, COUNT(packets->parts)) ==
	      (ssize_t)packets->bytes);
	trains = trains_counted() - trains;
	CHECK(trains >= trains_min && trains <= trains_max, "%lld trains, not %d to %d", trains,
	      trains_min, trains_max);
	for (size_t i = 0; i < COUNT(packets->parts); i += 2) {
		expect_with(pair.to, header, sizeof(header), data->bytes + at, parts[i + 1].length);
		at += parts[i + 1].length;
	}
	CHECK(nothing_more(pair.to));
}

/* Packets of one size leave as trains, which a shorter one and a longer one end. */
static void trains(const struct data *data, struct pair pair)
{
	static struct packets_of_one_size packets;
	int domain = 0, size = 500, never = IP_PMTUDISC_DO, usual, most;
	socklen_t int_bytes = sizeof(int);
	bool is_ipv4, is_single;

	packets_of_one_size(&packets, data);
	CHECK(!getsockopt(pair.from, SOL_SOCKET, SO_DOMAIN, &domain, &int_bytes));
	is_ipv4 = domain == AF_INET;
	/* 100, of 49 each, with the shorter one; and the two others. */
	most = references && !(members && is_ipv4) ? 25 : 5;
	/* Trains that UDP makes would have other IPv4 headers. */
	is_single = is_ipv4 && !references;
	leave_in_trains(&packets, data, pair, is_single ? 103 : 4, is_single ? 103 : most);

	/* A size that the socket has set itself is none for these. */
	CHECK(!setsockopt(pair.from, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)));
	leave_in_trains(&packets, data, pair, is_single ? 103 : 4, is_single ? 103 : most);
	size = 0;
	CHECK(!setsockopt(pair.from, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)));
	if (!is_ipv4)
		return;

	/* Never fragmented: all trains have the same headers, and no train a shorter packet. */
	CHECK(!getsockopt(pair.from, SOL_IP, IP_MTU_DISCOVER, &usual, &int_bytes));
	CHECK(!setsockopt(pair.from, SOL_IP, IP_MTU_DISCOVER, &never, sizeof(never)));
	leave_in_trains(&packets, data, pair, 6, most + 2);
	CHECK(!setsockopt(pair.from, SOL_IP, IP_MTU_DISCOVER, &usual, sizeof(usual)));
}

/* Corked, packets become one. */
static void corked(const struct data *data, struct pair pair)
{
	const struct wirepath_part parts[2] = {
		{ .file = data->file, .offset = 3, .length = PACKET_BYTES,
		  .flags = WIREPATH_PART_END },
		{ .file = data->file, .offset = 3 + PACKET_BYTES, .length = PACKET_BYTES,
		  .flags = WIREPATH_PART_END },
	};
	int cork = 1;

	CHECK(!setsockopt(pair.from, SOL_UDP, UDP_CORK, &cork, sizeof(cork)));
	CHECK(wirepath_sendfilew(device, pair.from, parts, 2) == 2 * PACKET_BYTES);
	CHECK(nothing_more(pair.to));
	cork = 0;
	CHECK(!setsockopt(pair.from, SOL_UDP, UDP_CORK, &cork, sizeof(cork)));
	expect_one(pair.to, data->bytes + 3, 2 * PACKET_BYTES);
	CHECK(nothing_more(pair.to));
}

/* A socket with TX time stamps gets one for each packet. */
static void stamped(const struct data *data, struct pair pair)
{
	static struct packets_of_one_size packets;
	int stamps = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE |
		     SOF_TIMESTAMPING_OPT_TSONLY;
	char control[512];
	struct msghdr message;
	int got = 0;

	packets_of_one_size(&packets, data);
	CHECK(!setsockopt(pair.from, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)));
	leave_in_trains(&packets, data, pair, 103, 103);
	for (;; got++) {
		message = (struct msghdr){ .msg_control = control,
					   .msg_controllen = sizeof(control) };
		if (recvmsg(pair.from, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			break;
	}
	CHECK(got == 103, "%d time stamps", got);
	stamps = 0;
	CHECK(!setsockopt(pair.from, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)));
}

/* An error that is pending is answered, and nothing is sent. */
static void error_pending(const struct data *data)
{
	static struct packets_of_one_size packets;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int closed = socket(AF_INET, SOCK_DGRAM, 0), from = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t to_bytes = sizeof(to);
	long long before;

	packets_of_one_size(&packets, data);
	if (bind(closed, (void *)&to, to_bytes) || getsockname(closed, (void *)&to, &to_bytes) ||
	    connect(from, (void *)&to, to_bytes))
		die("UDP");
	close(closed);
	CHECK(send(from, "x", 1, 0) == 1);
	before = trains_counted();
	CHECK(wirepath_sendfilew(device, from, packets.parts, COUNT(packets.parts)) < 0 &&
	      errno == ECONNREFUSED);
	CHECK(trains_counted() == before);
	/* That of a train's packets is answered later, when the train has been counted. */
	CHECK(wirepath_sendfilew(device, from, packets.parts, 20) > 0);
	close(from);
}

#define ABSENT_PACKETS 8

/*
 * With DONTWAIT, memory that nobody has touched is sent all the same, a packet a call at the
 * least: the pages of a call's first packet are faulted in. An address without memory is a fault.
 */
static void absent(struct pair pair, __u32 flags, __u32 part_flags)
{
	static const unsigned char zeros[PACKET_BYTES];
	const size_t bytes = ABSENT_PACKETS * PACKET_BYTES;
	unsigned char *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct wirepath_part parts[ABSENT_PACKETS];
	struct wirepath_sendfilew vector = {
		.size = sizeof(vector), .flags = WIREPATH_DONTWAIT | flags, .socket = pair.from,
		.part_count = ABSENT_PACKETS, .part_bytes = sizeof(parts[0]),
		.parts = (__u64)(size_t)parts,
	};
	int calls = 0;

	if (memory == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < ABSENT_PACKETS; i++)
		parts[i] = (struct wirepath_part){
			.file = -1, .offset = (__u64)(size_t)memory + i * PACKET_BYTES,
			.length = PACKET_BYTES, .flags = WIREPATH_PART_END | part_flags };
	while (vector.bytes < bytes && calls++ < ABSENT_PACKETS)
		if (ioctl(device, WIREPATH_SENDFILEW, &vector) < 0 && errno != EAGAIN)
			break;
	CHECK(vector.bytes == bytes, "%llu bytes in %d calls", vector.bytes, calls);
	for (size_t i = 0; i < vector.packets; i++)
		expect_one(pair.to, zeros, PACKET_BYTES);
	CHECK(nothing_more(pair.to));
	CHECK(!munmap(memory, bytes));
	vector.bytes = 0;
	CHECK(ioctl(device, WIREPATH_SENDFILEW, &vector) < 0 && errno == EFAULT);
}

void vectors(const struct data *data, struct pair pair)
{
	static struct vector vector;

	vector_of(&vector, data);
	CHECK(wirepath_sendfilew(device, pair.from, vector.parts, COUNT(vector.parts)) ==
	      (ssize_t)vector.bytes);
	expect_one(pair.to, vector.expected, vector.first);
	expect_one(pair.to, vector.expected + vector.first, vector.bytes - vector.first);
	CHECK(nothing_more(pair.to));
	many_parts(data, pair);
	trains(data, pair);
	corked(data, pair);
	stamped(data, pair);
	error_pending(data);
	absent(pair, 0, 0);
	absent(pair, WIREPATH_COPY, 0);
	absent(pair, 0, WIREPATH_PART_COPY);
	misused(&vector, pair);
	over_tcp(vector.parts, COUNT(vector.parts), vector.expected, vector.bytes);
}
