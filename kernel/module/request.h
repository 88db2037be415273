/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_REQUEST_H
#define _WP_REQUEST_H

#include <linux/types.h>
#include <linux/compiler.h>

int wp_request_read(void *to, size_t size, size_t size_least,
		    const void __user *from);
int wp_request_write(const void *from, size_t size, void __user *to);

#endif /* _WP_REQUEST_H */
