// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Faults to plant: the machine that tests kernel work must find each of them. Written to
 * /sys/module/planted/parameters/fault: "warn", "leak" or "hold".
 */
#include <linux/gfp.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#define LEAKED_PAGES 2048

static int planted_leak(void)
{
	int page;

	for (page = 0; page < LEAKED_PAGES; page++)
		if (!alloc_page(GFP_KERNEL))
			return -ENOMEM;
	return 0;
}

static int planted_set(const char *fault, const struct kernel_param *parameter)
{
	if (sysfs_streq(fault, "warn")) {
		WARN(1, "a planted warning\n");
		return 0;
	}
	if (sysfs_streq(fault, "leak"))
		return planted_leak();
	if (sysfs_streq(fault, "hold")) {
		__module_get(THIS_MODULE);
		return 0;
	}
	return -EINVAL;
}

static const struct kernel_param_ops planted_fault = { .set = planted_set };

module_param_cb(fault, &planted_fault, NULL, 0200);
MODULE_PARM_DESC(fault, "the fault to plant: warn, leak or hold");

static int __init planted_start(void)
{
	return 0;
}

static void __exit planted_end(void)
{
}

module_init(planted_start);
module_exit(planted_end);
MODULE_DESCRIPTION("Faults for the machine that tests kernel work");
MODULE_LICENSE("Dual MIT/GPL");
