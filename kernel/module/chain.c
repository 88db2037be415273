// SPDX-License-Identifier: GPL-2.0
/*
 * A list (list.c) is made straight from a source's window: headers are written
 * where they stay, and fragments where they leave from, without another form of
 * the packets between. References are taken by the page and not by the fragment:
 * to the headers' page when a buffer is begun, before anything is copied into
 * it; to a page of payload when the fragments of the next one begin, or the next
 * buffer. Until then the window holds it.
 *
 * Of a chain that is dropped nothing stays. Its first buffer is charged to the
 * socket from the beginning, its members when it leaves.
 */
#include <linux/err.h>
#include <linux/mm.h>
#include <net/sock.h>

#include "chain.h"
#include "header.h"

/* Begin to fill a buffer, which becomes the chain's. */
static int wp_chain_open_buffer(struct wp_chain *chain, struct sk_buff *skb)
{
	struct bio_vec block;

	if (!wp_header_block(&block, chain->header_bytes, chain->packets_max)) {
		kfree_skb(skb);
		return -ENOMEM;
	}
	chain->headers = block.bv_page;
	chain->header_offset = block.bv_offset;
	chain->header = page_address(block.bv_page) + block.bv_offset;
	chain->buffer = skb;
	chain->shared = skb_shinfo(skb);
	chain->fragments = 0;
	chain->bytes = 0;
	chain->packets = 0;
	return 0;
}

/* Refer to the page as often as fragments do. */
void wp_chain_refer(struct wp_chain *chain)
{
	if (chain->lent_count)
		folio_ref_add(page_folio(chain->lent), chain->lent_count);
	chain->lent_count = 0;
}

/* The buffer has all its fragments: one without any is no member. */
static void wp_chain_close_buffer(struct wp_chain *chain)
{
	unsigned int packets = chain->packets, unused = chain->packets_max - packets;
	unsigned int header_bytes = packets * chain->header_bytes;
	struct wp_train *train = chain->train;
	struct sk_buff *skb = chain->buffer;

	wp_chain_refer(chain);
	while (unused--)
		put_page(chain->headers);
	chain->shared->nr_frags = chain->fragments;
	/* Nobody writes into pages of files. */
	chain->shared->flags |= SKBFL_SHARED_FRAG;
	skb->data_len = header_bytes + chain->bytes;
	skb->len += skb->data_len;
	chain->loans += chain->fragments;
	chain->buffer = NULL;
	chain->packets = chain->packets_max;
	if (packets)
		bvec_set_page(&train->piece[train->pieces++], chain->headers, header_bytes,
			      chain->header_offset - header_bytes);
	if (skb == chain->skb)
		return;
	if (!packets) {
		kfree_skb(skb);
		return;
	}
	skb->truesize += skb->data_len;
	*chain->next = skb;
	chain->next = &skb->next;
}

/**
 * wp_chain_begin() - Begin a list.
 * @chain: to be set up
 * @train: empty; gets what security modules are asked about
 * @sending: how it is to leave; waits for room in the socket's buffer as any send
 * @packet_bytes: of each packet, with its header
 * @header_bytes: of these
 *
 * Return: 0; 1: nothing leaves as a list here; errors of the network, -ENOMEM.
 */
int wp_chain_begin(struct wp_chain *chain, struct wp_train *train,
		   const struct wp_sending *sending, unsigned int packet_bytes,
		   unsigned int header_bytes)
{
	struct sk_buff *skb;
	int err;

	if (!wp_list_possible(sending) || wp_list_open(&chain->way, sending, packet_bytes))
		return 1;
	skb = wp_list_buffer(&chain->way, sending, 0);
	if (IS_ERR(skb)) {
		wp_list_close(&chain->way);
		return PTR_ERR(skb);
	}
	chain->packets_max = sending->member_packets;
	chain->header_bytes = header_bytes;
	chain->train = train;
	chain->lent = NULL;
	chain->lent_count = 0;
	chain->loans = 0;
	err = wp_chain_open_buffer(chain, skb);
	if (err) {
		wp_list_close(&chain->way);
		return err;
	}
	chain->skb = skb;
	chain->next = &skb_shinfo(skb)->frag_list;
	return 0;
}

/**
 * wp_chain_next_buffer() - Go on with another member.
 * @chain: the chain
 *
 * Return: 0, -ENOMEM, -ENOBUFS.
 */
int wp_chain_next_buffer(struct wp_chain *chain)
{
	struct sk_buff *member;

	if (!chain->buffer)
		return -ENOBUFS;
	wp_chain_close_buffer(chain);
	member = alloc_skb(0, chain->skb->sk->sk_allocation);
	return member ? wp_chain_open_buffer(chain, member) : -ENOBUFS;
}

/**
 * wp_chain_drop() - Send nothing of what was begun.
 * @chain: the chain; nothing happens if none was begun
 */
void wp_chain_drop(struct wp_chain *chain)
{
	if (!chain->skb)
		return;
	if (chain->buffer)
		wp_chain_close_buffer(chain);
	kfree_skb(chain->skb);
	chain->skb = NULL;
	wp_list_close(&chain->way);
}

/*
 * What security modules are asked about: all headers, and then the part of the
 * window that the payload is in.
 */
static void wp_chain_show(struct wp_train *train, const struct wp_source *source)
{
	unsigned int pieces = min(source->end - source->first, WP_TRAIN_PIECES - train->pieces);

	memcpy(train->piece + train->pieces, source->pieces + source->first,
	       pieces * sizeof(train->piece[0]));
	train->pieces += pieces;
}

/**
 * wp_chain_send() - Hand a list to the network; nothing of it is left here.
 * @chain: the chain
 * @source: the source of its payload
 * @sending: as wp_chain_begin() was told
 *
 * Return: bytes sent, or errors of the network.
 */
int wp_chain_send(struct wp_chain *chain, const struct wp_source *source,
		  struct wp_sending *sending)
{
	struct sk_buff *skb = chain->skb, *member;
	struct wp_train *train = chain->train;
	unsigned int charged = skb->truesize;
	int err;

	if (chain->buffer)
		wp_chain_close_buffer(chain);
	wp_chain_show(train, source);
	err = wp_list_ask(train, sending->sock);
	train->pieces = chain->loans;
	if (err) {
		wp_chain_drop(chain);
		return wp_train_note(train, sending, true, true, err);
	}
	skb->truesize += skb->data_len;
	skb_walk_frags(skb, member) {
		skb->len += member->len;
		skb->data_len += member->len;
		skb->truesize += member->truesize;
	}
	refcount_add(skb->truesize - charged, &skb->sk->sk_wmem_alloc);
	chain->skb = NULL;
	err = wp_list_pass(skb, train, &chain->way);
	return wp_train_note(train, sending, true, true, err);
}
