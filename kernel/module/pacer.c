// SPDX-License-Identifier: GPL-2.0
/*
 * The thread of a run: it sends what is due, one train after the other, and
 * sleeps until the next is.
 *
 * The thread is on its starter's account: in all cgroups of the starter, so that
 * limits of processor time, memory and storage hold for it; with the starter's
 * niceness and policy (SCHED_BATCH, SCHED_IDLE; never a real-time one), on the
 * starter's processors, and with the starter's credentials, for which security
 * modules ask at each send and read. Runs beyond what the network
 * takes cost other tasks no more than as many threads of the starter would.
 *
 * The thread is not frozen while the machine sleeps: a run that waits for
 * storage, as of a FUSE server that is frozen, could not be, and would keep the
 * machine from sleeping. No train begins from before tasks are frozen until they
 * go on.
 *
 * A run survives what a loop around send() would: see wp_pacer_refused().
 */
#include <linux/cgroup.h>
#include <linux/completion.h>
#include <linux/cred.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/suspend.h>
#include <uapi/linux/sched/types.h>

#include "counters.h"
#include "pacer.h"
#include "run.h"
#include "send.h"
#include "switches.h"
#include "trace.h"

/* Slack of the timer, which may serve several runs at once. */
#define WP_PACER_SLACK_NS (50 * NSEC_PER_USEC)
/* Time until the next try after a buffer was full, or memory short. */
#define WP_PACER_RETRY_NS (500 * NSEC_PER_USEC)
/* Time for which packets leave by themselves after a train was refused. */
#define WP_PACER_SINGLE_NS NSEC_PER_SEC
#define WP_PACER_LATE_NS NSEC_PER_MSEC

/* Outcomes of a step without an error. */
enum wp_pacer_outcome {
	WP_PACER_WAITS,			/* the next step is at `due_ns` */
	WP_PACER_GOES,			/* the next step is at once */
	WP_PACER_DONE,			/* all was sent */
};

/* A thread's start, as its starter waits for it. */
struct wp_pacer_start {
	struct wp_run *run;
	struct task_struct *starter;
	struct completion placed;
	int err;
};

static bool wp_pacer_asleep;
static DECLARE_WAIT_QUEUE_HEAD(wp_pacer_awake);

static int wp_pacer_power(struct notifier_block *block, unsigned long event, void *data)
{
	switch (event) {
	case PM_HIBERNATION_PREPARE:
	case PM_SUSPEND_PREPARE:
	case PM_RESTORE_PREPARE:
		WRITE_ONCE(wp_pacer_asleep, true);
		break;
	case PM_POST_HIBERNATION:
	case PM_POST_SUSPEND:
	case PM_POST_RESTORE:
		WRITE_ONCE(wp_pacer_asleep, false);
		wake_up_all(&wp_pacer_awake);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block wp_pacer_notifier = { .notifier_call = wp_pacer_power };

int wp_pacer_setup(void)
{
	return register_pm_notifier(&wp_pacer_notifier);
}

/* Each thread holds the module: none is left. */
void wp_pacer_teardown(void)
{
	unregister_pm_notifier(&wp_pacer_notifier);
}

static void wp_pacer_note_departure(struct wp_run *run, u64 now, u64 due)
{
	u64 late = now > due ? now - due : 0;

	if (!wp_schedule_begins(&run->schedule))
		return;
	spin_lock(&run->lock);
	run->status.lateness_max_ns = max(run->status.lateness_max_ns, late);
	run->status.late += late > WP_PACER_LATE_NS;
	spin_unlock(&run->lock);
	if (late > WP_PACER_LATE_NS)
		wp_count(WP_LATE, 1);
}

static void wp_pacer_note_error(struct wp_run *run, int err)
{
	spin_lock(&run->lock);
	run->status.errors++;
	run->status.last_error = -err;
	spin_unlock(&run->lock);
}

static int wp_pacer_wait(struct wp_run *run, u64 now)
{
	run->due_ns = now + WP_PACER_RETRY_NS;
	return WP_PACER_WAITS;
}

/* @packets are over, sent or not. */
static int wp_pacer_passed(struct wp_run *run, int packets)
{
	run->refused = false;
	wp_schedule_sent(&run->schedule, packets);
	wp_run_note(run);
	/* Do not wait for a time at which nothing is left to be sent. */
	return wp_send_done(run->send) ? WP_PACER_DONE : WP_PACER_GOES;
}

/* The packet is lost, as by the network. */
static int wp_pacer_lose(struct wp_run *run)
{
	int lost = wp_send_lose(run->send);

	return lost > 0 ? wp_pacer_passed(run, lost) : lost ?: WP_PACER_DONE;
}

/*
 * The network refused a train. A full buffer or short memory: it is tried again
 * later. The answer to an earlier packet (ICMP, of which EACCES is one for IPv6),
 * which the socket tells instead of sending: the next packet is tried at once. A
 * train that is too long for the path by now, or that the device cannot cut: its
 * packets are tried by themselves for a while, as IP cuts those. A packet that
 * is refused again is lost. All else ends the run.
 */
static int wp_pacer_refused(struct wp_run *run, int err, u64 now)
{
	bool is_train = run->send->refused_packets > 1;

	switch (err) {
	case -EAGAIN:
		spin_lock(&run->lock);
		run->status.full++;
		spin_unlock(&run->lock);
		return wp_pacer_wait(run, now);
	case -ENOBUFS:
	case -ENOMEM:
		wp_pacer_note_error(run, err);
		return wp_pacer_wait(run, now);
	case -EINVAL:
	case -EIO:
		if (!is_train)
			return err;
		fallthrough;
	case -EMSGSIZE:
		if (is_train)
			run->single_until_ns = now + WP_PACER_SINGLE_NS;
		fallthrough;
	case -EACCES:
	case -ECONNREFUSED:
	case -EHOSTDOWN:
	case -EHOSTUNREACH:
	case -ENETDOWN:
	case -ENETUNREACH:
	case -ENONET:
	case -ENOPROTOOPT:
	case -EOPNOTSUPP:
	case -EPERM:
	case -EPROTO:
		wp_pacer_note_error(run, err);
		if (run->refused && !is_train)
			return wp_pacer_lose(run);
		run->refused = true;
		return WP_PACER_GOES;
	default:
		return err;
	}
}

/* Send one train if it is due: a wp_pacer_outcome, or the run's error. */
static int wp_pacer_step(struct wp_run *run)
{
	struct wp_send *send = run->send;
	u64 now = ktime_get_ns(), due;
	u32 packets_max;
	int sent;

	if (!wp_schedule_next(&run->schedule, send->passed_bytes, &due, &packets_max))
		return wp_send_remains(send) ?: WP_PACER_DONE;
	if (due > now) {
		run->due_ns = due;
		return WP_PACER_WAITS;
	}
	if (send->passed_packets >= wp_run_packets_max)
		return -E2BIG;
	if (run->refused || now < run->single_until_ns)
		packets_max = 1;
	sent = wp_send_train(send, packets_max);
	trace_wirepath_departure(run, max(sent, 0), now - due, sent);
	if (sent < 0 && send->refused_packets)
		return wp_pacer_refused(run, sent, now);
	if (sent <= 0)
		return sent ?: WP_PACER_DONE;
	wp_pacer_note_departure(run, now, due);
	return wp_pacer_passed(run, sent);
}

static void wp_pacer_sleep(const struct wp_run *run)
{
	ktime_t due = ns_to_ktime(run->due_ns);

	set_current_state(TASK_IDLE);
	if (!READ_ONCE(run->halting))
		schedule_hrtimeout_range(&due, WP_PACER_SLACK_NS, HRTIMER_MODE_ABS);
	__set_current_state(TASK_RUNNING);
}

/* Join the starter, which waits meanwhile and so is where it was. */
static int wp_pacer_place(struct task_struct *starter)
{
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_NORMAL,
		.sched_nice = task_nice(starter),
	};
	int err = 0;

	if (starter->policy == SCHED_BATCH || starter->policy == SCHED_IDLE)
		attr.sched_policy = starter->policy;
#ifdef CONFIG_CGROUPS
	/* One set has all cgroups of a task. To be moved takes a grace period. */
	if (rcu_access_pointer(current->cgroups) != rcu_access_pointer(starter->cgroups))
		err = cgroup_attach_task_all(starter, current);
#endif
	err = err ?: set_cpus_allowed_ptr(current, starter->cpus_ptr);
	/* Last: with SCHED_IDLE, the locks of the above could be held for long. */
	return err ?: sched_setattr_nocheck(current, &attr);
}

static int wp_pacer_go(struct wp_run *run)
{
	int step = WP_PACER_GOES;

	while (step == WP_PACER_GOES || step == WP_PACER_WAITS) {
		if (step == WP_PACER_WAITS)
			wp_pacer_sleep(run);
		else
			cond_resched();
		wait_event_idle(wp_pacer_awake,
				!READ_ONCE(wp_pacer_asleep) || READ_ONCE(run->halting));
		if (READ_ONCE(run->halting))
			return -EINTR;
		step = wp_pacer_step(run);
	}
	return step < 0 ? step : 0;
}

static int wp_pacer_thread(void *argument)
{
	struct wp_pacer_start *start = argument;
	struct wp_run *run = start->run;
	const struct cred *cred = override_creds(run->cred);
	struct mem_cgroup *memcg = set_active_memcg(run->memcg);
	int err = wp_pacer_place(start->starter);

	start->err = err;
	/* The starter goes on, and with it `start`, which is on its stack. */
	complete(&start->placed);
	if (!err)
		err = wp_pacer_go(run);
	set_active_memcg(memcg);
	revert_creds(cred);
	if (err == -EINTR && READ_ONCE(run->halting))
		wp_run_finish(run, WIREPATH_RUN_STOPPED, 0);
	else
		wp_run_finish(run, WIREPATH_RUN_ENDED, -err);
	module_put_and_kthread_exit(0);
}

/**
 * wp_pacer_start() - Have a run go.
 * @run: the run; its thread gets a reference, and holds the module
 *
 * Return: 0; -ENOMEM, or what the starter's cgroups answer, and then the run
 * has sent nothing.
 */
int wp_pacer_start(struct wp_run *run)
{
	struct wp_pacer_start start = { .run = run, .starter = current };
	struct task_struct *thread;

	init_completion(&start.placed);
	thread = kthread_create(wp_pacer_thread, &start, "wirepath/%d", task_tgid_nr(current));
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	run->thread = get_task_struct(thread);
	kref_get(&run->references);
	__module_get(THIS_MODULE);
	wake_up_process(thread);
	wait_for_completion(&start.placed);
	return start.err;
}

/*
 * Have a run end, without waiting for it: its thread may wait for storage that
 * does not answer, and closing must not, above all where the kernel closes for
 * others. So a run can outlive its file.
 */
void wp_pacer_halt(struct wp_run *run)
{
	spin_lock(&run->lock);
	WRITE_ONCE(run->halting, true);
	spin_unlock(&run->lock);
	if (run->thread)
		wake_up_process(run->thread);
}
