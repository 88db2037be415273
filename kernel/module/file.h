/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_FILE_H
#define _WP_FILE_H

#include "source.h"

bool wp_file_is_stored(const struct wp_source *source);
int wp_file_fill(struct wp_source *source, u64 want, bool wait);

#endif /* _WP_FILE_H */
