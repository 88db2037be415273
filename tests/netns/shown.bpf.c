/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Drops packets of a paced run by the first byte of their payload, and writes what it is shown of the payload of the
 * others into their headers: its first byte, its 64th, and the lowest byte of its position.
 */
#include "wirepath_paced.bpf.h"

WIREPATH_PACED_HANDLER(packet)
{
	if (packet->payload[0] & 1)
		return WIREPATH_HANDLER_DROP;
	packet->header[4] = packet->payload[0];
	packet->header[5] = packet->payload[WIREPATH_HANDLER_SEES - 1];
	packet->header[6] = packet->position;
	return WIREPATH_HANDLER_PASS;
}
