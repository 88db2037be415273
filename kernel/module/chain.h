/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_CHAIN_H
#define _WP_CHAIN_H

#include <linux/err.h>
#include <linux/mm.h>
#include <linux/skbuff.h>

#include "list.h"
#include "train.h"

/* A list that is being made. */
struct wp_chain {
	struct sk_buff *skb;		/* the first buffer, or NULL: none was begun */
	struct sk_buff *buffer;		/* the one that is being filled */
	struct sk_buff **next;		/* where the next member is put */
	struct skb_shared_info *shared;	/* of @buffer */
	unsigned int fragments;		/* of @buffer */
	unsigned int bytes;		/* of payload */
	unsigned int packets;		/* of @buffer; all of them where there is none */
	unsigned int packets_max;	/* of each buffer */
	unsigned int header_bytes;	/* of each packet */
	struct page *headers;		/* that those of @buffer's packets are in */
	unsigned int header_offset;	/* in it, of the next one */
	u8 *header;			/* its address */
	struct page *lent;		/* not yet referred to by so many fragments: */
	unsigned int lent_count;
	unsigned int loans;		/* fragments of the buffers that are closed */
	struct wp_train *train;		/* what it is, for whoever looks at it */
	struct wp_list_way way;
};

int wp_chain_begin(struct wp_chain *chain, struct wp_train *train,
		   const struct wp_sending *sending, unsigned int packet_bytes,
		   unsigned int header_bytes);
int wp_chain_next_buffer(struct wp_chain *chain);
void wp_chain_refer(struct wp_chain *chain);
void wp_chain_drop(struct wp_chain *chain);
int wp_chain_send(struct wp_chain *chain, const struct wp_source *source,
		  struct wp_sending *sending);

/**
 * wp_chain_header() - Have room for the next packet's header.
 * @chain: the chain
 *
 * Return: where to write it, also for the one after if wp_chain_add() is not
 * called; or -ENOMEM, -ENOBUFS, after which nothing more can be added.
 */
static __always_inline u8 *wp_chain_header(struct wp_chain *chain)
{
	if (chain->packets == chain->packets_max) {
		int err = wp_chain_next_buffer(chain);

		if (err)
			return ERR_PTR(err);
	}
	return chain->header;
}

/**
 * wp_chain_add() - Add a packet.
 * @chain: the chain, with the header where wp_chain_header() said
 * @source: the source of its payload, whose window keeps the pages until the
 *          chain is sent or dropped
 * @cursor: where in the window; moves on
 * @bytes: of payload; the window has so many
 *
 * Once for each packet: inline, as all of it.
 *
 * Return: false if the payload is in more pieces than a buffer has fragments:
 * the chain is to be dropped.
 */
static __always_inline bool wp_chain_add(struct wp_chain *chain, const struct wp_source *source,
					 struct wp_cursor *cursor, unsigned int bytes)
{
	const struct bio_vec *from = &source->pieces[cursor->piece];
	struct skb_shared_info *shared = chain->shared;
	unsigned int fragment = chain->fragments;
	unsigned int skip = cursor->skip;

	if (fragment == MAX_SKB_FRAGS)
		return false;
	__skb_fill_page_desc_noacc(shared, fragment++, chain->headers, chain->header_offset,
				   chain->header_bytes);
	chain->header_offset += chain->header_bytes;
	chain->header += chain->header_bytes;
	chain->packets++;
	chain->bytes += bytes;
	cursor->available -= bytes;
	while (bytes) {
		unsigned int some = min(from->bv_len - skip, bytes);

		if (fragment == MAX_SKB_FRAGS)
			break;
		if (from->bv_page != chain->lent) {
			wp_chain_refer(chain);
			chain->lent = from->bv_page;
		}
		chain->lent_count++;
		__skb_fill_page_desc_noacc(shared, fragment++, from->bv_page,
					   from->bv_offset + skip, some);
		bytes -= some;
		skip += some;
		if (skip == from->bv_len) {
			from++;
			skip = 0;
		}
	}
	chain->fragments = fragment;
	cursor->piece = from - source->pieces;
	cursor->skip = skip;
	return !bytes;
}

#endif /* _WP_CHAIN_H */
