// SPDX-License-Identifier: GPL-2.0
/* What the groups of checks share: sockets, requests, and what must arrive. */
#include "smoke.h"

#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <time.h>

void die(const char *what)
{
	perror(what);
	exit(2);
}

__u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* The least rounds in any case, then more until two seconds are over: slow kernels make fewer. */
int goes_on(int round, int least, int most, __u64 began_ns)
{
	return round < least || (round < most && now_ns() - began_ns < 2000000000);
}

/* Descriptors and live runs that hold the module. */
int module_users(void)
{
	FILE *file = fopen("/sys/module/wirepath/refcnt", "r");
	int users = -1;

	if (file && fscanf(file, "%d", &users) != 1)
		users = -1;
	if (file)
		fclose(file);
	return users;
}

char *read_text(const char *name)
{
	static char text[65536];
	int file = open(name, O_RDONLY);
	ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

	if (file >= 0)
		close(file);
	text[bytes < 0 ? 0 : bytes] = 0;
	return text;
}

int write_text(const char *name, const char *text)
{
	int file = open(name, O_WRONLY | O_APPEND);
	ssize_t bytes = file < 0 ? -1 : write(file, text, strlen(text));

	if (file >= 0)
		close(file);
	return bytes < 0 ? -1 : 0;
}

/* The number behind a name, in a file of such lines. */
long long number_of(const char *file, const char *name)
{
	const char *found = strstr(read_text(file), name);

	return found ? atoll(found + strlen(name)) : -1;
}

void run_ip(const char *arguments)
{
	char line[256];

	snprintf(line, sizeof(line), "/bin/ip %s", arguments);
	if (system(line))
		die(line);
}

char process_state(pid_t process)
{
	char name[50], state = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/stat", process);
	file = fopen(name, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state;
}

int waits_in_call(pid_t process)
{
	char state;

	do
		state = process_state(process);
	while (state && state != 'D' && state != 'Z');
	return state == 'D';
}

void wait_for_tasks(const char *events)
{
	struct pollfd empty = { .fd = open(events, O_RDONLY), .events = POLLPRI };

	while (number_of(events, "populated ") == 1)
		CHECK(poll(&empty, 1, 30000) == 1);
	close(empty.fd);
}

int temporary_file(void)
{
	char name[] = "/tmp/smoke-XXXXXX";
	int file = mkstemp(name);

	if (file < 0 || unlink(name))
		die(name);
	return file;
}

struct pair pair_open(int family)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr *address = family == AF_INET ? (void *)&four : (void *)&six;
	socklen_t bytes = family == AF_INET ? sizeof(four) : sizeof(six);
	struct pair pair = { socket(family, SOCK_DGRAM, 0), socket(family, SOCK_DGRAM, 0) };
	int room = 16 << 20;

	setsockopt(pair.to, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	if (bind(pair.to, address, bytes) || getsockname(pair.to, address, &bytes) ||
	    connect(pair.from, address, bytes))
		die("pair of sockets");
	return pair;
}

void pair_close(struct pair pair)
{
	close(pair.from);
	close(pair.to);
}

struct wirepath_send cut(struct wirepath_send send, unsigned int packet_bytes,
			 unsigned int train_packets)
{
	send.packet_bytes = packet_bytes;
	send.train_packets = train_packets;
	return send;
}

struct wirepath_send with_rtp(struct wirepath_send send, struct wirepath_rtp *rtp)
{
	send.header_kind = WIREPATH_HEADER_RTP;
	send.header = (__u64)(size_t)rtp;
	send.header_bytes = sizeof(*rtp);
	return send;
}

struct wirepath_send with_given(struct wirepath_send send, const void *headers, unsigned int each)
{
	send.header_kind = WIREPATH_HEADER_GIVEN;
	send.header = (__u64)(size_t)headers;
	send.header_bytes = each;
	return send;
}

struct wirepath_send sent_to(struct wirepath_send send, const struct sockaddr_in *to)
{
	send.address = (__u64)(size_t)to;
	send.address_bytes = sizeof(*to);
	return send;
}

struct wirepath_rtp rtp_of(void)
{
	struct wirepath_rtp rtp = {
		.size = sizeof(rtp), .ssrc = 0x01020384, .timestamp = 0xfffffff0,
		.timestamp_step = 90, .sequence = 0xfffe, .payload_type = 33,
	};
	return rtp;
}

struct wirepath_start start_of(const struct wirepath_send *send, __u64 rate_bytes_per_second)
{
	struct wirepath_start start = { .size = sizeof(start), .send = (__u64)(size_t)send,
					.rate_bytes_per_second = rate_bytes_per_second };

	return start;
}

struct wirepath_status status_of(int run, unsigned int request)
{
	struct wirepath_status status = { .size = sizeof(status) };

	CHECK(!ioctl(run, request, &status));
	return status;
}

/* Sets or deletes the address of a neighbour that does not exist: what is sent there is dropped. */
static int neighbour(unsigned long request)
{
	struct arpreq asked = { .arp_flags = ATF_PERM, .arp_dev = "silent" };
	struct sockaddr_in *address = (struct sockaddr_in *)&asked.arp_pa;
	int socket_ = socket(AF_INET, SOCK_DGRAM, 0), answer;

	address->sin_family = AF_INET;
	address->sin_addr.s_addr = inet_addr("10.9.0.99");
	asked.arp_ha.sa_family = ARPHRD_ETHER;
	memcpy(asked.arp_ha.sa_data, "\2\0\0\0\0\x63", 6);
	answer = ioctl(socket_, request, &asked);
	close(socket_);
	return answer;
}

int nobody_add(void)
{
	return neighbour(SIOCSARP);
}

int nobody_remove(void)
{
	return neighbour(SIOCDARP);
}

int socket_to_nobody(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9),
				  .sin_addr.s_addr = inet_addr("10.9.0.99") };
	int from = socket(AF_INET, SOCK_DGRAM, 0);

	if (connect(from, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	return from;
}

/* A run as fast as it goes, longer than any test. */
int unbounded(int from)
{
	int file = temporary_file(), run;
	struct wirepath_send send = cut(wirepath_send_of(from, file, 0, WIREPATH_TO_END), 1000, 64);
	struct wirepath_start start = start_of(&send, ~0ULL);

	if (ftruncate(file, 1LL << 40))
		die("ftruncate");
	run = ioctl(device, WIREPATH_START, &start);
	close(file);
	return run;
}

__u64 processor_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

ssize_t receive(int socket, unsigned char *packet)
{
	struct pollfd ready = { .fd = socket, .events = POLLIN };

	if (poll(&ready, 1, 5000) != 1)
		return -1;
	return recv(socket, packet, 65536, 0);
}

int nothing_more(int socket)
{
	unsigned char packet;

	return recv(socket, &packet, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void expect_plain(int socket, const unsigned char *payload, size_t bytes,
			 size_t packet_bytes)
{
	static unsigned char packet[65536];
	size_t at = 0;

	while (at < bytes) {
		size_t want = bytes - at < packet_bytes ? bytes - at : packet_bytes;
		ssize_t got = receive(socket, packet);

		CHECK(got == (ssize_t)want, "at %zu: %zd, not %zu", at, got, want);
		if (got != (ssize_t)want)
			return;
		CHECK(!memcmp(packet, payload + at, want), "bytes at %zu", at);
		at += want;
	}
	CHECK(nothing_more(socket), "after %zu", bytes);
}

void expect_with(int socket, const void *header, size_t header_bytes,
		 const unsigned char *payload, size_t bytes)
{
	static unsigned char packet[65536];
	ssize_t got = receive(socket, packet);
	size_t want = header_bytes + bytes;

	CHECK(got == (ssize_t)want, "%zd, not %zu", got, want);
	if (got != (ssize_t)want)
		return;
	CHECK(!memcmp(packet, header, header_bytes), "header %02x %02x %02x %02x", packet[0],
	      packet[1], packet[2], packet[3]);
	CHECK(!memcmp(packet + header_bytes, payload, bytes), "payload of %zu", bytes);
}

void expect_one(int socket, const unsigned char *payload, size_t bytes)
{
	expect_with(socket, NULL, 0, payload, bytes);
}

void expect_rtp(int socket, struct wirepath_rtp *rtp, int marker,
		const unsigned char *payload, size_t bytes)
{
	unsigned char header[12] = {
		0x80, (marker << 7) | rtp->payload_type, rtp->sequence >> 8, rtp->sequence,
		rtp->timestamp >> 24, rtp->timestamp >> 16, rtp->timestamp >> 8, rtp->timestamp,
		rtp->ssrc >> 24, rtp->ssrc >> 16, rtp->ssrc >> 8, rtp->ssrc,
	};

	expect_with(socket, header, sizeof(header), payload, bytes);
	rtp->sequence++;
	rtp->timestamp += rtp->timestamp_step;
}

void expect_rtp_run(int socket, struct wirepath_rtp *rtp, const unsigned char *payload,
		    size_t bytes, size_t packet_bytes, size_t skip_bytes)
{
	for (size_t at = skip_bytes, size; at < bytes; at += size + skip_bytes) {
		size = bytes - at < packet_bytes ? bytes - at : packet_bytes;
		expect_rtp(socket, rtp, 0, payload + at, size);
	}
}
