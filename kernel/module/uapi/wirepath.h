/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Wirepath: from storage to the network in one call, by reference.
 *
 * The whole protocol
 * ==================
 *
 * Open /dev/wirepath. Every request is an ioctl on that descriptor, with the
 * address of a structure; or the same request as an io_uring command, see
 * below. The opener needs nothing but the right to open the device (mode
 * 0660, group wirepath): no request does what the caller could not do with
 * read() and send() on the same descriptors.
 *
 *   WIREPATH_QUERY      which version, features and limits
 *   WIREPATH_SEND       send a packet, or a run of packets, and return
 *   WIREPATH_SENDFILEW  send a vector of parts as packets (UDP) or as
 *                       consecutive bytes (TCP)
 *   WIREPATH_START      send a run by rate or departure times; answers a
 *                       descriptor of its own, the run, which knows
 *   WIREPATH_STATUS       how far it is,
 *   WIREPATH_STOP         stop,
 *   WIREPATH_WAIT         wait for its end (a signal ends the waiting only)
 *
 * Structures
 * ----------
 * Each begins with its own size in bytes, which the caller sets to sizeof.
 * A newer caller may pass a longer structure to an older module as long as
 * what the module does not know is zero (else E2BIG); an older caller passes
 * a shorter one, and the missing tail counts as zero. Shorter than the first
 * published version, unknown flags, and reserved fields that are not zero:
 * EINVAL. All integers are in the machine's byte order, all addresses are
 * __u64; the layout is the same for 32-bit callers.
 *
 * SEND: payload x header x packets
 * --------------------------------
 * The source is `length` bytes from `offset`: in the file `file`, open for
 * reading; or, if `file` is -1, in the caller's memory, `offset` being the
 * address (any readable mapping; that of a file is the file's page cache).
 * `length` WIREPATH_TO_END means "to the end of the file". All of it is payload
 * but for skip_bytes.
 *
 * `packet_bytes` 0 sends all of it as one packet. Otherwise it is cut into
 * packets of that many payload bytes, the last may be shorter.
 *
 * `skip_bytes` (at most WIREPATH_HEADER_BYTES_MAX) bytes of the source are
 * passed over before each packet's payload: stored headers, which lie between
 * the payloads. They are no payload, so that packet_bytes, bytes and
 * copied_bytes do not count them; but they are of the source, so that length
 * and offset do: n packets are n * (skip_bytes + packet_bytes) of length, and
 * offset stands at what is passed over before the next one. Bytes that are
 * passed over with nothing behind them belong to no packet: they stay in
 * length, and the answer is 0 as at the end; of a file that ends in them
 * before length does it is ENODATA, as of one that ends before them.
 *
 * Each packet begins with a header of one kind:
 *   WIREPATH_HEADER_NONE   none
 *   WIREPATH_HEADER_GIVEN  `header_bytes` bytes (at most
 *                          WIREPATH_HEADER_BYTES_MAX) copied from `header`;
 *                          in a run the headers of its packets lie there one
 *                          after the other
 *   WIREPATH_HEADER_RTP    12 bytes made by the RTP engine from the struct
 *                          wirepath_rtp at `header`; `header_bytes` is its
 *                          size, like its own first field
 *
 * `train_packets` 0 or 1 sends each packet by itself. More lets up to so many
 * packets of one size leave as one UDP-segmented train; fewer do when the
 * fragments of a socket buffer or its 65,507 bytes are used up. Packets with
 * headers also leave as a list of buffers (WIREPATH_FEATURE_MEMBERS), as many
 * in each, from a socket connected over IPv4 where the route allows. A train's
 * packets must fit the MTU (else EMSGSIZE or EINVAL, as from send() with
 * UDP_SEGMENT), and devices without checksum offload refuse trains with EIO
 * before Linux 6.12.
 *
 * `socket` is a UDP socket over IPv4 or IPv6; the destination is the one it
 * is connected to, or `address_bytes` bytes of struct sockaddr at `address`.
 *
 * The structure is the run's state. When the call returns, with whatever
 * answer, what was sent has been added to `packets`, `trains`, `bytes`
 * (payload) and `copied_bytes` (payload that the kernel copied instead of
 * taking it by reference, as far as the module can tell); `offset` and
 * `header` stand at the first packet not yet sent; `length` is what is left
 * (WIREPATH_TO_END stays); the RTP state has advanced. So a run is continued
 * by calling again with the same structure. Nothing of a packet is ever sent
 * twice, or in part.
 *
 * The answer is 0 when all was sent (length has no payload left, or the end was
 * asked for), otherwise the reason why it ended early:
 *   ENODATA  the file is shorter than offset + length (what there was has
 *            been sent), or the RTP table ended
 *   EINTR    a signal came that has a handler, also one with SA_RESTART
 *   EAGAIN   with WIREPATH_DONTWAIT or a socket in O_NONBLOCK: the socket's
 *            buffer is full, or (DONTWAIT only) the payload is not in the page
 *            cache yet; reading it has been begun. What has no device behind
 *            it (holes of ramfs and tmpfs) is read at once. Waited for is what
 *            nobody reads ahead: pages written in part, or swapped out of a
 *            tmpfs, what a file system reads to know where its blocks are, and
 *            files in O_DIRECT, whose reads pass by the page cache
 *   EFAULT   memory that is not there
 *   EIO      the file's storage failed; also where its file system says ENODATA
 *            (a sector cannot be read), or EAGAIN to a call that waits
 *   and whatever send() answers: EMSGSIZE, ECONNREFUSED, EDESTADDRREQ, ...
 * and, before anything is done:
 *   EBADF    socket or file are no open descriptors, or the file is not open
 *            for reading
 *   ENOTSOCK, EPROTONOSUPPORT (no UDP, or for SENDFILEW TCP, over IP)
 *   EINVAL   not a regular file; unknown flags; contradictory or absent sizes
 *   EMSGSIZE a packet as asked for (packet_bytes, or without it length less
 *            skip_bytes, and header) is longer than 65,507 bytes, even if the
 *            source has less
 *   E2BIG    more packets than `run_packets_max` (see QUERY); to the end of a
 *            file, when so many were sent
 *   EOPNOTSUPP this mechanism is switched off on this machine (see QUERY)
 *
 * By reference means: pages are not copied. What is written to the file or
 * the mapping after the call may be what leaves, as with sendfile(); replace
 * files by rename. WIREPATH_COPY asks for a copy, after which the memory is the
 * caller's again.
 *
 * RTP engine
 * ----------
 * Packet by packet: version 2, no padding, extension or CSRC; `sequence`
 * (then one more, modulo 2^16), `timestamp`, `ssrc`, `payload_type`, and the
 * marker by `marker`. The timestamp
 *   by step:  stays for `step_packets` packets (0 means 1), of which
 *             `position` were sent, then grows by `timestamp_step`;
 *   by table: `table` is the address of `table_count` struct
 *             wirepath_rtp_time; each is a group of packets, `packets` of
 *             them, with one timestamp, which carry `bytes` of payload in all
 *             (0: all packets full), so that the last of the group may be
 *             shorter: a frame cut into packets. `table` and `table_count`
 *             advance past groups that are done, `position` counts the
 *             packets of the first one that were sent. The run ends
 *             where the table does. `timestamp` is what was sent last.
 * `packets` and `octets` grow by what an RTCP sender report counts (RFC 3550,
 * 6.4.1: packets, payload octets), `last_timestamp` and `last_ns` (CLOCK_MONOTONIC)
 * are of the last packet handed to the network (in a time namespace, too, by
 * the clock of the machine, as `start_ns` below): the pair that a report's
 * NTP and RTP timestamps are computed from. `last_ns` 0: nothing sent yet.
 *
 * SENDFILEW
 * ---------
 * A vector of `part_count` struct wirepath_part, each `length` bytes from a
 * file, from a mapping by reference (`file` -1), or from a buffer that is
 * copied (`file` -1 and WIREPATH_PART_COPY). On UDP, a packet ends after a part
 * with WIREPATH_PART_END and after the last; a packet of more fragments than a
 * socket buffer holds is copied, one of more than 160 pieces (parts of pages;
 * buffers that are copied one after the other make one) is EMSGSIZE. A packet
 * that a file is too short for is not sent (ENODATA). On TCP bytes follow each other and
 * WIREPATH_PART_END means that nothing waits for more (MSG_MORE is off). `bytes` is
 * what was sent of the vector, `copied_bytes` and `packets` (UDP) as above;
 * a call begins after the first `bytes` of its vector, so that it too is
 * continued by calling again (UDP: EINVAL unless a packet begins there).
 *
 * START
 * -----
 * `send` is the address of a struct wirepath_send as above; the structure is
 * read, not written: what becomes of it is told by STATUS. Files of proc, sysfs
 * and the like, whose content depends on who reads, are EINVAL. Departures: at
 * `rate_bytes_per_second` (headers and payload) from `start_ns` on
 * (CLOCK_MONOTONIC; 0: now); or by a table of `departure_count` struct
 * wirepath_departure: at `time_ns` after the start, `packets` packets. What is
 * late is sent at once, and counted. The answer is the run's descriptor
 * (close-on-exec), or EDQUOT when the caller's user has as many runs going as
 * this machine allows; in a namespace of users, whoever made the outermost one
 * counts. It ends by itself (everything sent, or an error), by STOP,
 * or when its last descriptor is closed, and so with its owner. poll() says
 * POLLIN when it has ended. A run keeps the socket, the file and the pages of
 * a mapping it sends (these count against RLIMIT_MEMLOCK; copies of its tables
 * and headers against the memory cgroup, at most 16 MiB each) until it ends;
 * closing the socket's own descriptor does not end it, shutdown() does. It
 * acts with the credentials of its starter, in its cgroups and with its
 * niceness. STOP waits for the train that is being sent, and so for storage that
 * does not answer; only a signal that kills ends that (EINTR), and the run stops
 * all the same. Closing does not wait: what is being read is not sent any more,
 * what is being sent leaves. While the machine sleeps a run sends nothing.
 *
 * A run survives what a loop around send() would: the answer to an earlier
 * packet (ECONNREFUSED, EHOSTUNREACH, ICMPv6's EACCES, ...) and EPERM of a packet
 * filter; the next packet is tried once more, and lost if it is refused again.
 * ENOBUFS and ENOMEM: it tries again until there is room. EMSGSIZE: the packets
 * of a train are tried by themselves for a second, as also after EINVAL or EIO of
 * a train.
 * STATUS counts these `errors`, which end no run, and `lost_packets`: they use
 * up sequence numbers, and are no packets sent. Other errors end the run
 * (EPIPE, EDESTADDRREQ, EIO of the storage, ...).
 *
 * `handler` names an eBPF program that is asked about each packet before it is
 * sent, and may rewrite its header or have it dropped: wirepath_handler.h. ENOENT
 * if none is attached by that name, EOPNOTSUPP if this kernel or module has no
 * handlers. A run whose handler is detached ends with ENOLINK. Packets that it
 * drops are counted as `dropped_packets`; RTCP does not count them.
 *
 * io_uring
 * --------
 * IORING_OP_URING_CMD on the device's descriptor with `cmd_op` one of QUERY,
 * SEND, SENDFILEW, START and struct wirepath_command in `cmd`. The
 * completion's result is the ioctl's answer (-errno). The ring first tries
 * without waiting, up to 64 trains; what would wait or is longer goes on in a
 * worker of the ring, from where it stood. With WIREPATH_DONTWAIT nothing goes
 * to a worker for want of socket buffer: the result is -EAGAIN.
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
