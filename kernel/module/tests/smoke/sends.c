// SPDX-License-Identifier: GPL-2.0
/* SEND by its names: a packet, and runs of them, of files and of memory. */
#include "smoke.h"

/* Offsets even and odd, in a page, at its end, across several. */
static const size_t offsets[] = { 0, 1, 188, 4095, 4096, 4097, 65535, 131071, 300001 };

#define EACH_OFFSET(i) (size_t i = 0; i < COUNT(offsets); i++)

void packets(const struct data *data, struct pair pair)
{
	static const size_t sizes[] = { 1, 1316, 1317, 1472, 4097, 9000, 65495 };
	unsigned char header[12] = "twelve byte";

	for EACH_OFFSET(i) {
		for (size_t j = 0; j < COUNT(sizes); j++) {
			const unsigned char *from = data->mapping + offsets[i];
			const unsigned char *bytes = data->bytes + offsets[i];
			ssize_t size = sizes[j];
			off_t offset = offsets[i];

			CHECK(wirepath_msend(device, pair.from, from, size) == size);
			expect_one(pair.to, bytes, size);
			CHECK(wirepath_rtpmsend(device, pair.from, header, 12, from, size) == size);
			expect_with(pair.to, header, 12, bytes, size);
			CHECK(wirepath_rtpsendfile(device, pair.from, header, 12, data->file, &offset,
					  size) == size);
			CHECK(offset == (off_t)(offsets[i] + size));
			expect_with(pair.to, header, 12, bytes, size);
			CHECK(nothing_more(pair.to));
		}
	}
}

static void by_names(const struct data *data, struct pair pair, size_t at)
{
	ssize_t bytes = 201 * PACKET_BYTES + 7, half = bytes / 2;
	struct wirepath_rtp rtp = rtp_of(), header = rtp;
	off_t offset = at;

	CHECK(wirepath_kmsend(device, pair.from, data->mapping + at, bytes, PACKET_BYTES) == bytes);
	expect_plain(pair.to, data->bytes + at, bytes, PACKET_BYTES);
	CHECK(wirepath_ksendfile(device, pair.from, data->file, &offset, bytes, PACKET_BYTES) == bytes);
	CHECK(offset == (off_t)at + bytes);
	expect_plain(pair.to, data->bytes + at, bytes, PACKET_BYTES);

	offset = at;
	CHECK(wirepath_krtpsendfile(device, pair.from, data->file, &offset, half, PACKET_BYTES,
				    &rtp) == half);
	CHECK(wirepath_krtpmsend(device, pair.from, data->mapping + at + half, bytes - half, PACKET_BYTES,
				 &rtp) == bytes - half);
	expect_rtp_run(pair.to, &header, data->bytes + at, half, PACKET_BYTES, 0);
	expect_rtp_run(pair.to, &header, data->bytes + at + half, bytes - half, PACKET_BYTES, 0);
	CHECK(nothing_more(pair.to));
	CHECK(rtp.octets == (size_t)bytes && rtp.packets == (unsigned short)(rtp.sequence + 2));
	CHECK(rtp.last_timestamp + 90 == rtp.timestamp && rtp.last_ns != 0);
}

/* Packets by themselves, trains of some, copies: the same bytes. */
static void by_trains(const struct data *data, struct pair pair, unsigned int train, int copy)
{
	size_t bytes = 100 * 1200 + 5;
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 4093, bytes);
	struct wirepath_rtp rtp = rtp_of(), header = rtp;

	send = with_rtp(cut(send, 1200, train), &rtp);
	send.flags = copy ? WIREPATH_COPY : 0;
	CHECK(!ioctl(device, WIREPATH_SEND, &send), "train %u", train);
	CHECK(send.length == 0 && send.bytes == bytes && send.packets == 101);
	CHECK(send.offset == 4093 + bytes);
	CHECK(send.copied_bytes == (copy || !references ? bytes : 0) ||
	      (train <= 1 && send.copied_bytes < bytes), "%llu copied",
	      (unsigned long long)send.copied_bytes);
	CHECK(train > 1 ? send.trains < 30 : send.trains == 101, "%llu trains",
	      (unsigned long long)send.trains);
	expect_rtp_run(pair.to, &header, data->bytes + 4093, bytes, 1200, 0);
	CHECK(nothing_more(pair.to));
}

void runs_of_packets(const struct data *data, struct pair pair)
{
	for EACH_OFFSET(i)
		by_names(data, pair, offsets[i]);
	for (unsigned int train = 0; train <= 64; train = train ? train * 4 : 1)
		for (int copy = 0; copy < 2; copy++)
			by_trains(data, pair, train, copy);
}
