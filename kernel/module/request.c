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

/* As wp_request_read(), of a caller that knows more or less than this module. */
int wp_request_read_other(void *to, size_t size, size_t size_least,
			  const void __user *from, u32 size_theirs)
{
	if (size_theirs < size_least)
		return -EINVAL;
	if (size_theirs > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(to, size, from, size_theirs);
}
