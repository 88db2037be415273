// SPDX-License-Identifier: GPL-2.0
/*
 * Runs that go, counted by user. Runs have a thread of the kernel each, which
 * RLIMIT_NPROC does not count.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>

#include "switches.h"
#include "users.h"

struct wp_user {
	struct hlist_node node;
	kuid_t uid;
	unsigned long runs;
};

static DEFINE_HASHTABLE(wp_users, 6);
static DEFINE_SPINLOCK(wp_users_lock);

static struct wp_user *wp_user_find(kuid_t uid)
{
	struct wp_user *user;

	hash_for_each_possible(wp_users, user, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid))
			return user;
	}
	return NULL;
}

/*
 * Whom the current task counts as: in namespaces of users, who made the outermost,
 * as for the kernel's own limits (ucount). Subordinate users are as many as asked.
 */
static kuid_t wp_user_current(void)
{
	const struct user_namespace *ns;
	kuid_t uid = current_uid();

	for (ns = current_user_ns(); ns->parent; ns = ns->parent)
		uid = ns->owner;
	return uid;
}

/**
 * wp_user_enter() - Count one more run of the current user.
 *
 * Return: for wp_user_leave(); -EDQUOT above the limit, which those with
 * CAP_SYS_RESOURCE do not have; -ENOMEM.
 */
struct wp_user *wp_user_enter(void)
{
	struct wp_user *fresh = kmalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	kuid_t uid = wp_user_current();
	struct wp_user *user;
	bool above;

	if (!fresh)
		return ERR_PTR(-ENOMEM);
	spin_lock(&wp_users_lock);
	user = wp_user_find(uid);
	if (!user) {
		user = fresh;
		fresh = NULL;
		user->uid = uid;
		user->runs = 0;
		hash_add(wp_users, &user->node, __kuid_val(uid));
	}
	user->runs++;
	above = user->runs > READ_ONCE(wp_user_runs_max);
	spin_unlock(&wp_users_lock);
	kfree(fresh);
	if (above && !capable(CAP_SYS_RESOURCE)) {
		wp_user_leave(user);
		return ERR_PTR(-EDQUOT);
	}
	return user;
}

/* One run less. */
void wp_user_leave(struct wp_user *user)
{
	bool last;

	spin_lock(&wp_users_lock);
	last = !--user->runs;
	if (last)
		hash_del(&user->node);
	spin_unlock(&wp_users_lock);
	if (last)
		kfree(user);
}
