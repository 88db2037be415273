// SPDX-License-Identifier: GPL-2.0
/*
 * The RTP engine: fixed headers as in RFC 3550, section 5.1, one after the
 * other from a state that the caller gives and gets back. It keeps no clock,
 * does not know where packets go, and cannot fail half-way: what is needed
 * of the caller's memory is read by wp_rtp_group() before wp_rtp_write().
 */
#include <linux/errno.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "rtp.h"

#define WP_RTP_VERSION 0x80	/* 2, in the first byte's upper bits */
#define WP_RTP_MARKER 0x80	/* in the second byte */

static u32 wp_rtp_group_packets(const struct wp_rtp *rtp)
{
	if (rtp->state.table)
		return rtp->group.packets;
	return max(rtp->state.step_packets, 1U);
}

/**
 * wp_rtp_check() - Is this a state that the engine can start from?
 * @state: as the caller gave it
 *
 * Return: 0 or -EINVAL.
 */
int wp_rtp_check(const struct wirepath_rtp *state)
{
	if (state->flags || state->payload_type > 127 ||
	    state->marker > WIREPATH_MARKER_FIRST)
		return -EINVAL;
	if (!state->table && state->table_count)
		return -EINVAL;
	if (!state->table && state->position >= max(state->step_packets, 1U))
		return -EINVAL;
	return 0;
}

static int wp_rtp_load(struct wp_rtp *rtp)
{
	const struct wirepath_rtp *state = &rtp->state;

	if (rtp->table)
		rtp->group = rtp->table[0];
	else if (copy_from_user(&rtp->group, u64_to_user_ptr(state->table),
				sizeof(rtp->group)))
		return -EFAULT;
	if (rtp->group.reserved || state->position >= rtp->group.packets)
		return -EINVAL;
	rtp->group_loaded = true;
	return 0;
}

/**
 * wp_rtp_group() - How much payload goes out with the current timestamp?
 * @rtp: the engine
 * @packet_bytes: payload of a full packet
 * @left: in: payload there is, out: no more than the group's
 *
 * Return: 0; -ENODATA when the table has ended; -EINVAL: a group whose
 * packets and bytes contradict each other; -EFAULT.
 */
int wp_rtp_group(struct wp_rtp *rtp, u32 packet_bytes, u64 *left)
{
	const struct wirepath_rtp *state = &rtp->state;
	u64 full;
	int err;

	if (!state->table)
		return 0;
	if (!state->table_count)
		return -ENODATA;
	err = rtp->group_loaded ? 0 : wp_rtp_load(rtp);
	if (err)
		return err;
	if (!rtp->group.bytes)
		return 0;
	full = (u64)rtp->group.packets * packet_bytes;
	if (rtp->group.bytes > full || rtp->group.bytes <= full - packet_bytes)
		return -EINVAL;
	*left = min(*left, rtp->group.bytes - (u64)state->position * packet_bytes);
	return 0;
}

static void wp_rtp_advance(struct wp_rtp *rtp, u32 payload_bytes)
{
	struct wirepath_rtp *state = &rtp->state;

	state->sequence++;
	state->packets++;
	state->octets += payload_bytes;
	state->last_timestamp = state->timestamp;
	if (++state->position < wp_rtp_group_packets(rtp))
		return;
	state->position = 0;
	if (!state->table) {
		state->timestamp += state->timestamp_step;
		return;
	}
	state->table += sizeof(rtp->group);
	state->table_count--;
	if (rtp->table)
		rtp->table++;
	rtp->group_loaded = false;
}

static bool wp_rtp_marked(const struct wp_rtp *rtp)
{
	switch (rtp->state.marker) {
	case WIREPATH_MARKER_ALWAYS:
		return true;
	case WIREPATH_MARKER_LAST_OF_GROUP:
		return rtp->state.position + 1 == wp_rtp_group_packets(rtp);
	case WIREPATH_MARKER_FIRST:
		return !rtp->state.packets;
	default:
		return false;
	}
}

/**
 * wp_rtp_write() - Make the next packet's header and go on to the one after.
 * @rtp: the engine; with a table, wp_rtp_group() has just answered 0
 * @header: WP_RTP_HEADER_BYTES of them
 * @payload_bytes: what follows the header
 */
void wp_rtp_write(struct wp_rtp *rtp, u8 *header, u32 payload_bytes)
{
	struct wirepath_rtp *state = &rtp->state;

	if (state->table)
		state->timestamp = rtp->group.timestamp;
	header[0] = WP_RTP_VERSION;
	header[1] = state->payload_type | (wp_rtp_marked(rtp) ? WP_RTP_MARKER : 0);
	put_unaligned_be16(state->sequence, header + 2);
	put_unaligned_be32(state->timestamp, header + 4);
	put_unaligned_be32(state->ssrc, header + 8);
	wp_rtp_advance(rtp, payload_bytes);
}
