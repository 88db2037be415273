// SPDX-License-Identifier: GPL-2.0
/*
 * UDP GSO skbs that the module builds itself, instead of udp_sendmsg().
 *
 * A list is a GSO skb (SKB_GSO_UDP_L4) of a train that needs more than
 * MAX_SKB_FRAGS fragments. The head skb has the IP and UDP headers and the
 * fragments of the first packets. The skbs on its frag_list ("members") have
 * fragments only. All skbs but the last hold the same number of packets.
 *
 * The device decides how a list is segmented:
 * - with NETIF_F_FRAGLIST the driver gets it whole;
 * - with NETIF_F_GSO_UDP_L4 only, skb_segment() makes a GSO skb of each member,
 *   which requires members of one length without a linear part;
 * - otherwise it is segmented into packets, as every GSO skb.
 * Kernels that segment lists wrongly get none: member.c tests it at load.
 *
 * udp_sendmsg() cannot build lists. This file does what udp_sendmsg() does for an
 * IPv4 socket that is connected, has a cached route, and no option that needs more
 * (wp_list_possible()). For all others wp_train_send() calls udp_sendmsg() with
 * trains of one skb.
 *
 * Single packets and trains that fit one skb are built here, too: passing their
 * fragments to udp_sendmsg() costs more than the rest of the send.
 *
 * chain.c builds lists from a source's window, wp_list_send() from a train.
 */
#include <linux/net_tstamp.h>
#include <linux/netdevice.h>
#include <linux/udp.h>
#include <net/dst.h>
#include <net/inet_sock.h>
#include <net/ip.h>
#include <net/route.h>
#include <net/udp.h>

#include "compat.h"
#include "list.h"
#include "switches.h"

#define WP_LIST_HEADERS (sizeof(struct iphdr) + sizeof(struct udphdr))

/**
 * wp_list_member_packets() - Number of packets that always fit one skb.
 * @stride_bytes: from one payload to the next, in consecutive pages
 *
 * Return: at least 1. From joined pieces, skbs may hold more (wp_send_chain_begin()).
 */
unsigned int wp_list_member_packets(unsigned int stride_bytes)
{
	unsigned int packets = 1;

	/* A packet has a header and a payload fragment, and one more for each page boundary. */
	while (2 * (packets + 1) + DIV_ROUND_UP((packets + 1) * stride_bytes - 1,
						PAGE_SIZE) <= MAX_SKB_FRAGS)
		packets++;
	return packets;
}

/**
 * wp_list_possible() - Check whether this file can build skbs for a socket.
 * @sending: socket and destination
 *
 * Return: true if udp_sendmsg() would use only the socket's addresses, its cached
 * route and its header options. Unconnected sockets are excluded, and so is the
 * sendmsg hook of cgroup BPF programs, which only their sends call.
 */
bool wp_list_possible(const struct wp_sending *sending)
{
	const struct sock *sk = sending->sock->sk;
	const struct inet_sock *inet = inet_sk(sk);

	return READ_ONCE(wp_allow_lists) && sending->references &&
	       !sending->address_bytes && sk->sk_family == AF_INET &&
	       sk->sk_state == TCP_ESTABLISHED && sk->sk_prot->sendmsg == udp_sendmsg &&
	       !ipv4_is_multicast(inet->inet_daddr) &&
	       !rcu_access_pointer(inet->inet_opt) && !sk->sk_no_check_tx &&
	       !sock_flag(sk, SOCK_LOCALROUTE) && !sock_flag(sk, SOCK_WIFI_STATUS) &&
	       !(READ_ONCE(sk->sk_tsflags) & SOF_TIMESTAMPING_TX_RECORD_MASK) &&
	       !wp_udp_corked(sk) && wp_fragments_max() >= MAX_SKB_FRAGS;
}

/*
 * The headroom that the device of a route needs, or -EMSGSIZE if the route takes no
 * skb of this file: no scatter-gather, no checksum offload, IPsec, packets above the MTU.
 */
static int wp_list_room(const struct dst_entry *dst, unsigned int packet_bytes)
{
	netdev_features_t features;
	int room;

	rcu_read_lock();
	features = wp_route_device(dst)->features;
	room = LL_RESERVED_SPACE(wp_route_device(dst));
	rcu_read_unlock();
	if (!(features & NETIF_F_SG) ||
	    !(features & (NETIF_F_HW_CSUM | NETIF_F_IP_CSUM)) ||
	    dst->header_len || dst->trailer_len || dst_xfrm(dst) ||
	    WP_LIST_HEADERS + packet_bytes > dst_mtu(dst))
		return -EMSGSIZE;
	return room;
}

/**
 * wp_list_trains_possible() - Check whether wp_list_send() can send a train.
 * @sending: socket and destination
 * @packet_bytes: the longest packet, with its header
 *
 * Return: true if the socket and its cached route allow it. Asked before a train is
 * gathered, since another train would have to be gathered if it failed.
 */
bool wp_list_trains_possible(const struct wp_sending *sending, unsigned int packet_bytes)
{
	const struct dst_entry *dst;
	bool possible;

	if (!wp_list_possible(sending))
		return false;
	rcu_read_lock();
	dst = rcu_dereference(sending->sock->sk->sk_dst_cache);
	possible = dst && wp_list_room(dst, packet_bytes) >= 0;
	rcu_read_unlock();
	return possible;
}

/*
 * Reads the addresses and ports once, before the route, as udp_sendmsg() does: another
 * thread may connect() the socket meanwhile. False if it is now unconnected, or
 * connected to a multicast group.
 */
static bool wp_list_read_ends(const struct inet_sock *inet, struct wp_list_way *way)
{
	way->saddr = READ_ONCE(inet->inet_saddr);
	way->daddr = READ_ONCE(inet->inet_daddr);
	way->sport = READ_ONCE(inet->inet_sport);
	way->dport = READ_ONCE(inet->inet_dport);
	return way->saddr && way->daddr && way->sport && way->dport &&
	       !ipv4_is_multicast(way->daddr);
}

/* As in udp_send_skb(). Segmentation sets length and checksum of each packet. */
static void wp_list_write_udp(struct sk_buff *skb, const struct wp_train *train,
			      const struct wp_list_way *way)
{
	unsigned int bytes = sizeof(struct udphdr) + train->bytes;
	struct udphdr *udp = udp_hdr(skb);

	udp->source = way->sport;
	udp->dest = way->dport;
	udp->len = htons(bytes);
	udp->check = ~csum_tcpudp_magic(way->saddr, way->daddr, bytes, IPPROTO_UDP, 0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	if (train->packets == 1)
		return;
	skb_shinfo(skb)->gso_size = train->packet_bytes;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb_shinfo(skb)->gso_segs = train->packets;
}

/*
 * As in __ip_make_skb() for a single packet: IP_DF as for a packet that fits the MTU
 * (wp_list_room() checked that), and one IP id for each packet. Linux treats its own
 * GSO trains otherwise: IP_DF only with IP_PMTUDISC_DO, and one id for the train, so
 * that the ids of the next train repeat.
 */
static void wp_list_write_ip(struct sk_buff *skb, const struct wp_train *train,
			     const struct wp_list_way *way)
{
	struct dst_entry *dst = way->dst;
	struct inet_sock *inet = inet_sk(skb->sk);
	u8 discover = READ_ONCE(inet->pmtudisc);
	bool whole = discover == IP_PMTUDISC_DO || discover == IP_PMTUDISC_PROBE ||
		     ip_dont_fragment(skb->sk, dst);
	int ttl = READ_ONCE(inet->uc_ttl);
	struct iphdr *ip = ip_hdr(skb);

	skb->ignore_df = ip_sk_ignore_df(skb->sk);
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = READ_ONCE(inet->tos);
	ip->frag_off = whole ? htons(IP_DF) : 0;
	ip->ttl = ttl < 0 ? ip4_dst_hoplimit(dst) : ttl;
	ip->protocol = IPPROTO_UDP;
	ip->saddr = way->saddr;
	ip->daddr = way->daddr;
	ip_select_ident_segs(sock_net(skb->sk), skb, skb->sk, train->packets);
	/* The last of the reserved ids was set; segmentation counts up from the first. */
	ip->id = htons(ntohs(ip->id) - train->packets + 1);
	skb->priority = READ_ONCE(skb->sk->sk_priority);
	skb->mark = READ_ONCE(skb->sk->sk_mark);
	skb_dst_set(skb, dst);
}

/* As in ip_send_skb() and udp_send_skb(). */
static int wp_list_output(struct sk_buff *skb, struct sock *sk)
{
	struct net *net = sock_net(sk);
	int err = ip_local_out(net, sk, skb);

	if (err > 0)
		err = net_xmit_errno(err);
	if (!err) {
		SNMP_INC_STATS(net->mib.udp_statistics, UDP_MIB_OUTDATAGRAMS);
		return 0;
	}
	IP_INC_STATS(net, IPSTATS_MIB_OUTDISCARDS);
	if (err != -ENOBUFS || wp_wants_errors(sk))
		return err;
	SNMP_INC_STATS(net->mib.udp_statistics, UDP_MIB_SNDBUFERRORS);
	return 0;
}

/* Counts SndbufErrors as udp_sendmsg() does. */
static int wp_list_fail(struct sock *sk, int err)
{
	if (err == -ENOBUFS || test_bit(SOCK_NOSPACE, &sk->sk_socket->flags))
		SNMP_INC_STATS(sock_net(sk)->mib.udp_statistics, UDP_MIB_SNDBUFERRORS);
	return err;
}

/**
 * wp_list_hook() - Call the security hook of sendmsg().
 * @train: pieces and size that the hook sees
 * @sock: the caller's socket
 *
 * security_socket_sendmsg() is not exported. sock_sendmsg() calls it and then
 * udp_sendmsg(), which fails with -EOPNOTSUPP for MSG_OOB before it does anything.
 * So the hook runs, the flow is recorded for RFS as by every send, and nothing is
 * sent. A hook that denies with -EOPNOTSUPP (a BPF LSM program could) is ignored.
 *
 * Return: 0, or the hook's error.
 */
int wp_list_hook(const struct wp_train *train, struct socket *sock)
{
	struct msghdr message = { .msg_flags = MSG_NOSIGNAL | MSG_OOB };
	int answer;

	iov_iter_bvec(&message.msg_iter, ITER_SOURCE, train->piece, train->pieces,
		      train->bytes);
	answer = sock_sendmsg(sock, &message);
	return answer == -EOPNOTSUPP ? 0 : answer < 0 ? answer : -EIO;
}

/**
 * wp_list_open() - Take addresses and route of the next skb.
 * @way: to be set; wp_list_close() or wp_list_pass() releases the route
 * @sending: socket; wp_list_possible() returned true
 * @packet_bytes: of its longest packet
 *
 * Return: 0, or -EMSGSIZE: the route takes no skb of this file.
 */
int wp_list_open(struct wp_list_way *way, const struct wp_sending *sending,
		 unsigned int packet_bytes)
{
	struct sock *sk = sending->sock->sk;

	if (!wp_list_read_ends(inet_sk(sk), way))
		return -EMSGSIZE;
	way->dst = sk_dst_check(sk, 0);
	if (!way->dst)
		return -EMSGSIZE;
	way->room = wp_list_room(way->dst, packet_bytes);
	if (way->room >= 0)
		return 0;
	wp_list_close(way);
	return -EMSGSIZE;
}

void wp_list_close(struct wp_list_way *way)
{
	dst_release(way->dst);
	way->dst = NULL;
}

/**
 * wp_list_skb() - Allocate the head skb, charged to the socket.
 * @way: addresses and route
 * @sending: socket; waits for its send buffer as every send does
 * @head_bytes: tailroom behind the IP and UDP headers, which are written later
 *
 * Return: the skb, or an error of send().
 */
struct sk_buff *wp_list_skb(const struct wp_list_way *way, const struct wp_sending *sending,
			    unsigned int head_bytes)
{
	struct sock *sk = sending->sock->sk;
	struct sk_buff *skb;
	int err;

	skb = sock_alloc_send_skb(sk, way->room + WP_LIST_HEADERS + head_bytes,
				  !wp_sending_waits(sending), &err);
	if (!skb)
		return ERR_PTR(wp_list_fail(sk, err));
	skb_reserve(skb, way->room);
	skb_put(skb, WP_LIST_HEADERS);
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, sizeof(struct iphdr));
	return skb;
}

/**
 * wp_list_pass() - Write the headers and pass the skb to ip_local_out().
 * @skb: head skb with all payload; consumed
 * @train: sizes of what is in it
 * @way: addresses and route; the skb takes the reference of the route
 *
 * Return: bytes sent, or an error of send().
 */
int wp_list_pass(struct sk_buff *skb, const struct wp_train *train, struct wp_list_way *way)
{
	struct sock *sk = skb->sk;
	int err;

	wp_list_write_udp(skb, train, way);
	wp_list_write_ip(skb, train, way);
	/* skb_dst_set() took the reference. */
	way->dst = NULL;
	err = wp_list_output(skb, sk);
	return err ? wp_list_fail(sk, err) : train->bytes;
}

/* Adds all pieces of a train, at most MAX_SKB_FRAGS, as fragments. */
static void wp_list_fill(struct sk_buff *skb, const struct wp_train *train)
{
	unsigned int bytes = train->bytes - train->head_bytes, i;
	const struct bio_vec *piece = train->piece;

	if (train->head_bytes) {
		skb_put_data(skb, train->head, train->head_bytes);
		piece++;
	}
	for (i = 0; piece < train->piece + train->pieces; i++, piece++) {
		get_page(piece->bv_page);
		skb_fill_page_desc_noacc(skb, i, piece->bv_page,
					 piece->bv_offset, piece->bv_len);
	}
	/* Page cache pages: nothing may write into them (skb_has_shared_frag()). */
	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	skb_len_add(skb, bytes);
	refcount_add(bytes, &skb->sk->sk_wmem_alloc);
}

/*
 * Adds the next @bytes of a train as fragments; @piece is the next piece, of which
 * @skip bytes are in the skb before.
 */
static int wp_list_fill_some(struct sk_buff *skb, const struct bio_vec **piece,
			     unsigned int *skip, unsigned int bytes)
{
	unsigned int i;

	for (i = 0; bytes; i++) {
		unsigned int some = min((*piece)->bv_len - *skip, bytes);

		if (i == MAX_SKB_FRAGS)
			return -EMSGSIZE;
		get_page((*piece)->bv_page);
		skb_fill_page_desc_noacc(skb, i, (*piece)->bv_page,
					 (*piece)->bv_offset + *skip, some);
		bytes -= some;
		*skip += some;
		if (*skip == (*piece)->bv_len) {
			(*piece)++;
			*skip = 0;
		}
	}
	/* Page cache pages: nothing may write into them (skb_has_shared_frag()). */
	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	return 0;
}

/* Adds a train to a head skb and to members, @member_packets packets to each. */
static int wp_list_fill_members(struct sk_buff *skb, const struct wp_train *train,
				u32 member_packets)
{
	unsigned int member_bytes = member_packets * train->packet_bytes;
	struct sk_buff **next = &skb_shinfo(skb)->frag_list;
	unsigned int left = train->bytes - member_bytes, skip = 0;
	unsigned int charged = skb->truesize;
	const struct bio_vec *piece = train->piece;
	struct sk_buff *member;
	int err;

	err = wp_list_fill_some(skb, &piece, &skip, member_bytes);
	while (!err && left) {
		unsigned int bytes = min(left, member_bytes);

		member = alloc_skb(0, skb->sk->sk_allocation);
		if (!member)
			return -ENOBUFS;
		*next = member;
		next = &member->next;
		err = wp_list_fill_some(member, &piece, &skip, bytes);
		skb_len_add(member, bytes);
		left -= bytes;
	}
	if (err)
		return err;
	skb_len_add(skb, member_bytes);
	skb_walk_frags(skb, member) {
		skb->len += member->len;
		skb->data_len += member->len;
		skb->truesize += member->truesize;
	}
	refcount_add(skb->truesize - charged, &skb->sk->sk_wmem_alloc);
	return 0;
}

/**
 * wp_list_send() - Send a train by reference, as an skb of this file.
 * @train: at most MAX_SKB_FRAGS pieces, or with members as many fragments in each skb
 * @sending: socket and member_packets; wp_list_possible() returned true
 *
 * Return: bytes sent; 0: the route takes no skb of this file, and nothing was sent;
 * else as wp_train_send().
 */
int wp_list_send(const struct wp_train *train, const struct wp_sending *sending)
{
	struct wp_list_way way;
	struct sk_buff *skb;
	int err;

	if (wp_list_open(&way, sending, train->packet_bytes))
		return 0;
	err = wp_list_hook(train, sending->sock);
	if (err) {
		wp_list_close(&way);
		return err;
	}
	skb = wp_list_skb(&way, sending, train->head_bytes);
	if (IS_ERR(skb)) {
		wp_list_close(&way);
		return PTR_ERR(skb);
	}
	if (sending->member_packets) {
		err = wp_list_fill_members(skb, train, sending->member_packets);
		if (err) {
			kfree_skb(skb);
			wp_list_close(&way);
			return err;
		}
	} else {
		wp_list_fill(skb, train);
	}
	return wp_list_pass(skb, train, &way);
}
