/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Drops every other packet of a paced run and numbers the others without gaps (RTP, RFC 3550, section 5.1), so
 * that receivers see a thinner stream and no loss.
 */
#include "wirepath_paced.bpf.h"

#define FIXED_HEADER 12

WIREPATH_PACED_HANDLER(packet)
{
	__u16 sequence;

	if (packet->number & 1)
		return WIREPATH_HANDLER_DROP;
	if (packet->header_bytes < FIXED_HEADER)
		return WIREPATH_HANDLER_PASS;
	/* The first one's number, and how many were passed. */
	if (!packet->number)
		packet->state[0] = packet->header[2] << 8 | packet->header[3];
	sequence = packet->state[0] + packet->state[1];
	packet->header[2] = sequence >> 8;
	packet->header[3] = sequence;
	packet->state[1]++;
	return WIREPATH_HANDLER_PASS;
}
