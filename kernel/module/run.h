/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _WP_RUN_H
#define _WP_RUN_H

#include <linux/kref.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "schedule.h"
#include "memory.h"
#include "uapi/wirepath.h"

/* Entries of a table of departures or timestamps of one run. */
#define WP_RUN_TABLE_MAX (1U << 20)
/* Bytes of headers that one run keeps. */
#define WP_RUN_HEADERS_MAX (16U << 20)

struct cred;
struct mem_cgroup;
struct task_struct;
struct wp_handler;
struct wp_send;
struct wp_user;

/*
 * A SEND that goes by a schedule. Its thread owns `send`, `schedule` and what
 * stands below them; `status` is what the thread tells others, under `lock`.
 */
struct wp_run {
	struct kref references;		/* of the file, and of the thread */
	struct task_struct *thread;	/* NULL before it is started */
	struct wp_send *send;		/* NULL once it has ended */
	struct wp_schedule schedule;
	struct wp_pinned pinned;
	void *headers;			/* the caller's, copied */
	void *table;			/* the RTP engine's, copied */
	const struct cred *cred;
	struct mem_cgroup *memcg;
	struct wp_handler *handler;	/* or NULL */
	struct wp_user *user;		/* counts it as one of its runs */
	u64 due_ns;			/* of the next train */
	u64 single_until_ns;		/* packets leave by themselves until then */
	bool refused;			/* the network refused the last train */
	spinlock_t lock;		/* for what follows */
	bool halting;
	struct wirepath_status status;
	wait_queue_head_t ended;
};

int wp_run_request(void __user *argument, bool wait);

void wp_run_note(struct wp_run *run);
void wp_run_finish(struct wp_run *run, u32 state, int error);

#endif /* _WP_RUN_H */
