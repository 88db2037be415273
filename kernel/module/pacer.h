/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_PACER_H
#define _WP_PACER_H

struct wp_run;

int wp_pacer_setup(void);
void wp_pacer_teardown(void);

int wp_pacer_start(struct wp_run *run);
void wp_pacer_halt(struct wp_run *run);

#endif /* _WP_PACER_H */
