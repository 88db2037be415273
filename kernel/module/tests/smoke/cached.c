// SPDX-License-Identifier: GPL-2.0
/*
 * A file of FUSE in the page cache: sent from there, invalidated by its server,
 * between calls and during a run; and with a server that answers no more when
 * half of the file is cached.
 */
#include "served.h"

#define HALF (DATA_BYTES / 2)
#define FOLIO_BYTES 4096
#define PACKETS 400

/* The server's state, which the test changes. */
static struct content {
	unsigned int version;	/* of the bytes, 0 or 1 */
	unsigned int reads;	/* answered */
	__u64 silent_from;	/* reads beyond are not answered */
} *content;

static unsigned char byte_at(__u64 offset, unsigned int version)
{
	return (offset * 7 >> 3) ^ (offset >> 12) ^ (version ? 0xa5 : 0);
}

static void answer(int fuse, int asked, const struct fuse_in_header *in)
{
	static struct {
		struct fuse_out_header head;
		unsigned char bytes[1 << 18];
	} out;
	const struct fuse_read_in *read_in = (const void *)(in + 1);
	unsigned int version = __atomic_load_n(&content->version, __ATOMIC_SEQ_CST);
	__u32 bytes = read_in->size;

	if (read_in->offset + bytes > content->silent_from) {
		if (write(asked, "", 1) != 1)
			_exit(1);
		return;
	}
	if (bytes > sizeof(out.bytes))
		_exit(1);
	for (__u32 i = 0; i < bytes; i++)
		out.bytes[i] = byte_at(read_in->offset + i, version);
	out.head = (struct fuse_out_header){ .len = sizeof(out.head) + bytes, .unique = in->unique };
	__atomic_fetch_add(&content->reads, 1, __ATOMIC_SEQ_CST);
	if (write(fuse, &out, out.head.len) != (ssize_t)out.head.len)
		_exit(1);
}

/* Sends most of the file by one call, and compares what arrives. */
static void expect_version(struct pair pair, int file, unsigned int version)
{
	static unsigned char bytes[DATA_BYTES];
	struct wirepath_rtp rtp = rtp_of(), header = rtp;
	struct wirepath_send send = with_rtp(cut(wirepath_send_of(pair.from, file, 12345, 400000),
						 1316, 64), &rtp);

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = byte_at(i, version);
	CHECK(!ioctl(device, WIREPATH_SEND, &send) && send.bytes == 400000);
	expect_rtp_run(pair.to, &header, bytes + 12345, 400000, 1316, 0);
	CHECK(nothing_more(pair.to));
}

/* Calls ask the server for nothing; pages are read again when the server says so, not before. */
static void cached_and_invalidated(struct pair pair, int file, int notices)
{
	static unsigned char bytes[DATA_BYTES];
	unsigned int reads;

	/* All of it, or more would be read ahead. */
	CHECK(pread(file, bytes, sizeof(bytes), 0) == sizeof(bytes));
	reads = content->reads;
	expect_version(pair, file, 0);
	content->version = 1;
	expect_version(pair, file, 0);
	CHECK(content->reads == reads, "%u reads, %u before", content->reads, reads);
	CHECK(!served_invalidate(notices));
	expect_version(pair, file, 1);
	CHECK(content->reads > reads);
}

/* The version of bytes that lie in one page, or -1. */
static int version_of(const unsigned char *bytes, __u64 offset, size_t count)
{
	for (int version = 0; version < 2; version++) {
		size_t same = 0;

		while (same < count && bytes[same] == byte_at(offset + same, version))
			same++;
		if (same == count)
			return version;
	}
	return -1;
}

/* Each page has one version, whichever; both are seen. */
static void invalidated_during_a_run(struct pair pair, int file, int notices)
{
	struct wirepath_send send = cut(wirepath_send_of(pair.from, file, 0, PACKETS * 1000), 1000, 8);
	/* Slow: the second window is read 1.3 s after the start, the version changes after 0.4 s. */
	struct wirepath_start start = start_of(&send, 200000);
	struct wirepath_status status;
	static unsigned char packet[65536];
	int run, seen[2] = { 0, 0 };

	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	for (__u64 at = 0; at < PACKETS * 1000; at += 1000) {
		size_t first = FOLIO_BYTES - at % FOLIO_BYTES;
		int versions[2];

		/* Behind a window of 64 pages, there is another one to be read. */
		if (at == 80000)
			content->version = !content->version;
		if (at % 40000 == 0)
			CHECK(!served_invalidate(notices));
		CHECK(receive(pair.to, packet) == 1000, "packet at %llu", at);
		first = first < 1000 ? first : 1000;
		versions[0] = version_of(packet, at, first);
		versions[1] = version_of(packet + first, at + first, 1000 - first);
		CHECK(versions[0] >= 0 && versions[1] >= 0, "packet at %llu", at);
		if (versions[0] >= 0)
			seen[versions[0]]++;
	}
	CHECK(seen[0] > 0 && seen[1] > 0, "%d and %d", seen[0], seen[1]);
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == 0 && status.packets == PACKETS,
	      "state %u error %d", status.state, status.error);
	CHECK(nothing_more(pair.to));
	close(run);
}

/* Receives packets of the file's beginning while there are some: how many bytes. */
static __u64 received_bytes(struct pair pair)
{
	static unsigned char packet[65536];
	ssize_t got;
	__u64 at = 0;

	while ((got = recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT)) > 0) {
		CHECK(got == 1000, "%zd bytes at %llu", got, at);
		for (ssize_t i = 0; i < got; i++) {
			if (packet[i] != byte_at(at + i, content->version)) {
				CHECK(!"bytes of the file", "at %llu", at + i);
				break;
			}
		}
		at += got;
	}
	return at;
}

static void drop_packets(struct pair pair)
{
	static unsigned char packet[65536];

	while (recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		;
}

/* What a sender may hold back before a page that is missing: a window of 64 pages, and a train. */
static int is_half(__u64 bytes)
{
	return bytes <= HALF && bytes + 64 * FOLIO_BYTES + 65507 >= HALF;
}

/* Waits until a process or a run has sent what is cached: how many bytes. */
static __u64 wait_for_half(struct pair pair)
{
	struct pollfd ready = { .fd = pair.to, .events = POLLIN };
	static unsigned char packet[65536];
	__u64 bytes = 0;

	while (!is_half(bytes) && poll(&ready, 1, 30000) == 1 &&
	       recv(pair.to, packet, sizeof(packet), 0) == 1000)
		bytes += 1000;
	return bytes;
}

/*
 * Without waiting, what is cached is sent. With a silent server, a call that waits
 * for the rest ends with its process, and closing a run does not wait; the run's
 * thread ends with the server.
 */
static void silent_behind_half(struct pair pair, int file, int asked)
{
	struct wirepath_send send = cut(wirepath_send_of(pair.from, file, 0, DATA_BYTES), 1000, 32);
	struct wirepath_send begun = send;
	struct wirepath_start start = start_of(&send, 50000000);
	struct pollfd ready = { .fd = asked, .events = POLLIN };
	struct wirepath_status status;
	static unsigned char bytes[HALF];
	pid_t child;
	int run, state;

	CHECK(!posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM));
	CHECK(pread(file, bytes, sizeof(bytes), 0) == sizeof(bytes));
	begun.flags = WIREPATH_DONTWAIT;
	CHECK(ioctl(device, WIREPATH_SEND, &begun) < 0 && errno == EAGAIN);
	CHECK(is_half(begun.bytes), "%llu bytes", begun.bytes);
	CHECK(received_bytes(pair) == begun.bytes);
	CHECK(poll(&ready, 1, 30000) == 1 && ready.revents & POLLIN, "events %x", ready.revents);

	child = fork();
	if (!child) {
		ioctl(device, WIREPATH_SEND, &send);
		_exit(1);
	}
	CHECK(is_half(wait_for_half(pair)));
	CHECK(waits_in_call(child), "SEND did not wait");
	kill(child, SIGKILL);
	CHECK(waitpid(child, &state, 0) == child && WIFSIGNALED(state), "state %x", state);
	drop_packets(pair);

	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	CHECK(is_half(wait_for_half(pair)));
	status = status_of(run, WIREPATH_STATUS);
	CHECK(status.state == WIREPATH_RUN_GOING && status.bytes <= HALF, "state %u, %llu bytes",
	      status.state, status.bytes);
	close(run);
}

void cached_storage(const struct data *data, struct pair pair)
{
	char name[] = "/tmp/smoke-fuse-XXXXXX";
	int file, asked[2], notices, users = module_users();
	struct stat size;
	pid_t server;

	(void)data;
	close(mkstemp(name));
	if (pipe(asked))
		die("pipe");
	content = mmap(NULL, sizeof(*content), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (content == MAP_FAILED)
		die("mmap");
	content->silent_from = DATA_BYTES;
	server = served_mount_cached(name, asked[1], answer, &notices);
	close(asked[1]);
	if (server < 0) {
		SKIP("no FUSE (%s)", strerror(errno));
	} else {
		file = open(name, O_RDONLY);
		/* Only asking makes the size known, without which the file is empty. */
		CHECK(!fstat(file, &size) && size.st_size == DATA_BYTES);
		cached_and_invalidated(pair, file, notices);
		invalidated_during_a_run(pair, file, notices);
		CHECK(!served_invalidate(notices));
		content->silent_from = HALF;
		silent_behind_half(pair, file, asked[0]);
		close(file);
		close(notices);
		served_end(name, server);
		while (module_users() > users)
			;
		drop_packets(pair);
	}
	close(asked[0]);
	munmap(content, sizeof(*content));
	unlink(name);
}
