// SPDX-License-Identifier: GPL-2.0
/*
 * Headers are made in page fragments, which socket buffers refer to just as
 * they do to payload; never in slab memory, which the network refuses by
 * reference. The fragments come from the task's own cache (task_frag), where
 * sockets that copy take theirs: a few bytes each, one page allocation for
 * hundreds of headers, freed by reference counting when the last packet has
 * left. Nobody writes to a fragment once it was handed out.
 *
 * That of a packet by itself is made in its train (struct wp_train), from where
 * the buffer gets a copy.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/skbuff.h>
#include <linux/uaccess.h>

#include "header.h"

/**
 * wp_header_room() - Take a fragment that lies in one page.
 * @piece: becomes the fragment, without a reference of its own: add it to a
 *         train, which takes one, before the next call. That could give out
 *         the same bytes again, since a page that only the task refers to is
 *         begun anew.
 * @bytes: at most a page
 *
 * Return: its address, or NULL without memory.
 */
void *wp_header_room(struct bio_vec *piece, unsigned int bytes)
{
	struct page_frag *frag = &current->task_frag;
	unsigned int offset;

	/* Crossing a page would make two fragments of it. */
	if (offset_in_page(frag->offset) + bytes > PAGE_SIZE)
		frag->offset = round_up(frag->offset, PAGE_SIZE);
	/* Most often there is room in the page that was begun. */
	if ((!offset_in_page(frag->offset) || !frag->page) &&
	    !skb_page_frag_refill(bytes, frag, GFP_KERNEL))
		return NULL;
	offset = frag->offset;
	frag->offset += bytes;
	bvec_set_page(piece, frag->page + (offset >> PAGE_SHIFT), bytes,
		      offset_in_page(offset));
	return page_address(frag->page) + offset;
}

/**
 * wp_header_block() - Take room for the headers of a buffer's packets.
 * @block: becomes the room, of pages that belong together, with a reference for
 *         each header: copying into it may fault, as in wp_header_write()
 * @bytes: of each header
 * @count: headers; a page at most in all, see wp_send_skb_packets_max()
 *
 * Return: false without memory.
 */
bool wp_header_block(struct bio_vec *block, unsigned int bytes, unsigned int count)
{
	struct page_frag *frag = &current->task_frag;

	if (!skb_page_frag_refill(bytes * count, frag, GFP_KERNEL))
		return false;
	bvec_set_page(block, frag->page, bytes * count, frag->offset);
	frag->offset += bytes * count;
	page_ref_add(frag->page, count);
	return true;
}

/* What is not copied. A copy of a size that the compiler knows is not checked again. */
static unsigned long wp_header_copy(u8 *to, const void __user *from, u32 bytes)
{
	if (bytes == WP_RTP_HEADER_BYTES)
		return copy_from_user(to, from, WP_RTP_HEADER_BYTES);
	return copy_from_user(to, from, bytes);
}

/* As wp_header_make(), of headers that are the caller's. */
int wp_header_take(struct wp_header *header, u8 *to)
{
	if (header->kept) {
		memcpy(to, header->kept, header->bytes);
		header->kept += header->bytes;
	} else if (wp_header_copy(to, u64_to_user_ptr(header->given), header->bytes)) {
		return -EFAULT;
	}
	header->given += header->bytes;
	return 0;
}

/**
 * wp_header_write() - Make the next packet's header where it can be referred to.
 * @header: where from; goes on to the next
 * @piece: becomes the header, as in wp_header_room()
 * @payload_bytes: what follows it
 *
 * Return: 0, -ENOMEM, -EFAULT.
 */
int wp_header_write(struct wp_header *header, struct bio_vec *piece,
		    u32 payload_bytes)
{
	u8 *room = wp_header_room(piece, header->bytes);
	int err;

	if (!room)
		return -ENOMEM;
	if (header->kept || header->kind == WIREPATH_HEADER_RTP)
		return wp_header_make(header, room, payload_bytes);
	/*
	 * Copying may fault, and what answers a fault may itself send, as a
	 * network file system does: it must not be given the same bytes.
	 */
	get_page(piece->bv_page);
	err = wp_header_make(header, room, payload_bytes);
	put_page(piece->bv_page);
	return err;
}
