// SPDX-License-Identifier: GPL-2.0
/* Checks of a SEND's request, or a run's, before anything is opened. */
#include <linux/errno.h>
#include <linux/math64.h>

#include "check.h"
#include "rtp.h"
#include "switches.h"
#include "train.h"

static int wp_send_check_packets(const struct wirepath_send *request,
				 u32 header_bytes)
{
	u64 payload = request->packet_bytes;

	if (!payload) {
		if (request->length == WIREPATH_TO_END)
			return -EINVAL;
		payload = request->length -
			  min_t(u64, request->length, request->skip_bytes);
	}
	/* By itself first, as a sum could overflow, below as well. */
	if (payload > WP_TRAIN_BYTES || payload + header_bytes > WP_TRAIN_BYTES)
		return -EMSGSIZE;
	if (request->packet_bytes && request->length != WIREPATH_TO_END &&
	    div_u64(request->length, payload + request->skip_bytes) >=
	    wp_run_packets_max)
		return -E2BIG;
	return 0;
}

static int wp_send_check_header(const struct wirepath_send *request,
				const struct wirepath_rtp *rtp)
{
	switch (request->header_kind) {
	case WIREPATH_HEADER_NONE:
		return request->header || request->header_bytes ? -EINVAL : 0;
	case WIREPATH_HEADER_GIVEN:
		return !request->header_bytes ||
		       request->header_bytes > WIREPATH_HEADER_BYTES_MAX ? -EINVAL : 0;
	case WIREPATH_HEADER_RTP:
		if (!wp_allow_rtp)
			return -EOPNOTSUPP;
		return request->header_bytes != rtp->size ? -EINVAL :
							    wp_rtp_check(rtp);
	default:
		return -EINVAL;
	}
}

/**
 * wp_send_check() - Check all that a request says by itself.
 * @request: the request
 * @rtp: its RTP state, if it has one
 *
 * Return: 0, or the errors of the protocol's prose.
 */
int wp_send_check(const struct wirepath_send *request, const struct wirepath_rtp *rtp)
{
	u64 end = request->length == WIREPATH_TO_END ? request->offset :
						       request->offset + request->length;
	int err;

	if ((request->flags & ~(WIREPATH_DONTWAIT | WIREPATH_COPY)) ||
	    request->skip_bytes > WIREPATH_HEADER_BYTES_MAX || end < request->offset ||
	    request->train_packets > WIREPATH_TRAIN_PACKETS_MAX)
		return -EINVAL;
	if (request->file == -1) {
		if (!wp_allow_mappings)
			return -EOPNOTSUPP;
		if (request->length == WIREPATH_TO_END)
			return -EINVAL;
		if (end > ULONG_MAX)
			return -EFAULT;
	} else {
		if (!wp_allow_files)
			return -EOPNOTSUPP;
		if (end > LLONG_MAX)
			return -EINVAL;
	}
	err = wp_send_check_header(request, rtp);
	if (err)
		return err;
	return wp_send_check_packets(request,
				     request->header_kind == WIREPATH_HEADER_RTP ?
				     WP_RTP_HEADER_BYTES : request->header_bytes);
}
