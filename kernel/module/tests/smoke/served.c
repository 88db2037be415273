// SPDX-License-Identifier: GPL-2.0
/* The server of the tests' own file system, and the mount. */
#include "served.h"

#include <sys/mount.h>

/* Serves until the process is killed. */
static void serve(int fuse, int asked, served_answer *answer, int cached)
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
			answer(fuse, asked, in);
			continue;
		case FUSE_FORGET:
		case FUSE_INTERRUPT:
			continue;
		case FUSE_INIT:
			/* Readers of the page cache wait for a page, not for the server. */
			out.body.init = (struct fuse_init_out){
				.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
				.max_write = 4096, .max_readahead = 65536,
				.flags = cached ? FUSE_ASYNC_READ : 0,
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
			/* Reads past the page cache, where a short one is the end. */
			out.body.open.open_flags = cached ? FOPEN_KEEP_CACHE : FOPEN_DIRECT_IO;
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

static pid_t mount_at(const char *name, int asked, served_answer *answer, int *notices)
{
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[100];
	pid_t server;

	snprintf(options, sizeof(options), "fd=%d,rootmode=100444,user_id=0,group_id=0", fuse);
	if (fuse < 0 || mount("smoke", name, "fuse", 0, options)) {
		close(fuse);
		return -1;
	}
	server = fork();
	if (!server)
		serve(fuse, asked, answer, !!notices);
	if (notices)
		*notices = fuse;
	else
		close(fuse);	/* the server has the only one: killing it ends the connection */
	return server;
}

pid_t served_mount(const char *name, int asked, served_answer *answer)
{
	return mount_at(name, asked, answer, NULL);
}

pid_t served_mount_cached(const char *name, int asked, served_answer *answer, int *notices)
{
	return mount_at(name, asked, answer, notices);
}

int served_invalidate(int notices)
{
	struct {
		struct fuse_out_header head;
		struct fuse_notify_inval_inode_out inode;
	} out = {
		.head = { .len = sizeof(out), .error = FUSE_NOTIFY_INVAL_INODE },
		.inode = { .ino = 1 },
	};

	return write(notices, &out, sizeof(out)) == (ssize_t)sizeof(out) ? 0 : -1;
}

void served_end(const char *name, pid_t server)
{
	kill(server, SIGKILL);
	CHECK(waitpid(server, NULL, 0) == server);
	CHECK(!umount2(name, MNT_DETACH));
}
