// SPDX-License-Identifier: GPL-2.0
/*
 * Source of payload: a file, or memory of the caller. Its window is an array of
 * bvecs ("pieces"), each with a page reference, that the sender consumes from the
 * front.
 *
 * Files: splice_direct_to_actor() reads by the file system's splice_read, as
 * sendfile() does. This is right for all file systems (tmpfs, overlayfs, DAX,
 * network file systems that revalidate). On file systems whose splice_read is
 * known to take cached pages without more ado (wp_source_is_cached()), cached pages
 * are taken by filemap_get_folios_contig(). Both check i_size after the page is
 * uptodate, so a page that is truncated meanwhile gives old bytes, zeros, or nothing.
 * rw_verify_area() calls security modules and fsnotify before each read.
 *
 * Page lifetime: a piece holds a reference from when it is added until it is
 * consumed; skbs take their own. Truncation or hole punching removes the page from
 * the file but cannot free it, and migration fails. So what is sent was always a
 * page of this file. Its contents may change until it has left, as with sendfile().
 *
 * Memory: get_user_pages_fast() for reading, as MSG_ZEROCOPY does. After munmap(),
 * or a write after fork(), the page keeps its bytes: copy-on-write copies a page
 * that has other references.
 */
#include <linux/backing-dev.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/fadvise.h>
#include <linux/fsnotify.h>
#include <linux/highmem.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pagevec.h>
#include <linux/pipe_fs_i.h>
#include <linux/sched/user.h>
#include <linux/sched/signal.h>
#include <linux/sched/xacct.h>
#include <linux/slab.h>
#include <linux/splice.h>
#include <linux/swap.h>
#include <linux/uio.h>

#include "compat.h"
#include "source.h"
#include "switches.h"

/* How often to read again what others took out of the file meanwhile. */
#define WP_SOURCE_RETRIES 16
/* Pages that are pinned at a time. */
#define WP_PINNED_PAGES 32

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
	source->first = 0;
	source->end = 0;
	return 0;
}

/* The inode with the pages: of overlayfs, which has none, that of the file below. */
static struct inode *wp_source_inode(const struct wp_source *source)
{
	return d_real_inode(source->file->f_path.dentry);
}

/**
 * wp_source_is_stored() - Does reading give the same, whoever reads?
 * @source: the source
 *
 * Return: false for files of proc, sysfs and the like. Their content is made by
 * a function that may ask who the current task is, and need not be as long as
 * reading it takes. They have no pages, or those of ramfs that nobody reads:
 * so pages count, or DAX, on a file system with storage of its own, and tmpfs.
 */
bool wp_source_is_stored(const struct wp_source *source)
{
	const struct inode *inode;

	if (!source->file)
		return true;
	inode = wp_source_inode(source);
	if (inode->i_sb->s_magic == TMPFS_MAGIC || IS_DAX(inode))
		return true;
	return inode->i_mapping->a_ops->read_folio &&
	       (inode->i_sb->s_bdi != &noop_backing_dev_info ||
		inode->i_sb->s_magic == RAMFS_MAGIC);
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
		size_t some = min_t(size_t, piece->bv_len - cursor.skip, bytes);

		memcpy_from_page(to, piece->bv_page, piece->bv_offset + cursor.skip, some);
		wp_source_pass(source, &cursor, some);
		to += some;
		bytes -= some;
	}
}

/* Adds a part of a page; takes a reference if @own, else the caller gives its own. */
static int wp_source_add(struct wp_source *source, struct page *page,
			 unsigned int bytes, unsigned int offset, bool own)
{
	/* The network warns about slab pages; no regular file or mapping should have any. */
	if (!sendpage_ok(page) || (own && !try_get_page(page)))
		return -EIO;
	bvec_set_page(&source->pieces[source->end++], page, bytes, offset);
	source->available += bytes;
	return 0;
}

/* Take what splice_read left in the task's internal pipe into the window. */
static int wp_source_take(struct pipe_inode_info *pipe, struct splice_desc *desc)
{
	struct wp_source *source = desc->u.data;
	int taken = 0, err = 0;

	while (pipe->tail != pipe->head && source->end < WP_SOURCE_PIECES) {
		struct pipe_buffer *buf;

		buf = &pipe->bufs[pipe->tail & (pipe->ring_size - 1)];
		err = pipe_buf_confirm(pipe, buf);
		/* The page has left the file meanwhile, by a cut or a hole. */
		if (err == -ENODATA)
			err = -AOP_TRUNCATED_PAGE;
		if (!err && buf->len)
			err = wp_source_add(source, buf->page, buf->len,
					    buf->offset, true);
		if (err)
			break;
		taken += buf->len;
		pipe_buf_release(pipe, buf);
		pipe->tail++;
	}
	return taken ?: err;
}

/*
 * Would a read block? True for pages that are absent, for which it starts readahead,
 * and for pages that are being read. Pages that are present and not uptodate (partly
 * written, or after an error) are read with waiting, since no readahead reads them.
 * Without a read_folio (tmpfs) or a device (ramfs) there is nothing to wait for.
 * DAX and O_DIRECT do not use the page cache.
 */
static bool wp_source_would_block(struct wp_source *source, loff_t from, u64 want)
{
	struct inode *inode = wp_source_inode(source);
	struct address_space *mapping = inode->i_mapping;
	loff_t end = min_t(loff_t, i_size_read(inode), from + want);
	pgoff_t index = from >> PAGE_SHIFT;

	if (!mapping->a_ops->read_folio || IS_DAX(inode) ||
	    (source->file->f_flags & O_DIRECT) ||
	    inode->i_sb->s_bdi == &noop_backing_dev_info)
		return false;
	while (((loff_t)index << PAGE_SHIFT) < end) {
		struct folio *folio = filemap_get_folio(mapping, index);
		bool reading;

		if (IS_ERR_OR_NULL(folio)) {
			vfs_fadvise(source->file, from, want, POSIX_FADV_WILLNEED);
			return true;
		}
		reading = !folio_test_uptodate(folio) && folio_test_locked(folio);
		index = folio->index + folio_nr_pages(folio);
		folio_put(folio);
		if (reading)
			return true;
	}
	return false;
}

/*
 * May pages be taken straight from the page cache? On file systems of the list,
 * whose splice_read is filemap_splice_read() but for a lock, a check or a trace
 * point of no use here: docs/module-design.md says for each why. All others are read by
 * their own splice_read.
 */
static bool wp_source_is_cached(const struct wp_source *source)
{
	const struct inode *inode = file_inode(source->file);

	if (!WP_CONTIGUOUS_FOLIOS || !READ_ONCE(wp_allow_folios) ||
	    (source->file->f_flags & O_DIRECT) || IS_DAX(inode))
		return false;
	switch (inode->i_sb->s_magic) {
	case EXT4_SUPER_MAGIC:	/* and ext2, ext3 */
	case BTRFS_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}

/*
 * Adds the bytes of @folio from @position on, up to i_size, to the window: one piece
 * for each page, as fragments of udp_sendmsg() are. The first piece takes over the
 * caller's folio reference, the others get their own. Returns the bytes added; 0 if
 * there are none, or if splice_read must read here: the folio is not uptodate, or
 * marked for readahead.
 */
static size_t wp_source_add_folio(struct wp_source *source, struct folio *folio,
				  loff_t position, u64 want)
{
	size_t offset = offset_in_folio(folio, position), added = 0, bytes;
	loff_t size;

	if (!folio_contains(folio, position >> PAGE_SHIFT) || !folio_test_uptodate(folio) ||
	    folio_test_readahead(folio))
		return 0;
	/* After the uptodate check, as in filemap_read(): truncated bytes are old or zero. */
	size = i_size_read(source->file->f_mapping->host);
	if (position >= size)
		return 0;
	bytes = min3((u64)(folio_size(folio) - offset), (u64)(size - position), want);
	while (added < bytes && source->end < WP_SOURCE_PIECES) {
		unsigned int some = min_t(size_t, bytes - added,
					  PAGE_SIZE - offset_in_page(offset));

		if (added)
			folio_get(folio);
		bvec_set_page(&source->pieces[source->end++],
			      folio_page(folio, offset >> PAGE_SHIFT), some,
			      offset_in_page(offset));
		added += some;
		offset += some;
	}
	source->available += added;
	folio_mark_accessed(folio);
	return added;
}

/* Adds cached, uptodate pages from @position on; returns their bytes. */
static size_t wp_source_fill_cached(struct wp_source *source, loff_t position, u64 want)
{
	pgoff_t index = position >> PAGE_SHIFT;
	unsigned int count, taken = 0;
	struct folio_batch folios;
	size_t filled = 0, some;

	folio_batch_init(&folios);
	count = filemap_get_folios_contig(source->file->f_mapping, &index,
					  (position + want - 1) >> PAGE_SHIFT, &folios);
	while (taken < count && source->end < WP_SOURCE_PIECES && filled < want) {
		some = wp_source_add_folio(source, folios.folios[taken], position + filled,
					   want - filled);
		if (!some)
			break;
		filled += some;
		taken++;
	}
	while (taken < count)
		folio_put(folios.folios[taken++]);
	if (filled)
		file_accessed(source->file);
	return filled;
}

/* fsnotify and I/O accounting, as sendfile() does. */
static void wp_source_account(const struct wp_source *source, ssize_t filled)
{
	if (filled > 0) {
		fsnotify_access(source->file);
		add_rchar(current, filled);
	}
	inc_syscr(current);
}

static int wp_source_fill_file(struct wp_source *source, u64 want, bool wait)
{
	struct splice_desc desc = {
		.total_len = want,
		.pos = source->position + source->available,
		.u.data = source,
	};
	unsigned int retries = WP_SOURCE_RETRIES;
	ssize_t filled;

	/*
	 * From 6.8 on splicing leaves this to its caller; before, it asks once
	 * more. First of all, since reading ahead is reading, too.
	 */
	filled = rw_verify_area(READ, source->file, &desc.pos, want);
	if (filled < 0)
		return filled;
	do {
		/* Asked once for both ways: asking has the pages read. */
		if (!wait && !source->present &&
		    wp_source_would_block(source, desc.pos, want))
			return -EAGAIN;
		filled = 0;
		if (wp_source_is_cached(source))
			filled = wp_source_fill_cached(source, desc.pos, want);
		/* Asking costs more than taking a page that is present. */
		if (!filled && source->present &&
		    wp_source_would_block(source, desc.pos, want))
			return -EAGAIN;
		if (!filled)
			filled = splice_direct_to_actor(source->file, &desc, wp_source_take);
	} while (filled == -AOP_TRUNCATED_PAGE && retries--);
	wp_source_account(source, filled);
	source->ended = !filled;
	return min_t(ssize_t, filled, 0);
}

/*
 * File systems answer what they like (FUSE: its server), and storage that it
 * cannot read a sector (ENODATA). To callers ENODATA is an end, and EAGAIN a
 * reason to call again.
 */
static int wp_source_error(int err, bool wait)
{
	bool misleads = err == -ENODATA || err == -AOP_TRUNCATED_PAGE ||
			(err == -EAGAIN && wait);

	return misleads ? -EIO : err;
}

static int wp_source_fill_memory(struct wp_source *source, u64 want)
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
	unsigned int used = source->end - source->first;

	if (source->ended || source->available >= want)
		return 0;
	if (used)
		memmove(source->pieces, source->pieces + source->first,
			used * sizeof(source->pieces[0]));
	source->first = 0;
	source->end = used;
	if (used == WP_SOURCE_PIECES) {
		int err = wp_source_gather(source);

		if (err)
			return err;
		used = source->end;
	}
	/* One page less than free pieces: the first and last may be partial. */
	want = min_t(u64, want - source->available,
		     max(1U, WP_SOURCE_PIECES - 1 - used) * PAGE_SIZE);
	if (source->file)
		return wp_source_error(wp_source_fill_file(source, want, wait), wait);
	return wp_source_fill_memory(source, want);
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
 * The run sends when its owner's memory is not at hand, so its pages are
 * pinned for as long as it lasts, and charged to RLIMIT_MEMLOCK.
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
