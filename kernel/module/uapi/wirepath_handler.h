/* SPDX-License-Identifier: MIT OR GPL-2.0-only WITH Linux-syscall-note */
/*
 * Handlers of paced runs (WIREPATH_START) as eBPF programs: a struct_ops of the
 * type wp_handler_ops (Linux 6.12, a module with BTF), which has one program,
 *
 *     int handle(struct wirepath_packet *packet)
 *
 * and a name, by which a run asks for it. It is called for each packet, in
 * order, before the packet is sent; its answer says whether it is. It may write
 * to `header`, which leaves so, and to `state`, which each run has for itself; all
 * else it may only read. It may not sleep.
 *
 * A train that the network has no room for is made again later, and its packets
 * are handled again, with `state` as it was before: a count of packets belongs
 * there, and not into a map.
 */
#ifndef _UAPI_WIREPATH_HANDLER_H
#define _UAPI_WIREPATH_HANDLER_H

#include <linux/types.h>

/* Bytes of a handler's name, with the zero at its end. */
#define WIREPATH_HANDLER_NAME_BYTES 16

/* Verdicts; any other ends the run with EPROTO. */
#define WIREPATH_HANDLER_DROP 0 /* its sequence number is used up, its time passes */
#define WIREPATH_HANDLER_PASS 1

#define WIREPATH_HANDLER_STATES 4
#define WIREPATH_HANDLER_SEES 64

struct wirepath_packet {
	__u64 number; /* packets of the run before this one, dropped ones too */
	__u64 position; /* of its payload in the file or mapping */
	__u64 state[WIREPATH_HANDLER_STATES]; /* zero at the run's start */
	__u32 header_bytes; /* 0: WIREPATH_HEADER_NONE */
	__u32 payload_bytes;
	__u8 header[WIREPATH_HANDLER_SEES]; /* its beginning, zero behind its end */
	__u8 payload[WIREPATH_HANDLER_SEES]; /* its beginning, zero behind its end */
};

#endif /* _UAPI_WIREPATH_HANDLER_H */
