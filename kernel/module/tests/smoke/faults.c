// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is late: a thread answers the fault of a call's request, header or
 * payload (userfaultfd). Before it does, it sends packets of its own; or it lets
 * go of the memory; or it never answers, and the process is killed.
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
enum reply { FILLED, LET_GO, NEVER, REPLIES };

/* A page that is not there until the thread says so. */
struct late {
	int events;
	unsigned char *page;
	unsigned char content[MEMORY_PAGE] __attribute__((aligned(MEMORY_PAGE)));
	enum reply reply;
	int asked;		/* a pipe, for NEVER */
	const struct data *data;
	struct pair own;	/* for the thread's packets */
	unsigned int faults;
};

static const char * const places[] = { "request", "headers", "payload" };
static const char * const replies[] = { "filled", "let go", "never" };

/* -1 without userfaultfd. */
static int late_open(struct late *late)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register region = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	late->events = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (late->events < 0)
		return -1;
	late->page = mmap(NULL, MEMORY_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (late->page == MAP_FAILED)
		die("mmap");
	region.range.start = (__u64)(size_t)late->page;
	region.range.len = MEMORY_PAGE;
	if (ioctl(late->events, UFFDIO_API, &api) || ioctl(late->events, UFFDIO_REGISTER, &region))
		die("userfaultfd");
	return 0;
}

static void late_close(struct late *late)
{
	close(late->events);
	munmap(late->page, MEMORY_PAGE);
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

static void *answer_faults(void *argument)
{
	struct late *late = argument;
	struct uffdio_range range = { (__u64)(size_t)late->page, MEMORY_PAGE };
	struct uffdio_copy copy = { .dst = range.start, .src = (__u64)(size_t)late->content,
				    .len = MEMORY_PAGE };
	struct uffd_msg message;

	CHECK(read(late->events, &message, sizeof(message)) == sizeof(message) &&
	      message.event == UFFD_EVENT_PAGEFAULT);
	late->faults++;
	if (late->reply == NEVER) {
		if (write(late->asked, "", 1) != 1)
			die("write");
		for (;;)
			pause();
	}
	send_meanwhile(late->data, late->own);
	if (late->reply == FILLED)
		CHECK(!ioctl(late->events, UFFDIO_COPY, &copy));
	else
		CHECK(!ioctl(late->events, UFFDIO_UNREGISTER, &range));
	return NULL;
}

/* Three packets of memory with the caller's headers, of which one part is late. */
struct wanted {
	struct wirepath_send request, *send;
	unsigned char headers[PACKETS][HEADER];
	const unsigned char *payload;
};

static void wanted_make(struct wanted *wanted, struct late *late, enum place place, struct pair pair,
			unsigned int train_packets)
{
	const void *headers = place == HEADERS ? (void *)late->page : wanted->headers;
	const void *payload = place == PLACE_PAYLOAD ? late->page + 100 : late->data->bytes + 100;

	wanted->payload = late->data->bytes + 100;
	for (int i = 0; i < PACKETS; i++)
		memset(wanted->headers[i], 0x10 + i, HEADER);
	wanted->request = with_given(cut(wirepath_send_of(pair.from, -1, (__u64)(size_t)payload,
							  PACKETS * PAYLOAD), PAYLOAD, train_packets),
				     headers, HEADER);
	wanted->send = place == REQUEST ? (void *)late->page : &wanted->request;
	switch (place) {
	case REQUEST:
		memcpy(late->content, &wanted->request, sizeof(wanted->request));
		break;
	case HEADERS:
		memcpy(late->content, wanted->headers, sizeof(wanted->headers));
		break;
	default:
		memcpy(late->content, late->data->bytes, sizeof(late->content));
	}
}

/* Filled, the packets are as if nothing had been late; let go, what was late is zeros. */
static void answered(const struct data *data, struct pair pair, struct pair own, enum place place,
		     enum reply reply, unsigned int train_packets)
{
	static const unsigned char zeros[PACKETS * PAYLOAD];
	static struct late late;
	struct wanted wanted;
	pthread_t thread;
	int answer;

	late = (struct late){ .reply = reply, .data = data, .own = own };
	if (late_open(&late)) {
		SKIP("no userfaultfd (%s)", strerror(errno));
		return;
	}
	wanted_make(&wanted, &late, place, pair, train_packets);
	if (pthread_create(&thread, NULL, answer_faults, &late))
		die("pthread_create");
	answer = ioctl(device, WIREPATH_SEND, wanted.send) ? errno : 0;
	CHECK(!pthread_join(thread, NULL) && late.faults == 1);
	if (reply == LET_GO && place == REQUEST) {
		CHECK(answer == EINVAL, "%d", answer);
	} else {
		CHECK(answer == 0 && wanted.send->packets == PACKETS, "%s %s: %d", places[place],
		      replies[reply], answer);
		for (int i = 0; i < PACKETS; i++)
			expect_with(pair.to,
				    reply == LET_GO && place == HEADERS ? zeros : wanted.headers[i], HEADER,
				    reply == LET_GO && place == PLACE_PAYLOAD ? zeros :
				    wanted.payload + i * PAYLOAD, PAYLOAD);
	}
	CHECK(nothing_more(pair.to), "%s %s", places[place], replies[reply]);
	late_close(&late);
}

/* A process that is killed while it waits for the memory of a call, or of a run, ends and leaves nothing. */
static void killed(const struct data *data, struct pair pair, enum place place, int by_run)
{
	static struct late late;
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
		late = (struct late){ .reply = NEVER, .data = data, .asked = asked[1] };
		if (late_open(&late))
			_exit(2);
		wanted_make(&wanted, &late, place, pair, 0);
		start = start_of(wanted.send, 1000000);
		if (pthread_create(&thread, NULL, answer_faults, &late))
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
