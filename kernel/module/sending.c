// SPDX-License-Identifier: GPL-2.0
/*
 * Where to send: the caller's own socket, by descriptor, and a destination.
 * The socket's file is held, so that closing it meanwhile is harmless, and
 * with it its network namespace.
 */
#include <linux/file.h>
#include <linux/net.h>
#include <linux/uaccess.h>
#include <net/sock.h>

#include "send.h"

static int wp_sending_read_address(struct wp_sending *sending, u64 address, u32 address_bytes)
{
	struct sockaddr_storage to;

	if (!address || !address_bytes || address_bytes > sizeof(to))
		return -EINVAL;
	/* By way of the stack: slab memory may not be copied to from outside. */
	if (copy_from_user(&to, u64_to_user_ptr(address), address_bytes))
		return -EFAULT;
	memcpy(&sending->address, &to, address_bytes);
	return 0;
}

/**
 * wp_sending_open() - Take a socket and a destination.
 * @sending: to be set up
 * @socket: descriptor of a socket over IPv4 or IPv6
 * @address: of a struct sockaddr in the caller's memory, or 0
 * @address_bytes: its size
 *
 * Return: 0, -EBADF, -ENOTSOCK, -EPROTONOSUPPORT: neither UDP nor TCP over
 * IP; -EINVAL, -EFAULT.
 */
int wp_sending_open(struct wp_sending *sending, int socket, u64 address,
		    u32 address_bytes)
{
	const struct sock *sk;
	int err;

	if (address || address_bytes) {
		err = wp_sending_read_address(sending, address, address_bytes);
		if (err)
			return err;
	}
	sending->address_bytes = address_bytes;
	sending->sock = sockfd_lookup(socket, &err);
	if (!sending->sock)
		return err;
	sk = sending->sock->sk;
	if ((sk->sk_family != AF_INET && sk->sk_family != AF_INET6) ||
	    !((sk->sk_type == SOCK_DGRAM && sk->sk_protocol == IPPROTO_UDP) ||
	      (sk->sk_type == SOCK_STREAM && sk->sk_protocol == IPPROTO_TCP))) {
		wp_sending_close(sending);
		return -EPROTONOSUPPORT;
	}
	sending->segments = sk->sk_type == SOCK_DGRAM;
	sending->references = true;
	sending->wait = true;
	sending->more = false;
	sending->member_packets = 0;
	sending->listed = false;
	sending->copied = 0;
	return 0;
}

void wp_sending_close(struct wp_sending *sending)
{
	sockfd_put(sending->sock);
}
