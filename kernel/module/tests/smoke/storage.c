// SPDX-License-Identifier: GPL-2.0
/*
 * Storage that does not answer, by a file system of ours (FUSE): STOP of a run
 * that waits for it can be killed, closing the run does not wait, and the run
 * ends with its reading.
 */
#include <linux/fuse.h>
#include <sys/mount.h>

#include "smoke.h"

/* R, S, D, Z, ... or 0. */
static char process_state(pid_t process)
{
	char name[50], state = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/%d/stat", process);
	file = fopen(name, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state;
}

/*
 * Serve a file system that is one file, by FUSE, and never answer a read: of
 * each a byte is written to `asked`. Whoever kills the process ends it.
 */
static void serve_silence(int fuse, int asked)
{
	static char request[1 << 20];
	const struct fuse_in_header *in = (void *)request;

	while (read(fuse, request, sizeof(request)) > 0) {
		struct {
			struct fuse_out_header head;
			union {
				struct fuse_init_out init;
				struct fuse_attr_out attr;
				struct fuse_open_out open;
			} body;
		} out = { .head.unique = in->unique };
		size_t bytes = 0;

		switch (in->opcode) {
		case FUSE_READ:
			if (write(asked, "", 1) != 1)
				_exit(1);
			continue;
		case FUSE_FORGET:
		case FUSE_INTERRUPT:
			continue;
		case FUSE_INIT:
			out.body.init = (struct fuse_init_out){
				.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
				.max_write = 4096, .max_readahead = 65536,
			};
			bytes = sizeof(out.body.init);
			break;
		case FUSE_GETATTR:
			out.body.attr.attr = (struct fuse_attr){
				.ino = 1, .size = DATA_BYTES, .mode = S_IFREG | 0444, .nlink = 1,
			};
			bytes = sizeof(out.body.attr);
			break;
		case FUSE_OPEN:
			bytes = sizeof(out.body.open);
			break;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			break;
		default:
			out.head.error = -ENOSYS;
		}
		out.head.len = sizeof(out.head) + bytes;
		if (write(fuse, &out, out.head.len) != (ssize_t)out.head.len)
			_exit(1);
	}
	_exit(0);
}

/*
 * Storage that does not answer: STOP of a run that waits for it can be killed,
 * closing the run does not wait, and the run ends with its reading.
 */
static void silent_storage(struct pair pair)
{
	char name[] = "/tmp/smoke-fuse-XXXXXX", options[100];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC), point = mkstemp(name);
	struct wirepath_start start = { .size = sizeof(start), .rate_bytes_per_second = 1000000 };
	struct wirepath_send send;
	struct wirepath_status status;
	struct pollfd ready[2];
	struct stat size;
	int file, run, asked[2], users = module_users(), state;
	pid_t server, stopper;

	close(point);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100444,user_id=0,group_id=0", fuse);
	if (fuse < 0 || users < 0 || mount("smoke", name, "fuse", 0, options)) {
		printf("SKIP silent_storage: no FUSE, or no /sys/module/wirepath/refcnt (%s)\n",
		       strerror(errno));
		skips++;
		close(fuse);
		unlink(name);
		return;
	}
	if (pipe(asked))
		die("pipe");
	server = fork();
	if (!server)
		serve_silence(fuse, asked[1]);
	close(fuse);	/* the server has the only one: killing it ends the mount */
	close(asked[1]);
	file = open(name, O_RDONLY);
	/* Only asking makes the size known, without which the file is empty. */
	CHECK(!fstat(file, &size) && size.st_size == DATA_BYTES);
	send = wirepath_send_of(pair.from, file, 0, 100000);
	send.packet_bytes = 1000;
	start.send = (__u64)(size_t)&send;
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
	while (process_state(stopper) != 'D')
		;
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

void storage(struct pair pair)
{
	silent_storage(pair);
}
