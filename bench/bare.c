/*
 * Bare loops: what sending costs when nothing else is done. The floor that the server is compared with.
 *
 *   bare PATH PAYLOAD_BYTES FILE PACKETS_PER_TRAIN SOCKETS
 *
 * Sends so many bytes of payload in packets of 12 + 1316 bytes to 10.80.0.0/16, port 5000, one train to each of the
 * connected sockets in turn, and prints user and system CPU seconds and the number of packets:
 *
 *   USER SYSTEM PACKETS
 *
 * FILE is read round and round and is in the page cache. For wire_sendfile its bytes are ready packets, for the others
 * payload; what they mean does not matter to a sink that drops.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEADER 12
#define PAYLOAD 1316
#define PACKET (HEADER + PAYLOAD)
#define MOST_PACKETS 48
#define UDP_SEGMENT 103 /* linux/udp.h, since 4.18 */

struct job {
	int file;
	const char *mapping;
	off_t length;
	unsigned packets_per_train;
	unsigned socket_count;
	int *sockets;
};

static unsigned char headers[MOST_PACKETS][HEADER];

static void header_make(unsigned index, uint16_t sequence)
{
	static const unsigned char first[HEADER] = { 0x80, 33 };

	memcpy(headers[index], first, HEADER);
	sequence = htons(sequence);
	memcpy(headers[index] + 2, &sequence, 2);
}

/* One call: the kernel takes page references and cuts the train by UDP_SEGMENT. */
static void wire_sendfile(const struct job *job, int socket, off_t offset, uint16_t sequence)
{
	size_t length = (size_t)job->packets_per_train * PACKET;

	(void)sequence;
	if (sendfile(socket, job->file, &offset, length) != (ssize_t)length)
		err(1, "sendfile");
}

static void gather(const struct job *job, struct iovec *vector, off_t offset, uint16_t sequence)
{
	for (unsigned i = 0; i < job->packets_per_train; i++) {
		header_make(i, sequence + i);
		vector[2 * i] = (struct iovec){ headers[i], HEADER };
		vector[2 * i + 1] = (struct iovec){ (char *)job->mapping + offset + i * PAYLOAD, PAYLOAD };
	}
}

/* One call: headers and mapping gathered, copied once, cut by UDP_SEGMENT. */
static void gso_writev(const struct job *job, int socket, off_t offset, uint16_t sequence)
{
	struct iovec vector[2 * MOST_PACKETS];
	struct msghdr message = { .msg_iov = vector, .msg_iovlen = 2 * job->packets_per_train };

	gather(job, vector, offset, sequence);
	if (sendmsg(socket, &message, 0) != (ssize_t)job->packets_per_train * PACKET)
		err(1, "sendmsg");
}

/* One call, but the network stack is gone through for each packet. */
static void send_mmsg(const struct job *job, int socket, off_t offset, uint16_t sequence)
{
	struct iovec vector[2 * MOST_PACKETS];
	struct mmsghdr messages[MOST_PACKETS] = { 0 };

	gather(job, vector, offset, sequence);
	for (unsigned i = 0; i < job->packets_per_train; i++) {
		messages[i].msg_hdr.msg_iov = &vector[2 * i];
		messages[i].msg_hdr.msg_iovlen = 2;
	}
	if (sendmmsg(socket, messages, job->packets_per_train, 0) != (int)job->packets_per_train)
		err(1, "sendmmsg");
}

/* Two calls and two copies for each packet: what a program does that knows nothing of all this. */
static void read_writev(const struct job *job, int socket, off_t offset, uint16_t sequence)
{
	static char buffer[PAYLOAD];

	for (unsigned i = 0; i < job->packets_per_train; i++) {
		struct iovec vector[2] = { { headers[0], HEADER }, { buffer, PAYLOAD } };

		header_make(0, sequence + i);
		if (pread(job->file, buffer, PAYLOAD, offset + i * PAYLOAD) != PAYLOAD)
			err(1, "pread");
		if (writev(socket, vector, 2) != PACKET)
			err(1, "writev");
	}
}

static const struct {
	const char *name;
	void (*send)(const struct job *, int, off_t, uint16_t);
	int segments;	 /* needs UDP_SEGMENT */
	int packet_size; /* bytes of the file for a packet */
} paths[] = {
	{ "wire_sendfile", wire_sendfile, 1, PACKET },
	{ "gso_writev", gso_writev, 1, PAYLOAD },
	{ "sendmmsg", send_mmsg, 0, PAYLOAD },
	{ "read_writev", read_writev, 0, PAYLOAD },
};

static void sockets_open(struct job *job, int segments)
{
	job->sockets = calloc(job->socket_count, sizeof(int));
	if (!job->sockets)
		err(1, "calloc");
	for (unsigned i = 0; i < job->socket_count; i++) {
		struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(5000) };
		int size = PACKET;

		to.sin_addr.s_addr = htonl((10u << 24 | 80u << 16) + 256 + i);
		job->sockets[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (job->sockets[i] < 0 || connect(job->sockets[i], (struct sockaddr *)&to, sizeof(to)))
			err(1, "socket %u", i);
		if (segments && setsockopt(job->sockets[i], IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)))
			err(1, "UDP_SEGMENT");
	}
}

static void file_open(struct job *job, const char *name)
{
	struct stat status;

	job->file = open(name, O_RDONLY | O_CLOEXEC);
	if (job->file < 0 || fstat(job->file, &status))
		err(1, "%s", name);
	job->length = status.st_size;
	job->mapping = mmap(NULL, job->length, PROT_READ, MAP_SHARED | MAP_POPULATE, job->file, 0);
	if (job->mapping == MAP_FAILED)
		err(1, "mmap");
}

static double seconds(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

static unsigned number(const char *text, unsigned most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || value < 1 || value > most)
		errx(1, "%s is no number from 1 to %u", text, most);
	return value;
}

static uint64_t run(struct job *job, unsigned path, uint64_t bytes)
{
	off_t step = (off_t)job->packets_per_train * paths[path].packet_size;
	uint64_t packets = 0;
	off_t offset = 0;

	if (job->length < step)
		errx(1, "the file is shorter than a train");
	for (unsigned socket = 0; packets * PAYLOAD < bytes; socket = (socket + 1) % job->socket_count) {
		if (offset + step > job->length)
			offset = 0;
		paths[path].send(job, job->sockets[socket], offset, packets);
		packets += job->packets_per_train;
		offset += step;
	}
	return packets;
}

int main(int count, char **arguments)
{
	struct rusage before, after;
	struct job job;
	unsigned path;
	uint64_t bytes, packets;

	if (count != 6)
		errx(1, "usage: bare PATH PAYLOAD_BYTES FILE PACKETS_PER_TRAIN SOCKETS");
	for (path = 0; strcmp(paths[path].name, arguments[1]); path++)
		if (path + 1 == sizeof(paths) / sizeof(*paths))
			errx(1, "no path %s", arguments[1]);
	bytes = strtoull(arguments[2], NULL, 10);
	job.packets_per_train = number(arguments[4], MOST_PACKETS);
	job.socket_count = number(arguments[5], 60000);
	file_open(&job, arguments[3]);
	sockets_open(&job, paths[path].segments);
	run(&job, path, bytes / 16); /* caches, frequency, the sockets' routes */

	getrusage(RUSAGE_SELF, &before);
	packets = run(&job, path, bytes);
	getrusage(RUSAGE_SELF, &after);
	printf("%.6f %.6f %llu\n", seconds(after.ru_utime) - seconds(before.ru_utime),
	       seconds(after.ru_stime) - seconds(before.ru_stime), (unsigned long long)packets);
	return 0;
}
