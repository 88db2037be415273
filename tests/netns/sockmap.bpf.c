/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a handler of records of TCP in the kernel would be (docs/decisions/0022-handlers-in-the-kernel.md):
 * a parser and a verdict of a sockmap, from the socket in its first place to that in the second. Records are
 * behind their length in four bytes; the handler drops those that begin with a zero. Also measured by
 * `wirepath assess relay --only kernel-tcp --only kernel-udp --only kernel-mirror`.
 */
#include "wirepath.bpf.h"

#include <bpf/bpf_core_read.h>

#define LENGTH 4 /* bytes of the length, which a record begins with */

WIREPATH_HANDLER(record)
{
	return record->bytes[LENGTH] ? WIREPATH_PASS : WIREPATH_DROP;
}

enum { INPUT, OUTPUT, SOCKETS };
enum { BOUND, REDIRECTED, PASSED, DROPPED, BEGIN, NUMBERS };

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, SOCKETS);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* The bound of what waits for the output, or none if 0; bytes by verdict; the output's number of its first byte. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NUMBERS);
	__type(key, __u32);
	__type(value, __u64);
} numbers SEC(".maps");

/* Parts of the kernel's structures, found by their names. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct tcp_sock {
	__u32 write_seq;
};
struct strp_msg {
	int full_len;
	int offset;
};
struct _strp_msg {
	struct strp_msg strp;
};
struct sk_skb_cb {
	struct _strp_msg strp;
};
struct sk_buff {
	char cb[48];
};
#pragma clang attribute pop

/* The record in its packet: a program is shown the packet, and only the kernel's structure says where it begins. */
static __always_inline struct strp_msg place(struct __sk_buff *packet)
{
	struct strp_msg message = {};

	bpf_probe_read_kernel(&message, sizeof(message),
			      (void *)packet + bpf_core_field_offset(struct sk_buff, cb) +
				      bpf_core_field_offset(struct sk_skb_cb, strp.strp));
	return message;
}

static __always_inline void add(__u32 which, __u64 bytes)
{
	__u64 *number = bpf_map_lookup_elem(&numbers, &which);

	if (number)
		__sync_fetch_and_add(number, bytes);
}

SEC("sk_skb/stream_parser")
int parser(struct __sk_buff *packet)
{
	__be32 length;

	return bpf_skb_load_bytes(packet, place(packet).offset, &length, sizeof(length)) ?
		       0 :
		       LENGTH + bpf_ntohl(length);
}

/* Bytes that were redirected and that the output's socket has not taken. */
static __always_inline __u32 waiting(void)
{
	const __u32 output = OUTPUT, begin_at = BEGIN, redirected_at = REDIRECTED;
	__u64 *begin = bpf_map_lookup_elem(&numbers, &begin_at);
	__u64 *redirected = bpf_map_lookup_elem(&numbers, &redirected_at);
	struct bpf_sock *socket = bpf_map_lookup_elem(&sockets, &output);
	struct tcp_sock *tcp;
	__u32 next;

	if (!socket)
		return 0;
	tcp = bpf_skc_to_tcp_sock(socket);
	next = tcp ? tcp->write_seq : 0;
	bpf_sk_release(socket);
	if (!begin || !redirected)
		return 0;
	if (!*redirected)
		*begin = next;
	return (__u32)*redirected - (next - (__u32)*begin);
}

SEC("sk_skb/stream_verdict")
int verdict(struct __sk_buff *packet)
{
	const __u32 bound_at = BOUND, passed_at = PASSED;
	__u64 *bound = bpf_map_lookup_elem(&numbers, &bound_at);
	__u64 *passed = bpf_map_lookup_elem(&numbers, &passed_at);
	struct strp_msg message = place(packet);
	struct wirepath_record record = {};

	if (!bound || !passed)
		return SK_DROP;
	record.length = message.full_len < WIREPATH_SEES ? message.full_len : WIREPATH_SEES;
	if (record.length)
		bpf_skb_load_bytes(packet, message.offset, record.bytes, WP_VERIFIED(record.length));
	if (wirepath_handle(&record) == WIREPATH_DROP) {
		add(DROPPED, message.full_len);
		return SK_DROP;
	}
	/* Behind one that was left to user space all others are, too: none overtakes another. */
	if (*bound && (*passed || waiting() > *bound)) {
		add(PASSED, message.full_len);
		return SK_PASS;
	}
	add(REDIRECTED, message.full_len);
	return bpf_sk_redirect_map(packet, &sockets, OUTPUT, 0);
}
