// SPDX-License-Identifier: GPL-2.0
/*
 * Every call of the module once and more, as a C program makes them: sent over
 * loopback, received, and compared byte for byte; then each argument misused.
 *
 *   smoke [--only GROUP | --skip GROUP]... FILE...
 *                  files with at least 1 MiB, one for each kind of file system;
 *                  they are only read
 *   smoke --list   the names of the groups
 *
 * Prints a line for each check that fails, one for each group when it ends, and
 * a count at the end; the exit code is 0 if all passed. Needs no other program but
 * /bin/ip, without which it skips a check, so that it can be linked statically and
 * run as a machine's only one.
 */
#include "smoke.h"

int device, references, members, failures, checks, skips;
const char *where = "";

static struct data data_open(const char *name)
{
	struct data data = { .file = open(name, O_RDONLY), .bytes = malloc(DATA_BYTES) };

	if (data.file < 0 || pread(data.file, data.bytes, DATA_BYTES, 0) != DATA_BYTES)
		die(name);
	data.mapping = mmap(NULL, DATA_BYTES, PROT_READ, MAP_SHARED, data.file, 0);
	if (data.mapping == MAP_FAILED)
		die(name);
	posix_fadvise(data.file, 0, 0, POSIX_FADV_DONTNEED);
	return data;
}

static void query(void)
{
	struct wirepath_query query = { .size = sizeof(query) };

	CHECK(!ioctl(device, WIREPATH_QUERY, &query));
	CHECK(query.version == WIREPATH_VERSION && query.fragments_max >= 17);
	references = !!(query.features & WIREPATH_FEATURE_REFERENCES);
	members = !!(query.features & WIREPATH_FEATURE_MEMBERS);
	printf("version %u, features 0x%llx, fragments %u\n", query.version,
	       (unsigned long long)query.features, query.fragments_max);
}

/*
 * Checks, over IPv4 and IPv6 or without a pair of sockets; with each file, or with the first one only where
 * the file does not matter.
 */
static const struct group {
	const char *name;
	void (*of_pair)(const struct data *data, struct pair pair);
	void (*of_file)(const struct data *data);
	int once;
} groups[] = {
#define OF_PAIR(name_) { .name = #name_, .of_pair = name_ }
#define OF_FIRST_PAIR(name_) { .name = #name_, .of_pair = name_, .once = 1 }
#define OF_FILE(name_) { .name = #name_, .of_file = name_ }
#define OF_FIRST(name_) { .name = #name_, .of_file = name_, .once = 1 }
	OF_PAIR(packets),
	OF_PAIR(runs_of_packets),
	OF_PAIR(headers),
	OF_PAIR(skips_of_packets),
	OF_FIRST_PAIR(ends),
	OF_PAIR(changes),
	OF_PAIR(misuse),
	OF_PAIR(vectors),
	OF_PAIR(commands),
	OF_PAIR(paced_runs),
	OF_PAIR(survives),
	OF_PAIR(account),
	OF_PAIR(handlers),
	OF_PAIR(owners),
	OF_FIRST_PAIR(storage),
	OF_FIRST_PAIR(cached_storage),
	OF_PAIR(narrow),
	OF_PAIR(faults),
	OF_FILE(destinations),
	OF_FILE(full_buffers),
	OF_FIRST(tunnels),
	OF_FIRST(routers),
	OF_FIRST(limits),
	OF_FIRST(account_of_others),
	OF_FIRST(wakeups),
};

/* Groups by their names: if any is to run, no others do. */
static int is_only[COUNT(groups)], is_skipped[COUNT(groups)], has_only;

static int list_groups(void)
{
	for (size_t i = 0; i < COUNT(groups); i++)
		puts(groups[i].name);
	return 0;
}

static size_t group_of(const char *name)
{
	for (size_t i = 0; i < COUNT(groups); i++)
		if (!strcmp(groups[i].name, name))
			return i;
	fprintf(stderr, "smoke: unknown group %s: `smoke --list` prints their names\n", name);
	exit(2);
}

/* Reads options. Returns the place of the first word behind them. */
static int read_options(int count, char **words)
{
	int word = 1;

	for (; word + 1 < count; word += 2) {
		if (!strcmp(words[word], "--only"))
			is_only[group_of(words[word + 1])] = has_only = 1;
		else if (!strcmp(words[word], "--skip"))
			is_skipped[group_of(words[word + 1])] = 1;
		else
			break;
	}
	return word;
}

/* Groups of pairs, or without a pair those of files. Times are of this machine, which may be a guest. */
static void run_groups(const struct data *data, struct pair pair, const char *version, int is_first)
{
	int has_pair = pair.from >= 0;

	for (size_t i = 0; i < COUNT(groups); i++) {
		const struct group *group = &groups[i];
		int checks_before = checks, failures_before = failures;
		__u64 began = now_ns();

		if (has_pair != !!group->of_pair || (group->once && !is_first) ||
		    is_skipped[i] || (has_only && !is_only[i]))
			continue;
		if (group->of_pair)
			group->of_pair(data, pair);
		else
			group->of_file(data);
		printf("group %s of %s%s: %d checks, %d failed, %llu ms\n", group->name, where, version,
		       checks - checks_before, failures - failures_before,
		       (now_ns() - began) / 1000000);
	}
}

static void run_with(const char *name, int is_first)
{
	struct data data = data_open(name);
	struct pair pair;

	where = name;
	for (int six = 0; six < 2; six++) {
		pair = pair_open(six ? AF_INET6 : AF_INET);
		run_groups(&data, pair, six ? " over IPv6" : " over IPv4", is_first);
		pair_close(pair);
	}
	run_groups(&data, (struct pair){ -1, -1 }, "", is_first);
	close(data.file);
}

int main(int count, char **words)
{
	int word;

	/* Lines of groups that have ended are seen at once, and a child has none to print again. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count == 2 && !strcmp(words[1], "--list"))
		return list_groups();
	word = read_options(count, words);
	if (word == count) {
		fprintf(stderr, "smoke: no file to send: name one with at least 1 MiB\n");
		return 2;
	}
	device = open(WIREPATH_DEVICE, O_RDWR | O_CLOEXEC);
	if (device < 0)
		die(WIREPATH_DEVICE);
	query();
	for (int first = word; word < count; word++)
		run_with(words[word], word == first);
	printf("%d checks, %d failed, %d skipped\n", checks, failures, skips);
	return failures ? 1 : 0;
}
