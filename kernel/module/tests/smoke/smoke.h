/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the groups of checks share: how a check is counted, where payload comes
 * from and goes to, how requests are made, and what must arrive of them.
 */
#ifndef SMOKE_H
#define SMOKE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../uapi/wirepath_calls.h"

#define DATA_BYTES (1 << 20)
#define PACKET_BYTES 1316

extern int device;
extern int references, members;	/* does this kernel send by reference, and as lists of buffers? */
extern int failures, checks, skips;
extern const char *where;	/* the file that is sent */

#define CHECK(condition, ...)                                                  \
	do {                                                                   \
		checks++;                                                      \
		if (!(condition)) {                                            \
			failures++;                                            \
			printf("FAIL %s %s:%d: %s: ", where, __func__,         \
			       __LINE__, #condition);                          \
			printf(" " __VA_ARGS__);                               \
			printf(" (errno %d %s)\n", errno, strerror(errno));    \
		}                                                              \
	} while (0)

#define SKIP(...)                                                              \
	do {                                                                   \
		skips++;                                                       \
		printf("SKIP %s: ", __func__);                                 \
		printf(__VA_ARGS__);                                           \
		printf("\n");                                                  \
	} while (0)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* One file, as descriptor, as mapping, and as bytes read for comparison. */
struct data {
	int file;
	const unsigned char *mapping;
	unsigned char *bytes;
};

/* A connected pair of UDP sockets. */
struct pair {
	int from, to;
};

void die(const char *what);
__u64 now_ns(void);
int goes_on(int round, int least, int most, __u64 began_ns);	/* to the next round of a test */
int module_users(void);		/* -1: the kernel does not say */
char process_state(pid_t process);	/* R, S, D, Z, ... or 0 */
int waits_in_call(pid_t process);	/* waits for its state D: 0 if the process ended without */
__u64 processor_ns(void);	/* time that this thread has had */
char *read_text(const char *name);	/* empty if it cannot be read; until the next call */
int write_text(const char *name, const char *text);	/* 0, or -1 */
long long number_of(const char *file, const char *name);	/* on the line with the name, or -1 */
void wait_for_tasks(const char *events);	/* until none is in the cgroup of that cgroup.events */
int temporary_file(void);	/* in /tmp, without a name */
void run_ip(const char *arguments);	/* /bin/ip, which must succeed */
struct pair pair_open(int family);
void pair_close(struct pair pair);
int nobody_add(void);		/* a neighbour that drops all; -1 without the device `silent` */
int nobody_remove(void);
int socket_to_nobody(void);	/* connected to that neighbour */
int unbounded(int from);	/* a run without a limit of rate, longer than any test */

/* Requests: what of SEND is to be otherwise than the least it needs. */
struct wirepath_send cut(struct wirepath_send send, unsigned int packet_bytes,
			 unsigned int train_packets);
struct wirepath_send with_rtp(struct wirepath_send send, struct wirepath_rtp *rtp);
struct wirepath_send with_given(struct wirepath_send send, const void *headers, unsigned int each);
struct wirepath_send sent_to(struct wirepath_send send, const struct sockaddr_in *to);
struct wirepath_rtp rtp_of(void);
struct wirepath_start start_of(const struct wirepath_send *send, __u64 rate_bytes_per_second);
struct wirepath_status status_of(int run, unsigned int request);

/* What arrives: the next packet's size, or -1 when none comes; */
ssize_t receive(int socket, unsigned char *packet);
int nothing_more(int socket);
/* `bytes` of payload in packets of `packet_bytes`, and nothing more; */
void expect_plain(int socket, const unsigned char *payload, size_t bytes, size_t packet_bytes);
/* one packet, maybe more; one with a header in front; */
void expect_one(int socket, const unsigned char *payload, size_t bytes);
void expect_with(int socket, const void *header, size_t header_bytes,
		 const unsigned char *payload, size_t bytes);
/* and with that of `rtp`, which moves on by a packet; or a run of such. */
void expect_rtp(int socket, struct wirepath_rtp *rtp, int marker,
		const unsigned char *payload, size_t bytes);
void expect_rtp_run(int socket, struct wirepath_rtp *rtp, const unsigned char *payload,
		    size_t bytes, size_t packet_bytes, size_t skip_bytes);

/* The groups: with a file and a pair, */
void packets(const struct data *data, struct pair pair);
void runs_of_packets(const struct data *data, struct pair pair);
void headers(const struct data *data, struct pair pair);
void skips_of_packets(const struct data *data, struct pair pair);
void changes(const struct data *data, struct pair pair);
void misuse(const struct data *data, struct pair pair);
void vectors(const struct data *data, struct pair pair);
void commands(const struct data *data, struct pair pair);
void paced_runs(const struct data *data, struct pair pair);
void survives(const struct data *data, struct pair pair);
void account(const struct data *data, struct pair pair);
void handlers(const struct data *data, struct pair pair);
void owners(const struct data *data, struct pair pair);
void ends(const struct data *data, struct pair pair);
void storage(const struct data *data, struct pair pair);
void cached_storage(const struct data *data, struct pair pair);
void narrow(const struct data *data, struct pair pair);
void faults(const struct data *data, struct pair pair);
/* and with sockets of their own. */
void destinations(const struct data *data);
void full_buffers(const struct data *data);
void account_of_others(const struct data *data);
void wakeups(const struct data *data);
void tunnels(const struct data *data);
void routers(const struct data *data);
void limits(const struct data *data);

#endif /* SMOKE_H */
