/*
 * Bare loops: what sending costs when nothing else is done. The floor that the server is compared with.
 *
 *   bare PATH PAYLOAD_BYTES FILE PACKETS_PER_TRAIN SOCKETS [PAYLOAD_OF_A_PACKET [TRAINS_PER_WAKEUP INTERVAL_US]]
 *   bare paths
 *
 * Sends so many bytes of payload in packets of 12 + 1316 bytes (or what is asked for) to 10.80.0.0/16, port 5000, one train to each of the
 * connected sockets in turn, and prints user and system CPU seconds, the number of packets, and seconds on the wall:
 *
 *   USER SYSTEM PACKETS WALL
 *
 * `bare paths` prints the paths there are.
 *
 * With an interval, it sleeps after so many trains until the next multiple of the interval, as a server does that has nothing due.
 *
 * FILE is read round and round and is in the page cache. For wire_sendfile, wire_mapping and wire_uring its bytes are ready
 * packets, for the others payload; what they mean does not matter to a sink that drops.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HEADER 12
#define MOST_PAYLOAD 65495
#define MOST_FILE (1 << 30) /* a registered buffer of an io_uring is no larger */
#define MOST_PACKETS 48
#define UDP_SEGMENT 103 /* linux/udp.h, since 4.18 */

struct job {
	int file;
	const char *mapping;
	off_t length;
	unsigned packets_per_train;
	unsigned socket_count;
	int *sockets;
	unsigned trains_per_wakeup; /* 0: it never sleeps */
	unsigned interval_us;
};

static ssize_t payload = 1316; /* bytes of a packet, without its header and with it */
static ssize_t packet = HEADER + 1316;

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
	size_t length = (size_t)job->packets_per_train * packet;

	(void)sequence;
	if (sendfile(socket, job->file, &offset, length) != (ssize_t)length)
		err(1, "sendfile");
}

/*
 * An io_uring, as its kernel interface has it: no library. Trains are queued, and TRAINS_PER_CALL of them sent by one call, from
 * a copy of the file that was registered, or from the mapping of the file. The call also runs what the kernel deferred: it waits
 * for as many answers as there are trains, since Linux 6.13 takes that number as its limit for notifications.
 */
#define TRAINS_PER_CALL 64
#define RING_ENTRIES 256

static struct {
	int fd;
	unsigned *sq_tail, *cq_head, *cq_tail, sq_mask, cq_mask;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *completions;
	const char *memory;
	unsigned flags;	    /* of each send */
	unsigned queued;    /* not yet submitted */
	uint64_t in_flight; /* submitted, and the network is not done with them */
} ring;

/* The file's bytes in memory that a ring takes as a buffer; a mapping of an ordinary file it does not take. */
static struct iovec memory_copy(const struct job *job)
{
	int memory = memfd_create("bare", MFD_CLOEXEC);
	void *copy;

	if (memory < 0 || ftruncate(memory, job->length))
		err(1, "memfd");
	copy = mmap(NULL, job->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, 0);
	if (copy == MAP_FAILED)
		err(1, "mmap");
	memcpy(copy, job->mapping, job->length);
	close(memory);
	return (struct iovec){ copy, job->length };
}

static void ring_open(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN };
	size_t length;
	char *queues;

	ring.fd = syscall(__NR_io_uring_setup, RING_ENTRIES, &params);
	if (ring.fd < 0)
		err(1, "io_uring_setup");
	length = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	if (length < params.sq_off.array + params.sq_entries * sizeof(unsigned))
		length = params.sq_off.array + params.sq_entries * sizeof(unsigned);
	queues = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
	ring.entries = mmap(NULL, params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
	if (queues == MAP_FAILED || ring.entries == MAP_FAILED)
		err(1, "mmap of the ring");
	ring.sq_tail = (unsigned *)(queues + params.sq_off.tail);
	ring.sq_mask = *(unsigned *)(queues + params.sq_off.ring_mask);
	ring.cq_head = (unsigned *)(queues + params.cq_off.head);
	ring.cq_tail = (unsigned *)(queues + params.cq_off.tail);
	ring.cq_mask = *(unsigned *)(queues + params.cq_off.ring_mask);
	ring.completions = (struct io_uring_cqe *)(queues + params.cq_off.cqes);
	for (unsigned i = 0; i < params.sq_entries; i++)
		((unsigned *)(queues + params.sq_off.array))[i] = i;
}

static void ring_open_registered(const struct job *job)
{
	struct iovec memory = memory_copy(job);

	ring_open();
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &memory, 1))
		err(1, "io_uring_register");
	ring.memory = memory.iov_base;
	ring.flags = IORING_RECVSEND_FIXED_BUF;
}

static void ring_open_mapping(const struct job *job)
{
	ring_open();
	ring.memory = job->mapping;
}

/* Submits what is queued, and takes what is told: of each send its result, and later that its memory is free. */
static void ring_enter(const struct job *job, unsigned wait_for)
{
	unsigned head = *ring.cq_head, tail;

	if (syscall(__NR_io_uring_enter, ring.fd, ring.queued, wait_for, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		err(1, "io_uring_enter");
	ring.in_flight += ring.queued;
	ring.queued = 0;
	tail = __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE);
	for (; head != tail; head++) {
		const struct io_uring_cqe *told = &ring.completions[head & ring.cq_mask];

		if (!(told->flags & IORING_CQE_F_NOTIF) && told->res != (int)(job->packets_per_train * packet))
			errx(1, "send_zc: %s", told->res < 0 ? strerror(-told->res) : "sent in part");
		ring.in_flight -= !(told->flags & IORING_CQE_F_MORE);
	}
	__atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
}

/* A call for many trains, no copy: pages were pinned when the memory was registered, or are looked up for each train. */
static void ring_send(const struct job *job, int socket, off_t offset, uint16_t sequence)
{
	struct io_uring_sqe *entry = &ring.entries[*ring.sq_tail & ring.sq_mask];

	(void)sequence;
	memset(entry, 0, sizeof(*entry));
	entry->opcode = IORING_OP_SEND_ZC;
	entry->fd = socket;
	entry->addr = (uintptr_t)(ring.memory + offset);
	entry->len = job->packets_per_train * packet;
	entry->msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	entry->ioprio = ring.flags;
	__atomic_store_n(ring.sq_tail, *ring.sq_tail + 1, __ATOMIC_RELEASE);
	if (++ring.queued == TRAINS_PER_CALL)
		ring_enter(job, ring.queued);
}

static void ring_flush(const struct job *job)
{
	ring_enter(job, ring.queued);
}

static void ring_drain(const struct job *job)
{
	ring_flush(job);
	while (ring.in_flight)
		ring_enter(job, 1);
}

static void gather(const struct job *job, struct iovec *vector, off_t offset, uint16_t sequence)
{
	for (unsigned i = 0; i < job->packets_per_train; i++) {
		header_make(i, sequence + i);
		vector[2 * i] = (struct iovec){ headers[i], HEADER };
		vector[2 * i + 1] = (struct iovec){ (char *)job->mapping + offset + i * payload, payload };
	}
}

/* One call: headers and mapping gathered, copied once, cut by UDP_SEGMENT. */
static void gso_writev(const struct job *job, int socket, off_t offset, uint16_t sequence)
{
	struct iovec vector[2 * MOST_PACKETS];
	struct msghdr message = { .msg_iov = vector, .msg_iovlen = 2 * job->packets_per_train };

	gather(job, vector, offset, sequence);
	if (sendmsg(socket, &message, 0) != (ssize_t)job->packets_per_train * packet)
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
	static char buffer[MOST_PAYLOAD];

	for (unsigned i = 0; i < job->packets_per_train; i++) {
		struct iovec vector[2] = { { headers[0], HEADER }, { buffer, payload } };

		header_make(0, sequence + i);
		if (pread(job->file, buffer, payload, offset + i * payload) != payload)
			err(1, "pread");
		if (writev(socket, vector, 2) != packet)
			err(1, "writev");
	}
}

static const struct {
	const char *name;
	void (*send)(const struct job *, int, off_t, uint16_t);
	int segments;	 /* needs UDP_SEGMENT */
	int ready;	 /* the file has headers too */
	void (*open)(const struct job *);
	void (*flush)(const struct job *);	     /* sends what is queued */
	void (*drain)(const struct job *);	     /* the same, and waits until the network is done */
} paths[] = {
	{ "wire_uring", ring_send, 1, 1, ring_open_registered, ring_flush, ring_drain },
	{ "wire_mapping", ring_send, 1, 1, ring_open_mapping, ring_flush, ring_drain },
	{ "wire_sendfile", wire_sendfile, 1, 1, NULL, NULL, NULL },
	{ "gso_writev", gso_writev, 1, 0, NULL, NULL, NULL },
	{ "sendmmsg", send_mmsg, 0, 0, NULL, NULL, NULL },
	{ "read_writev", read_writev, 0, 0, NULL, NULL, NULL },
};

static void sockets_open(struct job *job, int segments)
{
	job->sockets = calloc(job->socket_count, sizeof(int));
	if (!job->sockets)
		err(1, "calloc");
	for (unsigned i = 0; i < job->socket_count; i++) {
		struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(5000) };
		int size = packet;

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
	job->length = status.st_size < MOST_FILE ? status.st_size : MOST_FILE;
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

static void sleep_until_next(struct timespec *wakeup, unsigned interval_us)
{
	int error;

	wakeup->tv_nsec += interval_us % 1000000 * 1000L;
	wakeup->tv_sec += interval_us / 1000000 + wakeup->tv_nsec / 1000000000;
	wakeup->tv_nsec %= 1000000000;
	error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, wakeup, NULL);
	if (error)
		errx(1, "clock_nanosleep: %s", strerror(error));
}

static uint64_t run(struct job *job, unsigned path, uint64_t bytes)
{
	off_t step = (off_t)job->packets_per_train * (paths[path].ready ? packet : payload);
	struct timespec wakeup;
	uint64_t packets = 0;
	unsigned trains = 0;
	off_t offset = 0;

	clock_gettime(CLOCK_MONOTONIC, &wakeup);

	if (job->length < step)
		errx(1, "the file is shorter than a train");
	for (unsigned socket = 0; packets * payload < bytes; socket = (socket + 1) % job->socket_count) {
		if (offset + step > job->length)
			offset = 0;
		paths[path].send(job, job->sockets[socket], offset, packets);
		packets += job->packets_per_train;
		offset += step;
		if (++trains == job->trains_per_wakeup) {
			trains = 0;
			if (paths[path].flush)
				paths[path].flush(job);
			sleep_until_next(&wakeup, job->interval_us);
		}
	}
	if (paths[path].drain)
		paths[path].drain(job);
	return packets;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void paths_print(void)
{
	for (unsigned path = 0; path < sizeof(paths) / sizeof(*paths); path++)
		puts(paths[path].name);
}

int main(int count, char **arguments)
{
	struct rusage before, after;
	struct job job = { 0 };
	unsigned path;
	uint64_t bytes, packets;
	double start;

	if (count == 2 && !strcmp(arguments[1], "paths")) {
		paths_print();
		return 0;
	}
	if (count != 6 && count != 7 && count != 9)
		errx(1, "usage: bare PATH PAYLOAD_BYTES FILE PACKETS_PER_TRAIN SOCKETS [PAYLOAD_OF_A_PACKET "
			"[TRAINS_PER_WAKEUP INTERVAL_US]]");
	for (path = 0; strcmp(paths[path].name, arguments[1]); path++)
		if (path + 1 == sizeof(paths) / sizeof(*paths))
			errx(1, "no path %s", arguments[1]);
	bytes = strtoull(arguments[2], NULL, 10);
	job.packets_per_train = number(arguments[4], MOST_PACKETS);
	job.socket_count = number(arguments[5], 60000);
	if (count >= 7)
		payload = number(arguments[6], MOST_PAYLOAD);
	packet = HEADER + payload;
	file_open(&job, arguments[3]);
	sockets_open(&job, paths[path].segments);
	if (paths[path].open)
		paths[path].open(&job);
	run(&job, path, bytes / 16); /* caches, frequency, the sockets' routes */
	if (count == 9) {
		job.trains_per_wakeup = number(arguments[7], 1000000);
		job.interval_us = number(arguments[8], 1000000000);
	}

	getrusage(RUSAGE_SELF, &before);
	start = now();
	packets = run(&job, path, bytes);
	start = now() - start;
	getrusage(RUSAGE_SELF, &after);
	printf("%.6f %.6f %llu %.6f\n", seconds(after.ru_utime) - seconds(before.ru_utime),
	       seconds(after.ru_stime) - seconds(before.ru_stime), (unsigned long long)packets, start);
	return 0;
}
