/*
 * Ways to read a file once where memory is short: what each costs, and what it leaves of pages that others need next.
 *
 *   cold_reads FOLDER ROUNDS
 *
 * To be run in a control group whose memory is limited to 128 MiB. Reads 64 MiB of one file, as a server reads ahead for sessions,
 * then 512 MiB of another in parts, by each way in turn, and prints a line for each (CSV): nanoseconds of processor time and on
 * the wall for each GiB, kernel threads not counted, bytes that storage read for each byte, and the share of the first file's
 * pages that are in memory still. Both with the kernel's own reading ahead, and without (POSIX_FADV_RANDOM, as the server reads).
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024ull * 1024)
#define HELD (64 * MIB)
#define READ (512 * MIB)
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80 /* linux/fs.h, since 6.14 */
#endif

static const size_t parts[] = { 256 * 1024, 2 * MIB };
static const char *const ways[] = { "kept", "fadvise", "dontcache" };
enum { KEPT, FADVISE, DONTCACHE, WAYS };

static uint64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static int file_make(const char *folder, const char *name, uint64_t length)
{
	static char bytes[MIB];
	int file;

	if (chdir(folder) || (file = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) < 0)
		err(1, "%s/%s", folder, name);
	memset(bytes, 0x47, sizeof(bytes));
	for (uint64_t written = 0; written < length; written += sizeof(bytes))
		if (write(file, bytes, sizeof(bytes)) != sizeof(bytes))
			err(1, "write");
	if (fsync(file))
		err(1, "fsync");
	return file;
}

static void forget(int file)
{
	if ((errno = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED)))
		err(1, "posix_fadvise");
}

static void read_all(int file, char *buffer, uint64_t length, size_t part, unsigned way)
{
	for (uint64_t offset = 0; offset < length; offset += part) {
		struct iovec vector = { buffer, part };

		if (preadv2(file, &vector, 1, offset, way == DONTCACHE ? RWF_DONTCACHE : 0) != (ssize_t)part)
			err(1, "preadv2");
		if (way == FADVISE && (errno = posix_fadvise(file, offset, part, POSIX_FADV_DONTNEED)))
			err(1, "posix_fadvise");
	}
}

/* Bytes that this process had storage read. */
static uint64_t storage_bytes(void)
{
	unsigned long long bytes = 0;
	char line[64];
	FILE *file = fopen("/proc/self/io", "r");

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "read_bytes: %llu", &bytes);
	if (!file)
		err(1, "/proc/self/io");
	fclose(file);
	return bytes;
}

static double share_in_memory(int file, uint64_t length)
{
	static unsigned char states[HELD / 4096];
	void *mapping = mmap(NULL, length, PROT_READ, MAP_SHARED, file, 0);
	uint64_t count = 0;

	if (mapping == MAP_FAILED || mincore(mapping, length, states))
		err(1, "mincore");
	for (uint64_t i = 0; i < length / 4096; i++)
		count += states[i] & 1;
	munmap(mapping, length);
	return (double)count * 4096 / length;
}

int main(int count, char **arguments)
{
	char *buffer = malloc(2 * MIB);
	int held, once;

	if (count != 3 || !buffer)
		errx(1, "usage: cold_reads FOLDER ROUNDS");
	memset(buffer, 1, 2 * MIB);
	held = file_make(arguments[1], "held", HELD);
	once = file_make(arguments[1], "once", READ);
	puts("round,ahead,part,way,processor_ns_per_gib,wall_ns_per_gib,storage_bytes_per_byte,kept");
	for (unsigned round = 0; round < (unsigned)atoi(arguments[2]); round++)
		for (unsigned setting = 0; setting < 4; setting++)
			for (unsigned step = 0; step < WAYS; step++) {
				unsigned way = (step + round) % WAYS, is_random = setting / 2;
				size_t part = parts[setting % 2];
				uint64_t processor, wall, bytes;

				forget(held);
				forget(once);
				read_all(held, buffer, HELD, 2 * MIB, KEPT);
				if ((errno = posix_fadvise(once, 0, 0, is_random ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL)))
					err(1, "posix_fadvise");
				bytes = storage_bytes();
				processor = now(CLOCK_PROCESS_CPUTIME_ID);
				wall = now(CLOCK_MONOTONIC);
				read_all(once, buffer, READ, part, way);
				processor = now(CLOCK_PROCESS_CPUTIME_ID) - processor;
				wall = now(CLOCK_MONOTONIC) - wall;
				bytes = storage_bytes() - bytes;
				printf("%u,%s,%zu,%s,%llu,%llu,%.3f,%.3f\n", round, is_random ? "no" : "yes", part, ways[way],
				       (unsigned long long)(processor * 1024 * MIB / READ),
				       (unsigned long long)(wall * 1024 * MIB / READ), (double)bytes / READ,
				       share_in_memory(held, HELD));
				fflush(stdout);
			}
	return 0;
}
