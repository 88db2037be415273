// SPDX-License-Identifier: GPL-2.0
/*
 * The RTP engine: fixed headers as in RFC 3550, section 5.1, one after the
 * other from a state that the caller gives and gets back. It keeps no clock,
 * does not know where packets go, and cannot fail half-way: what is needed
 * of the caller's memory is read by wp_rtp_group() before wp_rtp_write(), which
 * is in the header, since it is called for each packet.
 */
#include <linux/errno.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "rtp.h"

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

/**
 * wp_rtp_write_some() - Make the headers of packets that follow each other.
 * @rtp: the engine; with a table, for one packet only
 * @header: WP_RTP_HEADER_BYTES for each of them
 * @payload_bytes: what follows each header
 * @count: packets
 *
 * Without table and markers, what changes is in local variables: the compiler has to
 * expect that writing a header changes the engine's state.
 */
void wp_rtp_write_some(struct wp_rtp *rtp, u8 *header, u32 payload_bytes, u32 count)
{
	struct wirepath_rtp *state = &rtp->state;
	u32 word = WP_RTP_VERSION | state->payload_type << 16, ssrc = state->ssrc;
	u32 timestamp = state->timestamp, step = state->timestamp_step, last = timestamp;
	u32 position = state->position, group = wp_rtp_group_packets(rtp), i;
	u16 sequence = state->sequence;

	if (state->table || state->marker) {
		for (i = 0; i < count; i++)
			wp_rtp_write(rtp, header + i * WP_RTP_HEADER_BYTES, payload_bytes);
		return;
	}
	for (i = 0; i < count; i++, header += WP_RTP_HEADER_BYTES) {
		put_unaligned_be32(word | sequence++, header);
		put_unaligned_be32(timestamp, header + 4);
		put_unaligned_be32(ssrc, header + 8);
		last = timestamp;
		if (++position >= group) {
			position = 0;
			timestamp += step;
		}
	}
	state->sequence = sequence;
	state->packets += count;
	state->octets += (u64)payload_bytes * count;
	state->timestamp = timestamp;
	state->last_timestamp = last;
	state->position = position;
}
