/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A security module that denies what one socket sends, if it is longer than the tests' own packets. The tests of the
 * kernel module compare how lists and plain sends of this socket are refused.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define LONGEST 1000

/* The kernel's types, as far as the program needs them. */
struct msghdr;
struct sock;
struct socket {
	struct sock *sk;
} __attribute__((preserve_access_index));

/* Entries of the map. */
enum { COOKIE, DENIED, ENTRIES };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENTRIES);
	__type(key, __u32);
	__type(value, __u64);
} denial SEC(".maps");

SEC("lsm/socket_sendmsg")
int BPF_PROG(deny, struct socket *socket, struct msghdr *message, int size)
{
	__u32 of_cookie = COOKIE, of_denied = DENIED;
	__u64 *cookie = bpf_map_lookup_elem(&denial, &of_cookie);
	__u64 *denied = bpf_map_lookup_elem(&denial, &of_denied);
	struct sock *sk = socket->sk;

	if (!cookie || !denied || !sk || size <= LONGEST || bpf_get_socket_cookie(sk) != *cookie)
		return 0;
	__sync_fetch_and_add(denied, 1);
	return -EPERM;
}

char LICENSE[] SEC("license") = "GPL";
