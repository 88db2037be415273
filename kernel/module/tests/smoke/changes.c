// SPDX-License-Identifier: GPL-2.0
/*
 * What changes while it is used: files whose pages are taken from the page cache,
 * requests that others write to, devices and namespaces that go.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "smoke.h"

#define FOLIOS "/sys/module/wirepath/parameters/folios"
#define PACKETS 400
#define CALLS 300

static void set_folios(const char *value)
{
	int parameter = open(FOLIOS, O_WRONLY);

	CHECK(write(parameter, value, 1) == 1);
	close(parameter);
}

/* A file without a name on the file system of the one that is sent. */
static int file_beside(void)
{
	char folder[256];
	int file;

	snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(where, '/') - where), where);
	file = open(folder, O_RDWR | O_TMPFILE, 0600);
	return file < 0 ? temporary_file() : file;
}

static void expect_of_file(struct pair pair, int file, const unsigned char *bytes, off_t offset,
			   off_t sent)
{
	struct wirepath_send send = wirepath_send_of(pair.from, file, offset, WIREPATH_TO_END);
	struct wirepath_rtp rtp = rtp_of(), header = rtp;

	send = with_rtp(cut(send, 1000, 64), &rtp);
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	CHECK(send.bytes == (__u64)sent, "%llu bytes", (unsigned long long)send.bytes);
	expect_rtp_run(pair.to, &header, bytes + offset, sent, 1000, 0);
	CHECK(nothing_more(pair.to));
}

/* Ends within pages, holes, and bytes that come later are those of reading. */
static void cached_pages(struct pair pair)
{
	static unsigned char bytes[300000];
	int file = file_beside();

	memset(bytes, 0, sizeof(bytes));
	for (size_t i = 0; i < 100001; i++)
		bytes[i] = i ^ (i >> 8);
	if (write(file, bytes, 100001) != 100001)
		die("write");
	expect_of_file(pair, file, bytes, 0, 100001);
	expect_of_file(pair, file, bytes, 4095, 100001 - 4095);
	expect_of_file(pair, file, bytes, 100001, 0);
	/* A hole of pages that nobody has read, and bytes behind it. */
	memset(bytes + 250000, 0x5a, 1234);
	if (pwrite(file, bytes + 250000, 1234, 250000) != 1234)
		die("pwrite");
	expect_of_file(pair, file, bytes, 777, 251234 - 777);
	expect_of_file(pair, file, bytes, 777, 251234 - 777);
	/* Shorter, and longer again by zeros: the page of the end is in the cache. */
	if (ftruncate(file, 50001))
		die("ftruncate");
	expect_of_file(pair, file, bytes, 3, 50001 - 3);
	if (ftruncate(file, 60001))
		die("ftruncate");
	memset(bytes + 50001, 0, 10000);
	expect_of_file(pair, file, bytes, 0, 60001);
	close(file);
}

static void with_folios_and_without(const struct data *data, struct pair pair)
{
	struct wirepath_rtp rtp, header;
	struct wirepath_send send;

	for (int folios = 1; folios >= 0; folios--) {
		set_folios(folios ? "Y" : "N");
		cached_pages(pair);
		rtp = rtp_of();
		header = rtp;
		send = wirepath_send_of(pair.from, data->file, 12345, 400000);
		send = with_rtp(cut(send, 1316, 64), &rtp);
		CHECK(!ioctl(device, WIREPATH_SEND, &send));
		expect_rtp_run(pair.to, &header, data->bytes + 12345, 400000, 1316, 0);
		CHECK(nothing_more(pair.to));
	}
	set_folios("Y");
}

/* A request and its RTP state, written to by another process while calls read them. */
struct shared {
	struct wirepath_send send;
	struct wirepath_rtp rtp;
};

static void rewrite(struct shared *shared, const struct shared *right)
{
	static const __u32 values[] = { 0, 1, 3, 12, 64, 100, 1316, 20000, 65507, -1U };
	unsigned int seed = 1;

	for (;;) {
		size_t words = sizeof(*shared) / sizeof(__u32), word;
		__u32 *to = (__u32 *)shared;

		seed = seed * 1664525 + 1013904223;
		word = (seed >> 8) % words;
		to[word] = values[(seed >> 20) % COUNT(values)];
		if (seed >> 30)
			continue;
		/* Most of it right again, so that calls come far, and none sends for long. */
		memcpy(shared, right, sizeof(*shared));
		sched_yield();
	}
}

static int is_known(int error)
{
	static const int known[] = { EINVAL, E2BIG, EFAULT, EMSGSIZE, ENODATA, EAGAIN, EBADF,
				     ENOTSOCK, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT, EINTR,
				     ENOBUFS, ENOMEM, EIO, EACCES, EPERM, EDESTADDRREQ,
				     ENETUNREACH, EHOSTUNREACH, ECONNREFUSED };

	for (size_t i = 0; i < COUNT(known); i++)
		if (error == known[i])
			return 1;
	return 0;
}

static void request_that_is_rewritten(const struct data *data, struct pair pair)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct shared right = { .rtp = rtp_of() };
	unsigned char packet[65536];
	int sent = 0, status;
	pid_t child;

	right.send = with_rtp(cut(wirepath_send_of(pair.from, data->file, 0, 20000), 1000, 8),
			      &shared->rtp);
	right.send.flags = WIREPATH_DONTWAIT;
	memcpy(shared, &right, sizeof(right));
	fcntl(pair.from, F_SETFL, O_NONBLOCK);
	child = fork();
	if (!child)
		rewrite(shared, &right);
	for (int i = 0; i < CALLS; i++) {
		if (!ioctl(device, WIREPATH_SEND, shared))
			sent++;
		else
			CHECK(is_known(errno));
		while (recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT) >= 0)
			;
		sched_yield();
	}
	kill(child, SIGKILL);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(sent > 0);
	fcntl(pair.from, F_SETFL, 0);
	while (recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT) >= 0)
		;
	munmap(shared, sizeof(*shared));
}

/* A run whose device goes in the middle loses the rest, and comes to its end. */
static void device_that_goes(const struct data *data)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9),
				  .sin_addr.s_addr = inet_addr("10.8.0.2") };
	int udp = socket(AF_INET, SOCK_DGRAM, 0), run;
	struct wirepath_rtp rtp = rtp_of();
	struct wirepath_send send = with_rtp(cut(wirepath_send_of(udp, data->file, 0,
								  PACKETS * 1000), 1000, 64), &rtp);
	struct wirepath_start start = start_of(&send, 2000000);
	struct wirepath_status status;

	run_ip("link add goes type veth peer name stays");
	run_ip("addr add 10.8.0.1/24 dev goes");
	run_ip("link set goes up");
	run_ip("link set stays up");
	run_ip("neigh add 10.8.0.2 lladdr 02:00:00:00:00:02 dev goes");
	CHECK(!connect(udp, (void *)&to, sizeof(to)));
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	do
		status = status_of(run, WIREPATH_STATUS);
	while (status.state == WIREPATH_RUN_GOING && !status.packets);
	run_ip("link del goes");
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == 0, "state %u error %d",
	      status.state, status.error);
	CHECK(status.packets > 0 && status.packets + status.lost_packets == PACKETS,
	      "%llu sent, %llu lost", status.packets, status.lost_packets);
	close(run);
	close(udp);
}

/* In a namespace that goes with the process, and with it a run that is at work. */
static void namespace_that_goes(const struct data *data)
{
	int before = module_users(), status;
	pid_t child = fork();

	if (!child) {
		struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9),
					  .sin_addr.s_addr = inet_addr("127.0.0.1") };
		struct wirepath_send send;
		struct wirepath_start start;
		struct wirepath_rtp rtp = rtp_of();
		int failed = failures, udp;

		if (unshare(CLONE_NEWNET))
			die("unshare");
		device_that_goes(data);
		run_ip("link set lo up");
		udp = socket(AF_INET, SOCK_DGRAM, 0);
		CHECK(!connect(udp, (void *)&to, sizeof(to)));
		send = with_rtp(cut(wirepath_send_of(udp, data->file, 0, 1 << 20), 1000, 64), &rtp);
		start = start_of(&send, 100000);
		CHECK(ioctl(device, WIREPATH_START, &start) >= 0);
		fflush(stdout);
		_exit(failures != failed);
	}
	CHECK(waitpid(child, &status, 0) == child && !status, "the child failed");
	/* The run's thread ends a little after its owner. */
	for (int i = 0; i < 100 && module_users() != before; i++)
		usleep(20000);
	CHECK(module_users() == before, "%d users", module_users());
}

void changes(const struct data *data, struct pair pair)
{
	with_folios_and_without(data, pair);
	request_that_is_rewritten(data, pair);
	if (access("/bin/ip", X_OK))
		SKIP("there is no /bin/ip to make devices with");
	else
		namespace_that_goes(data);
}
