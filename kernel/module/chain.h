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
		   unsigned int header_bytes, unsigned int packets_max);
int wp_chain_next_buffer(struct wp_chain *chain);
void wp_chain_drop(struct wp_chain *chain);
int wp_chain_send(struct wp_chain *chain, const struct wp_source *source,
		  struct wp_sending *sending);

/**
 * wp_chain_header() - Have room for the next packet's header.
 * @chain: the chain
 *
 * Return: where to write it and, one behind the other, those of the packets that the skb
 * has room for; the same place if wp_chain_add() is not called meanwhile; or -ENOMEM,
 * -ENOBUFS, after which nothing more can be added.
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

/* Takes a reference of the page for each of @count fragments. */
static inline void wp_chain_refer(struct page *page, unsigned int count)
{
	if (count)
		folio_ref_add(page_folio(page), count);
}

/**
 * wp_chain_add() - Add packets of one size to the skb that is being filled.
 * @chain: the chain, with the headers where wp_chain_header() said, one behind the other
 * @source: the source of the payload, whose window keeps the pages until the chain is
 *          sent or dropped
 * @cursor: where in the window; moves on
 * @skip_bytes: of the source, before the payload of each packet
 * @bytes: of payload of each packet; the window has so many
 * @count: packets, at most as many as the skb has room for
 *
 * All that changes with each packet is in local variables, where the compiler need not
 * expect that a fragment is written over it.
 *
 * Return: false if a payload is in more pieces than the skb has fragments: the chain is
 * to be dropped.
 */
static __always_inline bool wp_chain_add(struct wp_chain *chain, const struct wp_source *source,
					 struct wp_cursor *cursor, unsigned int skip_bytes,
					 unsigned int bytes, unsigned int count)
{
	const struct bio_vec *from = &source->pieces[cursor->piece];
	unsigned int header_offset = chain->header_offset, header_bytes = chain->header_bytes;
	unsigned int fragment = chain->fragments, lent_count = chain->lent_count;
	struct page *headers = chain->headers, *lent = chain->lent;
	struct skb_shared_info *shared = chain->shared;
	unsigned int skip = cursor->skip, left = 0, i;

	for (i = 0; i < count && fragment < MAX_SKB_FRAGS && !left; i++) {
		__skb_fill_page_desc_noacc(shared, fragment++, headers, header_offset,
					   header_bytes);
		header_offset += header_bytes;
		for (left = skip_bytes; left >= from->bv_len - skip; from++) {
			left -= from->bv_len - skip;
			skip = 0;
		}
		skip += left;
		for (left = bytes; left && fragment < MAX_SKB_FRAGS;) {
			unsigned int some = min(from->bv_len - skip, left);

			if (from->bv_page != lent) {
				wp_chain_refer(lent, lent_count);
				lent = from->bv_page;
				lent_count = 0;
			}
			lent_count++;
			__skb_fill_page_desc_noacc(shared, fragment++, from->bv_page,
						   from->bv_offset + skip, some);
			left -= some;
			skip += some;
			if (skip == from->bv_len) {
				from++;
				skip = 0;
			}
		}
	}
	chain->header += header_offset - chain->header_offset;
	chain->header_offset = header_offset;
	chain->fragments = fragment;
	chain->lent = lent;
	chain->lent_count = lent_count;
	/* Of a packet that failed, too: its header is a fragment that has a reference. */
	chain->packets += i;
	chain->bytes += bytes * i;
	cursor->available -= (size_t)(skip_bytes + bytes) * count;
	cursor->piece = from - source->pieces;
	cursor->skip = skip;
	return i == count && !left;
}

/**
 * wp_chain_fits() - Check whether one more packet fits.
 * @chain: the chain
 * @source: the source of its payload
 * @cursor: where in the window
 * @bytes: of payload; the window has so many
 *
 * Return: true if the skb that is being filled has enough fragments left.
 */
static inline bool wp_chain_fits(const struct wp_chain *chain, const struct wp_source *source,
				 const struct wp_cursor *cursor, unsigned int bytes)
{
	const struct bio_vec *from = &source->pieces[cursor->piece];
	unsigned int fragments = chain->fragments + 2, seen = from->bv_len - cursor->skip;

	for (; seen < bytes && fragments <= MAX_SKB_FRAGS; fragments++)
		seen += (++from)->bv_len;
	return fragments <= MAX_SKB_FRAGS;
}

#endif /* _WP_CHAIN_H */
