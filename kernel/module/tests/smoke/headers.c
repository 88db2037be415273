// SPDX-License-Identifier: GPL-2.0
/* Headers: given ones in a run; a table of frames; markers. */
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

void headers(const struct data *data, struct pair pair)
{
	given(data, pair);
	table(data, pair);
}
