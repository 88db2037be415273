/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Acknowledges TCP in place of a peer, at the egress of a device without one: for measurements of senders
 * (`wirepath assess`), in a network namespace of their own. No payload is read, and none is kept.
 *
 * A program cannot make packets, and cutting the payload off a segment would copy it first
 * (bpf_skb_change_tail makes a packet linear). So the kernel makes each acknowledgement from a segment, in two
 * passes:
 *
 * 1. A segment of the sender loses its ACK flag, and comes back to the ingress of the device. A rule there
 *    (`tcp flags & ack == 0 reject with tcp reset`) drops it whole, so its pages return as from a network card,
 *    and sends a reset to the sender, whose acknowledgement number is the end of the segment: the kernel computes
 *    it for segments without an ACK flag (RFC 9293, section 3.10.7.1).
 * 2. The reset leaves by the same device. It becomes the acknowledgement and goes to the ingress, and on to the
 *    sender's connection.
 *
 * A note in the destination address of the segment's Ethernet header tells the second pass what the reset does
 * not have: it is the reset's source address.
 *
 * Pure acknowledgements and resets of the sender go on to the device, which drops them.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* First byte of a note: of an address for one receiver, as the kernel answers no others. */
#define MARK 0xa2
#define SYN 1
#define FIN 2
/* The sender offered window scaling, or sent a timestamp (RFC 7323). */
#define SCALES 4
#define STAMPED 8

/* Of the peer that the sender sees: first sequence number, maximum segment size, shift of the window. */
#define FIRST 1
#define SEGMENT 0xffd7
#define SHIFT 14

/* Kinds and lengths of options (RFC 9293, section 3.1; RFC 7323). */
#define END 0
#define NOTHING 1
#define MAXIMUM_SEGMENT 2
#define WINDOW_SCALE 3
#define TIMESTAMPS 8
#define MOST_OPTIONS 20

/* Places in `wp_acknowledged`. */
enum count { BYTES, SEGMENTS, CONNECTIONS, ENDS, COUNTS };

struct note {
	__u8 mark;
	__u8 flags;
	__be32 timestamp;
} __attribute__((packed));

struct headers {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct tcphdr tcp;
} __attribute__((packed));

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} wp_acknowledged SEC(".maps");

static __always_inline void count(__u32 place, __u64 number)
{
	__u64 *so_far = bpf_map_lookup_elem(&wp_acknowledged, &place);

	if (so_far)
		*so_far += number;
}

static __always_inline __u16 folded(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline __u32 halves(__u32 value)
{
	return (value & 0xffff) + (value >> 16);
}

/* Appends `length` bytes of options, a constant. */
static __always_inline int append(struct __sk_buff *packet, const __u8 *options, const __u32 length)
{
	if (bpf_skb_change_tail(packet, sizeof(struct headers) + length, 0))
		return -1;
	return bpf_skb_store_bytes(packet, sizeof(struct headers), options, length, 0) ? -1 : (int)length;
}

/* Appends the options of the peer; returns their length. */
static __always_inline int append_options(struct __sk_buff *packet, const struct note *note)
{
	/* The peer's clock is the sender's: it never runs backwards. */
	__u8 stamps[12] = { NOTHING, NOTHING, TIMESTAMPS, 10 };
	__u8 first[20] = { MAXIMUM_SEGMENT, 4, SEGMENT >> 8, SEGMENT & 0xff, NOTHING, NOTHING, NOTHING, NOTHING };

	__builtin_memcpy(stamps + 4, &note->timestamp, 4);
	__builtin_memcpy(stamps + 8, &note->timestamp, 4);
	if (!(note->flags & SYN))
		return note->flags & STAMPED ? append(packet, stamps, sizeof(stamps)) : 0;
	if (note->flags & SCALES) {
		first[5] = WINDOW_SCALE;
		first[6] = 3;
		first[7] = SHIFT;
	}
	if (!(note->flags & STAMPED))
		return append(packet, first, 8);
	__builtin_memcpy(first + 8, stamps, sizeof(stamps));
	return append(packet, first, sizeof(first));
}

/* Makes an acknowledgement of a reset, which has no options. */
static __always_inline int acknowledge(struct __sk_buff *packet, const struct headers *reset)
{
	struct headers *headers;
	struct note note;
	__u32 sum = 0;
	__u16 *words;
	int length, i;

	__builtin_memcpy(&note, reset->ethernet.h_source, ETH_ALEN);
	length = append_options(packet, &note);
	headers = (void *)(long)packet->data;
	if (length < 0 || (void *)(headers + 1) > (void *)(long)packet->data_end)
		return TC_ACT_OK;
	__builtin_memcpy(headers->ethernet.h_source, headers->ethernet.h_dest, ETH_ALEN);
	headers->ip.tot_len = bpf_htons(sizeof(struct iphdr) + sizeof(struct tcphdr) + length);
	headers->ip.check = 0;
	words = (void *)headers + sizeof(struct ethhdr);
#pragma unroll
	for (i = 0; i < (int)(sizeof(struct iphdr) / 2); i++)
		sum += words[i];
	headers->ip.check = ~folded(sum);
	headers->tcp.doff = (sizeof(struct tcphdr) + length) / 4;
	headers->tcp.rst = 0;
	headers->tcp.syn = !!(note.flags & SYN);
	headers->tcp.fin = !!(note.flags & FIN);
	headers->tcp.seq = bpf_htonl(note.flags & SYN ? FIRST : FIRST + 1);
	headers->tcp.window = 0xffff;
	/* The sum of the pseudo header alone: the reset's checksum was left to a device. */
	sum = halves(headers->ip.saddr) + halves(headers->ip.daddr) + bpf_htons(IPPROTO_TCP) +
	      bpf_htons(sizeof(struct tcphdr) + length);
	headers->tcp.check = folded(sum);
	return bpf_redirect(packet->ifindex, BPF_F_INGRESS);
}

/* Notes which options a segment has, and its timestamp. */
static __always_inline void note_options(struct note *note, __u8 *options, __u32 length, void *end)
{
	__u32 at = 0;
	int i;

	for (i = 0; i < MOST_OPTIONS; i++) {
		__u8 *option = options + (at & 63);

		if (at >= length || (void *)(option + 1) > end || option[0] == END)
			return;
		if (option[0] == NOTHING) {
			at++;
			continue;
		}
		if ((void *)(option + 2) > end || option[1] < 2)
			return;
		if (option[0] == WINDOW_SCALE)
			note->flags |= SCALES;
		if (option[0] == TIMESTAMPS && (void *)(option + 6) <= end) {
			note->flags |= STAMPED;
			__builtin_memcpy(&note->timestamp, option + 2, 4);
		}
		at += option[1];
	}
}

SEC("classifier")
int wp_acknowledge(struct __sk_buff *packet)
{
	struct headers *headers = (void *)(long)packet->data;
	void *end = (void *)(long)packet->data_end;
	struct note note = { MARK };
	__u32 length, options;

	if ((void *)(headers + 1) > end || headers->ethernet.h_proto != bpf_htons(ETH_P_IP) || headers->ip.version != 4 ||
	    headers->ip.ihl != 5 || headers->ip.protocol != IPPROTO_TCP || headers->tcp.doff < 5)
		return TC_ACT_OK;
	if (headers->tcp.rst)
		return headers->ethernet.h_source[0] == MARK ? acknowledge(packet, headers) : TC_ACT_OK;
	options = headers->tcp.doff * 4 - sizeof(struct tcphdr);
	if (packet->len < sizeof(struct headers) + options)
		return TC_ACT_OK;
	length = packet->len - sizeof(struct headers) - options;
	if (headers->tcp.syn)
		note.flags |= SYN;
	if (headers->tcp.fin)
		note.flags |= FIN;
	if (!length && !note.flags)
		return TC_ACT_OK;
	count(BYTES, length);
	count(SEGMENTS, 1);
	count(CONNECTIONS, headers->tcp.syn);
	count(ENDS, headers->tcp.fin);
	note_options(&note, (__u8 *)(headers + 1), options, end);
	headers->tcp.ack = 0;
	__builtin_memcpy(headers->ethernet.h_dest, &note, ETH_ALEN);
	return bpf_redirect(packet->ifindex, BPF_F_INGRESS);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
