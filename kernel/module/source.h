/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_SOURCE_H
#define _WP_SOURCE_H

#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/types.h>

/*
 * Pages held at a time: 4 rounds of the 16 that splice takes at once. Also
 * enough for a datagram of 65,507 bytes at any offset.
 */
#define WP_SOURCE_PIECES 64

struct wp_pinned;

struct wp_source {
	struct file *file;		/* or NULL: the caller's memory */
	const struct wp_pinned *pinned;	/* or NULL: memory of the current task */
	u64 start;			/* address of the first of the pinned pages */
	u64 position;			/* of the first byte of the window */
	size_t available;		/* bytes in the window */
	bool ended;			/* the file ends behind the window */
	bool present;			/* first what is present; of memory, nothing else */
	bool joins;			/* pieces may be longer than a page, of one folio */
	bool joined;			/* there may be such pieces */
	unsigned int first, end;	/* of the pieces in use */
	struct bio_vec pieces[WP_SOURCE_PIECES];
	struct page *pages[WP_SOURCE_PIECES];	/* for get_user_pages_fast() */
};

/* A place in the window, to look ahead from. */
struct wp_cursor {
	unsigned int piece;
	unsigned int skip;		/* bytes of that piece */
	size_t available;		/* bytes from here to the window's end */
};

int wp_source_open(struct wp_source *source, int fd, u64 position);
void wp_source_close(struct wp_source *source);
int wp_source_fill(struct wp_source *source, u64 want, bool wait);
void wp_source_consume(struct wp_source *source, size_t bytes);
void wp_source_pass(const struct wp_source *source, struct wp_cursor *cursor,
		    size_t bytes);
void wp_source_split(struct wp_source *source);
void wp_source_peek(const struct wp_source *source, struct wp_cursor cursor, u8 *to,
		    size_t bytes);

/* Adds a part of a page; takes a reference if @own, else the caller gives its own. */
static inline int wp_source_add(struct wp_source *source, struct page *page,
				unsigned int bytes, unsigned int offset, bool own)
{
	/* The network warns about slab pages; no regular file or mapping should have any. */
	if (!sendpage_ok(page) || (own && !try_get_page(page)))
		return -EIO;
	bvec_set_page(&source->pieces[source->end++], page, bytes, offset);
	source->available += bytes;
	return 0;
}

static inline struct wp_cursor wp_source_cursor(const struct wp_source *source)
{
	return (struct wp_cursor){ .piece = source->first,
				   .available = source->available };
}

#endif /* _WP_SOURCE_H */
