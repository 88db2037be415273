// SPDX-License-Identifier: GPL-2.0
/* Whose runs are: of an owner that is killed, and how many of a user and its subordinates. */
#include "smoke.h"

#include <sched.h>

/* An owner that is killed takes its run along. */
static void killed_owner(const struct data *data, struct pair pair)
{
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 0, WIREPATH_TO_END);
	struct wirepath_start start = start_of(&send, 200000);
	unsigned char packet[65536];
	int users = module_users();
	pid_t child;

	send = cut(send, 1000, 0);
	child = fork();
	if (!child) {
		if (ioctl(device, WIREPATH_START, &start) >= 0)
			pause();
		_exit(1);
	}
	CHECK(receive(pair.to, packet) == 1000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* A train that was being sent still leaves; then the run is gone. */
	while (module_users() > users)
		;
	while (recv(pair.to, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		;
	poll(&(struct pollfd){ .fd = pair.to, .events = POLLIN }, 1, 100);
	CHECK(nothing_more(pair.to));
}

/* In the child: the answer of starting, which keeps what it started. */
static int start_another(struct wirepath_start *start)
{
	return ioctl(device, WIREPATH_START, start) < 0 ? errno : 0;
}

/* In the child: be the second user of a namespace of one's own; 0 if so. */
static int be_subordinate(int asking, int answers)
{
	char mapped;

	return unshare(CLONE_NEWUSER) || write(asking, "", 1) != 1 ||
	       read(answers, &mapped, 1) != 1 || setuid(1);
}

/* Give the users of a child's namespace numbers here. */
static int map_users(pid_t child)
{
	static const char map[] = "0 65534 1\n1 100000 1\n";
	char name[50];
	int file, written;

	snprintf(name, sizeof(name), "/proc/%d/uid_map", child);
	file = open(name, O_WRONLY);
	written = write(file, map, sizeof(map) - 1) == (ssize_t)sizeof(map) - 1;
	close(file);
	return written;
}

/* The subordinate users of a user count as that user. */
static void runs_of_subordinates(struct wirepath_start *start)
{
	int asking[2], answers[2], state;
	pid_t child;
	char byte;

	if (pipe(asking) || pipe(answers))
		die("pipe");
	child = fork();
	if (!child) {
		close(asking[0]);
		close(answers[1]);
		if (setuid(65534) || start_another(start) || start_another(start))
			_exit(1);
		if (be_subordinate(asking[1], answers[0]))
			_exit(2);
		if (start_another(start))
			_exit(3);
		_exit(start_another(start) == EDQUOT ? 0 : 4);
	}
	close(asking[1]);
	close(answers[0]);
	if (read(asking[0], &byte, 1) == 1 && map_users(child))
		CHECK(write(answers[1], "", 1) == 1);
	close(answers[1]);
	CHECK(waitpid(child, &state, 0) == child);
	if (WIFEXITED(state) && WEXITSTATUS(state) == 2)
		SKIP("no namespaces of users");
	else
		CHECK(state == 0, "child answered %x", state);
	close(asking[0]);
}

/* A user without CAP_SYS_RESOURCE has so many runs, and not one more. */
static void runs_of_a_user(const struct data *data, struct pair pair)
{
	struct wirepath_send send = wirepath_send_of(pair.from, data->file, 0, 100000);
	struct wirepath_start start = start_of(&send, 1000);
	FILE *parameter = fopen("/sys/module/wirepath/parameters/user_runs_max", "r+");
	unsigned long most = 0;
	pid_t child;
	int state;

	CHECK(parameter && fscanf(parameter, "%lu", &most) == 1 && most == 64);
	if (!parameter)
		return;
	rewind(parameter);
	CHECK(fprintf(parameter, "3") == 1 && !fflush(parameter));
	send = cut(send, 1000, 0);
	start.start_ns = now_ns() + 3600 * 1000000000ULL;
	child = fork();
	if (!child) {
		int run = -1, more;

		if (setuid(65534))
			_exit(1);
		for (int i = 0; i < 3; i++) {
			run = ioctl(device, WIREPATH_START, &start);
			if (run < 0)
				_exit(2);
		}
		if (ioctl(device, WIREPATH_START, &start) >= 0 || errno != EDQUOT)
			_exit(3);
		if (ioctl(run, WIREPATH_STOP, 0))
			_exit(4);
		more = ioctl(device, WIREPATH_START, &start);
		if (more < 0)
			_exit(5);
		_exit(0);
	}
	CHECK(waitpid(child, &state, 0) == child && state == 0, "child answered %x", state);
	runs_of_subordinates(&start);
	for (int i = 0; i < 4; i++) {
		int run = ioctl(device, WIREPATH_START, &start);

		CHECK(run >= 0, "the privileged have no limit");
		close(run);
	}
	rewind(parameter);
	CHECK(fprintf(parameter, "%lu", most) > 0 && !fclose(parameter));
}

void owners(const struct data *data, struct pair pair)
{
	killed_owner(data, pair);
	runs_of_a_user(data, pair);
}
