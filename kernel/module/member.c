// SPDX-License-Identifier: GPL-2.0
/*
 * Does this kernel cut lists right? For a device that cuts UDP segments and
 * takes no chains it makes a buffer of each member (skb_segment()), whose UDP
 * header has to say how long that is. Linux 7.2 says there how long a packet
 * is, since devices that cut in part want that (b10b446ce7ad, "udp: gso: Use
 * single MSS length in UDP header for GSO_PARTIAL"), and a receiver takes the
 * first packet for all there is. Bridges and the like pass lists on to such
 * devices, so that the route's own device does not tell; nor does a version,
 * of what was backported or mended. So a list is cut when the module is loaded.
 */
#include <linux/ip.h>
#include <linux/skbuff.h>
#include <linux/udp.h>

#include "compat.h"
#include "member.h"

#define WP_MEMBER_HEADERS (sizeof(struct iphdr) + sizeof(struct udphdr))
#define WP_MEMBER_PACKET_BYTES 16
#define WP_MEMBER_BYTES (2 * WP_MEMBER_PACKET_BYTES)

bool wp_member_lists __ro_after_init;

static int __init wp_member_fill(struct sk_buff *skb)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

	if (!page)
		return -ENOMEM;
	skb_fill_page_desc(skb, 0, page, 0, WP_MEMBER_BYTES);
	skb_len_add(skb, WP_MEMBER_BYTES);
	return 0;
}

static void __init wp_member_write_headers(struct sk_buff *skb)
{
	unsigned int bytes = skb->len - sizeof(struct iphdr);
	struct udphdr *udp = udp_hdr(skb);
	struct iphdr *ip = ip_hdr(skb);

	memset(ip, 0, WP_MEMBER_HEADERS);
	ip->version = 4;
	ip->ihl = 5;
	ip->ttl = 1;
	ip->protocol = IPPROTO_UDP;
	ip->tot_len = htons(skb->len);
	udp->len = htons(bytes);
	udp->check = ~csum_tcpudp_magic(0, 0, bytes, IPPROTO_UDP, 0);
	skb->protocol = htons(ETH_P_IP);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	skb_shinfo(skb)->gso_size = WP_MEMBER_PACKET_BYTES;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb_shinfo(skb)->gso_segs = 4;
}

/* A list of two members, each of two packets. */
static struct sk_buff *__init wp_member_list(void)
{
	struct sk_buff *skb = alloc_skb(LL_MAX_HEADER + WP_MEMBER_HEADERS, GFP_KERNEL);
	struct sk_buff *member;

	if (!skb)
		return NULL;
	skb_reserve(skb, LL_MAX_HEADER);
	skb_put(skb, WP_MEMBER_HEADERS);
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, sizeof(struct iphdr));
	member = alloc_skb(0, GFP_KERNEL);
	skb_shinfo(skb)->frag_list = member;
	if (!member || wp_member_fill(skb) || wp_member_fill(member)) {
		kfree_skb(skb);
		return NULL;
	}
	skb->len += member->len;
	skb->data_len += member->len;
	skb->truesize += member->truesize;
	wp_member_write_headers(skb);
	return skb;
}

static bool __init wp_member_is_right(const struct sk_buff *skb)
{
	return skb && skb_is_gso(skb) &&
	       udp_hdr(skb)->len == htons(sizeof(struct udphdr) + WP_MEMBER_BYTES);
}

/**
 * wp_member_setup() - Find out whether lists can be sent on this kernel.
 *
 * Return: 0, and wp_member_lists says; -ENOMEM.
 */
int __init wp_member_setup(void)
{
	struct sk_buff *skb, *cut;

	if (!WP_REFERENCES)
		return 0;
	skb = wp_member_list();
	if (!skb)
		return -ENOMEM;
	cut = skb_gso_segment(skb, NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_GSO_UDP_L4);
	kfree_skb(skb);
	if (IS_ERR_OR_NULL(cut))
		return PTR_ERR_OR_ZERO(cut) == -ENOMEM ? -ENOMEM : 0;
	wp_member_lists = wp_member_is_right(cut) && wp_member_is_right(cut->next) &&
			  !cut->next->next;
	kfree_skb_list(cut);
	return 0;
}
