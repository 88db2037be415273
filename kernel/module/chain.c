// SPDX-License-Identifier: GPL-2.0
/*
 * Builds a list (list.c), or a train of one skb, directly from a source's window: packet
 * headers are written into the page fragment that the skbs refer to, payload goes from
 * the window's bvecs to skb_shinfo()->frags[].
 *
 * Page references are taken in batches:
 * - of the page with the headers, one for each packet that the skb may hold, before
 *   anything is copied into it; the unused ones are dropped when the skb is full;
 * - of a payload page or folio, one for each fragment, when fragments of another piece
 *   follow or the skb is full. Until then the window's reference keeps the page.
 *
 * wp_chain_drop() releases everything. The head skb is charged to the socket when it
 * is allocated, the members when the list is sent.
 */
#include <linux/err.h>
#include <linux/mm.h>
#include <net/sock.h>

#include "chain.h"
#include "header.h"

/* Makes @skb the one that packets are added to. */
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

/* Finishes the current skb; a member without packets is freed. */
static void wp_chain_close_buffer(struct wp_chain *chain)
{
	unsigned int packets = chain->packets, unused = chain->packets_max - packets;
	unsigned int header_bytes = packets * chain->header_bytes;
	struct wp_train *train = chain->train;
	struct sk_buff *skb = chain->buffer;

	wp_chain_refer(chain->lent, chain->lent_count);
	chain->lent_count = 0;
	if (unused) {
		/* All but one at once: only the last may free the page. */
		page_ref_sub(chain->headers, unused - 1);
		put_page(chain->headers);
	}
	chain->shared->nr_frags = chain->fragments;
	/* Page cache pages: nothing may write into them (skb_has_shared_frag()). */
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
 * @train: empty; gets what the security hook sees
 * @sending: socket and destination; waits for its send buffer as every send does
 * @packet_bytes: of each packet, with its header
 * @header_bytes: of these
 * @packets_max: of each skb; all skbs but the last will have so many
 *
 * Return: 0; 1: no list can be sent; errors of the network, -ENOMEM.
 */
int wp_chain_begin(struct wp_chain *chain, struct wp_train *train,
		   const struct wp_sending *sending, unsigned int packet_bytes,
		   unsigned int header_bytes, unsigned int packets_max)
{
	struct sk_buff *skb;
	int err;

	if (!wp_list_possible(sending) || wp_list_open(&chain->way, sending, packet_bytes))
		return 1;
	skb = wp_list_skb(&chain->way, sending, 0);
	if (IS_ERR(skb)) {
		wp_list_close(&chain->way);
		return PTR_ERR(skb);
	}
	chain->packets_max = packets_max;
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

/* The pieces that the security hook sees: all headers, then the window's payload. */
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
	err = wp_list_hook(train, sending->sock);
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
