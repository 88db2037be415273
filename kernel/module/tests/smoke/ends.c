// SPDX-License-Identifier: GPL-2.0
/* Where the source ends: of a file, of memory, and while it is on its way. */
#include "smoke.h"

static void end_of_file(struct pair pair)
{
	static unsigned char bytes[10000], zeros[70000];
	struct wirepath_send send;
	int file = temporary_file();
	off_t offset = 9000;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = i * 7;
	if (write(file, bytes, sizeof(bytes)) != sizeof(bytes))
		die("write");
	send = cut(wirepath_send_of(pair.from, file, 0, 12000), 3000, 0);
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == ENODATA);
	CHECK(send.bytes == 10000 && send.length == 2000 && send.packets == 4);
	expect_plain(pair.to, bytes, 10000, 3000);
	CHECK(wirepath_ksendfile(device, pair.from, file, &offset, WIREPATH_TO_END, 900) == 1000);
	expect_plain(pair.to, bytes + 9000, 1000, 900);
	/* A hole, and a file that is cut while its pages are on their way. */
	if (ftruncate(file, 100000))
		die("ftruncate");
	offset = 20000;
	CHECK(wirepath_ksendfile(device, pair.from, file, &offset, 70000, 1000) == 70000);
	expect_plain(pair.to, zeros, 70000, 1000);
	offset = 0;
	CHECK(wirepath_ksendfile(device, pair.from, file, &offset, 8000, 1000) == 8000);
	if (ftruncate(file, 0))
		die("ftruncate");
	offset = 0;
	CHECK(wirepath_ksendfile(device, pair.from, file, &offset, 8000, 1000) == 0);
	/* The bytes of before or the zeros of a cut page, whole packets. */
	for (int i = 0; i < 8; i++) {
		unsigned char packet[65536];

		CHECK(receive(pair.to, packet) == 1000);
	}
	CHECK(nothing_more(pair.to));
	close(file);
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
	CHECK(wirepath_kmsend(device, pair.from, memory, bytes, 1000) == (ssize_t)bytes);
	munmap(memory, bytes + 4096);
	expect_plain(pair.to, copy, bytes, 1000);
	/* Half of it is not there: what is, is sent. */
	memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(memory + 4096, 4096);
	memcpy(memory, copy, 4096);
	CHECK(wirepath_kmsend(device, pair.from, memory, 8192, 1000) == 4000);
	expect_plain(pair.to, copy, 4000, 1000);
	munmap(memory, 4096);
	free(copy);
}

/* Files that are cut, punched and written to while runs send them. */
static void changing_file(struct pair pair)
{
	static unsigned char page[65536];
	int file = temporary_file(), strange = 0;
	struct wirepath_rtp rtp;
	__u64 began = now_ns();

	memset(page, 0xaa, sizeof(page));
	for (int round = 0; goes_on(round, 20, 100, began); round++) {
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
		CHECK(wirepath_krtpsendfile(device, pair.from, file, &offset, WIREPATH_TO_END, 1300, &rtp) >= 0);
		waitpid(child, NULL, 0);
		for (ssize_t got; (got = recv(pair.to, page, sizeof(page), MSG_DONTWAIT)) > 0;)
			for (ssize_t i = 12; i < got; i++)
				strange += page[i] != 0xaa && page[i] != 0;
		memset(page, 0xaa, sizeof(page));
	}
	CHECK(!strange, "%d bytes that never were in the file", strange);
	close(file);
}

void ends(const struct data *data, struct pair pair)
{
	(void)data;
	end_of_file(pair);
	memory_that_goes(pair);
	changing_file(pair);
}
