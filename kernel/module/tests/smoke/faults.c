// SPDX-License-Identifier: GPL-2.0
/*
 * Page faults of a call's request, headers or payload, served by userfaultfd: a
 * thread sends packets of its own and then fills the page or unregisters it; or it
 * never answers, and the process is killed.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "smoke.h"

#define MEMORY_PAGE 4096
#define HEADER 12
#define PACKETS 3
#define PAYLOAD 1000

enum place { REQUEST, HEADERS, PLACE_PAYLOAD, PLACES };
enum reply { FILLED, UNREGISTERED, NEVER, REPLIES };

/* A page that is missing until the thread serves its fault. */
struct uffd {
	int events;
	unsigned char *page;
	unsigned char content[MEMORY_PAGE] __attribute__((aligned(MEMORY_PAGE)));
	enum reply reply;
	int asked;		/* a pipe, for NEVER */
	int returned;		/* a pipe with a byte when the call has returned, or -1 */
	const struct data *data;
	struct pair own;	/* for the thread's packets */
	unsigned int faults;
};

static const char * const places[] = { "request", "headers", "payload" };
static const char * const replies[] = { "filled", "unregistered", "never" };

/* -1 without userfaultfd. */
static int uffd_open(struct uffd *uffd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register region = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	/* Only without waiting it can be polled. */
	uffd->events = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd->events < 0)
		return -1;
	uffd->page = mmap(NULL, MEMORY_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (uffd->page == MAP_FAILED)
		die("mmap");
	region.range.start = (__u64)(size_t)uffd->page;
	region.range.len = MEMORY_PAGE;
	if (ioctl(uffd->events, UFFDIO_API, &api) || ioctl(uffd->events, UFFDIO_REGISTER, &region))
		die("userfaultfd");
	return 0;
}

static void uffd_close(struct uffd *uffd)
{
	close(uffd->events);
	munmap(uffd->page, MEMORY_PAGE);
}

/* What the thread sends while the other waits: headers of the caller, and lists with those of the module. */
static void send_meanwhile(const struct data *data, struct pair own)
{
	unsigned char headers[PACKETS][HEADER];
	struct wirepath_rtp rtp = rtp_of(), header = rtp;
	struct wirepath_send send = with_given(cut(wirepath_send_of(own.from, data->file, 5000,
								    PACKETS * PAYLOAD), PAYLOAD, 0),
					       headers, HEADER);

	memset(headers, 0xee, sizeof(headers));
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	for (int i = 0; i < PACKETS; i++)
		expect_with(own.to, headers[i], HEADER, data->bytes + 5000 + i * PAYLOAD, PAYLOAD);
	send = with_rtp(cut(wirepath_send_of(own.from, data->file, 0, 100000), 1316, 64), &rtp);
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	expect_rtp_run(own.to, &header, data->bytes, 100000, 1316, 0);
	CHECK(nothing_more(own.to));
}

/* Waits for a fault: 0 if the call has returned without. */
static int fault_comes(struct uffd *uffd)
{
	struct pollfd ready[2] = { { .fd = uffd->events, .events = POLLIN },
				   { .fd = uffd->returned, .events = POLLIN } };
	struct uffd_msg message;

	CHECK(poll(ready, 2, -1) > 0);
	if (!(ready[0].revents & POLLIN))
		return 0;
	CHECK(read(uffd->events, &message, sizeof(message)) == sizeof(message) &&
	      message.event == UFFD_EVENT_PAGEFAULT);
	return 1;
}

static void *answer_faults(void *argument)
{
	struct uffd *uffd = argument;
	struct uffdio_range range = { (__u64)(size_t)uffd->page, MEMORY_PAGE };
	struct uffdio_copy copy = { .dst = range.start, .src = (__u64)(size_t)uffd->content,
				    .len = MEMORY_PAGE };

	if (!fault_comes(uffd))
		return NULL;
	uffd->faults++;
	if (uffd->reply == NEVER) {
		if (write(uffd->asked, "", 1) != 1)
			die("write");
		for (;;)
			pause();
	}
	send_meanwhile(uffd->data, uffd->own);
	if (uffd->reply == FILLED)
		CHECK(!ioctl(uffd->events, UFFDIO_COPY, &copy));
	else
		CHECK(!ioctl(uffd->events, UFFDIO_UNREGISTER, &range));
	return NULL;
}

/* Three packets of memory with the caller's headers, of which one part is in the missing page. */
struct wanted {
	struct wirepath_send request, *send;
	unsigned char headers[PACKETS][HEADER];
	const unsigned char *payload;
};

static void wanted_make(struct wanted *wanted, struct uffd *uffd, enum place place, struct pair pair,
			unsigned int train_packets)
{
	const void *headers = place == HEADERS ? (void *)uffd->page : wanted->headers;
	const void *payload = place == PLACE_PAYLOAD ? uffd->page + 100 : uffd->data->bytes + 100;

	wanted->payload = uffd->data->bytes + 100;
	for (int i = 0; i < PACKETS; i++)
		memset(wanted->headers[i], 0x10 + i, HEADER);
	wanted->request = with_given(cut(wirepath_send_of(pair.from, -1, (__u64)(size_t)payload,
							  PACKETS * PAYLOAD), PAYLOAD, train_packets),
				     headers, HEADER);
	wanted->send = place == REQUEST ? (void *)uffd->page : &wanted->request;
	switch (place) {
	case REQUEST:
		memcpy(uffd->content, &wanted->request, sizeof(wanted->request));
		break;
	case HEADERS:
		memcpy(uffd->content, wanted->headers, sizeof(wanted->headers));
		break;
	default:
		memcpy(uffd->content, uffd->data->bytes, sizeof(uffd->content));
	}
}

/* Packets are as without a fault if the page was filled; unregistered, it is zeros. */
static void answered(const struct data *data, struct pair pair, struct pair own, enum place place,
		     enum reply reply, unsigned int train_packets)
{
	static const unsigned char zeros[PACKETS * PAYLOAD];
	static struct uffd uffd;
	struct wanted wanted;
	int answer, returned[2];
	pthread_t thread;

	if (pipe(returned))
		die("pipe");
	uffd = (struct uffd){ .reply = reply, .data = data, .own = own, .returned = returned[0] };
	if (uffd_open(&uffd)) {
		SKIP("no userfaultfd (%s)", strerror(errno));
		close(returned[0]);
		close(returned[1]);
		return;
	}
	wanted_make(&wanted, &uffd, place, pair, train_packets);
	if (pthread_create(&thread, NULL, answer_faults, &uffd))
		die("pthread_create");
	answer = ioctl(device, WIREPATH_SEND, wanted.send) ? errno : 0;
	CHECK(write(returned[1], "", 1) == 1);
	CHECK(!pthread_join(thread, NULL) && uffd.faults == 1, "%s %s: %u faults", places[place],
	      replies[reply], uffd.faults);
	if (reply == UNREGISTERED && place == REQUEST) {
		CHECK(answer == EINVAL, "%d", answer);
	} else {
		CHECK(answer == 0 && wanted.send->packets == PACKETS, "%s %s: %d", places[place],
		      replies[reply], answer);
		for (int i = 0; i < PACKETS; i++)
			expect_with(pair.to,
				    reply == UNREGISTERED && place == HEADERS ? zeros : wanted.headers[i], HEADER,
				    reply == UNREGISTERED && place == PLACE_PAYLOAD ? zeros :
				    wanted.payload + i * PAYLOAD, PAYLOAD);
	}
	CHECK(nothing_more(pair.to), "%s %s", places[place], replies[reply]);
	uffd_close(&uffd);
	close(returned[0]);
	close(returned[1]);
}

/* A process that is killed while a call, or a run's start, waits for a page ends and leaves nothing. */
static void killed(const struct data *data, struct pair pair, enum place place, int by_run)
{
	static struct uffd uffd;
	int asked[2], state, users = module_users();
	struct wanted wanted;
	struct wirepath_start start;
	pthread_t thread;
	char byte;
	pid_t child;

	if (pipe(asked))
		die("pipe");
	fflush(stdout);
	child = fork();
	if (!child) {
		uffd = (struct uffd){ .reply = NEVER, .data = data, .asked = asked[1],
				      .returned = -1 };
		if (uffd_open(&uffd))
			_exit(2);
		wanted_make(&wanted, &uffd, place, pair, 0);
		start = start_of(wanted.send, 1000000);
		if (pthread_create(&thread, NULL, answer_faults, &uffd))
			_exit(3);
		ioctl(device, by_run ? WIREPATH_START : WIREPATH_SEND,
		      by_run ? (void *)&start : (void *)wanted.send);
		_exit(4);
	}
	close(asked[1]);
	if (read(asked[0], &byte, 1) == 1)
		CHECK(!kill(child, SIGKILL));
	CHECK(waitpid(child, &state, 0) == child);
	if (WIFEXITED(state) && WEXITSTATUS(state) == 2)
		SKIP("no userfaultfd");
	else
		CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL, "%s: %x", places[place], state);
	close(asked[0]);
	while (users >= 0 && module_users() > users)
		;
	CHECK(nothing_more(pair.to), "%s", places[place]);
}

void faults(const struct data *data, struct pair pair)
{
	struct pair own = pair_open(AF_INET);

	for (int place = 0; place < PLACES; place++) {
		for (int reply = 0; reply < NEVER; reply++) {
			answered(data, pair, own, place, reply, 0);
			answered(data, pair, own, place, reply, 64);
		}
		killed(data, pair, place, 0);
		killed(data, pair, place, 1);
	}
	/* Nothing of that is left to the next call. */
	send_meanwhile(data, own);
	pair_close(own);
}
