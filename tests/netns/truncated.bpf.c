/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A handler whose value is the lower half of a number: it is in a register with the upper half beside it. */
#include "wirepath.bpf.h"

WIREPATH_HANDLER(record)
{
	const __u32 *words = (const __u32 *)(record->bytes + 4);

	return ((__u64)words[1] << 32 | words[0]) >> 8;
}
