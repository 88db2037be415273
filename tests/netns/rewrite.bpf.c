/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A classifier that rewrites what leaves over IPv4: TTL, type of service and source address, with the checksums of IP
 * and UDP. The tests of the kernel module compare what it makes of lists and of plain sends.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TTL 33
#define TOS 0x48
#define SOURCE bpf_htonl(0x0a4d0009) /* 10.77.0.9 */

#define UDP_AT(field) (ETH_HLEN + sizeof(struct iphdr) + offsetof(struct udphdr, field))

SEC("tc")
int rewrite(struct __sk_buff *skb)
{
	struct iphdr old, new;
	__u32 sum;

	if (skb->protocol != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(skb, ETH_HLEN, &old, sizeof(old)) ||
	    old.protocol != IPPROTO_UDP || old.ihl != 5)
		return TC_ACT_OK;
	new = old;
	new.ttl = TTL;
	new.tos = TOS;
	new.saddr = SOURCE;
	new.check = 0;
	sum = bpf_csum_diff(0, 0, (__be32 *)&new, sizeof(new), 0);
	sum = (sum & 0xffff) + (sum >> 16);
	new.check = ~((sum & 0xffff) + (sum >> 16));
	if (bpf_skb_store_bytes(skb, ETH_HLEN, &new, sizeof(new), 0) ||
	    bpf_l4_csum_replace(skb, UDP_AT(check), old.saddr, new.saddr, BPF_F_PSEUDO_HDR | sizeof(__be32)))
		return TC_ACT_SHOT;
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
