/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The papers' calls, for C and C++: thin names over WIREPATH_SEND and
 * WIREPATH_SENDFILEW, with wirepath_ in front. `device` is /dev/wirepath, opened. Each answers the
 * payload bytes it sent, which are fewer than asked for when the file or a
 * signal ended it, or -1 and errno when it sent none.
 *
 *                               payload   header        packets
 *   wirepath_msend              memory    none          one
 *   wirepath_rtpmsend           memory    the caller's  one
 *   wirepath_kmsend             memory    none          a run
 *   wirepath_krtpmsend          memory    RTP engine    a run
 *   wirepath_rtpsendfile        file      the caller's  one
 *   wirepath_ksendfile          file      none          a run
 *   wirepath_krtpsendfile       file      RTP engine    a run
 *   wirepath_sendfilew          a vector of both        one or more
 */
#ifndef _UAPI_WIREPATH_CALLS_H
#define _UAPI_WIREPATH_CALLS_H

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#include "wirepath.h"

/* Packets of one train that a call asks for: more than fit in any. */
#define WIREPATH_TRAIN WIREPATH_TRAIN_PACKETS_MAX

static inline struct wirepath_send wirepath_send_of(int socket, int file, __u64 offset,
						    __u64 length)
{
	struct wirepath_send send;

	memset(&send, 0, sizeof(send));
	send.size = sizeof(send);
	send.socket = socket;
	send.file = file;
	send.offset = offset;
	send.length = length;
	return send;
}

static inline ssize_t wirepath_send_all(int device, struct wirepath_send *send)
{
	if (ioctl(device, WIREPATH_SEND, send) < 0 && send->packets == 0 && errno != ENODATA)
		return -1;
	return (ssize_t)send->bytes;
}

static inline ssize_t wirepath_send_file(int device, struct wirepath_send *send, off_t *offset)
{
	ssize_t sent = wirepath_send_all(device, send);

	*offset = (off_t)send->offset;
	return sent;
}

static inline ssize_t wirepath_msend(int device, int socket, const void *payload, size_t bytes)
{
	struct wirepath_send send = wirepath_send_of(socket, -1, (__u64)(size_t)payload, bytes);

	return wirepath_send_all(device, &send);
}

static inline ssize_t wirepath_rtpmsend(int device, int socket, const void *header,
					size_t header_bytes, const void *payload, size_t bytes)
{
	struct wirepath_send send = wirepath_send_of(socket, -1, (__u64)(size_t)payload, bytes);

	send.header_kind = WIREPATH_HEADER_GIVEN;
	send.header = (__u64)(size_t)header;
	send.header_bytes = (__u32)header_bytes;
	return wirepath_send_all(device, &send);
}

static inline ssize_t wirepath_kmsend(int device, int socket, const void *payload, size_t bytes,
				      size_t packet_bytes)
{
	struct wirepath_send send = wirepath_send_of(socket, -1, (__u64)(size_t)payload, bytes);

	send.packet_bytes = (__u32)packet_bytes;
	send.train_packets = WIREPATH_TRAIN;
	return wirepath_send_all(device, &send);
}

static inline ssize_t wirepath_krtpmsend(int device, int socket, const void *payload,
					 size_t bytes, size_t packet_bytes,
					 struct wirepath_rtp *rtp)
{
	struct wirepath_send send = wirepath_send_of(socket, -1, (__u64)(size_t)payload, bytes);

	send.packet_bytes = (__u32)packet_bytes;
	send.train_packets = WIREPATH_TRAIN;
	send.header_kind = WIREPATH_HEADER_RTP;
	send.header = (__u64)(size_t)rtp;
	send.header_bytes = rtp->size;
	return wirepath_send_all(device, &send);
}

static inline ssize_t wirepath_rtpsendfile(int device, int socket, const void *header,
					   size_t header_bytes, int file, off_t *offset,
					   size_t bytes)
{
	struct wirepath_send send = wirepath_send_of(socket, file, (__u64)*offset, bytes);

	send.header_kind = WIREPATH_HEADER_GIVEN;
	send.header = (__u64)(size_t)header;
	send.header_bytes = (__u32)header_bytes;
	return wirepath_send_file(device, &send, offset);
}

static inline ssize_t wirepath_ksendfile(int device, int socket, int file, off_t *offset,
					 __u64 bytes, size_t packet_bytes)
{
	struct wirepath_send send = wirepath_send_of(socket, file, (__u64)*offset, bytes);

	send.packet_bytes = (__u32)packet_bytes;
	send.train_packets = WIREPATH_TRAIN;
	return wirepath_send_file(device, &send, offset);
}

static inline ssize_t wirepath_krtpsendfile(int device, int socket, int file, off_t *offset,
					    __u64 bytes, size_t packet_bytes,
					    struct wirepath_rtp *rtp)
{
	struct wirepath_send send = wirepath_send_of(socket, file, (__u64)*offset, bytes);

	send.packet_bytes = (__u32)packet_bytes;
	send.train_packets = WIREPATH_TRAIN;
	send.header_kind = WIREPATH_HEADER_RTP;
	send.header = (__u64)(size_t)rtp;
	send.header_bytes = rtp->size;
	return wirepath_send_file(device, &send, offset);
}

static inline ssize_t wirepath_sendfilew(int device, int socket,
					 const struct wirepath_part *parts, size_t count)
{
	struct wirepath_sendfilew vector;

	memset(&vector, 0, sizeof(vector));
	vector.size = sizeof(vector);
	vector.socket = socket;
	vector.part_count = (__u32)count;
	vector.part_bytes = sizeof(*parts);
	vector.parts = (__u64)(size_t)parts;
	if (ioctl(device, WIREPATH_SENDFILEW, &vector) < 0 && vector.bytes == 0)
		return -1;
	return (ssize_t)vector.bytes;
}

#endif /* _UAPI_WIREPATH_CALLS_H */
