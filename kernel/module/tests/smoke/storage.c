// SPDX-License-Identifier: GPL-2.0
/*
 * Storage: what nobody reads ahead (ramfs), or somebody else does (overlayfs),
 * when a call must not wait; and by a file system of the tests' own (FUSE) reads that
 * are not answered, that give little at a time, or an error of any kind.
 */
#include "served.h"

#include <sys/mount.h>

/* Never answer a read: of each a byte is written to `asked`. */
static void be_silent(int fuse, int asked, const struct fuse_in_header *in)
{
	(void)fuse;
	(void)in;
	if (write(asked, "", 1) != 1)
		_exit(1);
}

/* Answer each read with seventeen bytes at most, numbers of a sort. */
static void be_brief(int fuse, int asked, const struct fuse_in_header *in)
{
	const struct fuse_read_in *read_in = (const void *)(in + 1);
	struct {
		struct fuse_out_header head;
		unsigned char bytes[17];
	} out = { .head.unique = in->unique };
	__u32 bytes = read_in->size < sizeof(out.bytes) ? read_in->size : sizeof(out.bytes);

	(void)asked;
	for (__u32 i = 0; i < bytes; i++)
		out.bytes[i] = (read_in->offset + i) * 7 >> 3;
	out.head.len = sizeof(out.head) + bytes;
	if (write(fuse, &out, out.head.len) != (ssize_t)out.head.len)
		_exit(1);
}

/* Answer each read with an error. */
static int refusal;

static void be_refusing(int fuse, int asked, const struct fuse_in_header *in)
{
	struct fuse_out_header out = {
		.len = sizeof(out), .error = -refusal, .unique = in->unique,
	};

	(void)asked;
	if (write(fuse, &out, sizeof(out)) != (ssize_t)sizeof(out))
		_exit(1);
}

/*
 * Storage that does not answer: STOP of a run that waits for it can be killed,
 * closing the run does not wait, and the run ends with its reading.
 */
static void silent_storage(struct pair pair)
{
	char name[] = "/tmp/smoke-fuse-XXXXXX";
	struct wirepath_send send;
	struct wirepath_start start;
	struct wirepath_status status;
	struct pollfd ready[2];
	struct stat size;
	int file, run, asked[2], users = module_users(), state;
	pid_t server, stopper;

	/* Threads of earlier runs, which have told their end, are still on their way out. */
	while (users > 1)
		users = module_users();
	close(mkstemp(name));
	if (pipe(asked))
		die("pipe");
	server = users < 0 ? -1 : served_mount(name, asked[1], be_silent);
	if (server < 0) {
		SKIP("no FUSE, or no /sys/module/wirepath/refcnt (%s)", strerror(errno));
		close(asked[0]);
		close(asked[1]);
		unlink(name);
		return;
	}
	close(asked[1]);
	file = open(name, O_RDONLY);
	/* Only asking makes the size known, without which the file is empty. */
	CHECK(!fstat(file, &size) && size.st_size == DATA_BYTES);
	send = cut(wirepath_send_of(pair.from, file, 0, 100000), 1000, 0);
	start = start_of(&send, 1000000);
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	/* Either it reads, or it has ended, which is a failure and no hang. */
	ready[0] = (struct pollfd){ .fd = asked[0], .events = POLLIN };
	ready[1] = (struct pollfd){ .fd = run, .events = POLLIN };
	CHECK(poll(ready, 2, -1) == 1 && ready[0].revents == POLLIN);
	status = status_of(run, WIREPATH_STATUS);
	CHECK(status.state == WIREPATH_RUN_GOING && status.packets == 0);
	stopper = fork();
	if (!stopper) {
		ioctl(run, WIREPATH_STOP, 0);
		_exit(1);
	}
	CHECK(waits_in_call(stopper), "STOP did not wait");
	kill(stopper, SIGKILL);
	CHECK(waitpid(stopper, &state, 0) == stopper && WIFSIGNALED(state));
	close(run);
	close(file);
	CHECK(module_users() > users, "%d, %d before", module_users(), users);
	kill(server, SIGKILL);
	CHECK(waitpid(server, NULL, 0) == server);
	while (module_users() > users)
		;
	CHECK(nothing_more(pair.to));
	CHECK(!umount2(name, MNT_DETACH));
	CHECK(!unlink(name));
	close(asked[0]);
}

/* A packet of more pieces than the module holds of a file at a time. */
static void brief_storage(struct pair pair)
{
	static unsigned char bytes[30000];
	char name[] = "/tmp/smoke-fuse-XXXXXX";
	struct wirepath_send send;
	struct stat size;
	pid_t server;
	int file;

	close(mkstemp(name));
	server = served_mount(name, -1, be_brief);
	if (server < 0) {
		SKIP("no FUSE (%s)", strerror(errno));
		unlink(name);
		return;
	}
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = i * 7 >> 3;
	/* Newer kernels splice from the page cache without the flag. */
	file = open(name, O_RDONLY | O_DIRECT);
	CHECK(!fstat(file, &size) && size.st_size == DATA_BYTES);
	send = cut(wirepath_send_of(pair.from, file, 0, sizeof(bytes)), 9000, 0);
	CHECK(!ioctl(device, WIREPATH_SEND, &send) && send.packets == 4);
	expect_plain(pair.to, bytes, sizeof(bytes), 9000);
	close(file);
	served_end(name, server);
	CHECK(!unlink(name));
}

/* What a call and a run of all of a file end with, of which nothing can be read. */
static void expect_refused(struct pair pair, int file, int answer)
{
	struct wirepath_send send = wirepath_send_of(pair.from, file, 0, WIREPATH_TO_END);
	struct wirepath_start start = start_of(&send, 1000000);
	struct wirepath_status status;
	int run;

	send = cut(send, 1000, 0);
	CHECK(ioctl(device, WIREPATH_SEND, &send) < 0 && errno == answer, "refused by %d", refusal);
	CHECK(send.packets == 0);
	run = ioctl(device, WIREPATH_START, &start);
	CHECK(run >= 0);
	status = status_of(run, WIREPATH_WAIT);
	CHECK(status.state == WIREPATH_RUN_ENDED && status.error == answer && status.packets == 0,
	      "refused by %d, state %u, error %d", refusal, status.state, status.error);
	close(run);
}

/* What a file system answers is never taken for the end, nor for a full buffer. */
static void refusing_storage(struct pair pair)
{
	static const int refusals[][2] = {
		{ EIO, EIO }, { ENODATA, EIO }, { EAGAIN, EIO }, { ECANCELED, ECANCELED },
	};
	char name[] = "/tmp/smoke-fuse-XXXXXX";

	close(mkstemp(name));
	for (size_t i = 0; i < COUNT(refusals); i++) {
		struct stat size;
		pid_t server;
		int file;

		refusal = refusals[i][0];
		server = served_mount(name, -1, be_refusing);
		if (server < 0) {
			SKIP("no FUSE (%s)", strerror(errno));
			break;
		}
		file = open(name, O_RDONLY);
		CHECK(!fstat(file, &size) && size.st_size == DATA_BYTES);
		expect_refused(pair, file, refusals[i][1]);
		close(file);
		served_end(name, server);
	}
	CHECK(nothing_more(pair.to));
	unlink(name);
}

/* What a call that must not wait answers about all of a file, which may be cold. */
static int answer_at_once(struct pair pair, int file)
{
	struct wirepath_send send = cut(wirepath_send_of(pair.from, file, 0, 70000), 1000, 0);

	send.flags = WIREPATH_DONTWAIT;
	return ioctl(device, WIREPATH_SEND, &send) ? errno : 0;
}

/* Nobody reads the holes of a ramfs ahead: they are sent at once. */
static void holes_without_storage(struct pair pair)
{
	static unsigned char zeros[70000];
	char folder[] = "/tmp/smoke-ramfs-XXXXXX", name[50];
	int file;

	if (!mkdtemp(folder) || mount("smoke", folder, "ramfs", 0, NULL))
		die("ramfs");
	snprintf(name, sizeof(name), "%s/file", folder);
	file = open(name, O_RDWR | O_CREAT, 0600);
	CHECK(!ftruncate(file, 100000));
	CHECK(answer_at_once(pair, file) == 0);
	expect_plain(pair.to, zeros, 70000, 1000);
	close(file);
	CHECK(!umount2(folder, 0) && !rmdir(folder));
}

/* What has come is what was written; nothing is left waiting. */
static void expect_filled(struct pair pair, const unsigned char *bytes)
{
	static unsigned char packet[65536];

	while (recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		CHECK(!memcmp(packet, bytes, 1000));
}

/*
 * How many of twenty first sends of a file whose pages were dropped had to wait for its device. A device may be
 * quick enough now and then, so one send tells nothing; and a page that is still being read is not dropped, so
 * each round ends when all has been sent.
 */
static int waits_for_storage(struct pair pair, int below, int file, const unsigned char *bytes)
{
	int waits = 0, answer;

	for (int round = 0; round < 20; round++) {
		posix_fadvise(below, 0, 0, POSIX_FADV_DONTNEED);
		answer = answer_at_once(pair, file);
		waits += answer == EAGAIN;
		while (answer == EAGAIN) {
			expect_filled(pair, bytes);
			answer = answer_at_once(pair, file);
		}
		CHECK(answer == 0, "round %d", round);
		expect_filled(pair, bytes);
	}
	return waits;
}

/* O_DIRECT reads past the page cache, for which nobody has to read ahead. */
static void storage_past_the_cache(struct pair pair, const char *name, const unsigned char *bytes)
{
	int file = open(name, O_RDONLY | O_DIRECT);
	struct wirepath_send send = cut(wirepath_send_of(pair.from, file, 0, 65536), 1024, 0);

	if (file < 0) {
		SKIP("no O_DIRECT (%s)", strerror(errno));
		return;
	}
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	send.flags = WIREPATH_DONTWAIT;
	CHECK(!ioctl(device, WIREPATH_SEND, &send));
	expect_plain(pair.to, bytes, 65536, 1024);
	close(file);
}

/* Of a file of overlayfs the pages are those of the file below. */
static void storage_below(struct pair pair)
{
	static unsigned char bytes[70000];
	const char *parent = getenv("TMPDIR") ?: "/tmp";
	char folder[100], name[120], options[300], over[120];
	int below, above, waits_below, waits_above;

	snprintf(folder, sizeof(folder), "%s/smoke-XXXXXX", parent);
	if (!mkdtemp(folder))
		die(folder);
	snprintf(name, sizeof(name), "%s/file", folder);
	snprintf(options, sizeof(options), "lowerdir=%s:/sys", folder);
	below = open(name, O_RDWR | O_CREAT, 0600);
	memset(bytes, 0x5a, sizeof(bytes));
	if (write(below, bytes, sizeof(bytes)) != sizeof(bytes) || fsync(below))
		die(name);
	snprintf(over, sizeof(over), "%s/file", "/tmp/smoke-over");
	if (mkdir("/tmp/smoke-over", 0700) || mount("smoke", "/tmp/smoke-over", "overlay", MS_RDONLY, options)) {
		SKIP("no overlayfs (%s)", strerror(errno));
	} else {
		above = open(over, O_RDONLY);
		waits_below = waits_for_storage(pair, below, below, bytes);
		waits_above = waits_for_storage(pair, below, above, bytes);
		CHECK(!waits_below == !waits_above, "%d below, %d above", waits_below, waits_above);
		close(above);
		CHECK(!umount2("/tmp/smoke-over", 0));
	}
	rmdir("/tmp/smoke-over");
	storage_past_the_cache(pair, name, bytes);
	close(below);
	unlink(name);
	rmdir(folder);
}

void storage(const struct data *data, struct pair pair)
{
	(void)data;
	silent_storage(pair);
	brief_storage(pair);
	refusing_storage(pair);
	holes_without_storage(pair);
	storage_below(pair);
}
