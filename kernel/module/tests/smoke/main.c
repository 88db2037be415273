// SPDX-License-Identifier: GPL-2.0
/*
 * Every call of the module once and more, as a C program makes them: sent over
 * loopback, received, and compared byte for byte; then each argument misused.
 *
 *   smoke FILE...   files with at least 1 MiB, one for each kind of file
 *                   system; they are only read
 *
 * Prints a line for each check that fails and a count at the end; the exit
 * code is 0 if all passed. Needs no other program but /bin/ip, without which it
 * skips a check, so that it can be linked statically and run as a machine's only
 * one.
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

int main(int count, char **names)
{
	device = open(WIREPATH_DEVICE, O_RDWR | O_CLOEXEC);
	if (device < 0)
		die(WIREPATH_DEVICE);
	query();
	for (int i = 1; i < count; i++) {
		struct data data = data_open(names[i]);

		where = names[i];
		for (int six = 0; six < 2; six++) {
			struct pair pair = pair_open(six ? AF_INET6 : AF_INET);

			packets(&data, pair);
			runs_of_packets(&data, pair);
			headers(&data, pair);
			skips_of_packets(&data, pair);
			ends(pair);
			changes(&data, pair);
			misuse(&data, pair);
			vectors(&data, pair);
			commands(&data, pair);
			paced_runs(&data, pair);
			survives(&data, pair);
			account(&data, pair);
			handlers(&data, pair);
			owners(&data, pair);
			storage(pair);
			cached_storage(pair);
			narrow(&data, pair);
			faults(&data, pair);
			pair_close(pair);
		}
		destinations(&data);
		full_buffers(&data);
		/* What they need takes long, and the file system does not matter. */
		if (i == 1) {
			routers(&data);
			limits(&data);
		}
		close(data.file);
	}
	account_of_others();
	printf("%d checks, %d failed, %d skipped\n", checks, failures, skips);
	return failures ? 1 : 0;
}
