/*
 * Ways to receive from a TCP connection: recv into a buffer that is used again, and TCP_ZEROCOPY_RECEIVE, which maps whole pages
 * of the socket and copies the rest. Interleaved rounds.
 *
 *   receive SENDER_NAMESPACE RECEIVER_NAMESPACE ADDRESS NETWORK PAYLOAD ROUNDS MIB FOLDER
 *
 * A namespace of `-` is the caller's. PAYLOAD is the number of bytes of a segment, or 0 for what the MTU allows; NETWORK is a name,
 * which is printed. The receiver is this process, on processor 1, the sender its child, on processor 0. FOLDER gets a file that is
 * sent. Before it is timed, each way receives some MiB, whose bytes are compared.
 *
 * Prints a line of JSON for each run of MIB mebibytes: nanoseconds of the receiver's thread and of the whole machine (the time in
 * which the processors were not idle, /proc/timer_list, which takes root), calls, and bytes that were mapped.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define PIECE (256u << 10) /* bytes of a call of the sender */
#define FILE_BYTES (64u << 20)
#define MOST_CALL (1u << 20)
#define OPTIONS 12 /* of TCP: a timestamp, which TCP_MAXSEG counts as payload */
#define CHECKED (8u << 20) /* less than the file, whose beginning every run sends */
#define PORT 5000
#define PATIENCE_MS 10000

enum sending { SEND, SENDFILE, ZEROCOPY, SENDINGS };
static const char *const sending_names[] = { "send", "sendfile", "MSG_ZEROCOPY" };
static const size_t call_sizes[] = { 64u << 10, 1u << 20 };
#define WAYS (SENDINGS * 2 * 2 * 2) /* by the size of a call, reading, receiver */

/* What the sender is to do. */
struct order {
	uint64_t bytes;
	enum sending sending;
};

/* A run of the receiver. */
struct run {
	enum sending sending;
	size_t call;
	int is_mapped, is_read, awaited;
	uint64_t bytes, mapped, calls, sum;
};

static int file;
static const char *file_bytes; /* a mapping of the file */
static char *copied; /* buffer of recv, and of what is not mapped */
static char *window; /* the mapping of the socket */

static void namespace_enter(const char *name)
{
	char path[256];
	int namespace;

	if (!strcmp(name, "-"))
		return;
	snprintf(path, sizeof(path), "/run/netns/%s", name);
	namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (namespace < 0 || setns(namespace, CLONE_NEWNET))
		err(1, "%s", path);
	close(namespace);
}

static void processor_choose(int number)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(number, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "sched_setaffinity");
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* Time in which processors 0 and 1 were busy, and the time. */
static uint64_t busy_ns(void)
{
	char line[256];
	uint64_t idle = 0, now;
	FILE *table;

	/* The kernel adds an idle time when it ends: so both are woken. */
	processor_choose(0);
	processor_choose(1);
	now = clock_ns(CLOCK_MONOTONIC);
	table = fopen("/proc/timer_list", "r");
	if (!table)
		err(1, "/proc/timer_list");
	while (fgets(line, sizeof(line), table)) {
		unsigned long long spent;

		if (sscanf(line, " .idle_sleeptime : %llu", &spent) == 1 || sscanf(line, " .iowait_sleeptime: %llu", &spent) == 1)
			idle += spent;
	}
	fclose(table);
	return now * sysconf(_SC_NPROCESSORS_ONLN) - idle;
}

static void file_make(const char *folder)
{
	uint64_t random = 1;
	char *mapping;

	file = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, FILE_BYTES))
		err(1, "a file in %s", folder);
	mapping = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (mapping == MAP_FAILED)
		err(1, "mmap");
	for (size_t at = 0; at < FILE_BYTES; at += 8, random = random * 6364136223846793005u + 1442695040888963407u)
		memcpy(mapping + at, &random, 8);
	if (fsync(file))
		err(1, "fsync");
	munmap(mapping, FILE_BYTES);
	file_bytes = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
	if (file_bytes == MAP_FAILED)
		err(1, "mmap");
}

static void loans_take(int connection)
{
	char control[128];
	struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };

	while (recvmsg(connection, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
		message.msg_controllen = sizeof(control);
}

/* Sends what is ordered, from the beginning of the file, which is sent again and again. */
static void serve(int connection, int orders)
{
	struct order order;

	while (read(orders, &order, sizeof(order)) == sizeof(order))
		for (uint64_t sent = 0; sent < order.bytes;) {
			off_t offset = sent % FILE_BYTES;
			size_t length = PIECE - sent % PIECE;
			ssize_t done;

			if (length > order.bytes - sent)
				length = order.bytes - sent;
			if (order.sending == SENDFILE)
				done = sendfile(connection, file, &offset, length);
			else
				done = send(connection, file_bytes + offset, length,
					    MSG_NOSIGNAL | (order.sending == ZEROCOPY ? MSG_ZEROCOPY : 0));
			if (done < 0 && errno == ENOBUFS) { /* too many loans */
				loans_take(connection);
				continue;
			}
			if (done <= 0)
				err(1, "%s", sending_names[order.sending]);
			sent += done;
			if (order.sending == ZEROCOPY)
				loans_take(connection);
		}
}

/* Takes bytes that came: adds them up, compares them if `expected` is known. */
static void look(struct run *run, const char *bytes, size_t length, int is_checked)
{
	if (run->is_read)
		for (size_t at = 0; at + 8 <= length; at += 8) {
			uint64_t word;

			memcpy(&word, bytes + at, 8);
			run->sum += word;
		}
	if (is_checked && memcmp(bytes, file_bytes + run->bytes, length))
		errx(1, "%s, mapped %d: other bytes came than were sent", sending_names[run->sending], run->is_mapped);
	run->bytes += length;
}

/* Has the next bytes awaited in pieces of a call. */
static void awaited_set(int connection, struct run *run, uint64_t left)
{
	int awaited = left < run->call ? left : run->call;

	if (awaited != run->awaited && setsockopt(connection, SOL_SOCKET, SO_RCVLOWAT, &awaited, sizeof(awaited)))
		err(1, "SO_RCVLOWAT");
	run->awaited = awaited;
}

/* Waits by poll, as recv does not return where SO_RCVLOWAT awaits more than is left behind what it has copied already. */
static void some_wait(int connection, struct run *run)
{
	struct pollfd readable = { .fd = connection, .events = POLLIN };

	if (poll(&readable, 1, PATIENCE_MS) != 1)
		errx(1, "no more bytes come");
	run->calls++;
}

static void copy_some(int connection, struct run *run, size_t length, int is_checked)
{
	ssize_t came = recv(connection, copied, length, MSG_DONTWAIT);

	if (came <= 0)
		err(1, "recv");
	run->calls++;
	look(run, copied, came, is_checked);
}

/* As many whole pages as can be mapped, and what is less than a page behind them; then a copy of what cannot be mapped. */
static void map_some(int connection, struct run *run, int is_checked)
{
	struct tcp_zerocopy_receive asked = {
		.address = (uintptr_t)window,
		.length = run->call,
		.copybuf_address = (uintptr_t)copied,
		.copybuf_len = PAGE - 1,
	};
	socklen_t size = sizeof(asked);

	if (getsockopt(connection, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &asked, &size))
		err(1, "TCP_ZEROCOPY_RECEIVE");
	if (asked.err || asked.copybuf_len < 0)
		errx(1, "TCP_ZEROCOPY_RECEIVE: %s", strerror(asked.err ? -asked.err : -asked.copybuf_len));
	run->calls++;
	run->mapped += asked.length;
	look(run, window, asked.length, is_checked);
	look(run, copied, asked.copybuf_len, is_checked);
	if (asked.recv_skip_hint)
		copy_some(connection, run, asked.recv_skip_hint < run->call ? asked.recv_skip_hint : run->call, is_checked);
}

static void receive(int connection, int orders, struct run *run, uint64_t bytes, int is_checked)
{
	struct order order = { .bytes = bytes, .sending = run->sending };

	awaited_set(connection, run, bytes);
	if (write(orders, &order, sizeof(order)) != sizeof(order))
		err(1, "the sender");
	while (run->bytes < bytes) {
		awaited_set(connection, run, bytes - run->bytes);
		some_wait(connection, run);
		if (run->is_mapped)
			map_some(connection, run, is_checked);
		else
			copy_some(connection, run, run->call, is_checked);
	}
}

/* Processor time of a process or a kernel thread. */
static uint64_t process_ns(pid_t process)
{
	unsigned long long spent = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", process);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu", &spent) != 1)
		err(1, "%s", path);
	fclose(file);
	return spent;
}

/* Kernel threads that do what is left of soft interrupts. */
static uint64_t softirqd_ns(void)
{
	static pid_t threads[2];
	uint64_t spent = 0;

	for (int number = 0; number < 2; number++) {
		char command[64];
		FILE *found;

		if (!threads[number]) {
			snprintf(command, sizeof(command), "pgrep -x ksoftirqd/%d", number);
			found = popen(command, "r");
			if (!found || fscanf(found, "%d", &threads[number]) != 1)
				errx(1, "no ksoftirqd/%d", number);
			pclose(found);
		}
		spent += process_ns(threads[number]);
	}
	return spent;
}

/* A socket in the namespace of its end; segments carry so many bytes, or what the MTU allows if 0. */
static int socket_open(const char *namespace, int payload)
{
	int one = 1, segment = payload + OPTIONS, made;

	namespace_enter(namespace);
	made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (made < 0 || setsockopt(made, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) ||
	    setsockopt(made, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)) ||
	    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)))
		err(1, "a socket");
	if (payload && setsockopt(made, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment)))
		err(1, "TCP_MAXSEG");
	return made;
}

static void measure(int connection, int orders, pid_t sender, const char *network, int round, struct run *run, uint64_t bytes)
{
	uint64_t thread, machine, threads, wall;

	machine = busy_ns();
	threads = process_ns(sender) + softirqd_ns();
	thread = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	wall = clock_ns(CLOCK_MONOTONIC);
	receive(connection, orders, run, bytes, 0);
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	thread = clock_ns(CLOCK_THREAD_CPUTIME_ID) - thread;
	/* The sender may have loans to take back. */
	usleep(1000);
	threads = process_ns(sender) + softirqd_ns() - threads + thread;
	machine = busy_ns() - machine;
	printf("{\"network\": \"%s\", \"sender\": \"%s\", \"call\": %zu, \"reads\": %s, \"receiver\": \"%s\", \"round\": %d, "
	       "\"bytes\": %llu, \"mapped\": %llu, \"calls\": %llu, \"thread_ns\": %llu, \"threads_ns\": %llu, \"machine_ns\": %llu, "
	       "\"wall_ns\": %llu}\n",
	       network, sending_names[run->sending], run->call, run->is_read ? "true" : "false",
	       run->is_mapped ? "mapped" : "recv", round, (unsigned long long)run->bytes, (unsigned long long)run->mapped,
	       (unsigned long long)run->calls, (unsigned long long)thread, (unsigned long long)threads,
	       (unsigned long long)machine, (unsigned long long)wall);
}

int main(int count, char **arguments)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	socklen_t size = sizeof(address);
	int listener, connection, payload, rounds, orders[2];
	uint64_t bytes;
	pid_t sender;

	if (count != 9)
		errx(1, "usage: receive SENDER_NAMESPACE RECEIVER_NAMESPACE ADDRESS NETWORK PAYLOAD ROUNDS MIB FOLDER");
	payload = atoi(arguments[5]);
	rounds = atoi(arguments[6]);
	bytes = strtoull(arguments[7], NULL, 10) << 20;
	file_make(arguments[8]);
	if (inet_pton(AF_INET, arguments[3], &address.sin_addr) != 1 || pipe2(orders, O_CLOEXEC))
		err(1, "%s", arguments[3]);
	listener = socket_open(arguments[2], payload);
	if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1))
		err(1, "listening");
	sender = fork();
	if (sender < 0)
		err(1, "fork");
	if (!sender) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(orders[1]);
		processor_choose(0);
		connection = socket_open(arguments[1], payload);
		if (connect(connection, (struct sockaddr *)&address, size))
			err(1, "connect");
		serve(connection, orders[0]);
		exit(0);
	}
	processor_choose(1);
	connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	copied = mmap(NULL, MOST_CALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	window = mmap(NULL, MOST_CALL, PROT_READ, MAP_SHARED, connection, 0);
	if (connection < 0 || copied == MAP_FAILED || window == MAP_FAILED)
		err(1, "the connection and its mapping");
	for (int round = -1; round < rounds; round++)
		for (int way = 0; way < WAYS; way++) {
			/* The ways that are compared follow each other, in both orders. */
			int number = way / 2;
			struct run run = {
				.sending = number % SENDINGS,
				.call = call_sizes[number / SENDINGS % 2],
				.is_read = number / SENDINGS / 2,
				.is_mapped = (way + round) & 1,
			};

			if (round < 0)
				receive(connection, orders[1], &run, CHECKED, 1);
			else
				measure(connection, orders[1], sender, arguments[4], round, &run, bytes);
			fflush(stdout);
		}
	return 0;
}
