/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The interface as C sees it: what works, and what wrong arguments and handlers are answered. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wirepath.h>

#define CHECK(condition)                                                                      \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, wp_last_error()); \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)
#define SAYS(text) CHECK(strstr(wp_last_error(), text))

static const wp_framing lines = { WP_LINES, 100 };
static const wp_framing whole = { WP_WHOLE, 0 };

static void release(void *context)
{
    __atomic_add_fetch((int *)context, 1, __ATOMIC_SEQ_CST);
}

static int pass(void *context, const wp_piece *piece)
{
    (void)context;
    (void)piece;
    return WP_PASS;
}

/* A stream from memory with one handler, to the returned socket. */
static wp_stream *stream_with(const wp_handler *handler, const char *text, int *receiver)
{
    int pair[2];
    wp_stream *stream = wp_stream_new();

    CHECK(stream);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    if (handler)
        CHECK(wp_stream_handler(stream, handler) == WP_OK);
    CHECK(wp_stream_input_memory(stream, "text", text, strlen(text), lines) >= 0);
    CHECK(wp_stream_output(stream, "socket", pair[1]) >= 0);
    close(pair[1]);
    *receiver = pair[0];
    return stream;
}

/* Reads to the end of what a stream sent, and frees it. */
static int sent(wp_stream *stream, int receiver, const char *expected)
{
    char bytes[1000];
    size_t length = 0;
    ssize_t count;

    wp_stream_free(stream);
    while ((count = read(receiver, bytes + length, sizeof(bytes) - length)) > 0)
        length += (size_t)count;
    close(receiver);
    return length == strlen(expected) && !memcmp(bytes, expected, length);
}

static void wrong_arguments(void)
{
    wp_status status;
    wp_event event;
    wp_handler none = { .name = "none" };
    wp_handler two = { .name = "pass", .read = pass };
    int released = 0;
    wp_stream *stream = wp_stream_new();

    CHECK(!strcmp(wp_version(), VERSION));
    CHECK(wp_stream_order(NULL, WP_ARRIVAL) == WP_INVALID);
    SAYS("stream is NULL");
    CHECK(wp_stream_pattern(NULL, WP_MIRROR) == WP_INVALID);
    CHECK(wp_stream_input(NULL, "a", 0, whole) == WP_INVALID);
    CHECK(wp_stream_input_memory(NULL, "a", "b", 1, whole) == WP_INVALID);
    CHECK(wp_stream_output(NULL, "a", 1) == WP_INVALID);
    CHECK(wp_stream_handler(NULL, &two) == WP_INVALID);
    CHECK(wp_stream_start(NULL, NULL) == WP_INVALID);
    CHECK(wp_stream_stop(NULL) == WP_INVALID);
    CHECK(wp_stream_wait(NULL, -1, &status) == WP_INVALID);
    CHECK(wp_stream_status(NULL, -1, &status) == WP_INVALID);
    CHECK(wp_stream_descriptor(NULL) == WP_INVALID);
    CHECK(wp_stream_event(NULL, &event) == WP_INVALID);
    wp_stream_free(NULL);
    wp_engine_free(NULL);
    CHECK(!wp_engine_new(0));
    SAYS("expected 1 to");

    CHECK(wp_stream_order(stream, 7) == WP_INVALID);
    SAYS("invalid order 7: expected 0 or 1");
    CHECK(wp_stream_pattern(stream, -1) == WP_INVALID);
    CHECK(wp_stream_input(stream, NULL, 0, whole) == WP_INVALID);
    SAYS("name is NULL");
    CHECK(wp_stream_input(stream, "\xff", 0, whole) == WP_INVALID);
    SAYS("UTF-8");
    CHECK(wp_stream_input(stream, "none", -1, whole) == WP_INVALID);
    CHECK(wp_stream_input(stream, "closed", 9999, whole) == WP_FAILED);
    SAYS("closed: Bad file descriptor");
    CHECK(wp_stream_input_memory(stream, "nothing", NULL, 1, whole) == WP_INVALID);
    CHECK(wp_stream_input_memory(stream, "text", "a", 1, (wp_framing){ WP_FIXED, 0 }) == WP_INVALID);
    CHECK(wp_stream_input_memory(stream, "text", "a", 1, (wp_framing){ 99, 1 }) == WP_INVALID);
    SAYS("invalid kind of framing 99");
    CHECK(wp_stream_handler(stream, NULL) == WP_INVALID);
    CHECK(wp_stream_handler(stream, &none) == WP_INVALID);
    SAYS("one of the handler's read, modify and rewrite");
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_STATE);
    SAYS("wp_stream_start");
    CHECK(wp_stream_stop(stream) == WP_STATE);

    two.name = NULL;
    two.context = &released;
    two.release = release;
    CHECK(wp_stream_handler(stream, &two) == WP_INVALID);
    CHECK(released == 1);
    two.name = "pass";
    CHECK(wp_stream_handler(stream, &two) == WP_OK);
    CHECK(wp_stream_order(stream, WP_ARRIVAL) == WP_STATE);
    wp_stream_free(stream);
    CHECK(released == 2);
}

static int upper(void *context, uint8_t *bytes, size_t length, int begins, int ends)
{
    (void)context;
    CHECK(begins && ends);
    for (size_t n = 0; n < length; n++)
        bytes[n] -= bytes[n] >= 'a' && bytes[n] <= 'z' ? 32 : 0;
    return WP_PASS;
}

/* Writes each line twice, and drops empty ones. */
static int64_t twice(void *context, const wp_piece *line, uint8_t *out, size_t room)
{
    (void)context;
    CHECK(room >= line->length + 100);
    if (line->length == 1)
        return WP_DROP;
    memcpy(out, line->bytes, line->length);
    memcpy(out + line->length, line->bytes, line->length);
    return (int64_t)(2 * line->length);
}

/* The kinds of handlers one behind the other, and a status. */
static void kinds(void)
{
    const wp_handler second = { .name = "twice", .whole = 100, .rewrite = twice, .grows_by = 100 };
    wp_handler first = { .name = "upper", .whole = 100, .modify = upper };
    wp_engine *engine = wp_engine_new(1);
    wp_status status;
    int receiver;
    wp_stream *stream = stream_with(&first, "one\n\ntwo\n", &receiver);

    CHECK(engine);
    CHECK(wp_stream_handler(stream, &second) == WP_OK);
    CHECK(wp_stream_start(stream, engine) == WP_OK);
    wp_engine_free(engine); /* it lives as long as its last stream */
    CHECK(wp_stream_start(stream, NULL) == WP_STATE);
    CHECK(wp_stream_wait(stream, -1, &status) == WP_OK);
    CHECK(status.bytes_in == 9 && status.records_in == 3 && status.bytes_out == 16);
    CHECK(wp_stream_status(stream, -1, &status) == WP_OK && status.bytes_out == 16);
    CHECK(wp_stream_output(stream, "late", 1) == WP_STATE);
    CHECK(sent(stream, receiver, "ONE\nONE\nTWO\nTWO\n"));
}

static int fails_at_two(void *context, const wp_piece *line)
{
    (void)context;
    return memcmp(line->bytes, "two", 3) ? WP_PASS : wp_fail("two is one too many");
}

static int answers_nonsense(void *context, const wp_piece *line)
{
    (void)context;
    (void)line;
    return 42;
}

static int calls_back(void *context, const wp_piece *line)
{
    (void)line;
    return wp_stream_wait(context, -1, NULL) == WP_STATE ? wp_fail(wp_last_error()) : WP_PASS;
}

static int stops(void *context, const wp_piece *line)
{
    (void)line;
    return wp_stream_stop(context) == WP_OK ? WP_PASS : WP_FAIL;
}

/* A handler that fails, answers nonsense or calls the library ends its stream with the reason. */
static void failures(void)
{
    wp_handler handler = { .name = "fails", .whole = 100, .read = fails_at_two };
    int receiver, open_end[2];
    wp_stream *stream = stream_with(&handler, "one\ntwo\nthree\n", &receiver);

    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_FAILED);
    SAYS("handler fails: two is one too many");
    CHECK(sent(stream, receiver, "one\n"));

    handler.read = answers_nonsense;
    stream = stream_with(&handler, "one\n", &receiver);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_FAILED);
    SAYS("it answered 42");
    CHECK(sent(stream, receiver, ""));

    handler.read = calls_back;
    stream = stream_with(NULL, "one\n", &receiver);
    handler.context = stream;
    CHECK(wp_stream_handler(stream, &handler) == WP_OK);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_FAILED);
    SAYS("called from a handler");
    wp_stream_free(stream);
    close(receiver);

    CHECK(!pipe(open_end));
    handler.read = stops;
    stream = stream_with(NULL, "one\n", &receiver);
    handler.context = stream;
    CHECK(wp_stream_handler(stream, &handler) == WP_OK);
    CHECK(wp_stream_input(stream, "without end", open_end[0], lines) >= 0);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_STOPPED);
    wp_stream_free(stream);
    close(receiver);
}

struct gate {
    int entered[2], open[2];
};

/* Does not return until the gate is opened. */
static int waits(void *context, const wp_piece *piece)
{
    struct gate *gate = context;
    char byte;

    (void)piece;
    CHECK(write(gate->entered[1], "x", 1) == 1);
    CHECK(read(gate->open[0], &byte, 1) == 1);
    return WP_PASS;
}

/* A handler that does not return holds its own stream and nothing else: not others, not the caller. */
static void held(void)
{
    struct gate gate;
    const wp_handler handler = { .name = "waits", .context = &gate, .whole = 100, .read = waits };
    const wp_handler passes = { .name = "pass", .read = pass };
    wp_status status;
    int receiver, other_receiver, open_end[2];
    char byte;
    wp_stream *other, *stream = stream_with(&handler, "one\n", &receiver);

    CHECK(!pipe(gate.entered) && !pipe(gate.open) && !pipe(open_end));
    CHECK(wp_stream_input(stream, "without end", open_end[0], lines) >= 0);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(read(gate.entered[0], &byte, 1) == 1);
    CHECK(wp_stream_wait(stream, 1, &status) == WP_TIMEOUT);
    CHECK(wp_stream_status(stream, 1, &status) == WP_TIMEOUT);
    SAYS("a handler may hold it");
    CHECK(wp_stream_stop(stream) == WP_OK);

    other = stream_with(&passes, "one\n", &other_receiver);
    CHECK(wp_stream_start(other, NULL) == WP_OK);
    CHECK(wp_stream_wait(other, -1, NULL) == WP_OK);
    CHECK(sent(other, other_receiver, "one\n"));

    CHECK(write(gate.open[1], "x", 1) == 1);
    CHECK(wp_stream_wait(stream, -1, &status) == WP_STOPPED);
    wp_stream_free(stream);
    close(receiver);
}

/* A reader that is gone is an error of the stream, and no SIGPIPE for the program. */
static void reader_gone(void)
{
    const wp_handler passes = { .name = "pass", .whole = 100, .read = pass };

    for (int is_pipe = 0; is_pipe <= 1; is_pipe++) {
        for (int is_seen = 0; is_seen <= 1; is_seen++) {
            int pair[2], input[2];
            wp_stream *stream = wp_stream_new();

            CHECK(!(is_pipe ? pipe(pair) : socketpair(AF_UNIX, SOCK_STREAM, 0, pair)));
            CHECK(!pipe(input));
            close(pair[0]);
            if (is_seen)
                CHECK(wp_stream_handler(stream, &passes) == WP_OK);
            CHECK(wp_stream_input(stream, "input", input[0], is_seen ? lines : whole) >= 0);
            CHECK(wp_stream_output(stream, "output", pair[1]) >= 0);
            close(pair[1]);
            close(input[0]);
            CHECK(write(input[1], "one\n", 4) == 4);
            close(input[1]);
            CHECK(wp_stream_start(stream, NULL) == WP_OK);
            CHECK(wp_stream_wait(stream, -1, NULL) == WP_FAILED);
            SAYS("Broken pipe");
            wp_stream_free(stream);
        }
    }
}

/* The descriptor is readable when there is an event, and at the end. */
static void events(void)
{
    wp_event event;
    struct pollfd polled = { .events = POLLIN };
    int receiver, pair[2], kinds[16] = { 0 };
    wp_stream *stream = wp_stream_new();

    CHECK(wp_stream_order(stream, WP_ARRIVAL) == WP_OK);
    CHECK(wp_stream_input_memory(stream, "text", "one\n", 4, lines) >= 0);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    CHECK(wp_stream_output(stream, "socket", pair[1]) >= 0);
    close(pair[1]);
    receiver = pair[0];
    CHECK(wp_stream_descriptor(stream) == WP_STATE);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    CHECK(wp_stream_input(stream, "socket", pair[0], lines) >= 0);
    close(pair[0]);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK((polled.fd = wp_stream_descriptor(stream)) >= 0);
    do {
        CHECK(poll(&polled, 1, -1) == 1);
        CHECK(wp_stream_event(stream, &event) == WP_OK);
        kinds[event.kind]++;
        if (event.kind == WP_EVENT_INPUT_GONE && !strcmp(event.text, "text")) {
            CHECK(event.port >= 0);
            CHECK(wp_stream_input_memory(stream, "more", "two\n", 4, lines) >= 0);
            close(pair[1]);
        }
    } while (event.kind != WP_EVENT_ENDED);
    CHECK(kinds[WP_EVENT_INPUT_GONE] == 3);
    CHECK(wp_stream_wait(stream, 0, NULL) == WP_OK);
    CHECK(sent(stream, receiver, "one\ntwo\n"));
}

int main(void)
{
    alarm(60); /* what hangs has failed */
    wrong_arguments();
    kinds();
    failures();
    held();
    reader_gone();
    events();
    return 0;
}
