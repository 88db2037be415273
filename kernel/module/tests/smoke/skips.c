// SPDX-License-Identifier: GPL-2.0
/* Stored headers between payloads, which are passed over: skip_bytes. */
#include "smoke.h"

static struct wirepath_send passing_over(struct wirepath_send send, unsigned int bytes)
{
	send.skip_bytes = bytes;
	return send;
}

/* Twenty packets and a short one, in one call: by themselves, as trains, copied. */
static void whole(const struct data *data, struct pair pair, unsigned int packet, unsigned int skip)
{
	const size_t at = 4090, bytes = 20 * (skip + packet) + skip + 1;

	for (int way = 0; way < 6; way++) {
		int file = way & 1 ? -1 : data->file;
		__u64 from = way & 1 ? (__u64)(size_t)data->mapping + at : at;
		struct wirepath_send send = wirepath_send_of(pair.from, file, from, bytes);
		struct wirepath_rtp rtp = rtp_of(), header = rtp;

		send = with_rtp(passing_over(cut(send, packet, way < 2 ? 0 : 64), skip), &rtp);
		send.flags = way < 4 ? 0 : WIREPATH_COPY;
		CHECK(!ioctl(device, WIREPATH_SEND, &send), "way %d", way);
		CHECK(send.packets == 21 && send.bytes == 20 * packet + 1 && rtp.octets == send.bytes);
		CHECK(send.length == 0 && send.offset == from + bytes);
		CHECK(way < 2 ? send.trains == 21 : send.trains < 12, "%llu trains",
		      (unsigned long long)send.trains);
		expect_rtp_run(pair.to, &header, data->bytes + at, bytes, packet, skip);
		CHECK(nothing_more(pair.to));
	}
}

/* A send of 12 + 1000 bytes each from a file of so many; it begins anew by itself. */
static void ended(struct pair pair, size_t file_bytes, __u64 length, int error, __u64 packets,
		  __u64 bytes, __u64 offset)
{
	static unsigned char content[4000];
	int file = temporary_file();
	struct wirepath_send send = wirepath_send_of(pair.from, file, 0, length);

	memset(content, 7, sizeof(content));
	if (write(file, content, file_bytes) != (ssize_t)file_bytes)
		die("write");
	send = passing_over(cut(send, 1000, 64), 12);
	for (int again = 0; again < 2; again++) {
		CHECK((ioctl(device, WIREPATH_SEND, &send) ? errno : 0) == error,
		      "%zu, %llu, again %d", file_bytes, (unsigned long long)length, again);
		CHECK(send.packets == packets && send.bytes == bytes && send.offset == offset);
		CHECK(send.length == (length == WIREPATH_TO_END ? length : length - offset));
	}
	for (__u64 at = 0; at < bytes; at += 1000)
		expect_one(pair.to, content, bytes - at < 1000 ? bytes - at : 1000);
	CHECK(nothing_more(pair.to));
	close(file);
}

static void ends_of_files(struct pair pair)
{
	/* In a payload, in what is passed over, and after all of a packet. */
	ended(pair, 1029, 3036, ENODATA, 2, 1005, 1029);
	ended(pair, 1029, WIREPATH_TO_END, 0, 2, 1005, 1029);
	ended(pair, 1017, 3036, ENODATA, 1, 1000, 1012);
	ended(pair, 1017, WIREPATH_TO_END, 0, 1, 1000, 1012);
	ended(pair, 1024, WIREPATH_TO_END, 0, 1, 1000, 1012);
	ended(pair, 1012, WIREPATH_TO_END, 0, 1, 1000, 1012);
	/* The same of length. */
	ended(pair, 4000, 1029, 0, 2, 1005, 1029);
	ended(pair, 4000, 1024, 0, 1, 1000, 1012);
	ended(pair, 4000, 1013, 0, 1, 1000, 1012);
	ended(pair, 4000, 12, 0, 0, 0, 0);
}

static void one_packet(const struct data *data, struct pair pair)
{
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 100, 1012);

	send = passing_over(send, 12);
	CHECK(!ioctl(device, WIREPATH_SEND, &send) && send.packets == 1 && send.length == 0);
	expect_one(pair.to, data->bytes + 112, 1000);
	send = passing_over(wirepath_send_of(pair.from, data->file, 0, 256), 256);
	CHECK(!ioctl(device, WIREPATH_SEND, &send) && send.packets == 0 && send.length == 256);
	/* Sums that are too large for 32 bits, and are no reason to divide by them. */
	send = passing_over(wirepath_send_of(pair.from, data->file, 0, 1000), 256);
	send.packet_bytes = -256U;
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == EMSGSIZE);
	CHECK(nothing_more(pair.to));
}

/* A run of memory behind which there is none, with headers of the caller's. */
static void paced(const struct data *data, struct pair pair)
{
	static unsigned char headers[20][8];
	const size_t bytes = 19 * 212 + 12 + 60;
	unsigned char *memory = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *from = memory + 2 * 4096 - bytes;
	struct wirepath_send send = wirepath_send_of(pair.from, -1, (__u64)(size_t)from, bytes);
	struct wirepath_start start = start_of(&send, 100000000);
	struct wirepath_status status;
	int run;

	munmap(memory + 2 * 4096, 4096);
	memcpy(from, data->bytes, bytes);
	for (int i = 0; i < 20; i++)
		memset(headers[i], i, sizeof(headers[i]));
	send = with_given(passing_over(cut(send, 200, 4), 12), headers, sizeof(headers[0]));
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == 0, "error %d", status.error);
	CHECK(status.packets == 20 && status.bytes == 19 * 200 + 60 &&
	      status.position == send.offset + bytes);
	for (size_t i = 0; i < 20; i++)
		expect_with(pair.to, headers[i], 8, data->bytes + i * 212 + 12, i < 19 ? 200 : 60);
	close(run);
	munmap(memory, 2 * 4096);
}

void skips_of_packets(const struct data *data, struct pair pair)
{
	static const unsigned int packets[] = { 1, 1000, 1316, 9000 }, skipped[] = { 1, 12, 256 };

	for (size_t i = 0; i < COUNT(packets); i++)
		for (size_t j = 0; j < COUNT(skipped); j++)
			whole(data, pair, packets[i], skipped[j]);
	ends_of_files(pair);
	one_packet(data, pair);
	paced(data, pair);
}
