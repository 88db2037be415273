// SPDX-License-Identifier: GPL-2.0
/*
 * A list is a train with more fragments than a socket buffer has: a buffer
 * with the first packets and a chain of members (frag_list), each with as many
 * packets, by reference. Devices that take chains get it whole; of those that
 * only cut UDP segments each gets a buffer for each member, since all but the
 * last are of one length and have no bytes of their own (skb_segment()); for
 * others it is cut into packets, as any train is.
 *
 * udp_sendmsg() makes no such buffers. So this does what it does for a socket
 * that is connected over IPv4, with a route and without anything that needs
 * more. Whatever else there is, is left to udp_sendmsg(), and so are the
 * errors: the train is to be sent by it, in parts that fit.
 * Kernels that cut lists wrongly get none: member.c.
 *
 * What fits one buffer, a packet by itself above all, leaves so as well: to
 * have udp_sendmsg() take its fragments costs more than the rest of making it.
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
#include "member.h"
#include "switches.h"

#define WP_LIST_HEADERS (sizeof(struct iphdr) + sizeof(struct udphdr))

/**
 * wp_list_member_packets() - How many packets surely fit one buffer?
 * @stride_bytes: from one payload to the next, in pages that follow each other
 *
 * Return: at least 1. All members but the last have so many.
 */
unsigned int wp_list_member_packets(unsigned int stride_bytes)
{
	unsigned int packets = 1;

	/* For each a header and a part of a page, and one for each page crossed. */
	while (2 * (packets + 1) + DIV_ROUND_UP((packets + 1) * stride_bytes - 1,
						PAGE_SIZE) <= MAX_SKB_FRAGS)
		packets++;
	return packets;
}

/**
 * wp_list_possible() - May trains of this socket leave in buffers made here?
 * @sending: how they are sent
 *
 * Return: whether udp_sendmsg() would use nothing of the socket but its
 * addresses, its cached route and its options for headers. BPF of cgroups sees
 * sends of sockets that are not connected, which this leaves out with them.
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
 * The room a device wants before the headers, or -EMSGSIZE if no such buffer
 * goes along this route: a device that does not gather or sum, IPsec, long packets.
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
 * wp_list_members_possible() - May trains of this socket have members?
 * @sending: how they are sent
 * @packet_bytes: the longest packet, with its header
 *
 * Return: whether wp_list_send() would take a train with more than fits one
 * buffer: asked before one is gathered that would have to be gathered again.
 */
bool wp_list_members_possible(const struct wp_sending *sending, unsigned int packet_bytes)
{
	const struct dst_entry *dst;
	bool possible;

	if (!wp_member_lists || !wp_list_possible(sending))
		return false;
	rcu_read_lock();
	dst = rcu_dereference(sending->sock->sk->sk_dst_cache);
	possible = dst && wp_list_room(dst, packet_bytes) >= 0;
	rcu_read_unlock();
	return possible;
}

/* Give a buffer the next pieces, of @bytes in all. */
static int wp_list_fill(struct sk_buff *skb, const struct bio_vec **next,
			unsigned int bytes)
{
	const struct bio_vec *piece = *next;
	unsigned int filled = 0;
	int i;

	for (i = 0; filled < bytes && i < MAX_SKB_FRAGS; i++, piece++) {
		get_page(piece->bv_page);
		skb_fill_page_desc_noacc(skb, i, piece->bv_page,
					 piece->bv_offset, piece->bv_len);
		filled += piece->bv_len;
	}
	*next = piece;
	/* Nobody writes into pages of files. */
	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	skb_len_add(skb, filled);
	return filled == bytes ? 0 : -EMSGSIZE;
}

/* Fill a buffer and its members with the whole train. */
static int wp_list_chain(struct sk_buff *skb, const struct wp_train *train,
			 unsigned int member_bytes)
{
	struct sk_buff **tail = &skb_shinfo(skb)->frag_list;
	const struct bio_vec *next = train->piece + !!train->head_bytes;
	unsigned int left = train->bytes - member_bytes;
	int err = wp_list_fill(skb, &next, member_bytes - train->head_bytes);

	while (!err && left) {
		struct sk_buff *member = alloc_skb(0, skb->sk->sk_allocation);

		if (!member)
			return -ENOBUFS;
		err = wp_list_fill(member, &next, min(left, member_bytes));
		*tail = member;
		tail = &member->next;
		skb->len += member->len;
		skb->data_len += member->len;
		skb->truesize += member->truesize;
		left -= member->len;
	}
	return err;
}

/* From where to where. */
struct wp_list_ends {
	__be32 saddr, daddr;
	__be16 sport, dport;
};

/*
 * As udp_sendmsg() does, once, before the route is looked at: other threads may
 * connect the socket elsewhere meanwhile, to nothing or to a group. False if to
 * one of these two.
 */
static bool wp_list_read_ends(const struct inet_sock *inet, struct wp_list_ends *ends)
{
	ends->saddr = READ_ONCE(inet->inet_saddr);
	ends->daddr = READ_ONCE(inet->inet_daddr);
	ends->sport = READ_ONCE(inet->inet_sport);
	ends->dport = READ_ONCE(inet->inet_dport);
	return ends->saddr && ends->daddr && ends->sport && ends->dport &&
	       !ipv4_is_multicast(ends->daddr);
}

/* As in udp_send_skb(): what differs between packets is set when it is cut. */
static void wp_list_write_udp(struct sk_buff *skb, const struct wp_train *train,
			      const struct wp_list_ends *ends)
{
	unsigned int bytes = sizeof(struct udphdr) + train->bytes;
	struct udphdr *udp = udp_hdr(skb);

	udp->source = ends->sport;
	udp->dest = ends->dport;
	udp->len = htons(bytes);
	udp->check = ~csum_tcpudp_magic(ends->saddr, ends->daddr, bytes, IPPROTO_UDP, 0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	if (train->packets == 1)
		return;
	skb_shinfo(skb)->gso_size = train->packet_bytes;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb_shinfo(skb)->gso_segs = train->packets;
}

/* As in __ip_make_skb(); @fits: whether it is no longer than the route's MTU. */
static void wp_list_write_ip(struct sk_buff *skb, struct dst_entry *dst,
			     const struct wp_list_ends *ends, bool fits)
{
	struct inet_sock *inet = inet_sk(skb->sk);
	u8 discover = READ_ONCE(inet->pmtudisc);
	bool whole = discover == IP_PMTUDISC_DO || discover == IP_PMTUDISC_PROBE ||
		     (fits && ip_dont_fragment(skb->sk, dst));
	int ttl = READ_ONCE(inet->uc_ttl);
	struct iphdr *ip = ip_hdr(skb);

	skb->ignore_df = ip_sk_ignore_df(skb->sk);
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = READ_ONCE(inet->tos);
	ip->frag_off = whole ? htons(IP_DF) : 0;
	ip->ttl = ttl < 0 ? ip4_dst_hoplimit(dst) : ttl;
	ip->protocol = IPPROTO_UDP;
	ip->saddr = ends->saddr;
	ip->daddr = ends->daddr;
	ip_select_ident(sock_net(skb->sk), skb, skb->sk);
	skb->priority = READ_ONCE(skb->sk->sk_priority);
	skb->mark = READ_ONCE(skb->sk->sk_mark);
	skb_dst_set(skb, dst);
}

/* How much each buffer but the last has, or 0 if the train does not leave so. */
static unsigned int wp_list_member_bytes(const struct wp_train *train,
					 const struct wp_sending *sending)
{
	unsigned int bytes;

	if (train->pieces <= MAX_SKB_FRAGS)
		return train->bytes;
	bytes = train->packet_bytes * sending->member_packets;
	/* A single member that is shorter would keep a device from cutting. */
	return train->bytes < 2 * bytes ? 0 : bytes;
}

/*
 * A buffer with the whole train, charged to the socket; waits as any send. NULL
 * if its members take more fragments than they have.
 */
static struct sk_buff *wp_list_make(const struct wp_train *train,
				    const struct wp_sending *sending, int room,
				    unsigned int member_bytes)
{
	struct sock *sk = sending->sock->sk;
	unsigned int charged;
	struct sk_buff *skb;
	int err;

	skb = sock_alloc_send_skb(sk, room + WP_LIST_HEADERS + train->head_bytes,
				  !wp_sending_waits(sending), &err);
	if (!skb)
		return ERR_PTR(err);
	skb_reserve(skb, room);
	skb_put(skb, WP_LIST_HEADERS);
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, sizeof(struct iphdr));
	if (train->head_bytes)
		skb_put_data(skb, train->head, train->head_bytes);
	charged = skb->truesize;
	err = wp_list_chain(skb, train, member_bytes);
	refcount_add(skb->truesize - charged, &sk->sk_wmem_alloc);
	if (err) {
		kfree_skb(skb);
		return err == -EMSGSIZE ? NULL : ERR_PTR(err);
	}
	return skb;
}

/* As in ip_send_skb() and udp_send_skb(). */
static int wp_list_leave(struct sk_buff *skb, struct sock *sk)
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

/* As udp_sendmsg() counts what found no room. */
static int wp_list_fail(struct sock *sk, int err)
{
	if (err == -ENOBUFS || test_bit(SOCK_NOSPACE, &sk->sk_socket->flags))
		SNMP_INC_STATS(sock_net(sk)->mib.udp_statistics, UDP_MIB_SNDBUFERRORS);
	return err;
}

/*
 * Ask security modules whether the caller's socket may send this, as modules of
 * the kernel cannot but by sock_sendmsg(): with MSG_OOB, which UDP refuses
 * before it looks at anything else. On its way the socket's flow is recorded for
 * receive flow steering, as by any send. A denial by EOPNOTSUPP, as a program of
 * BPF LSM could answer, cannot be told apart from UDP's refusal and is ignored.
 *
 * Return: 0, or the answer that denies.
 */
static int wp_list_ask(const struct wp_train *train, struct socket *sock)
{
	struct msghdr message = { .msg_flags = MSG_NOSIGNAL | MSG_OOB };
	int answer;

	iov_iter_bvec(&message.msg_iter, ITER_SOURCE, train->piece, train->pieces,
		      train->bytes);
	answer = sock_sendmsg(sock, &message);
	return answer == -EOPNOTSUPP ? 0 : answer < 0 ? answer : -EIO;
}

/* Make the buffer and have it leave; @dst is its route, with a reference. */
static int wp_list_pass(const struct wp_train *train, const struct wp_sending *sending,
			const struct wp_list_ends *ends, struct dst_entry *dst,
			unsigned int member_bytes, int room)
{
	struct sk_buff *skb = wp_list_make(train, sending, room, member_bytes);
	struct sock *sk = sending->sock->sk;
	int err;

	if (IS_ERR_OR_NULL(skb)) {
		dst_release(dst);
		return skb ? wp_list_fail(sk, PTR_ERR(skb)) : 0;
	}
	wp_list_write_udp(skb, train, ends);
	/* A packet by itself does, see wp_list_room(). The buffer has the route. */
	wp_list_write_ip(skb, dst, ends, train->packets == 1 || skb->len <= dst_mtu(dst));
	err = wp_list_leave(skb, sk);
	return err ? wp_list_fail(sk, err) : train->bytes;
}

/**
 * wp_list_send() - Hand a train to the network in buffers made here.
 * @train: the train, by reference
 * @sending: how; wp_list_possible() said yes
 *
 * Return: bytes sent; 0: none, it does not leave so; else as wp_train_send().
 */
int wp_list_send(const struct wp_train *train, const struct wp_sending *sending)
{
	unsigned int member_bytes = wp_list_member_bytes(train, sending);
	struct socket *sock = sending->sock;
	struct wp_list_ends ends;
	struct dst_entry *dst;
	int room, err;

	if (!member_bytes || !wp_list_read_ends(inet_sk(sock->sk), &ends))
		return 0;
	dst = sk_dst_check(sock->sk, 0);
	if (!dst)
		return 0;
	room = wp_list_room(dst, train->packet_bytes);
	err = room < 0 ? 0 : wp_list_ask(train, sock);
	if (room < 0 || err) {
		dst_release(dst);
		return err;
	}
	return wp_list_pass(train, sending, &ends, dst, member_bytes, room);
}
