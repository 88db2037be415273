// SPDX-License-Identifier: GPL-2.0
/*
 * Adds parts of a vector to its train: buffers are copied, pages of files and mappings are
 * referred to. A part's file is open while its pages are added, which the train keeps.
 */
#include <linux/uaccess.h>

#include "header.h"
#include "vector.h"

/*
 * copy_from_user(), or without page faults -EAGAIN for a page that is not present. @page
 * keeps its reference while the caller may sleep, as in wp_header_write().
 */
static int wp_vector_copy_piece(struct page *page, void *room, u64 address,
				unsigned int bytes, bool faults)
{
	unsigned long missing;

	get_page(page);
	if (!faults)
		pagefault_disable();
	missing = copy_from_user(room, u64_to_user_ptr(address), bytes);
	if (!faults)
		pagefault_enable();
	put_page(page);
	if (!missing)
		return 0;
	return faults ? -EFAULT : -EAGAIN;
}

/* Copy up to @bytes of a buffer, one page fragment at a time. */
static int wp_vector_copy(struct wp_vector *vector, u64 address, u64 bytes)
{
	while (bytes && vector->train.pieces < WP_TRAIN_PIECES) {
		unsigned int some = min_t(u64, bytes, WP_VECTOR_COPY_BYTES);
		struct bio_vec piece;
		void *room = wp_header_room(&piece, some);
		int err;

		if (!room)
			return -ENOMEM;
		err = wp_vector_copy_piece(piece.bv_page, room, address, some,
					   !vector->follows);
		if (err)
			return err;
		if (!wp_train_add(&vector->train, &piece, true))
			break;
		address += some;
		bytes -= some;
		if (!vector->packets && vector->train.pieces >= WP_VECTOR_PIECES)
			break;
	}
	return 0;
}

static int wp_vector_refer(struct wp_vector *vector, int file, u64 position,
			   u64 bytes)
{
	struct wp_source *source = &vector->source;
	int err;

	err = wp_source_open(source, file, position);
	source->present = vector->follows;
	while (!err && bytes) {
		size_t some;

		err = wp_source_fill(source, bytes, vector->wait);
		if (!err && !source->available)
			err = -ENODATA;
		some = min_t(u64, bytes, source->available);
		if (err || !wp_train_take_payload(&vector->train, source, some))
			break;
		bytes -= some;
		if (!vector->packets && vector->train.pieces >= WP_VECTOR_PIECES)
			break;
	}
	if (source->file || source->available)
		wp_source_close(source);
	return err;
}

/**
 * wp_vector_add_part() - Add what a part has left, or (TCP) as much as makes a train.
 * @vector: the vector
 * @part: the part, one of its own
 * @skip: bytes of the part that were sent
 *
 * Return: 0, also if the train takes no more pieces; -EMSGSIZE, -ENODATA and errors of
 * reading.
 */
int wp_vector_add_part(struct wp_vector *vector, const struct wirepath_part *part, u64 skip)
{
	u64 position = part->offset + skip, bytes = part->length - skip;

	/* By itself first, as a sum could overflow. */
	if (vector->packets && (bytes > WP_TRAIN_BYTES ||
				vector->train.bytes + bytes > WP_TRAIN_BYTES))
		return -EMSGSIZE;
	if (part->flags & WIREPATH_PART_COPY)
		return wp_vector_copy(vector, position, bytes);
	return wp_vector_refer(vector, part->file, position, bytes);
}
