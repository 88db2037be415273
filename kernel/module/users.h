/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_USERS_H
#define _WP_USERS_H

struct wp_user;

struct wp_user *wp_user_enter(void);
void wp_user_leave(struct wp_user *user);

#endif /* _WP_USERS_H */
