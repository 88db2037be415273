/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Merges the lines of two files, drops those that begin with '#', and writes the others to two files:
 *
 *     cc -Wall -Wextra -o merge merge.c $(pkg-config --cflags --libs wirepath)
 *     ./merge first second copy other-copy
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wirepath.h>

struct counts {
    unsigned long passed, dropped;
};

/* Sees every line, whole. */
static int not_a_comment(void *context, const wp_piece *line)
{
    struct counts *counts = context;

    if (line->length > 0 && line->bytes[0] == '#') {
        counts->dropped++;
        return WP_DROP;
    }
    counts->passed++;
    return WP_PASS;
}

static void check(int64_t result)
{
    if (result < 0) {
        fprintf(stderr, "%s\n", wp_last_error());
        exit(1);
    }
}

static int opened(const char *path, int flags)
{
    int descriptor = open(path, flags | O_CLOEXEC, 0666);

    if (descriptor < 0) {
        perror(path);
        exit(1);
    }
    return descriptor;
}

int main(int argc, char **argv)
{
    const wp_framing lines = { WP_LINES, 65536 };
    struct counts counts = { 0, 0 };
    const wp_handler handler = {
        .name = "not a comment", .context = &counts, .whole = 65536, .read = not_a_comment
    };
    wp_stream *stream;
    wp_status status;

    if (argc != 5) {
        fprintf(stderr, "usage: merge INPUT INPUT OUTPUT OUTPUT\n");
        return 64;
    }
    stream = wp_stream_new();
    check(stream ? WP_OK : WP_FAILED);
    check(wp_stream_pattern(stream, WP_MIRROR));
    check(wp_stream_handler(stream, &handler));
    for (int n = 1; n <= 4; n++) {
        int descriptor = opened(argv[n], n <= 2 ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC);

        check(n <= 2 ? wp_stream_input(stream, argv[n], descriptor, lines)
                     : wp_stream_output(stream, argv[n], descriptor));
        close(descriptor); /* the stream has its own */
    }
    check(wp_stream_start(stream, NULL));
    check(wp_stream_wait(stream, -1, &status));
    printf("%lu lines passed, %lu dropped; %llu bytes in\n", counts.passed, counts.dropped,
           (unsigned long long)status.bytes_in);
    wp_stream_free(stream);
    return 0;
}
