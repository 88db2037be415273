// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/wirepath: takes requests, by ioctl and by io_uring, and hands them to
 * what does them. An open descriptor has no state of its own, so closing it
 * at any time is harmless; the device and every run's descriptor hold the
 * module, so that it is unloaded only when none is open.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/skbuff.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "counters.h"
#include "handler.h"
#include "member.h"
#include "pacer.h"
#include "request.h"
#include "run.h"
#include "send.h"
#include "switches.h"
#include "uapi/wirepath.h"
#include "vector.h"

static int wp_query(void __user *argument)
{
	struct wirepath_query query;
	int err;

	err = wp_request_read(&query, sizeof(query), WIREPATH_QUERY_SIZE_VER1,
			      argument);
	if (err)
		return err;
	query = (struct wirepath_query){
		.size = query.size,
		.version = WIREPATH_VERSION,
		.features = wp_features(),
		.header_bytes_max = WIREPATH_HEADER_BYTES_MAX,
		.train_packets_max = WIREPATH_TRAIN_PACKETS_MAX,
		.fragments_max = wp_fragments_max(),
		.part_count_max = WIREPATH_PART_COUNT_MAX,
		.table_count_max = WP_RUN_TABLE_MAX,
		.run_packets_max = wp_run_packets_max,
		.pinned_bytes = (u64)atomic_long_read(&current_user()->locked_vm)
				<< PAGE_SHIFT,
	};
	return wp_request_write(&query, sizeof(query), argument);
}

static long wp_device_request(unsigned int request, void __user *argument,
			      bool wait)
{
	if (wp_request_is(request, WIREPATH_SEND))
		return wp_send_request(argument, wait);
	if (wp_request_is(request, WIREPATH_SENDFILEW))
		return wp_vector_request(argument, wait);
	if (wp_request_is(request, WIREPATH_START))
		return wp_run_request(argument, wait);
	if (wp_request_is(request, WIREPATH_QUERY))
		return wp_query(argument);
	return -ENOTTY;
}

/* Did waiting end because something is pending for the task? */
static bool wp_device_interrupted(long answer)
{
	switch (answer) {
	case -EINTR:
	case -ERESTARTSYS:
	case -ERESTARTNOINTR:
	case -ERESTARTNOHAND:
	case -ERESTART_RESTARTBLOCK:
		return true;
	default:
		return false;
	}
}

/*
 * EINTR, whatever the signal's handler says of restarting, so that its caller
 * gets to see what was sent. What is pending without a handler (a stop, a
 * frozen cgroup, the notices of an io_uring) has the kernel make the call anew,
 * which goes on, since the request's structure has been written back.
 */
static long wp_device_ioctl(struct file *file, unsigned int request,
			    unsigned long argument)
{
	long answer = wp_device_request(request, (void __user *)argument, true);

	if (!wp_device_interrupted(answer))
		return answer;
	return signal_pending(current) ? -ERESTARTNOHAND : -EINTR;
}

#if IS_ENABLED(CONFIG_IO_URING)
/* Both requests that send have their flags behind their size. */
static bool wp_command_dontwait(unsigned int request, const u32 __user *argument)
{
	u32 flags;

	if (!wp_request_is(request, WIREPATH_SEND) &&
	    !wp_request_is(request, WIREPATH_SENDFILEW))
		return false;
	return !get_user(flags, argument + 1) && (flags & WIREPATH_DONTWAIT);
}

/*
 * The ring's first try does not wait, and sends but so many trains. An answer
 * of -EAGAIN makes the ring
 * issue the command again from one of its workers, which may wait; the request's
 * structure has meanwhile been written back, so the worker goes on where the
 * first try stood. Nothing is kept here between the two, so there is nothing
 * to clean up when a ring goes away in between.
 */
static int wp_device_command(struct io_uring_cmd *command, unsigned int flags)
{
	const struct wirepath_command *bytes = wp_command_bytes(command);
	u64 address = READ_ONCE(bytes->argument);
	void __user *argument = u64_to_user_ptr(address);
	bool wait = !(flags & IO_URING_F_NONBLOCK);
	long answer;

	if (!wp_allow_uring)
		return -EOPNOTSUPP;
	if (READ_ONCE(bytes->reserved))
		return -EINVAL;
	answer = wp_device_request(command->cmd_op, argument, wait);
	if (answer == WP_TURN_OVER && !wait)
		return -EAGAIN;
	/*
	 * Of a worker -EAGAIN is the result; rings that poll would try for ever.
	 * And what is neither 0 nor an error, a descriptor, 6.1's worker loses.
	 */
	if (answer > 0 || (answer == -EAGAIN &&
			   (wait || wp_command_dontwait(command->cmd_op, argument)))) {
		wp_command_done(command, answer, flags);
		return -EIOCBQUEUED;
	}
	return wp_device_interrupted(answer) ? -EINTR : answer;
}
#endif

static const struct file_operations wp_device_operations = {
	.owner = THIS_MODULE,
	.open = nonseekable_open,
	.unlocked_ioctl = wp_device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
#if IS_ENABLED(CONFIG_IO_URING)
	.uring_cmd = wp_device_command,
#endif
};

static struct miscdevice wp_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "wirepath",
	.fops = &wp_device_operations,
	.groups = wp_counter_groups,
	.mode = 0660,	/* the group is given by udev, see 60-wirepath.rules */
};

static int __init wp_setup(void)
{
	int err;

	err = wp_member_setup() ?: wp_send_setup();
	if (err)
		return err;
	err = wp_handler_setup() ?: wp_pacer_setup();
	if (err)
		goto send;
	err = misc_register(&wp_device);
	if (err)
		goto pacer;
	return 0;

pacer:
	wp_pacer_teardown();
send:
	wp_send_teardown();
	return err;
}

static void __exit wp_teardown(void)
{
	misc_deregister(&wp_device);
	wp_pacer_teardown();
	wp_send_teardown();
}

module_init(wp_setup);
module_exit(wp_teardown);

MODULE_DESCRIPTION("Wirepath: from storage to the network in one call, by reference");
MODULE_AUTHOR("Wirepath contributors");
MODULE_LICENSE("GPL");
MODULE_VERSION(__stringify(WIREPATH_VERSION));
