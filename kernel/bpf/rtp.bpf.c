/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Passes RTP packets of version 2 (RFC 3550, section 5.1) and drops all else, RTCP too (RFC 5761, section 4). */
#include "wirepath.bpf.h"

#define FIXED_HEADER 12

WIREPATH_HANDLER(record)
{
	__u8 type = record->bytes[1] & 0x7f;

	if (record->length < FIXED_HEADER || record->bytes[0] >> 6 != 2)
		return WIREPATH_DROP;
	return type >= 64 && type <= 95 ? WIREPATH_DROP : WIREPATH_PASS;
}
