// SPDX-License-Identifier: GPL-2.0
/*
 * Payload of files. splice_direct_to_actor() reads by the file system's splice_read, as
 * sendfile() does. This is right for all file systems (tmpfs, overlayfs, DAX,
 * network file systems that revalidate). On file systems whose splice_read is
 * known to take cached pages without more ado (wp_file_is_cached()), cached pages
 * are taken by filemap_get_folios_contig(). Both check i_size after the page is
 * uptodate, so a page that is truncated meanwhile gives old bytes, zeros, or nothing.
 * rw_verify_area() calls security modules and fsnotify before each read.
 */
#include <linux/backing-dev.h>
#include <linux/dcache.h>
#include <linux/fadvise.h>
#include <linux/fsnotify.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pagevec.h>
#include <linux/pipe_fs_i.h>
#include <linux/sched/xacct.h>
#include <linux/splice.h>
#include <linux/swap.h>

#include "compat.h"
#include "file.h"
#include "switches.h"

/* How often to read again what others took out of the file meanwhile. */
#define WP_FILE_RETRIES 16

/* The inode with the pages: of overlayfs, which has none, that of the file below. */
static struct inode *wp_file_inode(const struct wp_source *source)
{
	return d_real_inode(source->file->f_path.dentry);
}

/**
 * wp_file_is_stored() - Does reading give the same, whoever reads?
 * @source: the source
 *
 * Return: false for files of proc, sysfs and the like. Their content is made by
 * a function that may ask who the current task is, and need not be as long as
 * reading it takes. They have no pages, or those of ramfs that nobody reads:
 * so pages count, or DAX, on a file system with storage of its own, and tmpfs.
 */
bool wp_file_is_stored(const struct wp_source *source)
{
	const struct inode *inode;

	if (!source->file)
		return true;
	inode = wp_file_inode(source);
	if (inode->i_sb->s_magic == TMPFS_MAGIC || IS_DAX(inode))
		return true;
	return inode->i_mapping->a_ops->read_folio &&
	       (inode->i_sb->s_bdi != &noop_backing_dev_info ||
		inode->i_sb->s_magic == RAMFS_MAGIC);
}

/* Take what splice_read left in the task's internal pipe into the window. */
static int wp_file_take(struct pipe_inode_info *pipe, struct splice_desc *desc)
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
static bool wp_file_would_block(struct wp_source *source, loff_t from, u64 want)
{
	struct inode *inode = wp_file_inode(source);
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
static bool wp_file_is_cached(const struct wp_source *source)
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

/* Do the bytes of @folio from @offset on follow the window's last piece, which is of @folio? */
static bool wp_file_continues(const struct wp_source *source, struct folio *folio,
				size_t offset)
{
	const struct bio_vec *last;

	if (source->end == source->first)
		return false;
	last = &source->pieces[source->end - 1];
	return page_folio(last->bv_page) == folio &&
	       (folio_page_idx(folio, last->bv_page) << PAGE_SHIFT) + last->bv_offset +
	       last->bv_len == offset;
}

/*
 * Adds up to @want bytes of a large folio to the window, and takes over the caller's
 * reference of it: one piece, if it may be longer than a page, else one for each page.
 */
static size_t wp_file_add_pieces(struct wp_source *source, struct folio *folio,
				 size_t offset, u64 want)
{
	size_t bytes = min_t(u64, want, folio_size(folio) - offset), added = 0;

	if (source->joins) {
		source->joined = true;
		if (wp_file_continues(source, folio, offset)) {
			source->pieces[source->end - 1].bv_len += bytes;
			folio_put(folio);
		} else {
			bvec_set_page(&source->pieces[source->end++],
				      folio_page(folio, offset >> PAGE_SHIFT), bytes,
				      offset_in_page(offset));
		}
		return bytes;
	}
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
	return added;
}

/*
 * Adds the bytes of @folio from @position on, up to i_size, to the window, and takes over
 * the caller's reference. Returns the bytes added; 0, and the reference stays the
 * caller's, if there are none, or if splice_read must read here: the folio is not
 * uptodate, or marked for readahead.
 */
static size_t wp_file_add_folio(struct wp_source *source, struct folio *folio,
				loff_t position, u64 want)
{
	size_t added;
	loff_t size;

	if (!folio_contains(folio, position >> PAGE_SHIFT) || !folio_test_uptodate(folio) ||
	    folio_test_readahead(folio))
		return 0;
	/* After the uptodate check, as in filemap_read(): truncated bytes are old or zero. */
	size = i_size_read(source->file->f_mapping->host);
	if (position >= size)
		return 0;
	want = min_t(u64, want, size - position);
	if (folio_test_large(folio)) {
		added = wp_file_add_pieces(source, folio, offset_in_folio(folio, position), want);
	} else {
		added = min_t(u64, want, PAGE_SIZE - offset_in_page(position));
		bvec_set_page(&source->pieces[source->end++], &folio->page, added,
			      offset_in_page(position));
	}
	source->available += added;
	folio_mark_accessed(folio);
	return added;
}

/* Adds cached, uptodate pages from @position on; returns their bytes. */
static size_t wp_file_fill_cached(struct wp_source *source, loff_t position, u64 want)
{
	pgoff_t index = position >> PAGE_SHIFT;
	unsigned int count, taken = 0;
	struct folio_batch folios;
	size_t filled = 0, some;

	folio_batch_init(&folios);
	count = filemap_get_folios_contig(source->file->f_mapping, &index,
					  (position + want - 1) >> PAGE_SHIFT, &folios);
	while (taken < count && source->end < WP_SOURCE_PIECES && filled < want) {
		some = wp_file_add_folio(source, folios.folios[taken], position + filled,
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
static void wp_file_account(const struct wp_source *source, ssize_t filled)
{
	if (filled > 0) {
		fsnotify_access(source->file);
		add_rchar(current, filled);
	}
	inc_syscr(current);
}

static int wp_file_read(struct wp_source *source, u64 want, bool wait)
{
	struct splice_desc desc = {
		.total_len = want,
		.pos = source->position + source->available,
		.u.data = source,
	};
	unsigned int retries = WP_FILE_RETRIES;
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
		    wp_file_would_block(source, desc.pos, want))
			return -EAGAIN;
		filled = 0;
		if (wp_file_is_cached(source))
			filled = wp_file_fill_cached(source, desc.pos, want);
		/* Asking costs more than taking a page that is present. */
		if (!filled && source->present &&
		    wp_file_would_block(source, desc.pos, want))
			return -EAGAIN;
		if (filled)
			break;
		/* What it adds is counted by pieces. */
		wp_source_split(source);
		filled = splice_direct_to_actor(source->file, &desc, wp_file_take);
	} while (filled == -AOP_TRUNCATED_PAGE && retries--);
	wp_file_account(source, filled);
	source->ended = !filled;
	return min_t(ssize_t, filled, 0);
}

/*
 * File systems answer what they like (FUSE: its server), and storage that it
 * cannot read a sector (ENODATA). To callers ENODATA is an end, and EAGAIN a
 * reason to call again.
 */
static int wp_file_error(int err, bool wait)
{
	bool misleads = err == -ENODATA || err == -AOP_TRUNCATED_PAGE ||
			(err == -EAGAIN && wait);

	return misleads ? -EIO : err;
}

/**
 * wp_file_fill() - Read more of a file into the window.
 * @source: the source
 * @want: bytes at most
 * @wait: whether to wait for storage
 *
 * Return: as wp_source_fill().
 */
int wp_file_fill(struct wp_source *source, u64 want, bool wait)
{
	return wp_file_error(wp_file_read(source, want, wait), wait);
}
