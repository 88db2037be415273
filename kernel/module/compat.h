/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between kernels, from 6.1 to 7.2: the only place that asks
 * for a version.
 */
#ifndef _WP_COMPAT_H
#define _WP_COMPAT_H

#include <linux/net.h>
#include <linux/netdevice.h>
#include <linux/udp.h>
#include <linux/version.h>
#include <net/dst.h>
#include <net/inet_sock.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#include <net/hotdata.h>
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#include <net/gso.h>
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#include "uapi/wirepath.h"

/*
 * MSG_SPLICE_PAGES has a meaning for UDP from 6.5 on. 6.1.y defines it too,
 * for a backport of udp_sendpage(), but its IP layer copies all the same.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#define WP_REFERENCES MSG_SPLICE_PAGES
#else
#define WP_REFERENCES 0
#endif

/*
 * Is filemap_get_folios_contig() worth calling? Without references what it finds
 * is copied all the same, and that of 6.1 finds large folios twice.
 */
#define WP_CONTIGUOUS_FOLIOS (!!WP_REFERENCES)

/*
 * The bytes of the submission entry that are the command's own. What reads
 * them was a function before it became a macro that asks for their type.
 */
static inline const struct wirepath_command *
wp_command_bytes(struct io_uring_cmd *command)
{
#ifdef io_uring_sqe_cmd
	return io_uring_sqe_cmd(command->sqe, struct wirepath_command);
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	return io_uring_sqe_cmd(command->sqe);
#else
	return command->cmd;
#endif
}

static inline void wp_command_done(struct io_uring_cmd *command, int result,
				   unsigned int issue_flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
	io_uring_cmd_done(command, result, issue_flags);
#else
	io_uring_cmd_done(command, result, 0, issue_flags);
#endif
}

/*
 * Is something in the cork of a UDP socket, or will what comes be? The flag is
 * a bit among others from 6.7 on, and in the later ones of 6.1.y and 6.6.y.
 */
static inline bool wp_udp_corked(const struct sock *sk)
{
#ifdef udp_test_bit
	bool cork = udp_test_bit(CORK, sk);
#else
	bool cork = READ_ONCE(udp_sk(sk)->corkflag);
#endif

	return cork || READ_ONCE(udp_sk(sk)->pending);
}

/* net.core.max_skb_frags: most fragments of a buffer, as the machine is set. */
static inline int wp_fragments_max(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
	return READ_ONCE(net_hotdata.sysctl_max_skb_frags);
#else
	return READ_ONCE(sysctl_max_skb_frags);
#endif
}

/* Does the socket want to know of what its device drops (IP_RECVERR)? */
static inline bool wp_wants_errors(const struct sock *sk)
{
#ifdef inet_test_bit
	return inet_test_bit(RECVERR, sk);
#else
	return inet_sk(sk)->recverr;
#endif
}

/* The device of a route, under rcu_read_lock(). */
static inline const struct net_device *wp_route_device(const struct dst_entry *dst)
{
	return READ_ONCE(dst->dev);
}

/*
 * Handlers as struct_ops: modules may have some from 6.9 on; those here take the
 * form of 6.12, and the module's own BTF.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0) &&                           \
	IS_ENABLED(CONFIG_BPF_JIT) && IS_ENABLED(CONFIG_DEBUG_INFO_BTF_MODULES)
#define WP_HANDLERS 1
#else
#define WP_HANDLERS 0
#endif

/* Bytes below which a device cuts a train, with all headers; of IPv4 by itself since 6.3. */
static inline u32 wp_gso_max_size(const struct net_device *device, int family)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	if (family == AF_INET)
		return READ_ONCE(device->gso_ipv4_max_size);
#endif
	return READ_ONCE(device->gso_max_size);
}

#endif /* _WP_COMPAT_H */
