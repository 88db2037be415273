// SPDX-License-Identifier: GPL-2.0
/*
 * Packets of a vector, gathered as trains: only where the packets of a train have the
 * headers that single packets have, and without waiting for any but the first.
 */
#include <linux/net_tstamp.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>

#include "compat.h"
#include "list.h"
#include "member.h"
#include "route.h"
#include "switches.h"
#include "vector.h"

/* Add the packet that begins with the part @index, all of it or an error. */
static int wp_vector_add_packet(struct wp_vector *vector, u32 *index)
{
	struct wp_train *train = &vector->train;
	bool ended = false;

	while (!ended && *index < vector->count) {
		const struct wirepath_part *part = &vector->parts[(*index)++];
		u64 want = train->bytes + part->length;
		int err = wp_vector_add_part(vector, part, 0);

		if (err)
			return err;
		/* More pieces than a train has. */
		if (train->bytes < want)
			return -EMSGSIZE;
		ended = part->flags & WIREPATH_PART_END;
	}
	train->packets++;
	return 0;
}

/* True if the bytes of a part follow those of the part before it, in the same page. */
static bool wp_vector_follows(const struct wirepath_part *part,
			      const struct wirepath_part *before)
{
	if ((part->flags ^ before->flags) & WIREPATH_PART_COPY)
		return false;
	/* Page fragments are taken one after the other. */
	if (part->flags & WIREPATH_PART_COPY)
		return true;
	return part->file == before->file && offset_in_page(part->offset) &&
	       part->offset == before->offset + before->length;
}

/*
 * The packet that begins with the part @index: how many bytes, or 0 if more than
 * @bytes_max; @pieces becomes the most pieces that it should add to the train,
 * @first by how many fewer these are as its first part joins the last piece.
 */
static u32 wp_vector_look(const struct wp_vector *vector, u32 index, u32 bytes_max,
			  u32 *pieces, bool *first)
{
	const struct wirepath_part *part = &vector->parts[index];
	u32 bytes = 0, i;

	*pieces = 0;
	*first = wp_vector_follows(part, part - 1);
	for (i = index; i < vector->count; i++, part++) {
		if (part->length > bytes_max - bytes)
			return 0;
		bytes += part->length;
		if (part->flags & WIREPATH_PART_COPY)
			*pieces += DIV_ROUND_UP((u32)part->length, WP_VECTOR_COPY_BYTES);
		else
			*pieces += DIV_ROUND_UP(offset_in_page(part->offset) +
						(u32)part->length, PAGE_SIZE);
		if (i > index && wp_vector_follows(part, part - 1))
			--*pieces;
		if (part->flags & WIREPATH_PART_END)
			break;
	}
	return bytes;
}

/*
 * True if the next packets are sent over IPv4, or if this is not known: an IPv6 socket
 * sends to v4-mapped addresses over IPv4, and to the unspecified address if it is bound
 * to a v4-mapped one.
 */
static bool wp_vector_over_ipv4(const struct wp_sending *sending)
{
#if IS_ENABLED(CONFIG_IPV6)
	const struct sockaddr_in6 *to = (const struct sockaddr_in6 *)&sending->address;
	const struct sock *sk = sending->sock->sk;

	if (sk->sk_family == AF_INET6 && !sending->address_bytes)
		return ipv6_addr_v4mapped(&sk->sk_v6_daddr);
	if (sk->sk_family == AF_INET6)
		return to->sin6_family != AF_INET6 || ipv6_addr_any(&to->sin6_addr) ||
		       ipv6_addr_v4mapped(&to->sin6_addr);
#endif
	return true;
}

/*
 * True if packets of a train that udp_sendmsg() makes have other IPv4 headers than
 * single packets: no IP_DF, and IP ids that repeat, as a train gets one id. With
 * IP_PMTUDISC_DO and IP_PMTUDISC_PROBE both have IP_DF, and the ids are not used.
 */
static bool wp_vector_headers_differ(const struct wp_sending *sending)
{
	u8 discover = READ_ONCE(inet_sk(sending->sock->sk)->pmtudisc);

	return discover != IP_PMTUDISC_DO && discover != IP_PMTUDISC_PROBE &&
	       wp_vector_over_ipv4(sending);
}

/*
 * True if IP drops packets of this socket that exceed the MTU, instead of fragmenting
 * them. If the route gets a smaller MTU while a train is sent, its full packets are
 * dropped with -EMSGSIZE, and a shorter last packet would be sent, and sent again with
 * the single packets.
 */
static bool wp_vector_drops_long(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	/* A bit field before Linux 6.8: no READ_ONCE(). */
	if (sk->sk_family == AF_INET6 && inet6_sk(sk)->pmtudisc >= IPV6_PMTUDISC_DO)
		return true;
#endif
	return READ_ONCE(inet_sk(sk)->pmtudisc) >= IP_PMTUDISC_DO;
}

/*
 * The most packets of the next train; @listed: list.c can send it. A train of a socket
 * with an error pending would hide the error, see wp_vector_refused(); a train of a
 * corked socket would change how the packet in the cork is sent; and a train of a socket
 * with TX time stamps would get a single time stamp.
 */
static u32 wp_vector_packets_max(const struct wp_vector *vector, bool listed)
{
	u32 packet_bytes = vector->train.packet_bytes;
	const struct sock *sk = vector->sending.sock->sk;

	if (READ_ONCE(sk->sk_err) || wp_udp_corked(sk) ||
	    READ_ONCE(sk->sk_tsflags) & SOF_TIMESTAMPING_TX_RECORD_MASK ||
	    (!listed && wp_vector_headers_differ(&vector->sending)))
		return 1;
	if (vector->sending.address_bytes)
		return WIREPATH_TRAIN_PACKETS_MAX;
	if (packet_bytes > wp_route_packet_bytes(sk))
		return 1;
	return min_t(u32, WIREPATH_TRAIN_PACKETS_MAX,
		     wp_route_train_packets(sk, packet_bytes));
}

/* A train that is being gathered, and the skb of it that is being filled. */
struct wp_vector_gathering {
	u32 packets_max;
	u32 fragments_max;	/* of each skb */
	bool lists;		/* the train may have members */
	bool shorter;		/* the last packet may be shorter */
	u32 member_packets;	/* of each skb but the last, or 0: no members */
	u32 packets;		/* of the skb */
	u32 fragments;		/* of the skb */
};

/*
 * Begin another member if the packet needs one; false if the train has to end before
 * the packet. @joins: the packet's first part joins the last piece.
 */
static bool wp_vector_place(struct wp_vector_gathering *gathering, u32 pieces, bool joins)
{
	bool full = gathering->packets == gathering->member_packets ||
		    gathering->fragments + pieces - joins > gathering->fragments_max;

	if (!full)
		return true;
	/* All skbs but the last have the same number of packets. */
	if (!gathering->lists || pieces > gathering->fragments_max ||
	    (gathering->member_packets && gathering->packets < gathering->member_packets))
		return false;
	gathering->member_packets = gathering->packets;
	gathering->packets = 0;
	gathering->fragments = 0;
	return true;
}

/*
 * Add the next packet to the train, if it fits; true if another may follow. The train
 * does not wait for the packet's storage. A packet that does not fit or fails is
 * removed from the train again: the next gathering waits for it, or returns its error.
 */
static bool wp_vector_join(struct wp_vector *vector, struct wp_vector_gathering *gathering,
			   u32 *index)
{
	struct wp_train *train = &vector->train;
	struct bio_vec *last = &train->piece[train->pieces - 1];
	u32 had_pieces = train->pieces, had_bytes = train->bytes;
	u32 had_payload = train->payload, had_last = last->bv_len;
	bool had_odd = train->odd, joins;
	u32 bytes, pieces;

	bytes = wp_vector_look(vector, *index,
			       min(train->packet_bytes, WP_TRAIN_BYTES - train->bytes),
			       &pieces, &joins);
	if (!bytes || (bytes < train->packet_bytes && !gathering->shorter) ||
	    !wp_vector_place(gathering, pieces, joins))
		return false;
	if (!wp_vector_add_packet(vector, index)) {
		/* A piece that began in the skb before is a fragment of both. */
		gathering->fragments += train->pieces - had_pieces;
		if (!gathering->packets && last->bv_len > had_last)
			gathering->fragments++;
		gathering->packets++;
		if (gathering->fragments <= gathering->fragments_max)
			return bytes == train->packet_bytes;
		train->packets--;
	}
	train->pieces = had_pieces;
	train->bytes = had_bytes;
	train->payload = had_payload;
	train->odd = had_odd;
	last->bv_len = had_last;
	return false;
}

/**
 * wp_vector_gather_packets() - Gather the next packet, and those that follow as a train.
 * @vector: the vector, with an empty train
 *
 * Packets of its size follow; the last may be shorter. By reference, a train has at most
 * as many pieces as an skb has fragments, or is a list (list.c).
 *
 * Return: 0, or the error of the first packet.
 */
int wp_vector_gather_packets(struct wp_vector *vector)
{
	struct wp_vector_gathering gathering = {};
	struct wp_sending *sending = &vector->sending;
	struct wp_train *train = &vector->train;
	u32 index = vector->index;
	bool listed;
	int err;

	sending->member_packets = 0;
	sending->listed = false;
	vector->wait = sending->wait;
	vector->follows = false;
	err = wp_vector_add_packet(vector, &index);
	if (err)
		return err;
	train->packet_bytes = train->bytes;
	if (index == vector->count || vector->singly || !READ_ONCE(wp_allow_trains))
		return 0;
	listed = wp_list_trains_possible(sending, train->packet_bytes);
	gathering.packets_max = wp_vector_packets_max(vector, listed);
	if (gathering.packets_max == 1)
		return 0;
	gathering.fragments_max = sending->references ? wp_fragments_max() : WP_TRAIN_PIECES;
	gathering.packets = 1;
	gathering.fragments = train->pieces;
	/* The packet has to be copied, and with it the whole train. */
	if (train->pieces > gathering.fragments_max)
		return 0;
	gathering.lists = listed && wp_member_lists;
	gathering.shorter = !wp_vector_drops_long(sending->sock->sk);
	sending->listed = listed && wp_vector_headers_differ(sending);
	vector->wait = false;
	vector->follows = true;
	while (index < vector->count && train->packets < gathering.packets_max)
		if (!wp_vector_join(vector, &gathering, &index))
			break;
	if (train->pieces > gathering.fragments_max)
		sending->member_packets = gathering.member_packets;
	return 0;
}
