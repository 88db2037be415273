// SPDX-License-Identifier: GPL-2.0
/*
 * Handlers of paced runs that are eBPF programs: the struct_ops wp_handler_ops.
 * User space loads and attaches them, which takes CAP_BPF and CAP_PERFMON, and
 * runs ask for them by name; uapi/wirepath_handler.h is what programs see.
 *
 * Lifetime: an attached handler is in a list, and each run that uses it has a
 * reference. Detaching takes its program away at once, and waits for calls that
 * are under way (RCU); a run that finds no program ends with ENOLINK. So runs
 * keep nobody from detaching, and programs need no reference of the module's.
 *
 * The verifier lets programs read all of a packet and write to its header and
 * state; it takes the layout from this module's BTF, without which there are no
 * handlers.
 */
#include "compat.h"
#include "handler.h"

#if WP_HANDLERS
#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/btf.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>

struct wp_handler_ops {
	int (*handle)(struct wirepath_packet *packet);
	char name[WIREPATH_HANDLER_NAME_BYTES];
};

struct wp_handler {
	struct kref references;		/* of the list, and of runs */
	struct list_head node;
	struct wp_handler_ops __rcu *ops;	/* NULL once it was detached */
	char name[WIREPATH_HANDLER_NAME_BYTES];
};

static DEFINE_MUTEX(wp_handlers_lock);
static LIST_HEAD(wp_handlers);

static bool wp_handlers_known;			/* to the verifier */
static const struct btf_type *wp_packet_type;	/* since a program was checked */

static struct wp_handler *wp_handler_find(const char *name)
{
	struct wp_handler *handler;

	lockdep_assert_held(&wp_handlers_lock);
	list_for_each_entry(handler, &wp_handlers, node) {
		if (!strcmp(handler->name, name))
			return handler;
	}
	return NULL;
}

static void wp_handler_free(struct kref *references)
{
	kfree(container_of(references, struct wp_handler, references));
}

/* Have calls find another program, or none; calls under way end before it returns. */
static void wp_handler_replace(struct wp_handler *handler, struct wp_handler_ops *ops)
{
	lockdep_assert_held(&wp_handlers_lock);
	rcu_assign_pointer(handler->ops, ops);
	synchronize_rcu();
}

static int wp_handler_attach(void *data, struct bpf_link *link)
{
	struct wp_handler *handler = kzalloc(sizeof(*handler), GFP_KERNEL_ACCOUNT);
	struct wp_handler_ops *ops = data;
	int err = -EEXIST;

	if (!handler)
		return -ENOMEM;
	kref_init(&handler->references);
	strscpy(handler->name, ops->name, sizeof(handler->name));
	mutex_lock(&wp_handlers_lock);
	if (!wp_handler_find(ops->name)) {
		rcu_assign_pointer(handler->ops, ops);
		list_add(&handler->node, &wp_handlers);
		handler = NULL;
		err = 0;
	}
	mutex_unlock(&wp_handlers_lock);
	kfree(handler);
	return err;
}

static void wp_handler_detach(void *data, struct bpf_link *link)
{
	struct wp_handler_ops *ops = data;
	struct wp_handler *handler;

	mutex_lock(&wp_handlers_lock);
	handler = wp_handler_find(ops->name);
	if (handler) {
		list_del(&handler->node);
		wp_handler_replace(handler, NULL);
		kref_put(&handler->references, wp_handler_free);
	}
	mutex_unlock(&wp_handlers_lock);
}

/* Another program under the same name, from the next packet of each run on. */
static int wp_handler_update(void *data, void *old_data, struct bpf_link *link)
{
	struct wp_handler_ops *ops = data, *old = old_data;
	struct wp_handler *handler;

	if (strcmp(ops->name, old->name))
		return -EINVAL;
	mutex_lock(&wp_handlers_lock);
	handler = wp_handler_find(ops->name);
	if (handler)
		wp_handler_replace(handler, ops);
	mutex_unlock(&wp_handlers_lock);
	return handler ? 0 : -ENOENT;
}

static bool wp_handler_may_read(int offset, int size, enum bpf_access_type type,
				const struct bpf_prog *program,
				struct bpf_insn_access_aux *info)
{
	/* The arguments: one pointer. */
	return type == BPF_READ && offset >= 0 && offset % size == 0 &&
	       offset < MAX_BPF_FUNC_ARGS * (int)sizeof(u64) &&
	       btf_ctx_access(offset, size, type, program, info);
}

static int wp_handler_may_write(struct bpf_verifier_log *log,
				const struct bpf_reg_state *reg, int offset, int size)
{
	int end = offset + size;

	if (btf_type_by_id(reg->btf, reg->btf_id) == READ_ONCE(wp_packet_type) &&
	    ((offset >= (int)offsetof(struct wirepath_packet, header) &&
	      end <= (int)offsetofend(struct wirepath_packet, header)) ||
	     (offset >= (int)offsetof(struct wirepath_packet, state) &&
	      end <= (int)offsetofend(struct wirepath_packet, state))))
		return 0;
	bpf_log(log, "a handler may write to header and state of its packet only\n");
	return -EACCES;
}

static const struct bpf_verifier_ops wp_handler_verifier = {
	.get_func_proto = bpf_base_func_proto,
	.is_valid_access = wp_handler_may_read,
	.btf_struct_access = wp_handler_may_write,
};

static int wp_handler_init(struct btf *btf)
{
	wp_handlers_known = true;
	return 0;
}

/* The type that a pointer of this type points to, or NULL. */
static const struct btf_type *wp_handler_behind(const struct btf *btf, u32 pointer)
{
	const struct btf_type *type = btf_type_by_id(btf, pointer);

	return type && btf_type_is_ptr(type) ? btf_type_by_id(btf, type->type) : NULL;
}

/*
 * Called for a program before its instructions are checked. Handlers are called
 * under RCU, so that programs that may sleep are refused.
 *
 * The packet's type is what the function's argument points to. Its number from
 * BTF_ID() would be wrong where the module has BTF on a base of its own
 * (.BTF.base, pahole 1.26): the kernel does not translate numbers of such lists.
 */
static int wp_handler_check_member(const struct btf_type *type, const struct btf_member *member,
				   const struct bpf_prog *program)
{
	const struct btf *btf = program->aux->attach_btf;
	const struct btf_type *function = wp_handler_behind(btf, member->type);

	if (program->sleepable || !function || !btf_type_is_func_proto(function) ||
	    btf_type_vlen(function) != 1)
		return -EINVAL;
	WRITE_ONCE(wp_packet_type, wp_handler_behind(btf, btf_params(function)[0].type));
	return 0;
}

/* The name is the only member that is no program. */
static int wp_handler_init_member(const struct btf_type *type, const struct btf_member *member,
				  void *data, const void *given)
{
	const struct wp_handler_ops *from = given;
	struct wp_handler_ops *ops = data;

	if (__btf_member_bit_offset(type, member) / 8 != offsetof(struct wp_handler_ops, name))
		return 0;
	if (!from->name[0] || strscpy(ops->name, from->name, sizeof(ops->name)) < 0)
		return -EINVAL;
	return 1;
}

static int wp_handler_validate(void *data)
{
	const struct wp_handler_ops *ops = data;

	return ops->handle ? 0 : -EINVAL;
}

static int wp_handler_no_program(struct wirepath_packet *packet)
{
	return WIREPATH_HANDLER_PASS;
}

static struct wp_handler_ops wp_handler_stubs = { .handle = wp_handler_no_program };

static struct bpf_struct_ops wp_handler_struct_ops = {
	.verifier_ops = &wp_handler_verifier,
	.init = wp_handler_init,
	.check_member = wp_handler_check_member,
	.init_member = wp_handler_init_member,
	.validate = wp_handler_validate,
	.reg = wp_handler_attach,
	.unreg = wp_handler_detach,
	.update = wp_handler_update,
	.cfi_stubs = &wp_handler_stubs,
	.name = "wp_handler_ops",
	.owner = THIS_MODULE,
};

/**
 * wp_handler_setup() - Make the struct_ops known.
 *
 * Return: 0, also where the module has no BTF, and then there are no handlers.
 */
int __init wp_handler_setup(void)
{
	return register_bpf_struct_ops(&wp_handler_struct_ops, wp_handler_ops);
}

bool wp_handler_possible(void)
{
	return wp_handlers_known;
}

/**
 * wp_handler_get() - The handler of a name, for a run.
 * @name: the name
 *
 * Return: for wp_handler_put(); -ENOENT; -EOPNOTSUPP: there are no handlers.
 */
struct wp_handler *wp_handler_get(const char *name)
{
	struct wp_handler *handler;

	if (!wp_handler_possible())
		return ERR_PTR(-EOPNOTSUPP);
	mutex_lock(&wp_handlers_lock);
	handler = wp_handler_find(name);
	if (handler)
		kref_get(&handler->references);
	mutex_unlock(&wp_handlers_lock);
	return handler ?: ERR_PTR(-ENOENT);
}

/* @handler: or NULL */
void wp_handler_put(struct wp_handler *handler)
{
	if (handler)
		kref_put(&handler->references, wp_handler_free);
}

/**
 * wp_handler_call() - Ask for a verdict.
 * @handler: the handler
 * @packet: what it sees, and may change in part
 *
 * Return: WIREPATH_HANDLER_PASS or _DROP; -ENOLINK: it was detached; -EPROTO:
 * its answer is neither.
 */
int wp_handler_call(struct wp_handler *handler, struct wirepath_packet *packet)
{
	struct wp_handler_ops *ops;
	int verdict = -ENOLINK;

	rcu_read_lock();
	ops = rcu_dereference(handler->ops);
	if (ops) {
		verdict = ops->handle(packet);
		if (verdict != WIREPATH_HANDLER_PASS && verdict != WIREPATH_HANDLER_DROP)
			verdict = -EPROTO;
	}
	rcu_read_unlock();
	return verdict;
}

#else

int __init wp_handler_setup(void)
{
	return 0;
}

bool wp_handler_possible(void)
{
	return false;
}

struct wp_handler *wp_handler_get(const char *name)
{
	return ERR_PTR(-EOPNOTSUPP);
}

void wp_handler_put(struct wp_handler *handler)
{
}

int wp_handler_call(struct wp_handler *handler, struct wirepath_packet *packet)
{
	return -ENOLINK;
}

#endif /* WP_HANDLERS */
