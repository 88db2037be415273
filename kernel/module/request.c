// SPDX-License-Identifier: GPL-2.0
/*
 * A request is a structure in the caller's memory that begins with its own
 * size, as that of clone3() does with an argument: an older caller's is
 * shorter and its tail counts as zero, a newer caller's is longer and may be
 * so where it is zero.
 */
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "request.h"

/**
 * wp_request_read() - Take a structure from the caller's memory.
 * @to: where to, @size bytes
 * @size: what this module knows
 * @size_least: what the first version had
 * @from: address in the caller's memory
 *
 * Return: 0, -EINVAL if shorter than ever published, -E2BIG if longer than
 * known and not zero there, -EFAULT.
 */
int wp_request_read(void *to, size_t size, size_t size_least,
		    const void __user *from)
{
	u32 size_theirs;

	if (get_user(size_theirs, (const u32 __user *)from))
		return -EFAULT;
	if (size_theirs < size_least)
		return -EINVAL;
	if (size_theirs > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(to, size, from, size_theirs);
}

/**
 * wp_request_write() - Give a structure back, as long as the caller's is.
 * @from: the structure, whose first field still is the caller's size
 * @size: what this module knows
 * @to: address in the caller's memory
 *
 * Return: 0 or -EFAULT.
 */
int wp_request_write(const void *from, size_t size, void __user *to)
{
	size_t size_theirs = *(const u32 *)from;

	return copy_to_user(to, from, min(size, size_theirs)) ? -EFAULT : 0;
}
