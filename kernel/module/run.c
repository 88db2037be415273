// SPDX-License-Identifier: GPL-2.0
/*
 * A run is a SEND that goes by a schedule, with a descriptor of its own.
 *
 * Its timer is a high-resolution timer, which the kernel keeps by processor:
 * whoever is due at the same time is served by one interrupt. An interrupt
 * cannot send (that may sleep, and read files), so the timer queues the run's
 * work on its processor, in a workqueue of high priority where a run that
 * waits for storage does not keep the others. The work sends trains until
 * none is due, sets the timer for the next, and so stays on one processor.
 *
 * Who may touch what: `send`, `schedule` and the counts belong to whoever has
 * the run's turn, a reference of its own that goes from the work to the timer
 * and back, never to two at a time; `status` is what the turn's holder tells
 * others, under `lock`. The file has another reference. A run ends once, by
 * whoever holds the turn: the work by itself, or having seen `halting`; or
 * wp_run_halt(), when it took the turn from a timer or a work that waited.
 * It never waits for the work, which may itself wait for storage that does not
 * answer, as of a network or FUSE file system: closing must come to its end,
 * above all where the kernel closes for others. So a run can outlive its file,
 * and the turn holds the module; the queue is destroyed, and drained, before
 * the code of the work's return goes.
 *
 * The work acts as its starter: with its credentials, which security modules
 * ask for at each send and read, and in its memory cgroup, which the pages are
 * charged to that reading brings into the cache. The pipe that splicing makes
 * for a thread, once, stays with a thread of the kernel beyond the run: it counts
 * for the first user it works for, and has two pages instead of sixteen if that
 * user had too many pipes (pipe-user-pages-soft). Then the runs of others, too,
 * are read two pages at a time by that thread.
 */
#include <linux/anon_inodes.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "counters.h"
#include "request.h"
#include "run.h"
#include "schedule.h"
#include "send.h"
#include "switches.h"
#include "trace.h"
#include "users.h"

/* Trains that may be late one after the other, */
#define WP_RUN_TRAINS 64
/*
 * and how long the run rests then: its work has a high priority and is outside
 * of the starter's cgroup, so a run that the network never stops, as its rate
 * is beyond it, must leave the processor to others by itself.
 */
#define WP_RUN_REST_NS NSEC_PER_MSEC
/* How much later than asked the timer may fire, to serve several at once. */
#define WP_RUN_SLACK_NS (50 * NSEC_PER_USEC)
/* When to try again after the socket's buffer was full. */
#define WP_RUN_RETRY_NS (500 * NSEC_PER_USEC)
#define WP_RUN_LATE_NS NSEC_PER_MSEC

struct wp_run {
	struct kref references;		/* of the file, and of the turn */
	struct wp_send *send;		/* NULL once it has ended */
	struct wp_schedule schedule;
	struct wp_pinned pinned;
	void *headers;			/* the caller's, copied */
	void *table;			/* the RTP engine's, copied */
	const struct cred *cred;
	struct mem_cgroup *memcg;
	struct wp_user *user;		/* as one of whose runs it counts */
	struct hrtimer timer;
	struct work_struct work;
	u64 due_ns;			/* when the timer is to be set to */
	spinlock_t lock;		/* for what follows */
	bool halting;
	struct wirepath_status status;
	wait_queue_head_t ended;
};

/* What a step of a run comes to, if to no error. */
enum wp_run_outcome {
	WP_RUN_WAITS,			/* nothing is to be done before `due_ns` */
	WP_RUN_SENT,
	WP_RUN_DONE,			/* all was sent */
};

static struct workqueue_struct *wp_run_queue;

int wp_run_setup(void)
{
	/*
	 * As many at a time as there can be, as those that wait for storage
	 * count; and frozen with the tasks that feed such storage, not after.
	 */
	wp_run_queue = alloc_workqueue("wirepath",
				       WQ_HIGHPRI | WQ_FREEZABLE | WQ_PERCPU,
				       WQ_MAX_ACTIVE);
	return wp_run_queue ? 0 : -ENOMEM;
}

void wp_run_teardown(void)
{
	destroy_workqueue(wp_run_queue);
}

static bool wp_run_going(struct wp_run *run)
{
	return READ_ONCE(run->status.state) == WIREPATH_RUN_GOING;
}

/* Tell others how far the run is. */
static void wp_run_note(struct wp_run *run)
{
	const struct wp_send *send = run->send;
	const struct wirepath_rtp *rtp = &send->header.rtp.state;
	struct wirepath_status *status = &run->status;

	spin_lock(&run->lock);
	status->packets = send->packets;
	status->trains = send->trains;
	status->bytes = send->bytes;
	status->copied_bytes = send->sending.copied;
	status->position = send->source.position;
	status->rtp_sequence = rtp->sequence;
	status->rtp_packets = rtp->packets;
	status->rtp_octets = rtp->octets;
	status->rtp_last_ns = rtp->last_ns;
	status->rtp_timestamp = rtp->timestamp;
	status->rtp_last_timestamp = rtp->last_timestamp;
	spin_unlock(&run->lock);
}

/* Let go of what sending needed. The caller has the turn, or nobody has. */
static void wp_run_close(struct wp_run *run)
{
	if (!run->send)
		return;
	wp_send_close(run->send);
	run->send = NULL;
	wp_pinned_release(&run->pinned);
	wp_schedule_close(&run->schedule);
	kvfree(run->headers);
	kvfree(run->table);
	run->headers = NULL;
	run->table = NULL;
	wp_user_leave(run->user);
}

static void wp_run_end(struct wp_run *run, u32 state, int error)
{
	wp_run_close(run);
	spin_lock(&run->lock);
	run->status.error = error;
	WRITE_ONCE(run->status.state, state);
	spin_unlock(&run->lock);
	wake_up_all(&run->ended);
}

static void wp_run_free(struct wp_run *run)
{
	wp_run_close(run);
	mem_cgroup_put(run->memcg);
	put_cred(run->cred);
	kfree(run);
}

static void wp_run_release_last(struct kref *references)
{
	wp_run_free(container_of(references, struct wp_run, references));
}

/* The last turn: end the run and let go of it. */
static void wp_run_finish(struct wp_run *run, u32 state, int error)
{
	wp_run_end(run, state, error);
	kref_put(&run->references, wp_run_release_last);
	module_put(THIS_MODULE);
}

/* Give the turn to the timer; false if it may not be set any more. */
static bool wp_run_set_timer(struct wp_run *run)
{
	bool set;

	spin_lock(&run->lock);
	set = !run->halting;
	if (set)
		hrtimer_start_range_ns(&run->timer, ns_to_ktime(run->due_ns),
				       WP_RUN_SLACK_NS, HRTIMER_MODE_ABS);
	spin_unlock(&run->lock);
	return set;
}

static enum hrtimer_restart wp_run_due(struct hrtimer *timer)
{
	struct wp_run *run = container_of(timer, struct wp_run, timer);

	queue_work(wp_run_queue, &run->work);
	return HRTIMER_NORESTART;
}

static void wp_run_note_departure(struct wp_run *run, u64 now, u64 due)
{
	u64 late = now > due ? now - due : 0;

	if (!wp_schedule_begins(&run->schedule))
		return;
	spin_lock(&run->lock);
	run->status.lateness_max_ns = max(run->status.lateness_max_ns, late);
	run->status.late += late > WP_RUN_LATE_NS;
	spin_unlock(&run->lock);
	if (late > WP_RUN_LATE_NS)
		wp_count(WP_LATE, 1);
}

/* Send one train if it is due and @may_send: a wp_run_step, or the run's error. */
static int wp_run_step(struct wp_run *run, bool may_send)
{
	struct wp_send *send = run->send;
	u64 now = ktime_get_ns(), due;
	u32 packets_max;
	int sent;

	if (!wp_schedule_next(&run->schedule,
			      send->bytes + send->packets * send->header.bytes,
			      &due, &packets_max))
		return wp_send_remains(send) ?: WP_RUN_DONE;
	if (due > now) {
		run->due_ns = due;
		return WP_RUN_WAITS;
	}
	if (!may_send) {
		run->due_ns = now + WP_RUN_REST_NS;
		return WP_RUN_WAITS;
	}
	if (send->packets >= wp_run_packets_max)
		return -E2BIG;
	sent = wp_send_train(send, packets_max);
	trace_wirepath_departure(run, max(sent, 0), now - due, sent);
	if (sent == -EAGAIN) {
		spin_lock(&run->lock);
		run->status.full++;
		spin_unlock(&run->lock);
		run->due_ns = now + WP_RUN_RETRY_NS;
		return WP_RUN_WAITS;
	}
	if (sent <= 0)
		return sent ?: WP_RUN_DONE;
	wp_run_note_departure(run, now, due);
	wp_schedule_sent(&run->schedule, sent);
	wp_run_note(run);
	/* Do not wait for a time at which nothing is left to be sent. */
	return wp_send_done(send) ? WP_RUN_DONE : WP_RUN_SENT;
}

static void wp_run_work(struct work_struct *work)
{
	struct wp_run *run = container_of(work, struct wp_run, work);
	const struct cred *cred = override_creds(run->cred);
	struct mem_cgroup *memcg = set_active_memcg(run->memcg);
	int trains, step = WP_RUN_SENT;
	bool halting;

	for (trains = 0; step == WP_RUN_SENT && !READ_ONCE(run->halting); trains++)
		step = wp_run_step(run, trains < WP_RUN_TRAINS);
	set_active_memcg(memcg);
	revert_creds(cred);
	/* Whoever takes the turn may free the run: nothing is touched after. */
	halting = READ_ONCE(run->halting);
	if (step == WP_RUN_DONE || (step < 0 && !(halting && step == -EINTR)))
		wp_run_finish(run, WIREPATH_RUN_ENDED, step < 0 ? -step : 0);
	else if (halting || !wp_run_set_timer(run))
		wp_run_finish(run, WIREPATH_RUN_STOPPED, 0);
}

/*
 * Have it end, without waiting. Once `halting` is set, the turn is with the
 * timer, or with the work in its queue, and then it is taken and the run ended
 * here; or the work has it and ends the run.
 */
static void wp_run_halt(struct wp_run *run)
{
	spin_lock(&run->lock);
	WRITE_ONCE(run->halting, true);
	spin_unlock(&run->lock);
	if (hrtimer_cancel(&run->timer) || cancel_work(&run->work))
		wp_run_finish(run, WIREPATH_RUN_STOPPED, 0);
}

/* Stop it if it still goes, and wait for its last train. */
static int wp_run_stop(struct wp_run *run)
{
	wp_run_halt(run);
	return wait_event_killable(run->ended, !wp_run_going(run)) ? -EINTR : 0;
}

static int wp_run_status(struct wp_run *run, void __user *argument)
{
	struct wirepath_status status;
	u32 size;
	int err;

	err = wp_request_read(&status, sizeof(status), WIREPATH_STATUS_SIZE_VER1,
			      argument);
	if (err)
		return err;
	size = status.size;
	spin_lock(&run->lock);
	status = run->status;
	spin_unlock(&run->lock);
	status.size = size;
	return wp_request_write(&status, sizeof(status), argument);
}

static long wp_run_ioctl(struct file *file, unsigned int request,
			 unsigned long argument)
{
	struct wp_run *run = file->private_data;

	switch (request) {
	case WIREPATH_WAIT:
		/* As wp_device_ioctl() does, see there. */
		if (wait_event_interruptible(run->ended, !wp_run_going(run)))
			return -ERESTARTNOHAND;
		fallthrough;
	case WIREPATH_STATUS:
		return wp_run_status(run, (void __user *)argument);
	case WIREPATH_STOP:
		if (argument)
			return -EINVAL;
		return wp_run_stop(run);
	default:
		return -ENOTTY;
	}
}

static __poll_t wp_run_poll(struct file *file, struct poll_table_struct *table)
{
	struct wp_run *run = file->private_data;

	poll_wait(file, &run->ended, table);
	return wp_run_going(run) ? 0 : EPOLLIN | EPOLLRDNORM;
}

static int wp_run_release(struct inode *inode, struct file *file)
{
	struct wp_run *run = file->private_data;

	wp_run_halt(run);
	kref_put(&run->references, wp_run_release_last);
	return 0;
}

static const struct file_operations wp_run_operations = {
	.owner = THIS_MODULE,
	.release = wp_run_release,
	.poll = wp_run_poll,
	.unlocked_ioctl = wp_run_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

/* The caller's headers, one for each packet, of which we must know how many. */
static int wp_run_keep_headers(struct wp_run *run,
			       const struct wirepath_send *request)
{
	u64 packets = 1;

	if (request->length == WIREPATH_TO_END)
		return -EINVAL;
	if (wp_send_done(run->send))
		return 0;
	/* What is passed over before a packet that does not come, counts for none. */
	if (request->packet_bytes)
		packets = DIV_ROUND_UP_ULL(request->length - request->skip_bytes,
					   request->packet_bytes + request->skip_bytes);
	run->headers = wp_schedule_copy(request->header, packets,
					request->header_bytes,
					WP_RUN_HEADERS_MAX / request->header_bytes);
	if (IS_ERR(run->headers)) {
		int err = PTR_ERR(run->headers);

		run->headers = NULL;
		return err;
	}
	run->send->header.kept = run->headers;
	return 0;
}

static int wp_run_keep_table(struct wp_run *run, const struct wirepath_rtp *rtp)
{
	if (!rtp->table || !rtp->table_count)
		return 0;
	run->table = wp_schedule_copy(rtp->table, rtp->table_count,
				      sizeof(struct wirepath_rtp_time),
				      WP_RUN_TABLE_MAX);
	if (IS_ERR(run->table)) {
		int err = PTR_ERR(run->table);

		run->table = NULL;
		return err;
	}
	run->send->header.rtp.table = run->table;
	return 0;
}

/* Take along all that is in the caller's memory. */
static int wp_run_keep(struct wp_run *run, const struct wirepath_send *request,
		       const struct wirepath_rtp *rtp)
{
	int err = 0;

	if (request->header_kind == WIREPATH_HEADER_GIVEN)
		err = wp_run_keep_headers(run, request);
	else if (request->header_kind == WIREPATH_HEADER_RTP)
		err = wp_run_keep_table(run, rtp);
	if (err || request->file != -1 || !request->length)
		return err;
	err = wp_pinned_take(&run->pinned, request->offset, request->length);
	run->send->source.pinned = &run->pinned;
	run->send->source.start = request->offset & PAGE_MASK;
	return err;
}

static struct wp_run *wp_run_open(const struct wirepath_start *start,
				  const struct wirepath_send *request,
				  const struct wirepath_rtp *rtp)
{
	struct wp_run *run = kzalloc(sizeof(*run), GFP_KERNEL_ACCOUNT);
	int err;

	if (!run)
		return ERR_PTR(-ENOMEM);
	run->user = wp_user_enter();
	if (IS_ERR(run->user)) {
		err = PTR_ERR(run->user);
		goto free;
	}
	run->send = wp_send_open(request, rtp, true);
	if (IS_ERR(run->send)) {
		err = PTR_ERR(run->send);
		goto leave;
	}
	run->cred = get_current_cred();
	run->memcg = get_mem_cgroup_from_mm(current->mm);
	kref_init(&run->references);
	spin_lock_init(&run->lock);
	init_waitqueue_head(&run->ended);
	wp_timer_setup(&run->timer, wp_run_due);
	INIT_WORK(&run->work, wp_run_work);
	/* Its work waits for storage, never for a socket's buffer. */
	run->send->sending.wait = false;
	run->send->wait = true;
	run->send->halting = &run->halting;
	err = wp_source_is_stored(&run->send->source) ? 0 : -EINVAL;
	if (!err)
		err = wp_schedule_open(&run->schedule, start);
	if (!err)
		err = wp_run_keep(run, request, rtp);
	if (err) {
		wp_run_free(run);
		return ERR_PTR(err);
	}
	wp_run_note(run);
	return run;

leave:
	wp_user_leave(run->user);
free:
	kfree(run);
	return ERR_PTR(err);
}

static int wp_run_publish(struct wp_run *run)
{
	struct file *file;
	int fd;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0) {
		wp_run_free(run);
		return fd;
	}
	file = anon_inode_getfile("[wirepath-run]", &wp_run_operations, run, O_RDWR);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		wp_run_free(run);
		return PTR_ERR(file);
	}
	wp_count(WP_CALLS, 1);
	wp_count(WP_RUNS, 1);
	/* First the work, then the descriptor: another thread may close it. */
	kref_get(&run->references);
	__module_get(THIS_MODULE);
	queue_work(wp_run_queue, &run->work);
	fd_install(fd, file);
	return fd;
}

/**
 * wp_run_request() - Answer WIREPATH_START.
 * @argument: struct wirepath_start in the caller's memory
 * @wait: false to return -EAGAIN, as copying and pinning may take long
 *
 * Return: a descriptor, or as the protocol's prose says.
 */
int wp_run_request(void __user *argument, bool wait)
{
	struct wirepath_start start;
	struct wirepath_send request;
	struct wirepath_rtp rtp;
	struct wp_run *run;
	int err;

	if (!wp_allow_runs)
		return -EOPNOTSUPP;
	if (!wait)
		return -EAGAIN;
	err = wp_request_read(&start, sizeof(start), WIREPATH_START_SIZE_VER1,
			      argument);
	if (err)
		return err;
	if (start.flags || start.reserved)
		return -EINVAL;
	err = wp_send_read(&request, &rtp, u64_to_user_ptr(start.send));
	if (err)
		return err;
	run = wp_run_open(&start, &request, &rtp);
	if (IS_ERR(run))
		return PTR_ERR(run);
	return wp_run_publish(run);
}
