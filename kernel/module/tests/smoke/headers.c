// SPDX-License-Identifier: GPL-2.0
/*
 * Headers: given ones in a run; a table of frames; markers; and trains with more
 * of them than one buffer takes.
 */
#include "smoke.h"

static void given(const struct data *data, struct pair pair)
{
	static unsigned char headers[50][20];
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 77, 50 * 1000);

	for (int i = 0; i < 50; i++)
		memset(headers[i], i, 20);
	send = with_given(cut(send, 1000, 64), headers, 20);
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	CHECK(send.header == (__u64)(size_t)headers[50]);
	for (int i = 0; i < 50; i++)
		expect_with(pair.to, headers[i], 20, data->bytes + 77 + i * 1000, 1000);
}

static void table(const struct data *data, struct pair pair)
{
	static struct wirepath_rtp_time times[3] = {
		{ .timestamp = 1000, .packets = 3, .bytes = 2 * 1000 + 1 },
		{ .timestamp = 900, .packets = 1, .bytes = 999 },
		{ .timestamp = 4600, .packets = 4 },
	};
	static const size_t sizes[8] = { 1000, 1000, 1, 999, 1000, 1000, 1000, 1000 };
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 77, 100000);
	struct wirepath_rtp rtp = rtp_of(), header = rtp;
	const unsigned char *at = data->bytes + 77;

	rtp.table = (__u64)(size_t)times;
	rtp.table_count = 3;
	rtp.marker = WIREPATH_MARKER_LAST_OF_GROUP;
	send = with_rtp(cut(send, 1000, 64), &rtp);
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == ENODATA);
	CHECK(send.packets == 8 && rtp.table_count == 0 && rtp.packets == 8);
	for (int i = 0; i < 8; at += sizes[i++]) {
		header.timestamp = times[i < 3 ? 0 : i < 4 ? 1 : 2].timestamp;
		expect_rtp(pair.to, &header, i == 2 || i == 3 || i == 7, at, sizes[i]);
	}
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == ENODATA && nothing_more(pair.to));
}

/* The second frame is not all there: the timestamp that comes back is the first one's. */
static void frame_that_is_not_there(const struct data *data, struct pair pair)
{
	static struct wirepath_rtp_time times[2] = {
		{ .timestamp = 1000, .packets = 1, .bytes = 1000 },
		{ .timestamp = 4600, .packets = 4 },
	};
	unsigned char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct wirepath_send send = wirepath_send_of(pair.from, -1, (__u64)(size_t)memory, 8192);
	struct wirepath_rtp rtp = rtp_of(), header = rtp;

	munmap(memory + 4096, 4096);
	memcpy(memory, data->bytes, 4096);
	rtp.table = (__u64)(size_t)times;
	rtp.table_count = 2;
	send = with_rtp(cut(send, 3500, 64), &rtp);
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == EFAULT);
	CHECK(send.packets == 1 && rtp.table_count == 1 && rtp.timestamp == 1000,
	      "%llu packets, timestamp %u", (unsigned long long)send.packets, rtp.timestamp);
	header.timestamp = 1000;
	expect_rtp(pair.to, &header, 0, data->bytes, 1000);
	CHECK(nothing_more(pair.to));
	munmap(memory, 4096);
}

/*
 * A list of buffers over IPv4 (49 packets of 1,328 bytes, then 49, then 3 in
 * one buffer), trains of one buffer else (7 packets, or 8); the same bytes.
 */
static void lists(const struct data *data, struct pair pair)
{
	static const size_t sizes[] = { 160, 1316, 1400 }, offsets[] = { 0, 1, 4095 };
	struct sockaddr_storage own;
	socklen_t own_bytes = sizeof(own);
	int listed = members && !getsockname(pair.from, (void *)&own, &own_bytes) &&
		     own.ss_family == AF_INET;

	for (size_t i = 0; i < COUNT(sizes) * COUNT(offsets); i++) {
		size_t size = sizes[i / COUNT(offsets)], offset = offsets[i % COUNT(offsets)];
		size_t bytes = 100 * size + 5;
		struct wirepath_send send = wirepath_send_of(pair.from, data->file, offset, bytes);
		struct wirepath_rtp rtp = rtp_of(), header = rtp;

		send = with_rtp(cut(send, size, 64), &rtp);
		CHECK(!ioctl(device, WIREPATH_SEND, &send));
		CHECK(send.packets == 101 && (!references || !send.copied_bytes));
		if (references && size == 1316)
			CHECK(listed ? send.trains == 3 : send.trains > 10, "%llu trains",
			      (unsigned long long)send.trains);
		expect_rtp_run(pair.to, &header, data->bytes + offset, bytes, size, 0);
		CHECK(nothing_more(pair.to));
	}
}

void headers(const struct data *data, struct pair pair)
{
	given(data, pair);
	table(data, pair);
	frame_that_is_not_there(data, pair);
	lists(data, pair);
}
