/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_MEMORY_H
#define _WP_MEMORY_H

#include "source.h"

/* All pages of a mapping, held as long as a run needs them. */
struct wp_pinned {
	struct page **pages;
	unsigned long count;
	unsigned long copied;		/* pages that the kernel copied to pin them */
	struct user_struct *user;	/* whom they are charged to */
};

int wp_memory_fill(struct wp_source *source, u64 want);

int wp_pinned_take(struct wp_pinned *pinned, u64 address, u64 length);
void wp_pinned_release(struct wp_pinned *pinned);

#endif /* _WP_MEMORY_H */
