/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_SOURCE_H
#define _WP_SOURCE_H

#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/types.h>

/*
 * Pages held at a time: 4 rounds of the 16 that splice takes at once. Also
 * enough for a datagram of 65,507 bytes at any offset.
 */
#define WP_SOURCE_PIECES 64

/* All pages of a mapping, held as long as a run needs them. */
struct wp_pinned {
	struct page **pages;
	unsigned long count;
	unsigned long copied;		/* pages that the kernel copied to pin them */
	struct user_struct *user;	/* whom they are charged to */
};

struct wp_source {
	struct file *file;		/* or NULL: the caller's memory */
	const struct wp_pinned *pinned;	/* or NULL: memory of the current task */
	u64 start;			/* address of the first of the pinned pages */
	u64 position;			/* of the first byte of the window */
	size_t available;		/* bytes in the window */
	bool ended;			/* the file ends behind the window */
	bool present;			/* first what is present; of memory, nothing else */
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
bool wp_source_is_stored(const struct wp_source *source);
void wp_source_close(struct wp_source *source);
int wp_source_fill(struct wp_source *source, u64 want, bool wait);
void wp_source_consume(struct wp_source *source, size_t bytes);
void wp_source_pass(const struct wp_source *source, struct wp_cursor *cursor,
		    size_t bytes);
void wp_source_peek(const struct wp_source *source, struct wp_cursor cursor, u8 *to,
		    size_t bytes);

int wp_pinned_take(struct wp_pinned *pinned, u64 address, u64 length);
void wp_pinned_release(struct wp_pinned *pinned);

static inline struct wp_cursor wp_source_cursor(const struct wp_source *source)
{
	return (struct wp_cursor){ .piece = source->first,
				   .available = source->available };
}

#endif /* _WP_SOURCE_H */
