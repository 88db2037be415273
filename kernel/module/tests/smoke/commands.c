// SPDX-License-Identifier: GPL-2.0
/* The same requests as commands of io_uring, by its own system calls. */
#include "smoke.h"

#include <linux/io_uring.h>
#include <sys/syscall.h>

/* The least that io_uring needs, by its own system calls. */
struct ring {
	int fd;
	unsigned int *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static struct ring ring_open(void)
{
	struct io_uring_params params = { 0 };
	struct ring ring = { .fd = syscall(__NR_io_uring_setup, 8, &params) };
	char *sq, *cq;

	if (ring.fd < 0)
		die("io_uring_setup");
	sq = mmap(NULL, params.sq_off.array + 8 * 4, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
	cq = mmap(NULL, params.cq_off.cqes + 16 * sizeof(struct io_uring_cqe),
		  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_CQ_RING);
	ring.sqes = mmap(NULL, 8 * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || ring.sqes == MAP_FAILED)
		die("ring");
	ring.sq_tail = (void *)(sq + params.sq_off.tail);
	ring.sq_mask = (void *)(sq + params.sq_off.ring_mask);
	ring.sq_array = (void *)(sq + params.sq_off.array);
	ring.cq_head = (void *)(cq + params.cq_off.head);
	ring.cq_tail = (void *)(cq + params.cq_off.tail);
	ring.cq_mask = (void *)(cq + params.cq_off.ring_mask);
	ring.cqes = (void *)(cq + params.cq_off.cqes);
	return ring;
}

/* Submit one command and wait for its answer. */
static int ring_command(struct ring *ring, unsigned int request, void *argument, __u64 reserved)
{
	unsigned int at = *ring->sq_tail & *ring->sq_mask;
	struct wirepath_command command = { (__u64)(size_t)argument, reserved };
	struct io_uring_sqe *sqe = &ring->sqes[at];
	int answer;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = device;
	sqe->cmd_op = request;
	memcpy(sqe->cmd, &command, sizeof(command));
	ring->sq_array[at] = at;
	__atomic_store_n(ring->sq_tail, *ring->sq_tail + 1, __ATOMIC_RELEASE);
	if (syscall(__NR_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		die("io_uring_enter");
	if (__atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) == *ring->cq_head)
		return -1000;
	answer = ring->cqes[*ring->cq_head & *ring->cq_mask].res;
	__atomic_store_n(ring->cq_head, *ring->cq_head + 1, __ATOMIC_RELEASE);
	return answer;
}

void commands(const struct data *data, struct pair pair)
{
	struct ring ring = ring_open();
	struct wirepath_send send = cut(wirepath_send_of(pair.from, data->file, 5, 300000), 1316, 64);
	struct wirepath_query query = { .size = sizeof(query) };
	struct wirepath_sendfilew vector = { .size = sizeof(vector), .socket = -1 };

	/* Cold pages: the first try would wait, a worker goes on. */
	posix_fadvise(data->file, 0, 0, POSIX_FADV_DONTNEED);
	CHECK(ring_command(&ring, WIREPATH_SEND, &send, 0) == 0);
	CHECK(send.bytes == 300000 && send.length == 0);
	expect_plain(pair.to, data->bytes + 5, 300000, 1316);
	/* More packets than a first try sends are no reason for EAGAIN. */
	send = cut(wirepath_send_of(pair.from, -1, (__u64)(size_t)data->bytes, 200 * 500), 500, 0);
	send.flags = WIREPATH_DONTWAIT;
	CHECK(ring_command(&ring, WIREPATH_SEND, &send, 0) == 0);
	CHECK(send.packets == 200 && send.length == 0);
	expect_plain(pair.to, data->bytes, 200 * 500, 500);
	CHECK(ring_command(&ring, WIREPATH_QUERY, &query, 0) == 0 && query.version == 1);
	CHECK(ring_command(&ring, WIREPATH_QUERY, &query, 1) == -EINVAL);
	CHECK(ring_command(&ring, WIREPATH_QUERY, NULL, 0) == -EFAULT);
	CHECK(ring_command(&ring, WIREPATH_SENDFILEW, &vector, 0) == -EBADF);
	CHECK(ring_command(&ring, 1234, &query, 0) == -ENOTTY);
	close(ring.fd);
}
