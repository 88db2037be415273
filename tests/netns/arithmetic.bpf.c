/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A handler that decides by arithmetic of many kinds, which the first byte chooses, on two numbers of 64 bits
 * behind it: the test of handlers in the kernel and in user space compares what both decide.
 */
#include "wirepath.bpf.h"

WIREPATH_HANDLER(record)
{
	const __u32 *words = (const __u32 *)(record->bytes + 4);
	__u64 left = (__u64)words[1] << 32 | words[0], right = (__u64)words[3] << 32 | words[2];
	__s64 signed_left = left, signed_right = right;
	__s32 low_left = words[0], low_right = words[2];

	switch (record->bytes[0] % 24) {
	/* Comparisons of registers and of constants, of 64 and of 32 bits, with sign and without. */
	case 0:
		return signed_left < signed_right;
	case 1:
		return low_left <= low_right;
	case 2:
		return left > right;
	case 3:
		return words[0] >= words[2];
	case 4:
		return signed_left > -2;
	case 5:
		return low_left < -70000;
	case 6:
		return signed_left <= -0x100000001LL;
	case 7:
		return left & right & 0x8000000000000001ULL ? WIREPATH_DROP : WIREPATH_PASS;
	/* Values of which the lower half alone counts. */
	case 8:
		return left >> 8;
	case 9:
		return right ? left / right : WIREPATH_PASS;
	case 10:
		return signed_left >> (right & 63);
	/* Arithmetic, of which one bit decides. */
	case 11:
		return right ? left % right & 1 : WIREPATH_DROP;
	case 12:
		return words[2] ? words[0] / words[2] & 1 : WIREPATH_DROP;
	case 13:
		return words[2] ? words[0] % words[2] & 1 : WIREPATH_PASS;
	case 14:
		return left * right >> 63;
	case 15:
		return (words[0] * words[2]) >> 31;
	case 16:
		return (left << (right & 63)) >> 63;
	case 17:
		return (low_left >> (words[2] & 31)) & 1;
	case 18:
		return -signed_left > signed_right;
	case 19:
		return -low_left > low_right;
	case 20:
		return (left ^ 0xfedcba9876543210ULL) > (right | 0x0123456789abcdefULL);
	/* Orders of bytes, and narrower numbers with sign. */
	case 21:
		return bpf_ntohl(words[0]) < bpf_ntohl(words[2]);
	case 22:
		return bpf_be64_to_cpu(left) < bpf_be64_to_cpu(right);
	default:
		return (__s16)words[0] < (__s8)words[2] && record->length != WIREPATH_SEES;
	}
}
