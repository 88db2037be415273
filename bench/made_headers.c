/*
 * Ways to send trains whose RTP headers are made by the sender, to sockets that segment them: what each costs.
 *
 *   made_headers FOLDER ROUNDS
 *
 * To be run where 10.90.0.0/16 is dropped by a device that takes whole trains. Sends trains of 36 and 8 packets from files of 1, 30
 * and 2,560 MiB in the page cache (hot, larger than a second-level cache, cold), to 1,000 sockets, each at a place of its own, by
 * each way in turn. Prints a line for each round and case (CSV): nanoseconds of the thread's processor time for a train.
 *
 *   gather      a sendmsg of a header and a range of the mapping for each packet, as the server does (gso_writev)
 *   prefetch    the same, after the train's cache lines were prefetched
 *   image       a pread of packets that are stored with headers, which are written over, and a send
 *   asset       a preadv of payload behind room for the headers, which are written, and a send
 *   stored      a send of packets as they are stored, from the mapping
 *   sendfile    a sendfile of packets as they are stored, which copies nothing
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024ul * 1024)
#define HEADER 12
#define PAYLOAD 1316
#define PACKET (HEADER + PAYLOAD)
#define SOCKETS 1000
#define FEWEST 4000 /* trains of a case in a round */
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* linux/udp.h, since 4.18 */
#endif

static const char *const ways[] = { "gather", "prefetch", "image", "asset", "stored", "sendfile" };
enum { GATHER, PREFETCH, IMAGE, ASSET, STORED, SENDFILE, WAYS };
static const size_t sizes[] = { 1, 30, 2560 }, trains[] = { 36, 8 };

static int sockets[SOCKETS], file;
static char *mapping, stage[64 * 1024] __attribute__((aligned(4096))), headers[64][HEADER];
static uint16_t sequence;

static uint64_t thread_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void header(char *to)
{
	uint16_t number = htons(sequence);
	uint32_t rest[2] = { htonl(sequence++ * 90u), htonl(7) };

	to[0] = (char)0x80;
	to[1] = 33;
	memcpy(to + 2, &number, sizeof(number));
	memcpy(to + 4, rest, sizeof(rest));
}

static void send_train(unsigned way, int to, size_t packets, off_t offset)
{
	size_t stride = way == ASSET ? PAYLOAD : PACKET, length = packets * PACKET;
	struct iovec vectors[128];
	struct msghdr message = { .msg_iov = vectors, .msg_iovlen = 2 * packets };
	char *from = mapping + offset;
	ssize_t sent = 0, read = packets * stride;

	switch (way) {
	case PREFETCH:
		for (size_t at = 0; at < length; at += 64)
#if defined(__x86_64__)
			__asm__ volatile("prefetcht0 %0" : : "m"(from[at]));
#else
			__builtin_prefetch(from + at);
#endif
		/* fall through */
	case GATHER:
		for (size_t i = 0; i < packets; i++) {
			header(headers[i]);
			vectors[2 * i] = (struct iovec){ headers[i], HEADER };
			vectors[2 * i + 1] = (struct iovec){ from + i * PACKET + HEADER, PAYLOAD };
		}
		sent = sendmsg(to, &message, MSG_DONTWAIT);
		break;
	case IMAGE:
	case ASSET:
		for (size_t i = 0; i < packets; i++)
			vectors[i] = (struct iovec){ stage + i * PACKET + HEADER, PAYLOAD };
		if ((way == IMAGE ? pread(file, stage, length, offset) : preadv(file, vectors, packets, offset)) != read)
			err(1, "pread");
		for (size_t i = 0; i < packets; i++)
			header(stage + i * PACKET);
		sent = send(to, stage, length, MSG_DONTWAIT);
		break;
	case STORED:
		sent = send(to, from, length, MSG_DONTWAIT);
		break;
	case SENDFILE:
		sent = sendfile(to, file, &offset, length);
		break;
	}
	if (sent != (ssize_t)length)
		err(1, "%s: %zd of %zu bytes", ways[way], sent, length);
}

static void file_make(const char *folder, size_t length)
{
	static char bytes[MIB];

	file = open(folder, O_TMPFILE | O_RDWR, 0600);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)random();
	for (size_t written = 0; written < length; written += sizeof(bytes))
		if (write(file, bytes, sizeof(bytes)) != sizeof(bytes))
			err(1, "%s", folder);
	mapping = mmap(NULL, length, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
	if (file < 0 || mapping == MAP_FAILED)
		err(1, "%s", folder);
}

static void sockets_open(void)
{
	for (unsigned i = 0; i < SOCKETS; i++) {
		struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(5004) };
		int segment = PACKET;

		to.sin_addr.s_addr = htonl(0x0a5a0000 + i + 1);
		sockets[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (sockets[i] < 0 || connect(sockets[i], (struct sockaddr *)&to, sizeof(to)) ||
		    setsockopt(sockets[i], IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)))
			err(1, "sockets");
	}
}

static void measure(size_t size, size_t packets, unsigned rounds)
{
	static size_t places[SOCKETS];
	size_t last = size * MIB / (packets * PACKET);

	for (unsigned i = 0; i < SOCKETS; i++)
		places[i] = random() % last;
	for (unsigned round = 0; round <= rounds; round++)
		for (unsigned step = 0; step < WAYS; step++) {
			unsigned way = (step + round) % WAYS;
			uint64_t before = thread_time();

			for (unsigned i = 0; i < FEWEST; i++) {
				size_t *place = &places[i % SOCKETS];

				send_train(way, sockets[i % SOCKETS], packets, *place * packets * PACKET);
				*place = (*place + 1) % last;
			}
			if (round) /* the first one warms up */
				printf("%u,%zu,%zu,%s,%llu\n", round - 1, size, packets, ways[way],
				       (unsigned long long)(thread_time() - before) / FEWEST);
		}
}

int main(int count, char **arguments)
{
	if (count != 3)
		errx(1, "usage: made_headers FOLDER ROUNDS");
	sockets_open();
	puts("round,mib,packets,way,ns_per_train");
	for (unsigned i = 0; i < 3; i++) {
		file_make(arguments[1], sizes[i] * MIB);
		for (unsigned j = 0; j < 2; j++)
			measure(sizes[i], trains[j], atoi(arguments[2]));
		munmap(mapping, sizes[i] * MIB);
		close(file);
	}
	return 0;
}
