// SPDX-License-Identifier: GPL-2.0
/*
 * ICMP errors of a router on the way while a run is sent: packets that became
 * too long, and a destination that cannot be reached for a while. The run counts
 * the errors and goes on, and what is sent later arrives. The run is stopped then.
 *
 *   near (sender) --- router --- far (receiver), a network namespace each
 */
#define _GNU_SOURCE
#include <sched.h>

#include "smoke.h"

#define PACKET_SIZE 1400
#define PACKETS 600
#define TRAIN 20
#define PROBE 5
#define RATE 50000

/* The namespaces, as descriptors. */
struct way {
	int near, router, far;
};

/* Addresses of an IP version: of router and far in front of the sender, and of the sender's network. */
static const struct version {
	int family;
	const char *name, *far, *network;
} versions[] = {
	{ AF_INET, "-4", "10.6.1.2", "10.6.1.2/32" },
	{ AF_INET6, "-6", "fd06:1::2", "fd06:1::2/128" },
};

static void enter(int namespace)
{
	if (setns(namespace, CLONE_NEWNET))
		die("setns");
}

/* Enters a new namespace. */
static int namespace_new(void)
{
	int namespace;

	if (unshare(CLONE_NEWNET))
		die("unshare");
	namespace = open("/proc/self/ns/net", O_RDONLY);
	run_ip("link set lo up");
	return namespace;
}

static void connect_to_router(int end, int router, const char *device, int network, int host)
{
	char line[256];

	enter(end);
	snprintf(line, sizeof(line), "link add %s type veth peer name to-%s netns /proc/self/fd/%d",
		 device, device, router);
	run_ip(line);
	for (int i = 0; i < 2; i++) {
		enter(i ? router : end);
		snprintf(line, sizeof(line), "addr add 10.6.%d.%d/24 dev %s%s", network, i ? 1 : host,
			 i ? "to-" : "", device);
		run_ip(line);
		snprintf(line, sizeof(line), "addr add fd06:%d::%d/64 dev %s%s nodad", network,
			 i ? 1 : host, i ? "to-" : "", device);
		run_ip(line);
		snprintf(line, sizeof(line), "link set %s%s up", i ? "to-" : "", device);
		run_ip(line);
	}
	enter(end);
	snprintf(line, sizeof(line), "-4 route add default via 10.6.%d.1", network);
	run_ip(line);
	snprintf(line, sizeof(line), "-6 route add default via fd06:%d::1", network);
	run_ip(line);
}

static struct way way_open(void)
{
	struct way way = { .near = namespace_new(), .router = namespace_new(), .far = namespace_new() };

	connect_to_router(way.near, way.router, "near", 0, 2);
	connect_to_router(way.far, way.router, "far", 1, 2);
	enter(way.router);
	CHECK(!write_text("/proc/sys/net/ipv4/ip_forward", "1"));
	CHECK(!write_text("/proc/sys/net/ipv6/conf/all/forwarding", "1"));
	/* An answer to each packet. */
	CHECK(!write_text("/proc/sys/net/ipv4/icmp_ratelimit", "0"));
	CHECK(!write_text("/proc/sys/net/ipv6/icmp/ratelimit", "0"));
	return way;
}

/* Connected sockets through the router, when a packet has come that way. */
static struct pair pair_through(struct way way, const struct version *version)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(4000) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(4000) };
	struct sockaddr *address = version->family == AF_INET ? (void *)&four : (void *)&six;
	socklen_t bytes = version->family == AF_INET ? sizeof(four) : sizeof(six);
	struct pollfd ready = { .events = POLLIN };
	unsigned char packet[65536];
	int room = 16 << 20, tries = 0;
	struct pair pair;

	inet_pton(AF_INET, version->far, &four.sin_addr);
	inet_pton(AF_INET6, version->far, &six.sin6_addr);
	enter(way.far);
	pair.to = socket(version->family, SOCK_DGRAM, 0);
	setsockopt(pair.to, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	if (bind(pair.to, address, bytes))
		die("bind");
	enter(way.near);
	pair.from = socket(version->family, SOCK_DGRAM, 0);
	if (connect(pair.from, address, bytes))
		die("connect");
	ready.fd = pair.to;
	/* Devices take a while to come up, and packets are lost until then. */
	do
		send(pair.from, "first", PROBE, 0);
	while (poll(&ready, 1, 100) != 1 && tries++ < 300);
	CHECK(ready.revents == POLLIN, "no packet comes through the router");
	while (recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		;
	return pair;
}

/* A paced run of lists and trains, so slow that the way changes meanwhile. */
static int run_of(const struct data *data, struct pair pair, struct wirepath_rtp *rtp)
{
	struct wirepath_send send = with_rtp(cut(wirepath_send_of(pair.from, data->file, 0,
								  PACKETS * PACKET_SIZE), PACKET_SIZE, TRAIN), rtp);
	struct wirepath_start start = start_of(&send, RATE);
	int run = ioctl(device, WIREPATH_START, &start);

	CHECK(run >= 0);
	return run;
}

/* The number of the next packet that comes, which must be whole and in order; -1 if none comes. */
static int next_number(const struct data *data, struct pair pair, const struct wirepath_rtp *rtp, int last)
{
	static unsigned char packet[65536];
	ssize_t got;
	int number;

	/* More of the probes of pair_through() may come late. */
	do
		got = receive(pair.to, packet);
	while (got == PROBE);
	if (got < 0)
		return -1;
	CHECK(got == PACKET_SIZE + 12, "%zd bytes", got);
	number = (unsigned short)((packet[2] << 8 | packet[3]) - rtp->sequence);
	CHECK(number > last && number < PACKETS, "%d after %d", number, last);
	if (number < PACKETS)
		CHECK(!memcmp(packet + 12, data->bytes + number * PACKET_SIZE, PACKET_SIZE), "packet %d", number);
	return number;
}

/* Waits for the run's first error, or without @error for two trains after those @sent until now. */
static void wait_for_errors(int run, int error, __u64 sent)
{
	struct wirepath_status status;

	do {
		usleep(20000);
		status = status_of(run, WIREPATH_STATUS);
	} while (status.state == WIREPATH_RUN_GOING &&
		 (error ? !status.errors : status.packets < sent + 2 * TRAIN));
}

/* What happens on the way, and what comes of it. */
struct trouble {
	/* Lines of `ip` for the router: after the first trains, and later, or NULL. */
	const char *broken, *mended;
	int wants_errors;		/* the socket asks for all errors */
	int loses;			/* packets are lost meanwhile */
	int error;			/* as the socket is told, or 0 */
};

static void run_through(const struct data *data, struct way way, const struct version *version,
			struct trouble trouble)
{
	const char *broken = trouble.broken;
	struct pair pair = pair_through(way, version);
	struct wirepath_rtp rtp = rtp_of();
	struct wirepath_status status;
	int run, number = -1, arrived = 0, last;

	if (trouble.wants_errors)
		CHECK(!setsockopt(pair.from, version->family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
				  version->family == AF_INET ? IP_RECVERR : IPV6_RECVERR, &trouble.wants_errors,
				  sizeof(trouble.wants_errors)));
	run = run_of(data, pair, &rtp);
	for (; number < 3 * TRAIN && arrived == number + 1; arrived++) {
		number = next_number(data, pair, &rtp, number);
		CHECK(number == arrived, "%s: %d", broken, number);
	}
	enter(way.router);
	run_ip(broken);
	wait_for_errors(run, trouble.error, status_of(run, WIREPATH_STATUS).packets);
	if (trouble.mended)
		run_ip(trouble.mended);
	enter(way.near);
	/* What was sent until now may be lost, all of two trains after it arrives. */
	status = status_of(run, WIREPATH_STATUS);
	last = status.packets + status.lost_packets + 2 * TRAIN;
	CHECK(last < PACKETS, "%s %s: the run is too short, %d", version->name, broken, last);
	while (number >= 0 && number < last) {
		number = next_number(data, pair, &rtp, number);
		arrived += number >= 0;
	}
	CHECK(!ioctl(run, WIREPATH_STOP, 0));
	status = status_of(run, WIREPATH_STATUS);
	CHECK(status.state == WIREPATH_RUN_STOPPED && status.error == 0, "%s: state %u, error %d", broken,
	      status.state, status.error);
	last = status.packets + status.lost_packets - 1;
	while (number >= 0 && number < last) {
		number = next_number(data, pair, &rtp, number);
		arrived += number >= 0;
	}
	CHECK(number == last, "%s %s: %d is the last packet, not %d", version->name, broken, number, last);
	CHECK((__u64)arrived <= status.packets, "%s: %llu sent, %llu lost, %d arrived", broken,
	      status.packets, status.lost_packets, arrived);
	CHECK((arrived <= last) == trouble.loses, "%s %s: %d of %d arrived", version->name, broken, arrived,
	      last + 1);
	CHECK(!!status.errors == !!trouble.error && status.last_error == trouble.error, "%s %s: %llu errors, the last %d",
	      version->name, broken, status.errors, status.last_error);
	close(run);
	pair_close(pair);
}

static void through(const struct data *data, struct way way, const struct version *version)
{
	char prohibit[64], unreachable[64], permit[64];
	int is_four = version->family == AF_INET, may_fragment = is_four && !members;

	snprintf(unreachable, sizeof(unreachable), "%s route add unreachable %s", version->name,
		 version->network);
	snprintf(prohibit, sizeof(prohibit), "%s route add prohibit %s", version->name, version->network);
	snprintf(permit, sizeof(permit), "%s route del %s", version->name, version->network);
	/* Sockets are only told that a host cannot be reached if they ask for it. */
	run_through(data, way, version, (struct trouble){ unreachable, permit, .loses = 1 });
	run_through(data, way, version,
		    (struct trouble){ unreachable, permit, .loses = 1, .wants_errors = 1,
				      .error = is_four ? EHOSTUNREACH : ENETUNREACH });
	run_through(data, way, version,
		    (struct trouble){ prohibit, permit, .loses = 1,
				      .error = is_four ? EHOSTUNREACH : EACCES });
	/*
	 * The router fragments trains of IPv4 that udp_sendmsg() makes, which do not forbid it.
	 * The other senders learn the path's MTU and fragment: nothing is to be mended.
	 */
	run_through(data, way, version,
		    (struct trouble){ "link set to-far mtu 1280", NULL,
				      .loses = !may_fragment, .error = may_fragment ? 0 : EMSGSIZE });
	enter(way.router);
	run_ip("link set to-far mtu 1500");
	enter(way.near);
}

/* In a child, whose namespaces go with it. */
void routers(const struct data *data)
{
	int status, users = module_users();
	pid_t child;

	if (access("/bin/ip", X_OK)) {
		SKIP("there is no /bin/ip to make devices with");
		return;
	}
	fflush(stdout);
	child = fork();
	if (!child) {
		int failed = failures;
		struct way way = way_open();

		for (size_t i = 0; i < COUNT(versions); i++)
			through(data, way, &versions[i]);
		fflush(stdout);
		_exit(failures != failed);
	}
	CHECK(waitpid(child, &status, 0) == child && !status, "the child failed");
	while (module_users() > users)
		;
}
