/*
 * Ways to send RTP inside an RTSP connection (RFC 2326 section 10.12): what each costs, in interleaved rounds.
 *
 *   interleaved SENDER_NAMESPACE RECEIVER_NAMESPACE ADDRESS FOLDER ROUNDS
 *
 * Writes two files of 256 MiB to FOLDER, packets of 12 + 1316 bytes, and the same each behind `$`, channel and length. Connects to
 * a receiver that it starts in the other namespace, checks what each way sends byte by byte, and prints a line for each
 * way, train size and round (CSV): nanoseconds of a train in this process, and in the kernel threads that handle the
 * acknowledgements (threaded NAPI of the sender's veth, named `server`), where the memory of what was sent is released. Only their
 * sum means something: a kernel that does not preempt charges the rest of a call to the thread that is woken meanwhile.
 *
 * A train meets an idle connection, as in a server that paces: one train to each of the connections, then a pause, not counted,
 * until all is acknowledged. Each connection sends another part of the file.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FRAMING 4
#define HEADER 12
#define PAYLOAD 1316
#define PACKET (HEADER + PAYLOAD)
#define FRAME (FRAMING + PACKET)
#define PACKETS (256u * 1024 * 1024 / FRAME)
#define MOST_PACKETS 40
#define MOST_CONNECTIONS 1000
#define PORT 5000
#define CACHE_LINE 64

static const unsigned sizes[] = { 9, 20, 40 }, counts[] = { 100, 1000 };

/* What sender and receiver share: bytes that arrived on each connection, and their hash if they are checked. */
static struct {
	int is_checked;
	struct {
		uint64_t bytes, hash;
	} arrived[MOST_CONNECTIONS];
} *shared;

static int stored, framed; /* the files */
static const char *stored_bytes, *framed_bytes;
static int sockets[MOST_CONNECTIONS];
static unsigned next_packet[MOST_CONNECTIONS];
static char framing[FRAMING] = { '$', 0, PACKET >> 8, PACKET & 255 }; /* never written: it may be lent to the kernel */

static uint64_t hash(uint64_t value, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		value = (value ^ (unsigned char)bytes[i]) * 0x100000001b3;
	return value;
}

static void wrote(const char *call, ssize_t length, unsigned packets)
{
	if (length < 0)
		err(1, "%s", call);
	if (length != (ssize_t)packets * FRAME)
		errx(1, "%s: %zd of %u bytes", call, length, packets * FRAME);
}

/* Framing from memory, packets from a mapping, one copy. */
static void framing_writev(unsigned connection, unsigned first, unsigned packets, int flags)
{
	struct iovec vector[2 * MOST_PACKETS];
	struct msghdr message = { .msg_iov = vector, .msg_iovlen = 2 * packets };
	char heads[MOST_PACKETS][FRAMING];

	for (unsigned i = 0; i < packets; i++) {
		memcpy(heads[i], framing, FRAMING);
		vector[2 * i] = (struct iovec){ flags & MSG_ZEROCOPY ? framing : heads[i], FRAMING };
		vector[2 * i + 1] = (struct iovec){ (char *)stored_bytes + (size_t)(first + i) * PACKET, PACKET };
	}
	wrote("sendmsg", sendmsg(sockets[connection], &message, MSG_NOSIGNAL | MSG_DONTWAIT | flags), packets);
}

static void prefetch(unsigned first, unsigned packets)
{
	const char *bytes = stored_bytes + (size_t)first * PACKET;

	for (size_t at = 0; at < (size_t)packets * PACKET; at += CACHE_LINE)
		__builtin_prefetch(bytes + at, 0, 3);
}

/* As the server does. */
static void server(unsigned connection, unsigned first, unsigned packets)
{
	prefetch(first, packets);
	framing_writev(connection, first, packets, 0);
}

/* The same without prefetching. */
static void not_prefetched(unsigned connection, unsigned first, unsigned packets)
{
	framing_writev(connection, first, packets, 0);
}

/* The same without a copy. */
static void zerocopy_writev(unsigned connection, unsigned first, unsigned packets)
{
	framing_writev(connection, first, packets, MSG_ZEROCOPY);
}

/* As the server does without an image or after a seek: framing and RTP headers generated. */
static void headers_writev(unsigned connection, unsigned first, unsigned packets)
{
	struct iovec vector[2 * MOST_PACKETS];
	struct msghdr message = { .msg_iov = vector, .msg_iovlen = 2 * packets };
	char heads[MOST_PACKETS][FRAMING + HEADER];

	prefetch(first, packets);
	for (unsigned i = 0; i < packets; i++) {
		const char *packet = stored_bytes + (size_t)(first + i) * PACKET;
		uint32_t sequence = htonl(first + i);

		memcpy(heads[i], framing, FRAMING);
		memset(heads[i] + FRAMING, 0x80, HEADER);
		memcpy(heads[i] + FRAMING + 4, &sequence, 4);
		vector[2 * i] = (struct iovec){ heads[i], FRAMING + HEADER };
		vector[2 * i + 1] = (struct iovec){ (char *)packet + HEADER, PAYLOAD };
	}
	wrote("sendmsg", sendmsg(sockets[connection], &message, MSG_NOSIGNAL | MSG_DONTWAIT), packets);
}

/* Stored framing, no copy: references to pages of the page cache. */
static void framed_sendfile(unsigned connection, unsigned first, unsigned packets)
{
	off_t offset = (off_t)first * FRAME;

	wrote("sendfile", sendfile(sockets[connection], framed, &offset, (size_t)packets * FRAME), packets);
}

static void framed_send(unsigned connection, unsigned first, unsigned packets, int flags)
{
	const char *bytes = framed_bytes + (size_t)first * FRAME;

	flags |= MSG_NOSIGNAL | MSG_DONTWAIT;
	wrote("send", send(sockets[connection], bytes, (size_t)packets * FRAME, flags), packets);
}

/* Stored framing, one copy from a mapping. */
static void framed_copy(unsigned connection, unsigned first, unsigned packets)
{
	framed_send(connection, first, packets, 0);
}

/* Stored framing, pages of a mapping lent. */
static void framed_zerocopy(unsigned connection, unsigned first, unsigned packets)
{
	framed_send(connection, first, packets, MSG_ZEROCOPY);
}

/* Takes notices of loans that are over: one read takes all of a socket that were merged. */
static void notices_take(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		char control[128];
		struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };

		while (recvmsg(sockets[i], &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
			message.msg_controllen = sizeof(control);
	}
}

#define TRAINS_PER_CALL 64
#define RING_ENTRIES 256

static struct {
	int fd;
	unsigned *sq_tail, *cq_head, *cq_tail, sq_mask, cq_mask;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *completions;
	const char *memory;
	unsigned queued, in_flight;
} ring;

static void ring_open(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN };
	size_t length = (size_t)PACKETS * FRAME;
	int memory = memfd_create("framed", MFD_CLOEXEC);
	struct iovec buffer = { NULL, length };
	char *queues;

	if (memory < 0 || ftruncate(memory, length))
		err(1, "memfd");
	buffer.iov_base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, 0);
	if (buffer.iov_base == MAP_FAILED)
		err(1, "mmap");
	memcpy(buffer.iov_base, framed_bytes, length);
	ring.memory = buffer.iov_base;
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
		err(1, "mmap");
	ring.sq_tail = (unsigned *)(queues + params.sq_off.tail);
	ring.cq_head = (unsigned *)(queues + params.cq_off.head);
	ring.cq_tail = (unsigned *)(queues + params.cq_off.tail);
	ring.sq_mask = params.sq_entries - 1;
	ring.cq_mask = params.cq_entries - 1;
	ring.completions = (struct io_uring_cqe *)(queues + params.cq_off.cqes);
	for (unsigned i = 0; i < params.sq_entries; i++)
		((unsigned *)(queues + params.sq_off.array))[i] = i;
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &buffer, 1))
		err(1, "IORING_REGISTER_BUFFERS");
}

static void ring_enter(void)
{
	unsigned head = *ring.cq_head, tail;

	if (syscall(__NR_io_uring_enter, ring.fd, ring.queued, 0, IORING_ENTER_GETEVENTS, NULL, 0) != (long)ring.queued)
		err(1, "io_uring_enter");
	ring.in_flight += ring.queued;
	ring.queued = 0;
	tail = __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE);
	for (; head != tail; head++) {
		const struct io_uring_cqe *told = &ring.completions[head & ring.cq_mask];

		if (!(told->flags & IORING_CQE_F_NOTIF) && (told->res <= 0 || told->res % FRAME))
			errx(1, "send_zc: %s", told->res < 0 ? strerror(-told->res) : "sent in part");
		ring.in_flight -= !(told->flags & IORING_CQE_F_MORE);
	}
	__atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
}

/* Stored framing in registered memory, no copy, a call for many trains. */
static void framed_uring(unsigned connection, unsigned first, unsigned packets)
{
	struct io_uring_sqe *entry = &ring.entries[*ring.sq_tail & ring.sq_mask];

	memset(entry, 0, sizeof(*entry));
	entry->opcode = IORING_OP_SEND_ZC;
	entry->fd = sockets[connection];
	entry->addr = (uintptr_t)(ring.memory + (size_t)first * FRAME);
	entry->len = packets * FRAME;
	entry->msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	entry->ioprio = IORING_RECVSEND_FIXED_BUF;
	__atomic_store_n(ring.sq_tail, *ring.sq_tail + 1, __ATOMIC_RELEASE);
	if (++ring.queued == TRAINS_PER_CALL)
		ring_enter();
}

static void ring_take(unsigned count)
{
	(void)count;
	while (ring.in_flight)
		ring_enter();
}

static const struct {
	const char *name;
	void (*send)(unsigned connection, unsigned first, unsigned packets);
	void (*flush)(void);
	void (*take)(unsigned count); /* when all is acknowledged; counted */
} ways[] = {
	{ "server", server, NULL, NULL },
	{ "not_prefetched", not_prefetched, NULL, NULL },
	{ "headers_writev", headers_writev, NULL, NULL },
	{ "framed_copy", framed_copy, NULL, NULL },
	{ "framed_sendfile", framed_sendfile, NULL, NULL },
	{ "framed_zerocopy", framed_zerocopy, NULL, notices_take },
	{ "zerocopy_writev", zerocopy_writev, NULL, notices_take },
	{ "framed_uring", framed_uring, ring_enter, ring_take },
};
#define WAYS (sizeof(ways) / sizeof(*ways))

static int file_make(const char *folder, const char *name, size_t head, const char **bytes)
{
	size_t length = (size_t)PACKETS * (head + PACKET);
	uint64_t random = 1;
	char *mapping;
	int file;

	if (chdir(folder) || (file = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) < 0 || ftruncate(file, length))
		err(1, "%s/%s", folder, name);
	mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (mapping == MAP_FAILED)
		err(1, "mmap");
	for (uint32_t i = 0; i < PACKETS; i++) {
		char *packet = mapping + (size_t)i * (head + PACKET);
		uint32_t sequence = htonl(i);

		memcpy(packet, framing, head);
		packet += head;
		memset(packet, 0x80, HEADER);
		memcpy(packet + 4, &sequence, 4);
		for (int at = HEADER; at < PACKET; at += 4, random = random * 6364136223846793005u + 1442695040888963407u)
			memcpy(packet + at, (char *)&random + 4, 4);
	}
	/* Clean pages, as those of an image. */
	if (fsync(file))
		err(1, "fsync");
	munmap(mapping, length);
	*bytes = mmap(NULL, length, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
	if (*bytes == MAP_FAILED)
		err(1, "mmap");
	return file;
}

static void namespace_enter(const char *name)
{
	char path[256];
	int file;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || setns(file, CLONE_NEWNET))
		err(1, "%s", path);
	close(file);
}

static void processor_choose(int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "sched_setaffinity");
}

/* Accepts connections and takes what arrives; dropped by the kernel, unless it is checked. */
static void receive(int listener)
{
	static char buffer[1 << 20];
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[64], event = { .events = EPOLLIN, .data.u64 = UINT64_MAX };
	static int accepted[MOST_CONNECTIONS];
	uint64_t count = 0;

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event))
		err(1, "epoll");
	for (;;) {
		int ready = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < ready; i++) {
			uint64_t number = events[i].data.u64;
			ssize_t length;

			if (number == UINT64_MAX) {
				event.data.u64 = count;
				accepted[count] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
				if (accepted[count] < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, accepted[count], &event))
					err(1, "accept");
				count++;
				continue;
			}
			length = recv(accepted[number], buffer, sizeof(buffer), shared->is_checked ? 0 : MSG_TRUNC);
			if (length == 0)
				exit(0);
			if (length < 0)
				continue;
			if (shared->is_checked)
				shared->arrived[number].hash = hash(shared->arrived[number].hash, buffer, length);
			__atomic_fetch_add(&shared->arrived[number].bytes, length, __ATOMIC_RELEASE);
		}
	}
}

static void connect_all(const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int limit = 128 * 1024, one = 1;

	inet_pton(AF_INET, address, &to.sin_addr);
	for (unsigned i = 0; i < MOST_CONNECTIONS; i++) {
		sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (sockets[i] < 0 || connect(sockets[i], (struct sockaddr *)&to, sizeof(to)))
			err(1, "connect");
		/* As the server's, but for what zero copy asks for. */
		if (setsockopt(sockets[i], IPPROTO_TCP, 25 /* TCP_NOTSENT_LOWAT */, &limit, sizeof(limit)) ||
		    setsockopt(sockets[i], IPPROTO_TCP, 1 /* TCP_NODELAY */, &one, sizeof(one)) ||
		    setsockopt(sockets[i], SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
			err(1, "setsockopt");
		next_packet[i] = (uint64_t)i * PACKETS / MOST_CONNECTIONS;
	}
}

/* Processor time of kernel threads that handle what the sender's device receives. */
static uint64_t napi_ns(void)
{
	static int threads[16];
	static int count = -1;
	uint64_t sum = 0;

	if (count < 0) {
		DIR *folder = opendir("/proc");
		struct dirent *entry;

		count = 0;
		while ((entry = readdir(folder))) {
			char path[300], name[32] = "";
			FILE *file;

			snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
			if (*entry->d_name < '1' || *entry->d_name > '9' || !(file = fopen(path, "r")))
				continue;
			if (fgets(name, sizeof(name), file) && !strncmp(name, "napi/server", 11) && count < 16)
				threads[count++] = atoi(entry->d_name);
			fclose(file);
		}
		closedir(folder);
		if (!count)
			errx(1, "the device named server has no threaded NAPI");
	}
	for (int i = 0; i < count; i++) {
		unsigned long long spent = 0;
		char path[64];
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/schedstat", threads[i]);
		file = fopen(path, "r");
		if (!file || fscanf(file, "%llu", &spent) != 1)
			err(1, "%s", path);
		fclose(file);
		sum += spent;
	}
	return sum;
}

static uint64_t process_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void acknowledged_wait(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		for (int left = 1; left;) {
			if (ioctl(sockets[i], SIOCOUTQ, &left))
				err(1, "SIOCOUTQ");
			if (left)
				usleep(100);
		}
	}
}

/* One train to each connection; answers nanoseconds of this process. */
static uint64_t turn(unsigned way, unsigned packets, unsigned count)
{
	uint64_t start, spent;

	for (unsigned i = 0; i < count; i++)
		if (next_packet[i] + packets > PACKETS)
			next_packet[i] = 0;
	start = process_ns();
	for (unsigned i = 0; i < count; i++) {
		ways[way].send(i, next_packet[i], packets);
		next_packet[i] += packets;
	}
	if (ways[way].flush)
		ways[way].flush();
	spent = process_ns() - start;
	acknowledged_wait(count);
	start = process_ns();
	if (ways[way].take)
		ways[way].take(count);
	return spent + process_ns() - start;
}

/* Compares what arrives with the framed file, on each connection. */
static void check(unsigned way, unsigned packets)
{
	static uint64_t bytes[MOST_CONNECTIONS], hashes[MOST_CONNECTIONS];

	shared->is_checked = 1;
	for (unsigned i = 0; i < MOST_CONNECTIONS; i++) {
		if (next_packet[i] + packets > PACKETS)
			next_packet[i] = 0;
		hashes[i] = shared->arrived[i].hash;
		hashes[i] = hash(hashes[i], framed_bytes + (size_t)next_packet[i] * FRAME, (size_t)packets * FRAME);
		bytes[i] = shared->arrived[i].bytes + packets * FRAME;
	}
	turn(way, packets, MOST_CONNECTIONS);
	for (unsigned i = 0; i < MOST_CONNECTIONS; i++) {
		while (__atomic_load_n(&shared->arrived[i].bytes, __ATOMIC_ACQUIRE) < bytes[i])
			usleep(100);
		if (shared->arrived[i].hash != hashes[i])
			errx(1, "%s: other bytes arrived on connection %u", ways[way].name, i);
	}
	shared->is_checked = 0;
}

/* Waits until the receiver has taken all, so that it takes nothing checked that was not to be. */
static void taken_wait(uint64_t *total)
{
	for (uint64_t sum = 0; sum < *total;) {
		sum = 0;
		for (unsigned i = 0; i < MOST_CONNECTIONS; i++)
			sum += __atomic_load_n(&shared->arrived[i].bytes, __ATOMIC_ACQUIRE);
		if (sum < *total)
			usleep(1000);
	}
}

static void measure(unsigned round, unsigned packets, unsigned count)
{
	unsigned turns = 20000 / count;

	for (unsigned step = 0; step < WAYS; step++) {
		unsigned way = round % 2 ? WAYS - 1 - step : step;
		uint64_t spent = 0, napi;

		turn(way, packets, count);
		napi = napi_ns();
		for (unsigned i = 0; i < turns; i++)
			spent += turn(way, packets, count);
		napi = napi_ns() - napi;
		printf("%u,%u,%u,%s,%.0f,%.0f\n", round, count, packets, ways[way].name, (double)spent / turns / count,
		       (double)napi / turns / count);
	}
}

int main(int count, char **arguments)
{
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	uint64_t total = 0;
	int listener, one = 1;
	pid_t receiver;

	if (count != 6)
		errx(1, "usage: interleaved SENDER_NAMESPACE RECEIVER_NAMESPACE ADDRESS FOLDER ROUNDS");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		err(1, "mmap");
	namespace_enter(arguments[2]);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(listener, (struct sockaddr *)&here, sizeof(here)) || listen(listener, MOST_CONNECTIONS))
		err(1, "listening");
	receiver = fork();
	if (receiver < 0)
		err(1, "fork");
	if (!receiver) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		processor_choose(1);
		receive(listener);
	}
	close(listener);
	namespace_enter(arguments[1]);
	processor_choose(0);
	stored = file_make(arguments[4], "stored", 0, &stored_bytes);
	framed = file_make(arguments[4], "framed", FRAMING, &framed_bytes);
	ring_open();
	connect_all(arguments[3]);
	for (unsigned way = 0; way < WAYS; way++)
		for (unsigned size = 0; size < sizeof(sizes) / sizeof(*sizes); size++) {
			check(way, sizes[size]);
			total += (uint64_t)MOST_CONNECTIONS * sizes[size] * FRAME;
			taken_wait(&total);
		}
	fprintf(stderr, "each way sent the right bytes\n");
	puts("round,connections,packets,way,process_ns,napi_ns");
	for (unsigned round = 0; round < (unsigned)atoi(arguments[5]); round++)
		for (unsigned size = 0; size < sizeof(sizes) / sizeof(*sizes); size++)
			for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
				measure(round, sizes[size], counts[i]);
				fflush(stdout);
			}
	kill(receiver, SIGKILL);
	return 0;
}
