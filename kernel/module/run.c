// SPDX-License-Identifier: GPL-2.0
/*
 * A run is a SEND that goes by a schedule, with a descriptor of its own and a
 * thread that does it, see pacer.c. START takes along all that the thread needs
 * of the caller's memory. The run ends by itself, by STOP, or when its file is
 * closed; it is freed when both file and thread have let go of it.
 */
#include <linux/anon_inodes.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "counters.h"
#include "file.h"
#include "handler.h"
#include "pacer.h"
#include "request.h"
#include "run.h"
#include "send.h"
#include "switches.h"
#include "users.h"

static bool wp_run_going(struct wp_run *run)
{
	return READ_ONCE(run->status.state) == WIREPATH_RUN_GOING;
}

/* Tell others how far the run is. */
void wp_run_note(struct wp_run *run)
{
	const struct wp_send *send = run->send;
	const struct wirepath_rtp *rtp = &send->header.rtp.state;
	struct wirepath_status *status = &run->status;

	spin_lock(&run->lock);
	status->packets = send->packets;
	status->trains = send->trains;
	status->bytes = send->bytes;
	status->copied_bytes = send->sending.copied;
	status->lost_packets = send->lost_packets;
	status->dropped_packets = send->header.handling.dropped_packets;
	status->position = send->source.position;
	status->rtp_sequence = rtp->sequence;
	status->rtp_packets = rtp->packets;
	status->rtp_octets = rtp->octets;
	status->rtp_last_ns = rtp->last_ns;
	status->rtp_timestamp = rtp->timestamp;
	status->rtp_last_timestamp = rtp->last_timestamp;
	spin_unlock(&run->lock);
}

/* Let go of what sending needed. The caller is the thread, or there is none. */
static void wp_run_close(struct wp_run *run)
{
	if (!run->send)
		return;
	wp_send_close(run->send);
	run->send = NULL;
	wp_handler_put(run->handler);
	run->handler = NULL;
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
	if (run->thread)
		put_task_struct(run->thread);
	kfree(run);
}

static void wp_run_release_last(struct kref *references)
{
	wp_run_free(container_of(references, struct wp_run, references));
}

/* The last that its thread does: end the run and let go of it. */
void wp_run_finish(struct wp_run *run, u32 state, int error)
{
	wp_run_end(run, state, error);
	kref_put(&run->references, wp_run_release_last);
}

/* Stop it if it still goes, and wait for its last train. */
static int wp_run_stop(struct wp_run *run)
{
	wp_pacer_halt(run);
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

	if (wp_request_is(request, WIREPATH_STOP))
		return argument ? -EINVAL : wp_run_stop(run);
	if (wp_request_is(request, WIREPATH_WAIT)) {
		/* As wp_device_ioctl() does, see there. */
		if (wait_event_interruptible(run->ended, !wp_run_going(run)))
			return -ERESTARTNOHAND;
	} else if (!wp_request_is(request, WIREPATH_STATUS)) {
		return -ENOTTY;
	}
	return wp_run_status(run, (void __user *)argument);
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

	wp_pacer_halt(run);
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
	if (run->pinned.copied) {
		run->send->sending.copied = min_t(u64, request->length,
						  (u64)run->pinned.copied << PAGE_SHIFT);
		wp_count(WP_COPIED_BYTES, run->send->sending.copied);
	}
	run->send->source.pinned = &run->pinned;
	run->send->source.start = request->offset & PAGE_MASK;
	return err;
}

/* Find the handler that is asked for, if any. */
static int wp_run_find_handler(struct wp_run *run, const struct wirepath_start *start)
{
	char name[WIREPATH_HANDLER_NAME_BYTES];
	struct wp_handler *handler;
	long length;

	if (!start->handler)
		return 0;
	length = strncpy_from_user(name, u64_to_user_ptr(start->handler), sizeof(name));
	if (length < 0)
		return length;
	if (!length || length == sizeof(name))
		return -EINVAL;
	handler = wp_handler_get(name);
	if (IS_ERR(handler))
		return PTR_ERR(handler);
	run->handler = handler;
	run->send->header.handling.handler = handler;
	return 0;
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
	/* Its thread waits for storage, never for a socket's buffer. */
	run->send->sending.wait = false;
	run->send->wait = true;
	run->send->halting = &run->halting;
	err = wp_file_is_stored(&run->send->source) ? 0 : -EINVAL;
	if (!err)
		err = wp_run_find_handler(run, start);
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
	int fd, err;

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
	err = wp_pacer_start(run);
	if (err) {
		put_unused_fd(fd);
		fput(file);
		return err;
	}
	wp_count(WP_CALLS, 1);
	wp_count(WP_RUNS, 1);
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
