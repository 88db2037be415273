/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Handlers of records that run in the kernel (wirepath relay --handler bpf:FILE): in a mirror of UDP datagrams
 * to several receivers without a copy, or in front of the socket of an input, where they drop records early.
 *
 * A handler is one function, which decides on a record by its first bytes:
 *
 *     #include "wirepath.bpf.h"
 *
 *     WIREPATH_HANDLER(record)
 *     {
 *             return record->bytes[0] == 'x' ? WIREPATH_DROP : WIREPATH_PASS;
 *     }
 *
 * It has no loops (write #pragma unroll) and calls no helpers, so that the same instructions also run in user
 * space: the object has them three times, in a program for the kernel's traffic control, in one for XDP, and
 * in one that sees nothing but the record.
 */
#ifndef WIREPATH_BPF_H
#define WIREPATH_BPF_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Verdicts. */
#define WIREPATH_DROP 0
#define WIREPATH_PASS 1

/* Bytes of a record that a handler sees. */
#define WIREPATH_SEES 128

/* Beginning of a record. */
struct wirepath_record {
	__u32 length; /* number of bytes: of the whole record, if it is not longer than WIREPATH_SEES */
	__u8 bytes[WIREPATH_SEES]; /* zero behind its end */
};

static __always_inline int wirepath_handle(const struct wirepath_record *record);

/* Defines the handler. */
#define WIREPATH_HANDLER(record) \
	static __always_inline int wirepath_handle(const struct wirepath_record *record)

/* Most receivers of a mirror. */
#define WIREPATH_RECEIVERS 256

/*
 * Time that the way to a receiver is used before it is learned again, as routes and neighbours change; and
 * the time after it in which what is sent teaches nothing, since it may still come from here.
 */
#define WIREPATH_LEARNED_NS (5ULL * 1000 * 1000 * 1000)
#define WIREPATH_PAUSE_NS (1ULL * 1000 * 1000)

/* Number in place of that of the records sent on: the kernel does not wait for user space. */
#define WIREPATH_AT_ONCE (~0ULL)

/* Input of the mirror; addresses and ports in network byte order. */
struct wirepath_input {
	__be32 address;
	__be16 port;
	__u16 unused;
	__u32 receivers;
};

/* A receiver: addresses by user space, the way to it learned from what user space sends. */
struct wirepath_receiver {
	__u64 learned_ns; /* 0: not learned */
	__be32 source;
	__be32 destination;
	__be16 source_port;
	__be16 destination_port;
	__u32 device;
	__u8 ethernet[2 * ETH_ALEN]; /* destination, source */
	__u32 unused;
};

/* Address and port of a receiver. */
struct wirepath_destination {
	__be32 address;
	__be16 port;
	__u16 unused;
};

enum wirepath_count {
	WIREPATH_PASSED, /* records mirrored */
	WIREPATH_DROPPED, /* records that the handler dropped */
	WIREPATH_SENT, /* datagrams sent */
	WIREPATH_UNSENT, /* datagrams that a device did not take */
	WIREPATH_COUNTS,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wirepath_input);
} wp_input SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WIREPATH_RECEIVERS);
	__type(key, __u32);
	__type(value, struct wirepath_receiver);
} wp_receivers SEC(".maps");

/* Place of a receiver. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WIREPATH_RECEIVERS);
	__type(key, struct wirepath_destination);
	__type(value, __u32);
} wp_places SEC(".maps");

/*
 * Records left to user space, and how many of those it has sent on, which it writes. The kernel takes over
 * when both are equal: no record overtakes another.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} wp_left SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WIREPATH_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} wp_counts SEC(".maps");

/* Headers of a datagram over IPv4 without options, behind that of Ethernet. */
struct wp_headers {
	struct iphdr ip;
	struct udphdr udp;
};

/* Bits of all but whole datagrams. */
#define WP_FRAGMENT_BITS 0x3fff

/* Place of a record in its frame. */
#define WP_RECORD (ETH_HLEN + sizeof(struct wp_headers))

/* Bytes that a handler sees of a datagram with this length in its header. */
static __always_inline __u32 wp_seen(__u32 length)
{
	length -= sizeof(struct udphdr);
	return length < WIREPATH_SEES ? length : WIREPATH_SEES;
}

/* The same number from 1 to WIREPATH_SEES, of which the verifier knows the range by a mask that stays. */
#define WP_VERIFIED(number)                                       \
	({                                                        \
		__u32 wp_number = (number) - 1;                   \
		asm volatile("" : "+r"(wp_number));               \
		(wp_number & (WIREPATH_SEES - 1)) + 1;            \
	})

/* A record on its way to the receivers. */
struct wp_mirroring {
	struct __sk_buff *packet;
	struct wp_headers headers; /* those that the packet has now */
	__u64 now_ns;
	__u32 sent;
	__u32 unsent;
	int is_ready;
};

static __always_inline void wp_count(__u32 which, __u64 number)
{
	__u64 *count = bpf_map_lookup_elem(&wp_counts, &which);

	if (count)
		*count += number;
}

/* Reads the headers; true if this is UDP over IPv4. */
static __always_inline int wp_read_headers(struct __sk_buff *packet, struct wp_headers *headers)
{
	return packet->protocol == bpf_htons(ETH_P_IP) &&
	       !bpf_skb_load_bytes(packet, ETH_HLEN, headers, sizeof(*headers)) &&
	       headers->ip.protocol == IPPROTO_UDP;
}

/* True if the header of UDP is where it was read. */
static __always_inline int wp_is_whole(const struct wp_headers *headers)
{
	return headers->ip.ihl == 5 && !(headers->ip.frag_off & bpf_htons(WP_FRAGMENT_BITS));
}

/* Says whether the way to a receiver is known, and takes a datagram of this size. */
static long wp_check(__u32 place, struct wp_mirroring *mirroring)
{
	struct wirepath_receiver *receiver = bpf_map_lookup_elem(&wp_receivers, &place);
	__u32 mtu = 0;

	mirroring->is_ready = receiver && receiver->learned_ns &&
			      mirroring->now_ns - receiver->learned_ns < WIREPATH_LEARNED_NS &&
			      !bpf_check_mtu(mirroring->packet, receiver->device, &mtu, 0, 0);
	return !mirroring->is_ready;
}

/* Sends the datagram to a receiver, with headers such as a socket there would write. */
static long wp_send(__u32 place, struct wp_mirroring *mirroring)
{
	struct wirepath_receiver *receiver = bpf_map_lookup_elem(&wp_receivers, &place);
	struct __sk_buff *packet = mirroring->packet;
	struct wp_headers *headers = &mirroring->headers;
	const __u32 checksum = ETH_HLEN + sizeof(headers->ip) + 6;
	__be32 addresses[2], ports;
	__s64 difference;

	if (!receiver)
		return 1;
	addresses[0] = receiver->source;
	addresses[1] = receiver->destination;
	__builtin_memcpy(&ports, &receiver->source_port, sizeof(ports));

	/* Of the pseudo-header first, then of the ports: a checksum left to the device has the former alone. */
	difference = bpf_csum_diff(&headers->ip.saddr, 8, addresses, 8, 0);
	/* The first change makes the headers the packet's own, which takes memory; the others do not fail. */
	if (bpf_l4_csum_replace(packet, checksum, 0, difference, BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0)) {
		mirroring->unsent++;
		return 0;
	}
	difference = bpf_csum_diff((__be32 *)&headers->udp, 4, &ports, 4, 0);
	bpf_l4_csum_replace(packet, checksum, 0, difference, BPF_F_MARK_MANGLED_0);

	headers->ip.tos = 0;
	headers->ip.ttl = IPDEFTTL;
	headers->ip.saddr = addresses[0];
	headers->ip.daddr = addresses[1];
	headers->ip.check = 0;
	difference = bpf_csum_diff(0, 0, (__be32 *)&headers->ip, sizeof(headers->ip), 0);
	difference = (difference & 0xffff) + (difference >> 16 & 0xffff);
	headers->ip.check = ~(difference + (difference >> 16));
	__builtin_memcpy(&headers->udp, &ports, sizeof(ports));

	bpf_skb_store_bytes(packet, 0, receiver->ethernet, sizeof(receiver->ethernet), 0);
	/* All but length and checksum of UDP. */
	bpf_skb_store_bytes(packet, ETH_HLEN, headers, sizeof(*headers) - 4, 0);
	if (bpf_clone_redirect(packet, receiver->device, 0))
		mirroring->unsent++;
	else
		mirroring->sent++;
	return 0;
}

/* Mirrors datagrams that arrive. */
SEC("classifier")
int wp_mirror(struct __sk_buff *packet)
{
	const __u32 first = 0, second = 1;
	struct wirepath_input *input = bpf_map_lookup_elem(&wp_input, &first);
	__u64 *left = bpf_map_lookup_elem(&wp_left, &first), *sent_on = bpf_map_lookup_elem(&wp_left, &second);
	struct wp_mirroring mirroring = { .packet = packet, .is_ready = 1 };
	struct wirepath_record record = {};
	__u32 length, receivers;

	/* Of a tagged frame the VLAN's own device gets the packet next. Others' frames are not for this machine. */
	if (packet->vlan_present || packet->pkt_type != PACKET_HOST)
		return TC_ACT_UNSPEC;
	if (!input || !left || !sent_on || !wp_read_headers(packet, &mirroring.headers) ||
	    mirroring.headers.ip.daddr != input->address)
		return TC_ACT_UNSPEC;
	if (!wp_is_whole(&mirroring.headers)) {
		/* It may become a record, which the next ones must not overtake. */
		__sync_fetch_and_add(left, 1);
		return TC_ACT_UNSPEC;
	}
	if (mirroring.headers.udp.dest != input->port)
		return TC_ACT_UNSPEC;

	receivers = input->receivers;
	if (receivers > WIREPATH_RECEIVERS)
		receivers = WIREPATH_RECEIVERS;
	mirroring.now_ns = bpf_ktime_get_ns();
	bpf_loop(receivers, wp_check, &mirroring, 0);
	length = bpf_ntohs(mirroring.headers.udp.len);
	/* Trains that a device has joined are left to user space, which takes them apart. */
	if (!mirroring.is_ready || (*left != *sent_on && *sent_on != WIREPATH_AT_ONCE) || packet->gso_segs > 1 ||
	    length < sizeof(struct udphdr) || ETH_HLEN + sizeof(struct iphdr) + length > packet->len) {
		__sync_fetch_and_add(left, 1);
		return TC_ACT_UNSPEC;
	}

	record.length = wp_seen(length);
	if (record.length)
		bpf_skb_load_bytes(packet, WP_RECORD, record.bytes, WP_VERIFIED(record.length));
	if (wirepath_handle(&record) == WIREPATH_DROP) {
		wp_count(WIREPATH_DROPPED, 1);
		return TC_ACT_SHOT;
	}
	bpf_loop(receivers, wp_send, &mirroring, 0);
	wp_count(WIREPATH_PASSED, 1);
	wp_count(WIREPATH_SENT, mirroring.sent);
	wp_count(WIREPATH_UNSENT, mirroring.unsent);
	return TC_ACT_SHOT;
}

/* Learns the way to receivers from what user space sends to them. */
SEC("classifier")
int wp_learn(struct __sk_buff *packet)
{
	struct wp_headers headers;
	__u8 ethernet[2 * ETH_ALEN];
	struct wirepath_destination destination = {};
	struct wirepath_receiver *receiver;
	__u64 now_ns;
	__u32 *place;

	if (packet->vlan_present || !wp_read_headers(packet, &headers) || !wp_is_whole(&headers))
		return TC_ACT_UNSPEC;
	destination.address = headers.ip.daddr;
	destination.port = headers.udp.dest;
	place = bpf_map_lookup_elem(&wp_places, &destination);
	receiver = place ? bpf_map_lookup_elem(&wp_receivers, place) : 0;
	if (!receiver || headers.ip.saddr != receiver->source || headers.udp.source != receiver->source_port)
		return TC_ACT_UNSPEC;
	now_ns = bpf_ktime_get_ns();
	if (receiver->learned_ns && now_ns - receiver->learned_ns < WIREPATH_LEARNED_NS + WIREPATH_PAUSE_NS)
		return TC_ACT_UNSPEC;
	if (bpf_skb_load_bytes(packet, 0, ethernet, sizeof(ethernet)))
		return TC_ACT_UNSPEC;
	__builtin_memcpy(receiver->ethernet, ethernet, sizeof(ethernet));
	receiver->device = packet->ifindex;
	receiver->learned_ns = now_ns;
	return TC_ACT_UNSPEC;
}

/*
 * Drops records before the kernel makes packets of them. All that it does not know comes to user space, which asks
 * the handler again. Only for frames as they came from a device: trains would be taken for one record.
 */
SEC("xdp.frags")
int wp_select(struct xdp_md *frame)
{
	const __u32 first = 0;
	struct wirepath_input *input = bpf_map_lookup_elem(&wp_input, &first);
	struct wirepath_record record = {};
	struct wp_headers headers;
	__be16 protocol;
	__u32 length;

	if (!input || bpf_xdp_load_bytes(frame, 2 * ETH_ALEN, &protocol, sizeof(protocol)) ||
	    protocol != bpf_htons(ETH_P_IP) || bpf_xdp_load_bytes(frame, ETH_HLEN, &headers, sizeof(headers)))
		return XDP_PASS;
	if (headers.ip.version != 4 || headers.ip.protocol != IPPROTO_UDP || !wp_is_whole(&headers) ||
	    headers.ip.daddr != input->address || headers.udp.dest != input->port)
		return XDP_PASS;
	length = bpf_ntohs(headers.udp.len);
	if (length < sizeof(struct udphdr) ||
	    ETH_HLEN + sizeof(struct iphdr) + length > bpf_xdp_get_buff_len(frame))
		return XDP_PASS;

	record.length = wp_seen(length);
	if (record.length && bpf_xdp_load_bytes(frame, WP_RECORD, record.bytes, WP_VERIFIED(record.length)))
		return XDP_PASS;
	if (wirepath_handle(&record) != WIREPATH_DROP)
		return XDP_PASS;
	wp_count(WIREPATH_DROPPED, 1);
	return XDP_DROP;
}

/* The handler alone, for user space. */
SEC("socket")
int wp_handler(struct wirepath_record *record)
{
	return wirepath_handle(record);
}

char wp_license[] SEC("license") = "Dual MIT/GPL";

#endif
