// SPDX-License-Identifier: GPL-2.0
/* SEND as a call: its request is read, trains are sent, and its state is given back. */
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "counters.h"
#include "request.h"
#include "send.h"
#include "switches.h"

/*
 * The first train is sent whatever signal is pending, so that a call that is repeated
 * because of io_uring's task work makes progress. @trains_max limits the ring's first
 * try, which does not look at signals.
 */
static int wp_send_all(struct wp_send *send, u64 trains_max)
{
	int sent;

	for (;;) {
		sent = wp_send_train(send, WIREPATH_TRAIN_PACKETS_MAX);
		if (sent <= 0 || wp_send_done(send))
			return min(sent, 0);
		if (send->packets >= wp_run_packets_max)
			return -E2BIG;
		if (send->trains >= trains_max)
			return WP_TURN_OVER;
		if (trains_max == U64_MAX && signal_pending(current))
			return -EINTR;
		cond_resched();
	}
}

static void wp_send_report(const struct wp_send *send,
			   struct wirepath_send *request,
			   struct wirepath_rtp *rtp)
{
	request->offset = send->source.position;
	request->length = send->left;
	request->packets += send->packets;
	request->trains += send->trains;
	request->bytes += send->bytes;
	request->copied_bytes += send->sending.copied;
	if (request->header_kind == WIREPATH_HEADER_GIVEN)
		request->header = send->header.given;
	if (request->header_kind == WIREPATH_HEADER_RTP)
		*rtp = send->header.rtp.state;
}

/* Read a request and the RTP state it points to. */
int wp_send_read(struct wirepath_send *request, struct wirepath_rtp *rtp,
		 const void __user *argument)
{
	int err;

	err = wp_request_read(request, sizeof(*request),
			      WIREPATH_SEND_SIZE_VER1, argument);
	if (err || request->header_kind != WIREPATH_HEADER_RTP)
		return err;
	return wp_request_read(rtp, sizeof(*rtp), WIREPATH_RTP_SIZE_VER1,
			       u64_to_user_ptr(request->header));
}

/* Give back what a call may have changed: fields that the first version had. */
static int wp_send_write(const struct wirepath_send *request, struct wirepath_send __user *to)
{
	if (!user_write_access_begin(to, WIREPATH_SEND_SIZE_VER1))
		return -EFAULT;
	unsafe_put_user(request->offset, &to->offset, fault);
	unsafe_put_user(request->length, &to->length, fault);
	unsafe_put_user(request->header, &to->header, fault);
	unsafe_put_user(request->packets, &to->packets, fault);
	unsafe_put_user(request->trains, &to->trains, fault);
	unsafe_put_user(request->bytes, &to->bytes, fault);
	unsafe_put_user(request->copied_bytes, &to->copied_bytes, fault);
	user_write_access_end();
	return 0;
fault:
	user_write_access_end();
	return -EFAULT;
}

/**
 * wp_send_request() - Answer WIREPATH_SEND.
 * @argument: struct wirepath_send in the caller's memory
 * @wait: false to return -EAGAIN where it would wait, WP_TURN_OVER after a while
 *
 * Return: as the protocol's prose says.
 */
int wp_send_request(void __user *argument, bool wait)
{
	struct wirepath_send request;
	struct wirepath_rtp rtp;
	struct wp_send *send;
	int err, answer;

	err = wp_send_read(&request, &rtp, argument);
	if (err)
		return err;
	send = wp_send_open(&request, &rtp, false);
	if (IS_ERR(send))
		return PTR_ERR(send);
	if (!wait) {
		send->wait = false;
		send->sending.wait = false;
	}
	wp_count(WP_CALLS, 1);
	answer = wp_send_all(send, wait ? U64_MAX : WP_TURN_TRAINS);
	wp_send_report(send, &request, &rtp);
	wp_send_close(send);
	err = wp_send_write(&request, argument);
	if (!err && request.header_kind == WIREPATH_HEADER_RTP)
		err = wp_request_write(&rtp, sizeof(rtp),
				       u64_to_user_ptr(request.header));
	return err ?: answer;
}
