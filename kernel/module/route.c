// SPDX-License-Identifier: GPL-2.0
/*
 * What the module asks of a route, and why:
 *
 * Does the device gather? If not, the network copies the payload into linear
 * buffers without a word, and that is what a caller's copied_bytes tell.
 *
 * Does the device compute checksums for a packet of this size? If not, the
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

/* How long packets leave without being cut by IP: by route, device and IPV6_MTU. */
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
 * wp_route_of() - What is known of a datagram socket's way.
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
 * wp_route_packet_bytes() - How long may the packets of a train be?
 * @sk: a connected datagram socket
 *
 * Return: bytes with the packet's own header, that fit the MTU; U32_MAX if the
 * route is not known.
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
 * wp_route_train_packets() - How many packets does the device cut from a train?
 * @sk: a connected datagram socket
 * @packet_bytes: of each, with its own header
 *
 * Return: at least 1; what is above a device's gso_max_segs or gso_max_size, the
 * network cuts in software. U32_MAX if the route is not known.
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
