/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_MEMBER_H
#define _WP_MEMBER_H

#include <linux/types.h>

extern bool wp_member_lists;	/* does this kernel cut lists right? */

int wp_member_setup(void);

#endif /* _WP_MEMBER_H */
