// SPDX-License-Identifier: GPL-2.0
/*
 * Requests of 32-bit programs (compat ioctl), as a 64-bit program can make them:
 * by the call gate of 32-bit programs, with structures in the lowest 4 GiB. Each
 * must answer what the native call answers.
 */
#include "smoke.h"

#if defined(__x86_64__)

#define NARROW_IOCTL 54
#define NARROW_GETPID 20
#define MEMORY_BYTES 65536

/* All that the requests point to. */
struct memory {
	struct wirepath_query query;
	struct wirepath_send send;
	struct wirepath_rtp rtp;
	struct wirepath_sendfilew vector;
	struct wirepath_part parts[3];
	struct wirepath_start start;
	struct wirepath_status status;
	struct wirepath_departure departures[4];
	unsigned char headers[4][12];
	unsigned char payload[8000];
};

/* A call of 32-bit programs: its result, a negative errno if it failed. */
static int narrow_call(unsigned int number, unsigned int first, unsigned int second,
		       unsigned int third)
{
	long answer;

	asm volatile("int $0x80" : "=a"(answer) : "a"(number), "b"(first), "c"(second), "d"(third)
		     : "memory", "cc", "r8", "r9", "r10", "r11");
	return (int)answer;
}

static void no_such_call(int signal_)
{
	(void)signal_;
	_exit(2);
}

/* Does this kernel take calls of 32-bit programs? */
static int is_there(void)
{
	int state;
	pid_t child = fork();

	if (!child) {
		signal(SIGSEGV, no_such_call);
		_exit(narrow_call(NARROW_GETPID, 0, 0, 0) == getpid() ? 0 : 3);
	}
	CHECK(waitpid(child, &state, 0) == child);
	return WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

/* By one gate or the other: 0 or a descriptor, or a negative errno. */
static int request(int is_narrow, int descriptor, unsigned int number, void *argument)
{
	int answer;

	if (is_narrow)
		return narrow_call(NARROW_IOCTL, descriptor, number, (unsigned int)(size_t)argument);
	answer = ioctl(descriptor, number, argument);
	return answer < 0 ? -errno : answer;
}

static void queries(struct memory *memory)
{
	struct wirepath_query native = { .size = sizeof(native) };

	memory->query = native;
	CHECK(request(1, device, WIREPATH_QUERY, &memory->query) == 0);
	CHECK(request(0, device, WIREPATH_QUERY, &native) == 0);
	/* Runs that ended just now release their pins later. */
	memory->query.pinned_bytes = native.pinned_bytes;
	CHECK(!memcmp(&memory->query, &native, sizeof(native)));
}

/* From a file with the module's headers, and from memory with the caller's. */
static void sends(const struct data *data, struct pair pair, struct memory *memory, int is_narrow)
{
	struct wirepath_rtp header = rtp_of();

	memory->rtp = rtp_of();
	memory->send = with_rtp(cut(wirepath_send_of(pair.from, data->file, 777, 100000), 1316, 64),
				&memory->rtp);
	CHECK(request(is_narrow, device, WIREPATH_SEND, &memory->send) == 0);
	CHECK(memory->send.packets == 76 && memory->send.bytes == 100000 && memory->send.length == 0 &&
	      memory->send.offset == 100777 && memory->rtp.packets == 76);
	expect_rtp_run(pair.to, &header, data->bytes + 777, 100000, 1316, 0);
	memory->send = with_given(cut(wirepath_send_of(pair.from, -1, (__u64)(size_t)memory->payload,
						       4000), 1000, 0), memory->headers, 12);
	CHECK(request(is_narrow, device, WIREPATH_SEND, &memory->send) == 0);
	CHECK(memory->send.packets == 4 &&
	      memory->send.header == (__u64)(size_t)memory->headers + sizeof(memory->headers));
	for (int i = 0; i < 4; i++)
		expect_with(pair.to, memory->headers[i], 12, memory->payload + i * 1000, 1000);
	CHECK(nothing_more(pair.to));
}

static void vectors_too(const struct data *data, struct pair pair, struct memory *memory, int is_narrow)
{
	memory->parts[0] = (struct wirepath_part){ .file = -1, .length = 12, .flags = WIREPATH_PART_COPY,
						   .offset = (__u64)(size_t)memory->headers[1] };
	memory->parts[1] = (struct wirepath_part){ .file = data->file, .offset = 333, .length = 1000,
						   .flags = WIREPATH_PART_END };
	memory->parts[2] = (struct wirepath_part){ .file = -1, .length = 500,
						   .offset = (__u64)(size_t)memory->payload };
	memory->vector = (struct wirepath_sendfilew){
		.size = sizeof(memory->vector), .socket = pair.from, .part_count = 3,
		.part_bytes = sizeof(struct wirepath_part), .parts = (__u64)(size_t)memory->parts,
	};
	CHECK(request(is_narrow, device, WIREPATH_SENDFILEW, &memory->vector) == 0);
	CHECK(memory->vector.packets == 2 && memory->vector.bytes == 1512);
	expect_with(pair.to, memory->headers[1], 12, data->bytes + 333, 1000);
	expect_one(pair.to, memory->payload, 500);
	CHECK(nothing_more(pair.to));
}

static void runs_too(const struct data *data, struct pair pair, struct memory *memory, int is_narrow)
{
	int run;

	memory->send = with_given(cut(wirepath_send_of(pair.from, data->file, 0, 4000), 1000, 0),
				  memory->headers, 12);
	memory->start = start_of(&memory->send, 0);
	memory->start.departures = (__u64)(size_t)memory->departures;
	memory->start.departure_count = COUNT(memory->departures);
	for (size_t i = 0; i < COUNT(memory->departures); i++)
		memory->departures[i] = (struct wirepath_departure){ .time_ns = i * 1000000, .packets = 1 };
	run = request(is_narrow, device, WIREPATH_START, &memory->start);
	CHECK(run >= 0, "%d", run);
	for (int i = 0; i < 4; i++)
		expect_with(pair.to, memory->headers[i], 12, data->bytes + i * 1000, 1000);
	memory->status = (struct wirepath_status){ .size = sizeof(memory->status) };
	CHECK(request(is_narrow, run, WIREPATH_WAIT, &memory->status) == 0);
	CHECK(memory->status.state == WIREPATH_RUN_ENDED && memory->status.packets == 4);
	memory->status = (struct wirepath_status){ .size = sizeof(memory->status) };
	CHECK(request(is_narrow, run, WIREPATH_STATUS, &memory->status) == 0 &&
	      memory->status.packets == 4);
	CHECK(request(is_narrow, run, WIREPATH_STOP, NULL) == 0);
	CHECK(request(is_narrow, run, WIREPATH_SEND, &memory->send) == -ENOTTY);
	close(run);
}

static void refused(struct pair pair, struct memory *memory, int is_narrow)
{
	CHECK(request(is_narrow, device, _IO(WIREPATH_IOC, 99), NULL) == -ENOTTY);
	CHECK(request(is_narrow, device, WIREPATH_SEND, (void *)8) == -EFAULT);
	/* The highest address that 32 bits have: nothing is mapped there. */
	CHECK(request(is_narrow, device, WIREPATH_QUERY, (void *)0xfffffff8UL) == -EFAULT);
	memory->send = wirepath_send_of(pair.from, -1, (__u64)(size_t)memory->payload, 1000);
	memory->send.size = 8;
	CHECK(request(is_narrow, device, WIREPATH_SEND, &memory->send) == -EINVAL);
	memory->send.size = 5000;
	CHECK(request(is_narrow, device, WIREPATH_SEND, &memory->send) == -E2BIG);
	memory->send.size = sizeof(memory->send);
	memory->send.flags = 0x80000000;
	CHECK(request(is_narrow, device, WIREPATH_SEND, &memory->send) == -EINVAL);
	memory->send.flags = 0;
	memory->send.offset = 8;
	CHECK(request(is_narrow, device, WIREPATH_SEND, &memory->send) == -EFAULT);
	memory->start = start_of((void *)8, 1000);
	CHECK(request(is_narrow, device, WIREPATH_START, &memory->start) == -EFAULT);
	CHECK(nothing_more(pair.to));
}

void narrow(const struct data *data, struct pair pair)
{
	struct memory *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	if (is_there()) {
		for (size_t i = 0; i < sizeof(memory->headers); i++)
			memory->headers[i / 12][i % 12] = i * 5;
		memcpy(memory->payload, data->bytes + 4321, sizeof(memory->payload));
		queries(memory);
		for (int is_narrow = 0; is_narrow < 2; is_narrow++) {
			sends(data, pair, memory, is_narrow);
			vectors_too(data, pair, memory, is_narrow);
			runs_too(data, pair, memory, is_narrow);
			refused(pair, memory, is_narrow);
		}
	} else {
		SKIP("no calls of 32-bit programs");
	}
	munmap(memory, MEMORY_BYTES);
}

#else

void narrow(const struct data *data, struct pair pair)
{
	(void)data;
	(void)pair;
	SKIP("not an x86-64 processor");
}

#endif
