/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Handlers of paced runs of the kernel module (WIREPATH_START, docs/module.md), Linux 6.12 and newer.
 *
 * A handler is one function, which sees the headers of each packet and the beginning of its payload, may write
 * to both `header` and `state`, and says whether the packet is sent (struct wirepath_packet):
 *
 *     #include "wirepath_paced.bpf.h"
 *
 *     WIREPATH_PACED_HANDLER(packet)
 *     {
 *             return packet->payload[0] == 0x47 ? WIREPATH_HANDLER_PASS : WIREPATH_HANDLER_DROP;
 *     }
 *
 * Bytes of the packet are read at places that the compiler knows (packet->payload[7], not packet->payload[i]).
 */
#ifndef WIREPATH_PACED_BPF_H
#define WIREPATH_PACED_BPF_H

#include <linux/types.h>
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../module/uapi/wirepath_handler.h"

static __always_inline int wirepath_handle_packet(struct wirepath_packet *packet);

/* Defines the handler. */
#define WIREPATH_PACED_HANDLER(packet) \
	static __always_inline int wirepath_handle_packet(struct wirepath_packet *packet)

SEC("struct_ops/handle")
int wp_handle(__u64 *arguments)
{
	return wirepath_handle_packet((struct wirepath_packet *)arguments[0]);
}

char wp_license[] SEC("license") = "Dual MIT/GPL";

#endif
