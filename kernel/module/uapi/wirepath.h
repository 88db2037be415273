/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Wirepath: storage to network by reference.
 *
 * Requests are ioctls on /dev/wirepath, or io_uring commands. Each structure
 * begins with its size. Documentation/wirepath.rst describes the protocol:
 * requests, structures, errors.
 */
#ifndef _UAPI_WIREPATH_H
#define _UAPI_WIREPATH_H

#include <linux/ioctl.h>
#include <linux/types.h>

#include "wirepath_handler.h"

#define WIREPATH_VERSION 1
#define WIREPATH_DEVICE "/dev/wirepath"

/*
 * 0xBC is in nobody's use (Documentation/userspace-api/ioctl/ioctl-number.rst).
 * The numbers have a structure's size as of this header; the module goes by the
 * size in the structure, and takes numbers with another one, or of _IO().
 */
#define WIREPATH_IOC 0xBC
#define WIREPATH_QUERY _IOWR(WIREPATH_IOC, 0, struct wirepath_query)
#define WIREPATH_SEND _IOWR(WIREPATH_IOC, 1, struct wirepath_send)
#define WIREPATH_SENDFILEW _IOWR(WIREPATH_IOC, 2, struct wirepath_sendfilew)
#define WIREPATH_START _IOW(WIREPATH_IOC, 3, struct wirepath_start)
#define WIREPATH_STATUS _IOWR(WIREPATH_IOC, 4, struct wirepath_status)
#define WIREPATH_STOP _IO(WIREPATH_IOC, 5) /* no argument (0) */
#define WIREPATH_WAIT _IOWR(WIREPATH_IOC, 6, struct wirepath_status)

/* wirepath_query.features: what this module does on this kernel, as switched now */
#define WIREPATH_FEATURE_FILES (1ULL << 0) /* payload from files */
#define WIREPATH_FEATURE_MAPPINGS (1ULL << 1) /* payload from the caller's memory */
#define WIREPATH_FEATURE_RTP (1ULL << 2) /* headers by the RTP engine */
#define WIREPATH_FEATURE_REFERENCES (1ULL << 3) /* pages by reference (Linux 6.5) */
#define WIREPATH_FEATURE_TRAINS (1ULL << 4) /* UDP-segmented trains */
#define WIREPATH_FEATURE_SENDFILEW (1ULL << 5)
#define WIREPATH_FEATURE_URING (1ULL << 6) /* io_uring commands */
#define WIREPATH_FEATURE_RUNS (1ULL << 7) /* START: pacing */
#define WIREPATH_FEATURE_HANDLERS (1ULL << 9) /* START by a handler (Linux 6.12) */
#define WIREPATH_FEATURE_MEMBERS (1ULL << 8) /* trains as lists of buffers (Linux 6.5; not 7.2) */

/* Shortest structures: what the first published version had. */
#define WIREPATH_QUERY_SIZE_VER1 64
#define WIREPATH_SEND_SIZE_VER1 104
#define WIREPATH_RTP_SIZE_VER1 72
#define WIREPATH_SENDFILEW_SIZE_VER1 72
#define WIREPATH_START_SIZE_VER1 48
#define WIREPATH_STATUS_SIZE_VER1 112

/* The caller sets `size`; the module fills in the rest. */
struct wirepath_query {
	__u32 size;
	__u32 version; /* WIREPATH_VERSION of the module */
	__u64 features; /* WIREPATH_FEATURE_* */
	__u32 header_bytes_max;
	__u32 train_packets_max;
	__u32 fragments_max; /* of one socket buffer, as the machine is set */
	__u32 part_count_max;
	__u32 table_count_max; /* entries of an RTP or departure table of a run */
	__u32 reserved;
	__u64 run_packets_max; /* of one SEND or START; then E2BIG */
	__u64 pinned_bytes; /* of the caller's user: pinned now, by runs, io_uring and others */
	__u64 reserved2;
};

#define WIREPATH_TO_END (~0ULL)
#define WIREPATH_HEADER_BYTES_MAX 256
#define WIREPATH_TRAIN_PACKETS_MAX 64
#define WIREPATH_PART_COUNT_MAX 1024

/* wirepath_send.flags and wirepath_sendfilew.flags */
#define WIREPATH_DONTWAIT (1U << 0) /* EAGAIN instead of waiting */
#define WIREPATH_COPY (1U << 1) /* copy payload instead of referring to it */

/* wirepath_send.header_kind */
#define WIREPATH_HEADER_NONE 0
#define WIREPATH_HEADER_GIVEN 1
#define WIREPATH_HEADER_RTP 2

struct wirepath_send {
	__u32 size;
	__u32 flags;
	__s32 socket;
	__s32 file; /* or -1: the caller's memory */
	__u64 offset; /* in the file, or the address; advances */
	__u64 length; /* bytes, or WIREPATH_TO_END; shrinks */
	__u32 packet_bytes; /* payload bytes of a packet; 0: one packet */
	__u32 train_packets; /* at most so many a train; 0: no trains */
	__u32 header_kind; /* WIREPATH_HEADER_* */
	__u32 header_bytes;
	__u64 header; /* address of headers or of struct wirepath_rtp; given ones advance */
	__u64 address; /* of a struct sockaddr, or 0 */
	__u32 address_bytes;
	__u32 skip_bytes; /* of the source, before each packet's payload */
	/* What was sent is added to these. */
	__u64 packets;
	__u64 trains; /* kernel sends: a train or a packet by itself */
	__u64 bytes; /* payload */
	__u64 copied_bytes;
};

/* wirepath_rtp.marker */
#define WIREPATH_MARKER_NEVER 0
#define WIREPATH_MARKER_ALWAYS 1
#define WIREPATH_MARKER_LAST_OF_GROUP 2 /* last packet of each timestamp: video */
#define WIREPATH_MARKER_FIRST 3 /* first packet of the run (packets == 0): audio */

struct wirepath_rtp_time {
	__u32 timestamp;
	__u32 packets; /* at least 1 */
	__u32 bytes; /* payload of the group; 0: packets * packet_bytes */
	__u32 reserved;
};

struct wirepath_rtp {
	__u32 size;
	__u32 flags; /* 0 */
	__u32 ssrc;
	__u32 timestamp; /* of the next packet */
	__u32 timestamp_step;
	__u32 step_packets;
	__u16 sequence; /* of the next packet */
	__u8 payload_type; /* 0..127 */
	__u8 marker; /* WIREPATH_MARKER_* */
	__u32 position; /* packets of the current group that were sent */
	__u64 table; /* address of struct wirepath_rtp_time, or 0: by step */
	__u32 table_count;
	__u32 last_timestamp;
	__u64 last_ns;
	__u64 packets; /* for RTCP; grow */
	__u64 octets;
};

/* wirepath_part.flags */
#define WIREPATH_PART_COPY (1U << 0) /* memory: copy it */
#define WIREPATH_PART_END (1U << 1) /* a packet ends here */

struct wirepath_part {
	__s32 file; /* or -1: the caller's memory */
	__u32 flags; /* WIREPATH_PART_* */
	__u64 offset; /* in the file, or the address */
	__u64 length; /* bytes, at least 1 */
};

struct wirepath_sendfilew {
	__u32 size;
	__u32 flags; /* WIREPATH_DONTWAIT, WIREPATH_COPY */
	__s32 socket;
	__u32 part_count;
	__u64 parts; /* address of struct wirepath_part */
	__u64 address; /* of a struct sockaddr, or 0 (UDP) */
	__u32 address_bytes;
	__u32 part_bytes; /* sizeof(struct wirepath_part) */
	/* What was sent is added to these. */
	__u64 bytes;
	__u64 packets; /* UDP packets, or calls into TCP */
	__u64 copied_bytes;
	__u64 reserved;
};

struct wirepath_departure {
	__u64 time_ns; /* after the start; never less than the one before */
	__u32 packets; /* at least 1 */
	__u32 reserved;
};

struct wirepath_start {
	__u32 size;
	__u32 flags; /* 0 */
	__u64 send; /* address of struct wirepath_send */
	__u64 start_ns; /* CLOCK_MONOTONIC, 0: now */
	__u64 rate_bytes_per_second; /* or 0: by departures */
	__u64 departures; /* address of struct wirepath_departure */
	__u32 departure_count;
	__u32 reserved;
	__u64 handler; /* address of its name, a string; or 0 */
};

/* wirepath_status.state */
#define WIREPATH_RUN_GOING 0
#define WIREPATH_RUN_ENDED 1 /* by itself: `error` says why, 0: all sent */
#define WIREPATH_RUN_STOPPED 2 /* by STOP */

struct wirepath_status {
	__u32 size;
	__u32 state; /* WIREPATH_RUN_* */
	__s32 error; /* a positive errno, or 0 */
	__u16 rtp_sequence; /* of the next packet */
	__u16 reserved;
	__u64 packets;
	__u64 trains;
	__u64 bytes;
	__u64 copied_bytes;
	__u64 late; /* departures later than 1 ms */
	__u64 lateness_max_ns;
	__u64 full; /* times the socket's buffer was full */
	__u64 rtp_packets; /* for RTCP, as in struct wirepath_rtp */
	__u64 rtp_octets;
	__u64 rtp_last_ns;
	__u32 rtp_timestamp; /* of the next packet */
	__u32 rtp_last_timestamp;
	__u64 position; /* offset of the next packet in file or mapping */
	__u64 errors; /* of the network, which the run survived */
	__u64 lost_packets; /* not sent, for such an error */
	__u64 dropped_packets; /* by the handler */
	__s32 last_error; /* the last of them, a positive errno, or 0 */
	__u32 reserved2;
};

/* The `cmd` of an io_uring command (16 bytes of the submission entry). */
struct wirepath_command {
	__u64 argument; /* address of the request's structure */
	__u64 reserved;
};

#endif /* _UAPI_WIREPATH_H */
