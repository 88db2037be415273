/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_REQUEST_H
#define _WP_REQUEST_H

#include <linux/compiler.h>
#include <linux/ioctl.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <linux/uaccess.h>

#include "uapi/wirepath.h"

/* A request of the header, without the size of its structure. */
#define WP_REQUEST(request) ((request) & ~IOCSIZE_MASK)

/**
 * wp_request_is() - Is this the request?
 * @asked: as the caller gave it
 * @request: WIREPATH_*
 *
 * Return: true also for another size, as structures grow, and for the number
 * without direction and size, which the first header had.
 */
static inline bool wp_request_is(unsigned int asked, unsigned int request)
{
	return WP_REQUEST(asked) == WP_REQUEST(request) ||
	       asked == _IO(WIREPATH_IOC, _IOC_NR(request));
}

int wp_request_read_other(void *to, size_t size, size_t size_least,
			  const void __user *from, u32 size_theirs);

/**
 * wp_request_read() - Take a structure from the caller's memory.
 * @to: where to, @size bytes
 * @size: what this module knows
 * @size_least: what the first version had
 * @from: address in the caller's memory
 *
 * Inline, since a copy of a size that the compiler knows is not checked again.
 *
 * Return: 0, -EINVAL if shorter than ever published, -E2BIG if longer than
 * known and not zero there, -EFAULT.
 */
static __always_inline int wp_request_read(void *to, size_t size, size_t size_least,
					   const void __user *from)
{
	u32 size_theirs;

	if (get_user(size_theirs, (const u32 __user *)from))
		return -EFAULT;
	if (size_theirs == size)
		return copy_from_user(to, from, size) ? -EFAULT : 0;
	return wp_request_read_other(to, size, size_least, from, size_theirs);
}

/**
 * wp_request_write() - Give a structure back, as long as the caller's is.
 * @from: the structure, whose first field still is the caller's size
 * @size: what this module knows
 * @to: address in the caller's memory
 *
 * Return: 0 or -EFAULT.
 */
static __always_inline int wp_request_write(const void *from, size_t size, void __user *to)
{
	size_t size_theirs = *(const u32 *)from;

	if (size_theirs >= size)
		return copy_to_user(to, from, size) ? -EFAULT : 0;
	return copy_to_user(to, from, size_theirs) ? -EFAULT : 0;
}

#endif /* _WP_REQUEST_H */
