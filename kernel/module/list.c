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
 * Kernels that cut lists wrongly get none: member.c. chain.c gathers lists.
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

/*
 * As udp_sendmsg() does, once, before the route is looked at: other threads may
 * connect the socket elsewhere meanwhile, to nothing or to a group. False if to
 * one of these two.
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

/* As in udp_send_skb(): what differs between packets is set when it is cut. */
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
 * As in __ip_make_skb() for a packet by itself: each fits the route, see
 * wp_list_room(), and has an identification of its own. Of its trains, Linux
 * forbids fragments only if the socket always does, and it takes a single
 * identification for them, so that the next train has most of theirs again.
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
	/* The id is the last one reserved; segmentation counts up from the first. */
	ip->id = htons(ntohs(ip->id) - train->packets + 1);
	skb->priority = READ_ONCE(skb->sk->sk_priority);
	skb->mark = READ_ONCE(skb->sk->sk_mark);
	skb_dst_set(skb, dst);
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

/**
 * wp_list_ask() - Ask security modules whether the socket may send this.
 * @train: what, by its pieces
 * @sock: the caller's socket
 *
 * Modules of the kernel cannot but by sock_sendmsg(): with MSG_OOB, which UDP refuses
 * before it looks at anything else. On its way the socket's flow is recorded for
 * receive flow steering, as by any send. A denial by EOPNOTSUPP, as a program of
 * BPF LSM could answer, cannot be told apart from UDP's refusal and is ignored.
 *
 * Return: 0, or the answer that denies.
 */
int wp_list_ask(const struct wp_train *train, struct socket *sock)
{
	struct msghdr message = { .msg_flags = MSG_NOSIGNAL | MSG_OOB };
	int answer;

	iov_iter_bvec(&message.msg_iter, ITER_SOURCE, train->piece, train->pieces,
		      train->bytes);
	answer = sock_sendmsg(sock, &message);
	return answer == -EOPNOTSUPP ? 0 : answer < 0 ? answer : -EIO;
}

/**
 * wp_list_open() - Look up the way of the next buffer.
 * @way: to be set; wp_list_close() or wp_list_pass() ends it
 * @sending: how it is to leave; wp_list_possible() said yes
 * @packet_bytes: of its longest packet
 *
 * Return: 0, or -EMSGSIZE: it does not leave so.
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
 * wp_list_buffer() - Make a buffer, charged to the socket.
 * @way: its way
 * @sending: how it is to leave; waits as any send
 * @head_bytes: room for more behind its headers, which are not written yet
 *
 * Return: the buffer, or errors as of sending.
 */
struct sk_buff *wp_list_buffer(const struct wp_list_way *way, const struct wp_sending *sending,
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
 * wp_list_pass() - Have a buffer leave.
 * @skb: the buffer, with its payload; it is the network's then
 * @train: what is in it
 * @way: its way; ends
 *
 * Return: bytes sent, or errors as of sending.
 */
int wp_list_pass(struct sk_buff *skb, const struct wp_train *train, struct wp_list_way *way)
{
	struct sock *sk = skb->sk;
	int err;

	wp_list_write_udp(skb, train, way);
	wp_list_write_ip(skb, train, way);
	/* The buffer has the route. */
	way->dst = NULL;
	err = wp_list_leave(skb, sk);
	return err ? wp_list_fail(sk, err) : train->bytes;
}

/* Give a buffer all pieces of a train, which it has fragments for. */
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
	/* Nobody writes into pages of files. */
	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	skb_len_add(skb, bytes);
	refcount_add(bytes, &skb->sk->sk_wmem_alloc);
}

/*
 * Give a buffer the next @bytes of a train; @piece is the next piece, of which
 * @skip bytes are in the buffer before.
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
	/* Nobody writes into pages of files. */
	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	return 0;
}

/* Make a list of a buffer: each member, and the buffer, with so many packets. */
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
 * wp_list_send() - Hand a train to the network in buffers made here.
 * @train: the train, by reference, of no more pieces than a buffer has fragments,
 *         or than the members have that @sending says
 * @sending: how; wp_list_possible() said yes
 *
 * Return: bytes sent; 0: none, it does not leave so; else as wp_train_send().
 */
int wp_list_send(const struct wp_train *train, const struct wp_sending *sending)
{
	struct wp_list_way way;
	struct sk_buff *skb;
	int err;

	if (wp_list_open(&way, sending, train->packet_bytes))
		return 0;
	err = wp_list_ask(train, sending->sock);
	if (err) {
		wp_list_close(&way);
		return err;
	}
	skb = wp_list_buffer(&way, sending, train->head_bytes);
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
