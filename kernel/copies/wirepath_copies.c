// SPDX-License-Identifier: GPL-2.0
/*
 * Counts copies: how often one thread makes the kernel copy what it sends or
 * reads, and how many bytes, by probes on the functions that copy.
 *
 * The kernel's own probe events (kprobe_events) refuse these functions: they
 * are in lib/, which is built without the tracer's hooks. A probe set by a
 * module needs no hook.
 *
 * /dev/wirepath_copies, for root, one opener at a time:
 *
 *   write  a number in decimal: forget what was counted, and count for the
 *          writing thread from now on, copies of exactly so many bytes apart
 *   read   what was counted until now, a line for each function that this
 *          kernel has:
 *
 *              FUNCTION CALLS BYTES CALLS-OF-THAT-LENGTH MISSED
 *
 *          MISSED: calls of any thread that the kernel could not probe. With
 *          others than 0 the counts of the line are too low, or may be.
 *   close  count no more
 *
 * A call that copies nothing is none. No function of the list calls another
 * one.
 */
#include <linux/atomic.h>
#include <linux/kprobes.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

struct copier {
	struct kprobe kprobe;
	unsigned int length;	/* which argument says how many bytes, from 0 */
	unsigned int iter;	/* which one is an iterator, that may have less */
	bool there;		/* whether this kernel has it */
	u64 calls;
	u64 bytes;
	u64 of_length;
	unsigned long missed_before;
};

static int copier_hit(struct kprobe *kprobe, struct pt_regs *regs);

#define COPIER(name, length_argument, iter_argument) \
	{ .kprobe = { .symbol_name = name, .pre_handler = copier_hit }, \
	  .length = length_argument, .iter = iter_argument }

static struct copier copiers[] = {
	COPIER("_copy_from_iter", 1, 2),	/* what a send takes */
	COPIER("_copy_to_iter", 1, 2),		/* what a read gives */
	COPIER("_copy_from_iter_nocache", 1, 2),
	COPIER("csum_and_copy_from_iter", 1, 3),	/* and sums, until 6.6 */
	COPIER("csum_and_copy_from_iter_full", 1, 3),	/* and since */
	COPIER("skb_copy_bits", 3, 0),		/* out of a packet */
	COPIER("skb_copy_and_csum_bits", 3, 0),
	COPIER("_copy_from_user", 2, 0),	/* requests and headers */
};

/* One opener at a time, and who is counted: that thread, held by a reference. */
static atomic_t opened;
static DEFINE_MUTEX(counting);
static struct task_struct *counted;
static u32 length_apart;

/*
 * Only the counted thread changes a count, on the processor it is on, and
 * what interrupts it there: but a probe that is hit inside of this handler
 * is missed, and counted as such by the kernel.
 */
static int copier_hit(struct kprobe *kprobe, struct pt_regs *regs)
{
	struct copier *copier = container_of(kprobe, struct copier, kprobe);
	u32 bytes;

	if (current != READ_ONCE(counted))
		return 0;
	bytes = regs_get_kernel_argument(regs, copier->length);
	if (copier->iter) {
		const struct iov_iter *iter;

		iter = (void *)regs_get_kernel_argument(regs, copier->iter);
		bytes = min_t(size_t, bytes, iov_iter_count(iter));
	}
	if (!bytes)
		return 0;
	copier->calls++;
	copier->bytes += bytes;
	copier->of_length += bytes == length_apart;
	return 0;
}

NOKPROBE_SYMBOL(copier_hit);

/* Changes who is counted, to nobody or to the caller. */
static void count_for(struct task_struct *task)
{
	struct task_struct *before = counted;

	WRITE_ONCE(counted, task);
	if (!before)
		return;
	/* Handlers run with preemption off: none compares with it any more. */
	synchronize_rcu();
	put_task_struct(before);
}

static ssize_t copies_write(struct file *file, const char __user *buffer,
			    size_t size, loff_t *offset)
{
	struct copier *copier;
	u32 apart;
	int err;

	err = kstrtou32_from_user(buffer, size, 10, &apart);
	if (err)
		return err;
	mutex_lock(&counting);
	count_for(NULL);
	for (copier = copiers; copier < copiers + ARRAY_SIZE(copiers); copier++) {
		copier->calls = 0;
		copier->bytes = 0;
		copier->of_length = 0;
		copier->missed_before = copier->kprobe.nmissed;
	}
	length_apart = apart;
	count_for(get_task_struct(current));
	mutex_unlock(&counting);
	return size;
}

static int copies_show(struct seq_file *seq, void *unused)
{
	const struct copier *copier;

	mutex_lock(&counting);
	for (copier = copiers; copier < copiers + ARRAY_SIZE(copiers); copier++) {
		if (copier->there)
			seq_printf(seq, "%s %llu %llu %llu %lu\n",
				   copier->kprobe.symbol_name, copier->calls,
				   copier->bytes, copier->of_length,
				   copier->kprobe.nmissed - copier->missed_before);
	}
	mutex_unlock(&counting);
	return 0;
}

/* A probe that is hit costs hundreds of instructions, whoever copies. */
static void disable_probes(void)
{
	struct copier *copier;

	for (copier = copiers; copier < copiers + ARRAY_SIZE(copiers); copier++) {
		if (copier->there)
			disable_kprobe(&copier->kprobe);
	}
}

static int enable_probes(void)
{
	struct copier *copier;
	int err = 0;

	for (copier = copiers; !err && copier < copiers + ARRAY_SIZE(copiers); copier++) {
		if (copier->there)
			err = enable_kprobe(&copier->kprobe);
	}
	if (err)
		disable_probes();
	return err;
}

static int copies_open(struct inode *inode, struct file *file)
{
	int err;

	if (atomic_cmpxchg(&opened, 0, 1))
		return -EBUSY;
	/* The device, which seq_file would take for a seq_file opened twice. */
	file->private_data = NULL;
	err = enable_probes();
	if (err)
		goto close;
	err = single_open(file, copies_show, NULL);
	if (err)
		goto disable;
	return 0;

disable:
	disable_probes();
close:
	atomic_set(&opened, 0);
	return err;
}

static int copies_release(struct inode *inode, struct file *file)
{
	mutex_lock(&counting);
	count_for(NULL);
	mutex_unlock(&counting);
	disable_probes();
	atomic_set(&opened, 0);
	return single_release(inode, file);
}

static const struct file_operations copies_operations = {
	.owner = THIS_MODULE,
	.open = copies_open,
	.release = copies_release,
	.read = seq_read,
	.write = copies_write,
	.llseek = seq_lseek,
};

static struct miscdevice copies_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "wirepath_copies",
	.fops = &copies_operations,
	.mode = 0600,
};

static void remove_probes(void)
{
	struct copier *copier;

	for (copier = copiers; copier < copiers + ARRAY_SIZE(copiers); copier++) {
		if (copier->there)
			unregister_kprobe(&copier->kprobe);
		copier->there = false;
	}
}

static int __init copies_init(void)
{
	struct copier *copier;
	int err;

	for (copier = copiers; copier < copiers + ARRAY_SIZE(copiers); copier++) {
		copier->kprobe.flags = KPROBE_FLAG_DISABLED;
		err = register_kprobe(&copier->kprobe);
		copier->there = !err;
		/* -ENOENT: another kernel has that function. */
		if (err && err != -ENOENT) {
			pr_err("no probe on %s: %d\n", copier->kprobe.symbol_name, err);
			goto remove;
		}
	}
	err = misc_register(&copies_device);
	if (err)
		goto remove;
	return 0;

remove:
	remove_probes();
	return err;
}

static void __exit copies_exit(void)
{
	misc_deregister(&copies_device);
	remove_probes();
}

module_init(copies_init);
module_exit(copies_exit);

MODULE_DESCRIPTION("Counts what a thread makes the kernel copy");
MODULE_LICENSE("GPL");
