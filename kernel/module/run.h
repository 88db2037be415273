/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_RUN_H
#define _WP_RUN_H

#include <linux/types.h>

/* Entries of a run's tables: 16 MiB of memory each. */
#define WP_RUN_TABLE_MAX (1024 * 1024)
#define WP_RUN_HEADERS_MAX (16 * 1024 * 1024)

int wp_run_setup(void);
void wp_run_teardown(void);
int wp_run_request(void __user *argument, bool wait);

#endif /* _WP_RUN_H */
