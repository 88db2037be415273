// SPDX-License-Identifier: GPL-2.0
/* SEND with one thing wrong: the answer, and that nothing was sent. */
#include "smoke.h"

static int answer(struct wirepath_send send)
{
	int got = ioctl(device, WIREPATH_SEND, &send);

	CHECK(send.bytes == 0 && send.packets == 0);
	return got < 0 ? errno : 0;
}

static void fields(const struct wirepath_send good, int socket_file)
{
	static unsigned char packet[65536];
	struct wirepath_send send;
	int pipes[2], directory = open("/", O_RDONLY), raw = socket(AF_UNIX, SOCK_DGRAM, 0);
	int write_only = open("/tmp/smoke-wo", O_WRONLY | O_CREAT, 0600);

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
	ANSWERS(ENOTSOCK, send.socket = socket_file);
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
	ANSWERS(EFAULT, send.header_kind = 2; send.header_bytes = sizeof(struct wirepath_rtp); send.header = 8);
	ANSWERS(EINVAL, send.address = (__u64)(size_t)packet);
	ANSWERS(EINVAL, send.address_bytes = 16);
	ANSWERS(EINVAL, send.address = (__u64)(size_t)packet; send.address_bytes = 4096);
	ANSWERS(EFAULT, send.address = 8; send.address_bytes = 16);
	ANSWERS(EINVAL, send.skip_bytes = WIREPATH_HEADER_BYTES_MAX + 1);
	ANSWERS(EINVAL, send.skip_bytes = ~0U);
	ANSWERS(EFAULT, send.file = -1; send.offset = 4096);
	ANSWERS(EFAULT, send.file = -1; send.offset = 0xffff800000000000ULL);
	ANSWERS(ENODATA, send.offset = 1ULL << 40);
	close(pipes[0]);
	close(pipes[1]);
	close(directory);
	close(write_only);
	unlink("/tmp/smoke-wo");
	close(raw);
}

static void rtp_fields(const struct wirepath_send good)
{
	struct wirepath_rtp rtp;
	struct wirepath_send send = with_rtp(good, &rtp);

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
}

static void longer_structures(const struct wirepath_send good, struct pair pair)
{
	struct {
		struct wirepath_send send;
		__u64 more;
	} longer = { .send = good, .more = 1 };
	unsigned char packet[65536];

	longer.send.size = sizeof(longer);
	CHECK(ioctl(device, WIREPATH_SEND, &longer) < 0 && errno == E2BIG);
	CHECK(nothing_more(pair.to));
	longer.more = 0;
	CHECK(!ioctl(device, WIREPATH_SEND, &longer));
	CHECK(receive(pair.to, packet) == 1000);
}

/* The numbers of the first header, without direction and size, and of a later one. */
static void other_numbers(struct wirepath_send good, struct pair pair)
{
	unsigned int longer = _IOC(_IOC_READ | _IOC_WRITE, WIREPATH_IOC, 1, 1000);
	unsigned char packet[65536];
	struct wirepath_send send = good;

	CHECK(!ioctl(device, _IO(WIREPATH_IOC, 1), &send));
	CHECK(receive(pair.to, packet) == 1000);
	send = good;
	CHECK(!ioctl(device, longer, &send));
	CHECK(receive(pair.to, packet) == 1000);
	CHECK(ioctl(device, _IOC(_IOC_READ, WIREPATH_IOC, 1, 104), &send) < 0 && errno == ENOTTY);
}

void misuse(const struct data *data, struct pair pair)
{
	struct wirepath_send good = wirepath_send_of(pair.from, data->file, 0, 1000);

	fields(good, data->file);
	rtp_fields(good);
	longer_structures(good, pair);
	other_numbers(good, pair);
	CHECK(ioctl(device, WIREPATH_SEND, 8) < 0 && errno == EFAULT);
	CHECK(ioctl(device, _IO(WIREPATH_IOC, 99), 0) < 0 && errno == ENOTTY);
}
