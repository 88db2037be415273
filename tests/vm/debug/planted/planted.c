// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Faults that only a kernel finds that checks itself, one for each of its
 * detectors. The name of one is written to
 * /sys/module/planted/parameters/fault.
 */
#include <linux/compiler.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>

/*
 * Longer than what the guest's script lets pass before it counts as never; of
 * RCU, with 5 seconds more, which PROVE_RCU adds.
 */
#define BLOCKED_SECONDS 30
#define STALLED_SECONDS 15
#define LOST_OBJECTS 3
#define PAGES 64

/* The control: a guest with this must pass. */
static int planted_nothing(void)
{
	return 0;
}

/* KASAN, slabs. */
static int planted_use_after_free(void)
{
	char *object = kzalloc(64, GFP_KERNEL);

	if (!object)
		return -ENOMEM;
	kfree(object);
	/* What the compiler does not see it cannot refuse. */
	OPTIMIZER_HIDE_VAR(object);
	READ_ONCE(object[8]);
	return 0;
}

/* KASAN, vmalloc. */
static int planted_out_of_bounds(void)
{
	char *area = vzalloc(PAGE_SIZE + 100);

	if (!area)
		return -ENOMEM;
	OPTIMIZER_HIDE_VAR(area);
	READ_ONCE(area[PAGE_SIZE + 200]);
	vfree(area);
	return 0;
}

/* What no instrumented code does: a device, an assembly routine. */
static noinline void __no_sanitize_address planted_write(char *to)
{
	WRITE_ONCE(*to, 0);
}

/* Poisoned pages: a freed one is written to, and given out again. */
static int planted_freed_page(void)
{
	struct page *pages[PAGES];
	int page;

	pages[0] = alloc_page(GFP_KERNEL);
	if (!pages[0])
		return -ENOMEM;
	__free_page(pages[0]);
	planted_write((char *)page_address(pages[0]) + 1000);
	for (page = 0; page < PAGES; page++)
		pages[page] = alloc_page(GFP_KERNEL);
	for (page = 0; page < PAGES; page++)
		if (pages[page])
			__free_page(pages[page]);
	return 0;
}

/* DEBUG_LIST. */
static int planted_list(void)
{
	LIST_HEAD(head);
	LIST_HEAD(entry);

	list_add(&entry, &head);
	list_del(&entry);
	list_del(&entry);
	return 0;
}

static void planted_expired(struct timer_list *timer)
{
}

/* DEBUG_OBJECTS: a timer that is freed while it is armed. */
static int planted_armed_timer(void)
{
	struct timer_list *timer = kzalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return -ENOMEM;
	timer_setup(timer, planted_expired, 0);
	mod_timer(timer, jiffies + 1000 * HZ);
	kfree(timer);
	return 0;
}

/* UBSAN. */
static int planted_shift(void)
{
	unsigned int bits = 40;
	int number = 1;

	OPTIMIZER_HIDE_VAR(bits);
	number <<= bits;
	OPTIMIZER_HIDE_VAR(number);
	return 0;
}

static DEFINE_MUTEX(planted_first);
static DEFINE_MUTEX(planted_second);

/* Lockdep: two orders of two locks, which nobody ever holds at the same time. */
static int planted_lock_cycle(void)
{
	mutex_lock(&planted_first);
	mutex_lock(&planted_second);
	mutex_unlock(&planted_second);
	mutex_unlock(&planted_first);

	mutex_lock(&planted_second);
	mutex_lock(&planted_first);
	mutex_unlock(&planted_first);
	mutex_unlock(&planted_second);
	return 0;
}

static DEFINE_SPINLOCK(planted_lock);

/* DEBUG_ATOMIC_SLEEP: an allocation that may sleep, under a spinlock. */
static int planted_atomic_sleep(void)
{
	char *object;

	spin_lock(&planted_lock);
	object = kmalloc(64, GFP_KERNEL);
	spin_unlock(&planted_lock);
	kfree(object);
	return 0;
}

/* Kmemleak: too little for the sum of all memory to show. */
static int planted_leak(void)
{
	int object;

	for (object = 0; object < LOST_OBJECTS; object++)
		if (!kmalloc(100, GFP_KERNEL))
			return -ENOMEM;
	return 0;
}

/* Hung tasks. */
static int planted_block(void)
{
	DECLARE_COMPLETION_ONSTACK(never);

	wait_for_completion_timeout(&never, BLOCKED_SECONDS * HZ);
	return 0;
}

static struct rcu_head planted_waiting;

static void planted_waited(struct rcu_head *waiting)
{
}

/* Stalls of RCU: somebody waits for readers, and one of them goes on. */
static int planted_stall(void)
{
	int second;

	rcu_read_lock();
	call_rcu(&planted_waiting, planted_waited);
	for (second = 0; second < STALLED_SECONDS; second++)
		mdelay(1000);
	rcu_read_unlock();
	return 0;
}

static const struct {
	const char *name;
	int (*plant)(void);
} planted_faults[] = {
	{ "nothing", planted_nothing },
	{ "use_after_free", planted_use_after_free },
	{ "out_of_bounds", planted_out_of_bounds },
	{ "freed_page", planted_freed_page },
	{ "list", planted_list },
	{ "armed_timer", planted_armed_timer },
	{ "shift", planted_shift },
	{ "lock_cycle", planted_lock_cycle },
	{ "atomic_sleep", planted_atomic_sleep },
	{ "leak", planted_leak },
	{ "block", planted_block },
	{ "stall", planted_stall },
};

static int planted_set(const char *fault, const struct kernel_param *parameter)
{
	size_t at;

	for (at = 0; at < ARRAY_SIZE(planted_faults); at++)
		if (sysfs_streq(fault, planted_faults[at].name))
			return planted_faults[at].plant();
	return -EINVAL;
}

static const struct kernel_param_ops planted_fault = { .set = planted_set };

module_param_cb(fault, &planted_fault, NULL, 0200);
MODULE_PARM_DESC(fault, "the fault to plant");

static int __init planted_start(void)
{
	return 0;
}

static void __exit planted_end(void)
{
	rcu_barrier();
}

module_init(planted_start);
module_exit(planted_end);
MODULE_DESCRIPTION("Faults for a kernel that checks itself");
MODULE_LICENSE("Dual MIT/GPL");
