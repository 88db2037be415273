// SPDX-License-Identifier: GPL-2.0
/* SENDFILEW: over UDP, misused, and over TCP. */
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

/* Packets of one size leave as trains, which a shorter one and a longer one end. */
static void packets_of_one_size(const struct data *data, struct pair pair)
{
	static const char header[15] = "header for each";
	static struct wirepath_part parts[2 * 103];
	socklen_t domain_bytes = sizeof(int);
	int domain = 0, cork = 1, trains_max;
	size_t at = 3, bytes = 0;
	long long trains;

	for (size_t i = 0; i < COUNT(parts); i += 2) {
		size_t payload = i == 200 ? 700 : i == 202 ? 1400 : PACKET_BYTES;

		parts[i] = (struct wirepath_part){
			.file = -1, .offset = (__u64)(size_t)header,
			.length = sizeof(header), .flags = WIREPATH_PART_COPY };
		parts[i + 1] = (struct wirepath_part){
			.file = data->file, .offset = at, .length = payload,
			.flags = WIREPATH_PART_END };
		at += payload;
		bytes += sizeof(header) + payload;
	}
	CHECK(!getsockopt(pair.from, SOL_SOCKET, SO_DOMAIN, &domain, &domain_bytes));
	/* 100, of 49 each, with the shorter one; and the two others. */
	trains_max = references && !(members && domain == AF_INET) ? 25 : 5;
	trains = trains_counted();
	CHECK(wirepath_sendfilew(device, pair.from, parts, COUNT(parts)) == (ssize_t)bytes);
	trains = trains_counted() - trains;
	CHECK(trains >= 4 && trains <= trains_max, "%lld trains", trains);
	at = 3;
	for (size_t i = 0; i < COUNT(parts); i += 2) {
		expect_with(pair.to, header, sizeof(header), data->bytes + at, parts[i + 1].length);
		at += parts[i + 1].length;
	}
	CHECK(nothing_more(pair.to));

	/* Corked, they become one packet. */
	parts[0] = (struct wirepath_part){ .file = data->file, .offset = 3,
					   .length = PACKET_BYTES, .flags = WIREPATH_PART_END };
	parts[1].offset = 3 + PACKET_BYTES;
	CHECK(!setsockopt(pair.from, SOL_UDP, UDP_CORK, &cork, sizeof(cork)));
	CHECK(wirepath_sendfilew(device, pair.from, parts, 2) == 2 * PACKET_BYTES);
	CHECK(nothing_more(pair.to));
	cork = 0;
	CHECK(!setsockopt(pair.from, SOL_UDP, UDP_CORK, &cork, sizeof(cork)));
	expect_one(pair.to, data->bytes + 3, 2 * PACKET_BYTES);
	CHECK(nothing_more(pair.to));
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
	packets_of_one_size(data, pair);
	misused(&vector, pair);
	over_tcp(vector.parts, COUNT(vector.parts), vector.expected, vector.bytes);
}
