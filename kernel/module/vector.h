/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_VECTOR_H
#define _WP_VECTOR_H

#include <linux/types.h>

int wp_vector_request(void __user *argument, bool wait);

#endif /* _WP_VECTOR_H */
