// SPDX-License-Identifier: GPL-2.0
/*
 * Source of payload: a file (file.c), or memory of the caller (memory.c). Its window is
 * an array of bvecs ("pieces"), each with a page reference, that the sender consumes
 * from the front.
 *
 * Page lifetime: a piece holds a reference from when it is added until it is
 * consumed; skbs take their own. Truncation or hole punching removes the page from
 * the file but cannot free it, and migration fails. So what is sent was always a
 * page of this file. Its contents may change until it has left, as with sendfile().
 *
 * A piece lies in one page, unless the sender permits longer ones (@joins), which lie
 * in one large folio and hold one reference of it.
 */
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/uio.h>

#include "file.h"
#include "memory.h"
#include "source.h"

/**
 * wp_source_open() - Begin reading.
 * @source: to be set up
 * @fd: a file open for reading, or -1 for the memory of the current task
 * @position: offset or address
 *
 * Return: 0; -EBADF: not open, or not for reading; -EINVAL: not a regular
 * file.
 */
int wp_source_open(struct wp_source *source, int fd, u64 position)
{
	struct file *file = NULL;

	if (fd != -1) {
		file = fget(fd);
		if (!file)
			return -EBADF;
		if (!(file->f_mode & FMODE_READ)) {
			fput(file);
			return -EBADF;
		}
		if (!S_ISREG(file_inode(file)->i_mode)) {
			fput(file);
			return -EINVAL;
		}
	}
	source->file = file;
	source->pinned = NULL;
	source->start = 0;
	source->position = position;
	source->available = 0;
	source->ended = false;
	source->present = false;
	source->joins = false;
	source->joined = false;
	source->first = 0;
	source->end = 0;
	return 0;
}

void wp_source_close(struct wp_source *source)
{
	wp_source_consume(source, source->available);
	if (source->file)
		fput(source->file);
	source->file = NULL;
}

/* Let go of the first @bytes of the window; at most what is available. */
void wp_source_consume(struct wp_source *source, size_t bytes)
{
	source->position += bytes;
	source->available -= bytes;
	while (bytes) {
		struct bio_vec *piece = &source->pieces[source->first];

		if (bytes < piece->bv_len) {
			piece->bv_offset += bytes;
			piece->bv_len -= bytes;
			return;
		}
		bytes -= piece->bv_len;
		put_page(piece->bv_page);
		source->first++;
	}
}

/* Move a cursor over the next @bytes; at most what is available from there. */
void wp_source_pass(const struct wp_source *source, struct wp_cursor *cursor,
		    size_t bytes)
{
	cursor->available -= bytes;
	while (bytes) {
		size_t rest = source->pieces[cursor->piece].bv_len - cursor->skip;

		if (bytes < rest) {
			cursor->skip += bytes;
			return;
		}
		bytes -= rest;
		cursor->piece++;
		cursor->skip = 0;
	}
}

/* Copy the next @bytes from a cursor on; at most what is available from there. */
void wp_source_peek(const struct wp_source *source, struct wp_cursor cursor, u8 *to,
		    size_t bytes)
{
	while (bytes) {
		const struct bio_vec *piece = &source->pieces[cursor.piece];
		unsigned int offset = piece->bv_offset + cursor.skip;
		size_t some = min3((size_t)(piece->bv_len - cursor.skip), bytes,
				   PAGE_SIZE - offset_in_page(offset));

		memcpy_from_page(to, piece->bv_page + (offset >> PAGE_SHIFT),
				 offset_in_page(offset), some);
		wp_source_pass(source, &cursor, some);
		to += some;
		bytes -= some;
	}
}

/* The pages that a piece lies in. */
static unsigned int wp_piece_pages(const struct bio_vec *piece)
{
	return DIV_ROUND_UP(offset_in_page(piece->bv_offset) + piece->bv_len, PAGE_SIZE);
}

/* The pages of all pieces: wp_source_fill() keeps them few enough for wp_source_split(). */
static unsigned int wp_source_pages(const struct wp_source *source)
{
	unsigned int pages = 0, i;

	for (i = source->first; i < source->end; i++)
		pages += wp_piece_pages(&source->pieces[i]);
	return pages;
}

/* Moves the pieces to the front of the array. */
static void wp_source_pack(struct wp_source *source)
{
	unsigned int used = source->end - source->first;

	if (used)
		memmove(source->pieces, source->pieces + source->first,
			used * sizeof(source->pieces[0]));
	source->first = 0;
	source->end = used;
}

/**
 * wp_source_split() - Make a piece of each page again.
 * @source: the source
 *
 * udp_sendmsg() makes a fragment of each piece; wp_train_by_reference() and
 * wp_route_of() expect pieces of a page.
 */
void wp_source_split(struct wp_source *source)
{
	unsigned int to, from;

	if (!source->joined)
		return;
	wp_source_pack(source);
	from = source->end;
	to = wp_source_pages(source);
	if (WARN_ON_ONCE(to > WP_SOURCE_PIECES))
		return;
	source->joined = false;
	source->end = to;
	/* The last first, so that no piece is overwritten before it was split. */
	while (from) {
		struct bio_vec piece = source->pieces[--from];
		unsigned int pages = wp_piece_pages(&piece), i;

		if (pages > 1)
			folio_ref_add(page_folio(piece.bv_page), pages - 1);
		to -= pages;
		for (i = to; piece.bv_len; i++) {
			unsigned int offset = offset_in_page(piece.bv_offset);
			unsigned int some = min(piece.bv_len, (unsigned int)PAGE_SIZE - offset);

			bvec_set_page(&source->pieces[i],
				      piece.bv_page + (piece.bv_offset >> PAGE_SHIFT), some, offset);
			piece.bv_offset += some;
			piece.bv_len -= some;
		}
	}
}

/*
 * Copies pieces that are much shorter than a page into whole pages, when they would
 * fill the window before it has a packet: file systems that do not use the page cache
 * may return a line at a time.
 */
static int wp_source_gather(struct wp_source *source)
{
	unsigned int count = DIV_ROUND_UP(source->available, PAGE_SIZE), used = source->end, i;
	size_t left = source->available;
	struct iov_iter from;

	if (count >= used)
		return -EIO;
	iov_iter_bvec(&from, ITER_SOURCE, source->pieces, used, left);
	for (i = 0; i < count; i++) {
		source->pages[i] = alloc_page(GFP_KERNEL);
		if (!source->pages[i])
			break;
		copy_page_from_iter(source->pages[i], 0, PAGE_SIZE, &from);
	}
	if (i < count) {
		while (i)
			put_page(source->pages[--i]);
		return -ENOMEM;
	}
	for (i = 0; i < used; i++)
		put_page(source->pieces[i].bv_page);
	for (i = 0; i < count; i++, left -= PAGE_SIZE)
		bvec_set_page(&source->pieces[i], source->pages[i],
			      min_t(size_t, left, PAGE_SIZE), 0);
	source->end = count;
	return 0;
}

/**
 * wp_source_fill() - Have more in the window.
 * @source: the source
 * @want: bytes the window should have at least, if it can hold them
 * @wait: whether to wait for storage
 *
 * Return: 0, and then something was added or the source has ended; -EAGAIN:
 * it would wait; -EIO, -EFAULT, -ENOMEM and what file systems answer.
 */
int wp_source_fill(struct wp_source *source, u64 want, bool wait)
{
	unsigned int used;

	if (source->ended || source->available >= want)
		return 0;
	wp_source_pack(source);
	used = source->joined ? wp_source_pages(source) : source->end;
	if (used == WP_SOURCE_PIECES) {
		int err;

		/* It copies pieces of a page. */
		wp_source_split(source);
		err = wp_source_gather(source);
		if (err)
			return err;
		used = source->end;
	}
	/* As many pages as pieces are free, of which the first may be partial. */
	want = min_t(u64, want - source->available,
		     (WP_SOURCE_PIECES - used) * PAGE_SIZE -
		     offset_in_page(source->position + source->available));
	if (source->file)
		return wp_file_fill(source, want, wait);
	return wp_memory_fill(source, want);
}

