// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of a socket's route that decide how the module sends:
 *
 * Scatter-gather of the device. Without it, the network copies the payload into
 * linear buffers and does not report it; copied_bytes do.
 *
 * Checksum offload for a packet of this size. Without it, the
 * network sums pages while it takes them by reference, and kernels from 6.5 to
 * 6.12 at least sum a page that begins at an odd offset of the packet without
 * turning the sum (skb_splice_csum_page() takes skb->len before it has
 * grown): the packet leaves with a wrong checksum and is dropped by its
 * receiver. Such packets are copied instead, also on 7.2, which is mended: no
 * version tells, as the mending may be put into older ones.
 *
 * Only a connected socket has its route at hand, and only for what goes where
 * it is connected to; of others nothing is known, and the answer is the careful
 * one. A route that changes between this answer
 * and the sending costs at most a packet, as on any network.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/udp.h>
#include <net/dst.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>

#include "compat.h"
#include "route.h"

static bool wp_route_plain(struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	/* Extension headers are not for the device to see through. */
	if (sk->sk_family == AF_INET6)
		return !rcu_access_pointer(inet6_sk(sk)->opt);
#endif
	return !rcu_access_pointer(inet_sk(sk)->inet_opt);
}

static netdev_features_t wp_route_checksum_features(struct sock *sk)
{
	/* An IPv6 socket may send to IPv4 (mapped addresses): ask for both. */
	if (sk->sk_family == AF_INET6)
		return NETIF_F_IPV6_CSUM | NETIF_F_IP_CSUM;
	return NETIF_F_IP_CSUM;
}

/* The longest packet that IP does not fragment: by route, device and IPV6_MTU. */
static u32 wp_route_mtu(const struct sock *sk, const struct dst_entry *dst)
{
	u32 mtu = min(dst_mtu(dst), READ_ONCE(wp_route_device(dst)->mtu));
#if IS_ENABLED(CONFIG_IPV6)
	u32 asked = sk->sk_family == AF_INET6 ? READ_ONCE(inet6_sk(sk)->frag_size) : 0;

	if (asked)
		mtu = min(mtu, asked);
#endif
	return mtu;
}

/**
 * wp_route_of() - Read the properties of a datagram socket's route.
 * @sk: its sock
 * @addressed: whether the packet goes to an address of its own
 *
 * Return: see struct wp_route.
 */
struct wp_route wp_route_of(struct sock *sk, bool addressed)
{
	netdev_features_t all = wp_route_checksum_features(sk);
	struct wp_route route = {};
	const struct dst_entry *dst;

	if (addressed || sk->sk_state != TCP_ESTABLISHED)
		return route;
	rcu_read_lock();
	dst = rcu_dereference(sk->sk_dst_cache);
	if (dst && wp_route_device(dst)) {
		netdev_features_t features = wp_route_device(dst)->features;
		u32 headers = sizeof(struct ipv6hdr) + sizeof(struct udphdr);
		u32 mtu = wp_route_mtu(sk, dst);

		route.known = true;
		route.gathers = features & NETIF_F_SG;
		/* header_len: IPsec will transform the packet before that. */
		if (((features & NETIF_F_HW_CSUM) || (features & all) == all) &&
		    !dst->header_len && wp_route_plain(sk) && mtu > headers)
			route.checksum_bytes = mtu - headers;
	}
	rcu_read_unlock();
	return route;
}

/**
 * wp_route_packet_bytes() - The longest packet that the MTU of the route allows.
 * @sk: a connected datagram socket
 *
 * Return: bytes with the packet's own header; U32_MAX if the route is not known.
 */
u32 wp_route_packet_bytes(const struct sock *sk)
{
	u32 bytes = U32_MAX, headers, mtu;
	const struct dst_entry *dst;

	rcu_read_lock();
	dst = rcu_dereference(sk->sk_dst_cache);
	if (dst && wp_route_device(dst)) {
		headers = sizeof(struct udphdr) +
			  (sk->sk_family == AF_INET6 ? sizeof(struct ipv6hdr) :
						       sizeof(struct iphdr));
		mtu = wp_route_mtu(sk, dst);
		bytes = mtu > headers ? mtu - headers : 0;
	}
	rcu_read_unlock();
	return bytes;
}

/**
 * wp_route_train_packets() - The longest train that the device segments.
 * @sk: a connected datagram socket
 * @packet_bytes: of each, with its own header
 *
 * Return: packets, at least 1; the network segments longer trains (gso_max_segs,
 * gso_max_size) in software. U32_MAX if the route is not known.
 */
u32 wp_route_train_packets(const struct sock *sk, u32 packet_bytes)
{
	u32 packets = U32_MAX, headers, bytes_max;
	const struct net_device *device;
	const struct dst_entry *dst;

	rcu_read_lock();
	dst = rcu_dereference(sk->sk_dst_cache);
	device = dst ? wp_route_device(dst) : NULL;
	if (device) {
		headers = device->hard_header_len + sizeof(struct udphdr) +
			  (sk->sk_family == AF_INET6 ? sizeof(struct ipv6hdr) :
						       sizeof(struct iphdr));
		/* As in gso_features_check(): shorter than that. */
		bytes_max = max(wp_gso_max_size(device, sk->sk_family), headers + 1) - 1;
		packets = min_t(u32, READ_ONCE(device->gso_max_segs),
				(bytes_max - headers) / packet_bytes);
	}
	rcu_read_unlock();
	return max(packets, 1U);
}
