/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A file system of the tests' own (FUSE): one file of DATA_BYTES, which a child
 * process serves. Killing the child ends the mount's connection.
 */
#ifndef SERVED_H
#define SERVED_H

#include "smoke.h"

#include <linux/fuse.h>

/* Answers a read. Each call may write to `asked`, a pipe of the test's. */
typedef void served_answer(int fuse, int asked, const struct fuse_in_header *in);

/*
 * Mounts the file at @name, without the page cache; the server's process, or -1
 * without FUSE.
 */
pid_t served_mount(const char *name, int asked, served_answer *answer);

/*
 * The same with the page cache, whose pages stay when the file is opened again.
 * *@notices becomes a second descriptor of the connection, for
 * served_invalidate(): the connection lasts until it is closed, too.
 */
pid_t served_mount_cached(const char *name, int asked, served_answer *answer, int *notices);

/* Takes the file's pages out of the page cache, as a server does when the file has changed. */
int served_invalidate(int notices);

/* Kills the server and unmounts. */
void served_end(const char *name, pid_t server);

#endif /* SERVED_H */
