// SPDX-License-Identifier: GPL-2.0
/*
 * Payload of the caller's memory: get_user_pages_fast() for reading, as MSG_ZEROCOPY
 * does. After munmap(), or a write after fork(), the page keeps its bytes: copy-on-write
 * copies a page that has other references.
 *
 * A run sends when its owner's memory is not at hand. Its pages are pinned for as long
 * as it lasts, and charged to RLIMIT_MEMLOCK.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

#include "memory.h"

/* Pages that are pinned at a time. */
#define WP_PINNED_PAGES 32

/**
 * wp_memory_fill() - Take more of the caller's memory into the window.
 * @source: the source
 * @want: bytes at most
 *
 * Return: 0, -EFAULT, -EIO; -EAGAIN for pages that are not present, if only those that
 * are were asked for.
 */
int wp_memory_fill(struct wp_source *source, u64 want)
{
	u64 address = source->position + source->available;
	unsigned int offset = offset_in_page(address);
	unsigned int count, i;
	struct page **pages;
	int got, err = 0;

	count = min_t(u64, WP_SOURCE_PIECES - source->end,
		      DIV_ROUND_UP_ULL(offset + want, PAGE_SIZE));
	if (source->pinned) {
		/* In range, since wp_pinned_take() took all of the run. */
		pages = source->pinned->pages +
			((address - source->start) >> PAGE_SHIFT);
		got = count;
	} else {
		pages = source->pages;
		if (source->present)
			got = get_user_pages_fast_only(address & PAGE_MASK, count, 0, pages);
		else
			got = get_user_pages_fast(address & PAGE_MASK, count, 0, pages);
		if (got <= 0)
			return source->present ? -EAGAIN : got ?: -EFAULT;
	}
	for (i = 0; i < got && want && !err; i++) {
		unsigned int bytes = min_t(u64, want, PAGE_SIZE - offset);

		/* A run keeps its pins. */
		err = wp_source_add(source, pages[i], bytes, offset, source->pinned);
		want -= bytes;
		offset = 0;
	}
	/* What the window did not take. */
	for (i -= !!err; i < got && !source->pinned; i++)
		put_page(pages[i]);
	return err;
}

/* Charge @count pages to the user, as io_uring does for its buffers. */
static int wp_pinned_charge(struct wp_pinned *pinned, unsigned long count)
{
	unsigned long limit = capable(CAP_IPC_LOCK) ? ULONG_MAX :
			      rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	struct user_struct *user = current_user();
	long had = atomic_long_read(&user->locked_vm);

	/* Never above the limit, where others would be refused meanwhile. */
	do {
		if (had + count > limit)
			return -ENOMEM;
	} while (!atomic_long_try_cmpxchg(&user->locked_vm, &had, had + count));
	pinned->user = get_uid(user);
	return 0;
}

/*
 * Pin the next pages, some at a time. From 6.2 on the kernel copies those of a
 * private mapping of a file before it pins them for long, as it copies what may
 * not stay where it is: who has other pages now has a copy.
 */
static long wp_pinned_take_some(struct wp_pinned *pinned, u64 address, unsigned long count)
{
	struct page **pages = pinned->pages + pinned->count;
	struct page *before[WP_PINNED_PAGES];
	long had, got, i;

	had = get_user_pages_fast(address, min_t(unsigned long, count, WP_PINNED_PAGES), 0,
				  before);
	if (had <= 0)
		return had ?: -EFAULT;
	/* Another reference would keep them where they are. */
	for (i = 0; i < had; i++)
		put_page(before[i]);
	got = pin_user_pages_fast(address, had, FOLL_LONGTERM, pages);
	for (i = 0; i < got; i++)
		pinned->copied += before[i] != pages[i];
	return got ?: -EFAULT;
}

/**
 * wp_pinned_take() - Pin all pages of a mapping, for a run.
 * @pinned: to be filled
 * @address: in the current task's memory
 * @length: bytes
 *
 * Return: 0, -ENOMEM above the limit, -EFAULT.
 */
int wp_pinned_take(struct wp_pinned *pinned, u64 address, u64 length)
{
	unsigned long count;
	u64 pages;
	int err;

	if (length > ULONG_MAX - 2 * PAGE_SIZE)
		return -ENOMEM;
	/* No allocation is larger than INT_MAX, and asking for one warns. */
	pages = DIV_ROUND_UP_ULL(offset_in_page(address) + length, PAGE_SIZE);
	if (pages > INT_MAX / sizeof(*pinned->pages))
		return -ENOMEM;
	count = pages;
	err = wp_pinned_charge(pinned, count);
	if (err)
		return err;
	/* The caller chooses the size: a failure is the caller's, no warning. */
	pinned->pages = kvmalloc_array(count, sizeof(*pinned->pages),
				       GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	err = -ENOMEM;
	while (pinned->pages && pinned->count < count) {
		err = wp_pinned_take_some(pinned, (address & PAGE_MASK) +
					  (pinned->count << PAGE_SHIFT),
					  count - pinned->count);
		if (err < 0)
			break;
		pinned->count += err;
		err = fatal_signal_pending(current) ? -EINTR : 0;
		if (err)
			break;
	}
	if (err) {
		atomic_long_sub(count - pinned->count, &pinned->user->locked_vm);
		wp_pinned_release(pinned);
	}
	return err;
}

void wp_pinned_release(struct wp_pinned *pinned)
{
	if (!pinned->user)
		return;
	if (pinned->pages)
		unpin_user_pages(pinned->pages, pinned->count);
	kvfree(pinned->pages);
	atomic_long_sub(pinned->count, &pinned->user->locked_vm);
	free_uid(pinned->user);
	memset(pinned, 0, sizeof(*pinned));
}
