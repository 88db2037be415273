// SPDX-License-Identifier: GPL-2.0
/*
 * A tun device, whose packets this program reads byte for byte: without a header of
 * virtio it gets packets that the kernel has cut and summed; with one, what the
 * reader says it takes: packets without their sums, or a whole list as one.
 *
 *   tunnel 10.5.0.1/24 --- nobody but the reader
 */
#define _GNU_SOURCE
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>

#include "smoke.h"

#define RTP_HEADER 12
#define IP_HEADER 20
#define UDP_HEADER 8
#define RUN_PACKETS 200
#define RUN_BYTES (RUN_PACKETS * PACKET_BYTES - 100)

/* Of <linux/if_tun.h> and <linux/virtio_net.h> since Linux 6.2. */
#define OFFLOAD_USO (0x20 | 0x40)
#define GSO_UDP 5

/* What a reader says it takes. */
static const struct reader {
	const char *name;
	short flags;
	unsigned int offloads;
	int takes_lists;
} readers[] = {
	{ "plain", IFF_TUN | IFF_NO_PI, 0, 0 },
	{ "virtio", IFF_TUN | IFF_NO_PI | IFF_VNET_HDR, 0, 0 },
	{ "without sums", IFF_TUN | IFF_NO_PI | IFF_VNET_HDR, TUN_F_CSUM, 0 },
	{ "segments", IFF_TUN | IFF_NO_PI | IFF_VNET_HDR, TUN_F_CSUM | OFFLOAD_USO, 1 },
};

/* The device, and where the payloads of its packets go, one by one. */
struct tunnel {
	const struct reader *reader;
	int device, udp;
	struct pair payloads;
};

/* Sum of the words in ones' complement, which is 0xffff for what has its right sum. */
static unsigned int sum_of(const unsigned char *bytes, size_t count, unsigned int sum)
{
	for (size_t i = 0; i < count; i++)
		sum += i % 2 ? bytes[i] : bytes[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static unsigned int word_at(const unsigned char *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

/* Checks lengths and sums of a frame with IPv4 and UDP headers. */
static void check_headers(const struct tunnel *tunnel, const unsigned char *ip, size_t bytes,
			  const struct virtio_net_hdr *virtio)
{
	const unsigned char *udp = ip + IP_HEADER;
	unsigned int pseudo = sum_of(ip + 12, 8, IPPROTO_UDP + bytes - IP_HEADER);

	CHECK(word_at(ip + 2) == bytes, "%u of %zu bytes by IP", word_at(ip + 2), bytes);
	CHECK(word_at(udp + 4) == bytes - IP_HEADER, "%u of %zu bytes by UDP", word_at(udp + 4), bytes);
	CHECK(sum_of(ip, IP_HEADER, 0) == 0xffff, "the sum of an IP header");
	if (virtio->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) {
		CHECK(tunnel->reader->offloads & TUN_F_CSUM, "a packet without its sum");
		CHECK(virtio->csum_start == IP_HEADER && virtio->csum_offset == 6, "%u and %u",
		      virtio->csum_start, virtio->csum_offset);
		CHECK(word_at(udp + 6) == pseudo, "%x, not %x", word_at(udp + 6), pseudo);
	} else {
		CHECK(sum_of(udp, bytes - IP_HEADER, pseudo) == 0xffff, "the sum of %zu bytes", bytes);
	}
}

/* Passes the payload of a frame on, packet by packet. Returns their number: 0 for what others sent. */
static int pass_on(const struct tunnel *tunnel, const unsigned char *frame, size_t bytes)
{
	struct virtio_net_hdr virtio = { 0 };
	size_t each, headers = IP_HEADER + UDP_HEADER;
	int packets = 0;

	if (tunnel->reader->flags & IFF_VNET_HDR) {
		if (bytes < sizeof(virtio))
			return 0;
		memcpy(&virtio, frame, sizeof(virtio));
		frame += sizeof(virtio);
		bytes -= sizeof(virtio);
	}
	/* IPv6 looks for routers by itself. */
	if (bytes < headers || frame[0] != 0x45 || frame[9] != IPPROTO_UDP)
		return 0;
	check_headers(tunnel, frame, bytes, &virtio);
	CHECK(virtio.gso_type == VIRTIO_NET_HDR_GSO_NONE ||
	      (virtio.gso_type == GSO_UDP && tunnel->reader->takes_lists), "type %u", virtio.gso_type);
	each = virtio.gso_type == GSO_UDP ? virtio.gso_size : bytes - headers;
	for (size_t at = headers; at < bytes; at += each, packets++) {
		each = each < bytes - at ? each : bytes - at;
		if (!each || send(tunnel->payloads.from, frame + at, each, 0) != (ssize_t)each)
			die("passing a packet on");
	}
	return packets;
}

/* Reads frames until @packets have come: how many frames it took. */
static int read_frames(const struct tunnel *tunnel, int packets)
{
	static unsigned char frame[sizeof(struct virtio_net_hdr) + 65536];
	struct pollfd ready = { .fd = tunnel->device, .events = POLLIN };
	int frames = 0, seen = 0, more;
	ssize_t got;

	while (seen < packets && poll(&ready, 1, 5000) == 1) {
		got = read(tunnel->device, frame, sizeof(frame));
		if (got < 0)
			break;
		more = pass_on(tunnel, frame, got);
		seen += more;
		frames += !!more;
	}
	CHECK(seen == packets, "%s: %d of %d packets", tunnel->reader->name, seen, packets);
	while ((got = read(tunnel->device, frame, sizeof(frame))) > 0)
		CHECK(!pass_on(tunnel, frame, got), "%s: a packet too many", tunnel->reader->name);
	return frames;
}

/* Before Linux 6.11, a device that sums nothing takes no trains. */
static int takes_trains(const struct reader *reader)
{
	struct utsname kernel;
	int major = 0, minor = 0;

	if (uname(&kernel) || sscanf(kernel.release, "%d.%d", &major, &minor) != 2)
		die("uname");
	return (reader->offloads & TUN_F_CSUM) || major > 6 || (major == 6 && minor >= 11);
}

/* Packets with headers of the module: in lists, in trains of copies, and one by one. */
static void of_the_engine(const struct data *data, const struct tunnel *tunnel, int trains, int flags)
{
	struct wirepath_rtp rtp = rtp_of(), header = rtp;
	struct wirepath_send send = with_rtp(cut(wirepath_send_of(tunnel->udp, data->file, 4095, RUN_BYTES),
						 PACKET_BYTES, trains), &rtp);
	int answer, frames;

	send.flags = flags;
	answer = ioctl(device, WIREPATH_SEND, &send) ? errno : 0;
	if (trains && !takes_trains(tunnel->reader)) {
		CHECK(answer == EIO && !send.packets, "%s: %d", tunnel->reader->name, answer);
		return;
	}
	CHECK(!answer && send.packets == RUN_PACKETS, "%s: %d", tunnel->reader->name, answer);
	frames = read_frames(tunnel, RUN_PACKETS);
	expect_rtp_run(tunnel->payloads.to, &header, data->bytes + 4095, RUN_BYTES, PACKET_BYTES, 0);
	CHECK(nothing_more(tunnel->payloads.to));
	if (!trains || !tunnel->reader->takes_lists)
		CHECK(frames == RUN_PACKETS, "%s: %d frames", tunnel->reader->name, frames);
	else if (members && !flags)
		CHECK(frames <= 5, "%s: lists were cut into %d frames", tunnel->reader->name, frames);
}

/* Packets by a vector, which joins what it can. */
static void of_a_vector(const struct data *data, const struct tunnel *tunnel)
{
	static unsigned char header[RTP_HEADER] = "0123456789ab";
	struct wirepath_part parts[2 * RUN_PACKETS / 4];
	struct wirepath_sendfilew vector = {
		.size = sizeof(vector), .socket = tunnel->udp, .part_count = COUNT(parts),
		.parts = (__u64)(size_t)parts, .part_bytes = sizeof(parts[0]),
	};

	for (size_t i = 0; i < COUNT(parts); i += 2) {
		parts[i] = (struct wirepath_part){ .file = -1, .flags = WIREPATH_PART_COPY,
						   .offset = (__u64)(size_t)header,
						   .length = sizeof(header) };
		parts[i + 1] = (struct wirepath_part){ .file = data->file, .flags = WIREPATH_PART_END,
						       .offset = i / 2 * PACKET_BYTES,
						       .length = PACKET_BYTES };
	}
	CHECK(!ioctl(device, WIREPATH_SENDFILEW, &vector), "%s", tunnel->reader->name);
	read_frames(tunnel, COUNT(parts) / 2);
	for (size_t i = 0; i < COUNT(parts) / 2; i++)
		expect_with(tunnel->payloads.to, header, sizeof(header), data->bytes + i * PACKET_BYTES,
			    PACKET_BYTES);
	CHECK(nothing_more(tunnel->payloads.to));
}

/*
 * Makes a tun device with an address, and a socket that sends to it. Returns -1 if the kernel lacks what
 * the reader takes.
 */
static int tunnel_open(struct tunnel *tunnel)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9),
				  .sin_addr.s_addr = inet_addr("10.5.0.2") };
	struct ifreq request = { .ifr_name = "tunnel", .ifr_flags = tunnel->reader->flags };
	int room = 16 << 20, ends[2];

	tunnel->device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (tunnel->device < 0)
		return -1;
	if (ioctl(tunnel->device, TUNSETIFF, &request))
		die("TUNSETIFF");
	if (ioctl(tunnel->device, TUNSETOFFLOAD, tunnel->reader->offloads)) {
		close(tunnel->device);
		return -1;
	}
	run_ip("addr add 10.5.0.1/24 dev tunnel");
	run_ip("link set tunnel up");
	/* A socket of this kind has no limit of packets, but of bytes. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		die("socketpair");
	tunnel->payloads = (struct pair){ ends[0], ends[1] };
	if (setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)))
		die("SO_SNDBUFFORCE");
	tunnel->udp = socket(AF_INET, SOCK_DGRAM, 0);
	if (connect(tunnel->udp, (void *)&to, sizeof(to)))
		die("connect");
	return 0;
}

static void tunnel_close(const struct tunnel *tunnel)
{
	pair_close(tunnel->payloads);
	close(tunnel->udp);
	close(tunnel->device);
}

/* In a namespace of its own, so that nobody else has the addresses. */
void tunnels(const struct data *data)
{
	int before;

	if (access("/dev/net/tun", R_OK)) {
		SKIP("no tun devices");
		return;
	}
	if (access("/bin/ip", X_OK)) {
		SKIP("there is no /bin/ip to give a device an address with");
		return;
	}
	before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (before < 0 || unshare(CLONE_NEWNET))
		die("a namespace of the network");
	for (size_t i = 0; i < COUNT(readers); i++) {
		struct tunnel tunnel = { .reader = &readers[i] };

		if (tunnel_open(&tunnel)) {
			SKIP("no tun device of the kind: %s (%s)", readers[i].name, strerror(errno));
			continue;
		}
		of_the_engine(data, &tunnel, 64, 0);
		of_the_engine(data, &tunnel, 64, WIREPATH_COPY);
		of_the_engine(data, &tunnel, 0, 0);
		of_a_vector(data, &tunnel);
		tunnel_close(&tunnel);
	}
	if (setns(before, CLONE_NEWNET))
		die("setns");
	close(before);
}
