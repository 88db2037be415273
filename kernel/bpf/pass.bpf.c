/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Passes all records: a mirror of UDP datagrams in the kernel. */
#include "wirepath.bpf.h"

WIREPATH_HANDLER(record)
{
	return WIREPATH_PASS;
}
