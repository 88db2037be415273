/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The interface as C sees it: what works, and what wrong arguments and handlers are answered. */
#include <netinet/in.h>
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
static const wp_framing pairs = { WP_FIXED, 2 };
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
        CHECK(wp_stream_handler(stream, handler) >= 0);
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
    SAYS("one of the handler's read, peek, modify and rewrite");
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_STATE);
    SAYS("wp_stream_start");
    CHECK(wp_stream_stop(stream) == WP_STATE);

    two.name = NULL;
    two.context = &released;
    two.release = release;
    CHECK(wp_stream_handler(stream, &two) == WP_INVALID);
    CHECK(released == 1);
    two.name = "pass";
    CHECK(wp_stream_handler(stream, &two) >= 0);
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
    CHECK(wp_stream_handler(stream, &second) == 1); /* the second number */
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
    CHECK(wp_stream_handler(stream, &handler) >= 0);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_FAILED);
    SAYS("called from a handler");
    wp_stream_free(stream);
    close(receiver);

    CHECK(!pipe(open_end));
    handler.read = stops;
    stream = stream_with(NULL, "one\n", &receiver);
    handler.context = stream;
    CHECK(wp_stream_handler(stream, &handler) >= 0);
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
                CHECK(wp_stream_handler(stream, &passes) >= 0);
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

static void wrong_arguments_of_changes(void)
{
    wp_handler handler = { .name = "pass", .read = pass };
    wp_tag tag = { .window = 1, .waiting_bytes = 1 };
    wp_option options[2];
    int released = 0;
    char byte;
    wp_stream *stream = wp_stream_new();

    CHECK(wp_stream_detach(NULL, 0, 0) == WP_INVALID);
    SAYS("stream is NULL");
    CHECK(wp_stream_output_handler(NULL, 0, 0, &handler) == WP_INVALID);
    CHECK(wp_stream_remove_handler(NULL, 0, 0) == WP_INVALID);
    CHECK(wp_stream_replace_handler(NULL, 0, &handler, 0) == WP_INVALID);
    CHECK(wp_stream_control(NULL, 0, "a", 1, NULL, 0, 0) == WP_INVALID);
    CHECK(wp_stream_set_trust(NULL, 0, 1) == WP_INVALID);
    CHECK(wp_stream_options(NULL, options, 2) == WP_INVALID);
    CHECK(wp_stream_set_option(NULL, "rate", "none") == WP_INVALID);
    CHECK(wp_stream_output_options(NULL, 0, options, 2) == WP_INVALID);
    CHECK(wp_stream_set_output_option(NULL, 0, "trust", "1") == WP_INVALID);
    CHECK(wp_stream_order_by_tag(stream, NULL, WP_LATE_DROP) == WP_INVALID);
    CHECK(wp_stream_join_by_key(stream, NULL) == WP_INVALID);

    CHECK(wp_stream_detach(stream, 0, -1) == WP_STATE);
    SAYS("wp_stream_start");
    CHECK(wp_stream_detach(stream, -1, 0) == WP_INVALID);
    SAYS("no input or output with port -1");
    CHECK(wp_stream_output_handler(stream, 7, 0, NULL) == WP_INVALID);
    CHECK(wp_stream_replace_handler(stream, 7, NULL, -1) == WP_INVALID);
    CHECK(wp_stream_control(stream, 7, NULL, 1, &byte, 1, -1) == WP_INVALID);
    SAYS("message is NULL");
    CHECK(wp_stream_control(stream, 7, "a", 1, NULL, 1, -1) == WP_INVALID);
    SAYS("answer is NULL");
    CHECK(wp_stream_control(stream, -7, "a", 1, &byte, 1, -1) == WP_INVALID);
    SAYS("no handler -7");
    CHECK(wp_stream_options(stream, NULL, 1) == WP_INVALID);
    SAYS("options is NULL");
    CHECK(wp_stream_set_option(stream, NULL, "none") == WP_INVALID);
    CHECK(wp_stream_set_option(stream, "rate", NULL) == WP_INVALID);
    CHECK(wp_stream_set_trust(stream, 7, 50) == WP_INVALID);
    SAYS("no output with port 7");

    tag.context = &released;
    tag.release = release;
    CHECK(wp_stream_order_by_tag(stream, &tag, WP_LATE_DROP) == WP_INVALID);
    SAYS("tag->tag is NULL");
    CHECK(released == 1);
    handler.context = &released;
    handler.release = release;
    CHECK(wp_stream_output_handler(stream, 7, 0, &handler) == WP_INVALID);
    SAYS("no output with port 7");
    CHECK(wp_stream_output_handler(stream, 7, 101, &handler) == WP_INVALID);
    SAYS("invalid trust 101: expected 0 to 100");
    CHECK(wp_stream_replace_handler(stream, 7, &handler, -1) == WP_INVALID);
    SAYS("no handler 7");
    CHECK(released == 4);
    wp_stream_free(stream);
}

/* A running stream from a socket to a socket, with one handler. */
struct running {
    wp_stream *stream;
    int sender, receiver;
    int64_t input, output, handler;
};

static struct running running_with(const wp_handler *handler, wp_framing framing)
{
    struct running running = { .stream = wp_stream_new() };
    int in[2], out[2];

    CHECK(running.stream && wp_stream_pattern(running.stream, WP_MIRROR) == WP_OK);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in));
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out));
    CHECK((running.handler = wp_stream_handler(running.stream, handler)) >= 0);
    CHECK((running.input = wp_stream_input(running.stream, "in", in[1], framing)) >= 0);
    CHECK((running.output = wp_stream_output(running.stream, "out", out[1])) >= 0);
    close(in[1]);
    close(out[1]);
    running.sender = in[0];
    running.receiver = out[0];
    CHECK(wp_stream_start(running.stream, NULL) == WP_OK);
    return running;
}

static void end(struct running running)
{
    wp_stream_free(running.stream);
    close(running.sender);
    close(running.receiver);
}

static void send_text(int sender, const char *text)
{
    CHECK(write(sender, text, strlen(text)) == (ssize_t)strlen(text));
}

/* Receives exactly this; nothing may come before it. */
static void receive_text(int receiver, const char *expected)
{
    char bytes[100];
    size_t length = 0;

    while (length < strlen(expected)) {
        ssize_t count = read(receiver, bytes + length, strlen(expected) - length);

        CHECK(count > 0);
        length += (size_t)count;
    }
    CHECK(!memcmp(bytes, expected, length));
}

/* The letter with which lines begin that pass. */
struct letter {
    char letter;
    int released;
};

static int has_letter(void *context, const wp_piece *line)
{
    const struct letter *letter = context;

    return line->bytes[0] == letter->letter ? WP_PASS : WP_DROP;
}

/* A message of one byte is the new letter; the answer is the letter before. */
static int64_t change_letter(void *context, const void *message, size_t length, void *answer, size_t room)
{
    struct letter *letter = context;

    CHECK(room == 65536);
    if (length == 0)
        return wp_fail("a message without a letter");
    if (length > 1)
        return wp_refuse("a letter has one byte");
    memcpy(answer, &letter->letter, 1);
    memcpy(&letter->letter, message, 1);
    return 1;
}

static void release_letter(void *context)
{
    release(&((struct letter *)context)->released);
}

/* Handlers get messages, are replaced and removed while the stream runs. */
static void changed_handlers(void)
{
    static const char long_message[65537];
    static struct letter letters[2] = { { 'a', 0 }, { 'b', 0 } }; /* released some time after the end */
    wp_handler handler = { .name = "letter", .context = &letters[0], .whole = 100, .read = has_letter,
                           .control = change_letter, .release = release_letter };
    const wp_handler silent = { .name = "silent", .read = pass };
    struct running running = running_with(&handler, lines);
    wp_stream *stream = running.stream;
    int64_t number = running.handler, other;
    char answer[4] = "";

    send_text(running.sender, "a1\nb1\n");
    receive_text(running.receiver, "a1\n");
    CHECK(wp_stream_control(stream, number, "c", 1, answer, sizeof(answer), -1) == 1);
    CHECK(!strcmp(answer, "a"));
    send_text(running.sender, "a2\nc2\n");
    receive_text(running.receiver, "c2\n");
    CHECK(wp_stream_control(stream, number, "b", 1, NULL, 0, -1) == 1); /* the length, without room */
    CHECK(wp_stream_control(stream, number, "xy", 2, NULL, 0, -1) == WP_REFUSED);
    SAYS("a letter has one byte");
    CHECK(wp_stream_control(stream, number + 1, "c", 1, NULL, 0, -1) == WP_INVALID);
    SAYS("it has been removed or never existed");
    CHECK(wp_stream_control(stream, number, long_message, sizeof(long_message), NULL, 0, -1) == WP_INVALID);
    SAYS("at most 65536 are allowed");
    CHECK((other = wp_stream_handler(stream, &silent)) > number);
    CHECK(wp_stream_control(stream, other, "c", 1, NULL, 0, -1) == WP_REFUSED);
    SAYS("silent takes no control messages");

    handler.context = &letters[1];
    CHECK(wp_stream_replace_handler(stream, number, &handler, -1) == WP_OK);
    CHECK(letters[0].released == 1 && letters[1].released == 0);
    letters[1].letter = 'd'; /* nothing was sent meanwhile */
    send_text(running.sender, "b3\nd3\n");
    receive_text(running.receiver, "d3\n");
    CHECK(wp_stream_remove_handler(stream, number, -1) == WP_OK);
    CHECK(letters[1].released == 1);
    send_text(running.sender, "e4\n");
    receive_text(running.receiver, "e4\n");
    CHECK(wp_stream_remove_handler(stream, number, -1) == WP_INVALID);
    SAYS("it has been removed or never existed");

    CHECK((number = wp_stream_handler(stream, &handler)) > other);
    CHECK(wp_stream_control(stream, number, NULL, 0, NULL, 0, -1) == WP_FAILED);
    SAYS("a message without a letter");
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_FAILED);
    SAYS("handler letter: a message without a letter");
    CHECK(wp_stream_control(stream, number, "c", 1, NULL, 0, -1) == WP_STATE);
    SAYS("the stream has ended");
    CHECK(wp_stream_remove_handler(stream, number, -1) == WP_STATE);
    end(running);
}

static void stop_in_release(void *context)
{
    CHECK(wp_stream_stop(context) == WP_STATE);
}

/* Handlers of a stream that was not started change at once, on this thread. */
static void changed_before_the_start(void)
{
    static struct letter letter = { 'a', 0 };
    const wp_handler handler = { .name = "letter", .context = &letter, .whole = 100, .read = has_letter,
                                 .control = change_letter, .release = release_letter };
    wp_handler releases = { .name = "releases", .read = pass, .release = stop_in_release };
    char before;
    int receiver;
    wp_stream *stream = stream_with(&handler, "a\nb\n", &receiver);

    CHECK(wp_stream_control(stream, 0, "b", 1, &before, 1, -1) == 1 && before == 'a');
    releases.context = stream;
    CHECK(wp_stream_handler(stream, &releases) == 1);
    CHECK(wp_stream_replace_handler(stream, 1, &releases, -1) == WP_OK);
    CHECK(wp_stream_remove_handler(stream, 1, -1) == WP_OK);
    CHECK(wp_stream_replace_handler(stream, 1, &releases, -1) == WP_INVALID);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_OK);
    CHECK(sent(stream, receiver, "b\n"));
}

/* Within a record that is given in pieces, a removal waits. */
static void removed_behind_a_record(void)
{
    static int released;
    const wp_handler handler = { .name = "pass", .context = &released, .read = pass, .release = release };
    struct running running = running_with(&handler, pairs);
    int result;

    send_text(running.sender, "x");
    receive_text(running.receiver, "x");
    CHECK(wp_stream_remove_handler(running.stream, running.handler, 1) == WP_TIMEOUT);
    SAYS("the end of a record");
    CHECK(__atomic_load_n(&released, __ATOMIC_SEQ_CST) == 0);
    send_text(running.sender, "y");
    receive_text(running.receiver, "y");
    result = wp_stream_remove_handler(running.stream, running.handler, -1);
    CHECK(result == WP_INVALID || result == WP_STATE); /* it is gone, or goes by the call before */
    CHECK(__atomic_load_n(&released, __ATOMIC_SEQ_CST) == 1);
    end(running);
}

/* Inputs and outputs leave a running stream, and their descriptors are closed. */
static void detached(void)
{
    const wp_handler handler = { .name = "pass", .read = pass };
    struct running running = running_with(&handler, pairs);
    wp_stream *stream = running.stream;
    int64_t second;
    int pair[2];
    char byte;

    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    CHECK((second = wp_stream_output(stream, "second", pair[1])) >= 0);
    close(pair[1]);
    send_text(running.sender, "aax");
    receive_text(running.receiver, "aax");
    receive_text(pair[0], "aax");
    CHECK(wp_stream_detach(stream, second, 1) == WP_TIMEOUT); /* it is within a record */
    SAYS("the end of a record");
    CHECK(wp_stream_detach(stream, second, -1) == WP_INVALID);
    SAYS("being detached");
    send_text(running.sender, "y");
    receive_text(pair[0], "y");
    CHECK(read(pair[0], &byte, 1) == 0);
    receive_text(running.receiver, "y");
    close(pair[0]);

    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    CHECK((second = wp_stream_output(stream, "third", pair[1])) >= 0);
    close(pair[1]);
    CHECK(wp_stream_detach(stream, second, -1) == WP_OK);
    CHECK(read(pair[0], &byte, 1) == 0);
    close(pair[0]);
    send_text(running.sender, "bb");
    receive_text(running.receiver, "bb");
    CHECK(wp_stream_detach(stream, second, -1) == WP_INVALID);
    SAYS("no input or output with port");

    CHECK(wp_stream_detach(stream, running.input, -1) == WP_OK);
    CHECK(read(running.sender, &byte, 1) == 0);
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_OK); /* it was the last input */
    CHECK(wp_stream_detach(stream, running.output, -1) == WP_STATE);
    SAYS("the stream has ended");
    end(running);
}

/* The value of an option in a list. */
static const char *value_of(const wp_option *options, int64_t count, const char *key)
{
    for (int64_t n = 0; n < count; n++)
        if (!strcmp(options[n].key, key))
            return options[n].value;
    return "not listed";
}

static void options(void)
{
    const wp_handler handler = { .name = "pass", .read = pass };
    wp_option found[16];
    int64_t count;
    int receiver;
    wp_stream *stream = stream_with(&handler, "one\n", &receiver);

    CHECK((count = wp_stream_options(stream, found, 16)) > 3 && count <= 16);
    CHECK(!strcmp(found[0].key, "rate") && !strcmp(found[0].unit, "bytes/s") && found[0].may_change == 1);
    CHECK(!strcmp(value_of(found, count, "rate"), "none"));
    CHECK(wp_stream_options(stream, NULL, 0) == count);
    memset(found, 1, sizeof(found));
    CHECK(wp_stream_options(stream, found, 1) == count && found[1].key[0] == 1);
    CHECK(wp_stream_set_option(stream, "rate", "1000000") == WP_OK);
    CHECK(wp_stream_set_option(stream, "colour", "red") == WP_INVALID);
    SAYS("no option colour: expected one of rate, ");
    CHECK(wp_stream_set_option(stream, "rate", "fast") == WP_INVALID);
    SAYS("invalid value fast of option rate: expected a number from 1, or none");
    CHECK(wp_stream_set_option(stream, "finish-outputs", "true") == WP_STATE);
    SAYS("is fixed when the stream is built");
    wp_stream_free(stream);
    close(receiver);

    struct running running = running_with(&handler, lines);

    stream = running.stream;
    CHECK(wp_stream_set_option(stream, "rate", "1000000") == WP_OK);
    CHECK(!strcmp(value_of(found, wp_stream_options(stream, found, 16), "rate"), "1000000"));
    CHECK((count = wp_stream_output_options(stream, running.output, found, 16)) == 3);
    CHECK(!strcmp(value_of(found, count, "when-full"), "block"));
    CHECK(wp_stream_set_output_option(stream, running.output, "when-full", "drop-newest") == WP_OK);
    CHECK(wp_stream_output_options(stream, running.output, found, 16) == count);
    CHECK(!strcmp(value_of(found, count, "when-full"), "drop-newest"));
    CHECK(wp_stream_set_output_option(stream, running.output, "when-full", "wait") == WP_INVALID);
    SAYS("expected block, drop-newest, drop-oldest or disconnect");
    CHECK(wp_stream_set_output_option(stream, 777, "trust", "7") == WP_INVALID);
    SAYS("no output with port 777");
    CHECK(wp_stream_output_options(stream, running.input, found, 16) == WP_INVALID);
    end(running);
}

/* A rate that was set before the start holds. */
static void rate_before_the_start(void)
{
    wp_option found[16];
    int receiver, open_end[2];
    wp_stream *stream = stream_with(NULL, "one\n", &receiver);

    CHECK(!pipe(open_end));
    CHECK(wp_stream_input(stream, "without end", open_end[0], lines) >= 0);
    CHECK(wp_stream_set_option(stream, "rate", "700") == WP_OK);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(!strcmp(value_of(found, wp_stream_options(stream, found, 16), "rate"), "700"));
    wp_stream_free(stream);
    close(receiver);
    close(open_end[0]);
    close(open_end[1]);
}

/* A handler of an output is in force while the trust in its peer is low. */
static void trust(void)
{
    const wp_handler handler = { .name = "pass", .read = pass };
    const wp_handler lower_trust = { .name = "upper", .whole = 100, .modify = upper };
    struct running running = running_with(&handler, lines);
    wp_stream *stream = running.stream;
    int64_t number = wp_stream_output_handler(stream, running.output, 50, &lower_trust);

    CHECK(number > running.handler);
    send_text(running.sender, "one\n");
    receive_text(running.receiver, "one\n");
    CHECK(wp_stream_set_trust(stream, running.output, 49) == WP_OK);
    send_text(running.sender, "two\n");
    receive_text(running.receiver, "TWO\n");
    CHECK(wp_stream_set_trust(stream, running.output, 101) == WP_INVALID);
    SAYS("invalid trust 101: expected 0 to 100");
    CHECK(wp_stream_set_trust(stream, running.input, 5) == WP_INVALID);
    SAYS("no output with port");
    CHECK(wp_stream_remove_handler(stream, number, -1) == WP_OK);
    send_text(running.sender, "three\n");
    receive_text(running.receiver, "three\n");
    CHECK(wp_stream_output_handler(stream, running.output, 0, &lower_trust) > number);
    send_text(running.sender, "four\n");
    receive_text(running.receiver, "FOUR\n");
    end(running);
}

static int has_header(void *context, const uint8_t *head, size_t length)
{
    (void)context;
    CHECK(length == 4 || (length == 1 && *head == 'k')); /* the last record is shorter */
    return length == 4 && !memcmp(head, "keep", 4) ? WP_PASS : WP_DROP;
}

/* A handler that peeks sees the first bytes only. */
static void peeks(void)
{
    wp_handler handler = { .name = "header", .peek = has_header };
    const wp_framing eight = { WP_FIXED, 8 };
    int pair[2];
    wp_stream *stream = wp_stream_new();

    CHECK(wp_stream_handler(stream, &handler) == WP_INVALID);
    SAYS("invalid peek_bytes 0: expected 1 to 16384");
    handler.peek_bytes = 16385;
    CHECK(wp_stream_handler(stream, &handler) == WP_INVALID);
    handler.peek_bytes = 4;
    CHECK(wp_stream_handler(stream, &handler) == 0);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    CHECK(wp_stream_input_memory(stream, "text", "keep one.drop twk", 17, eight) >= 0);
    CHECK(wp_stream_output(stream, "socket", pair[1]) >= 0);
    close(pair[1]);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_OK);
    CHECK(sent(stream, pair[0], "keep one"));
}

static int refuses_x(void *context, const wp_piece *record)
{
    (void)context;
    return record->bytes[0] == 'x' ? wp_refuse("it begins with x") : WP_PASS;
}

/* A refused record is dropped among datagrams, and an error among others. */
static void refused_records(void)
{
    const wp_handler handler = { .name = "refuses", .whole = 100, .read = refuses_x };
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof(address);
    wp_event event = { .kind = WP_EVENT_NONE };
    int receiver, pair[2], from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    wp_stream *stream = stream_with(&handler, "x\n", &receiver);

    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    CHECK(wp_stream_wait(stream, -1, NULL) == WP_FAILED);
    SAYS("handler refuses: it begins with x");
    CHECK(sent(stream, receiver, ""));

    CHECK(from >= 0 && to >= 0 && !bind(to, (struct sockaddr *)&address, length));
    CHECK(!getsockname(to, (struct sockaddr *)&address, &length));
    CHECK(!connect(from, (struct sockaddr *)&address, length));
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    CHECK((stream = wp_stream_new()) && wp_stream_handler(stream, &handler) == 0);
    CHECK(wp_stream_input(stream, "datagrams", to, whole) >= 0);
    CHECK(wp_stream_output(stream, "socket", pair[1]) >= 0);
    CHECK(wp_stream_start(stream, NULL) == WP_OK);
    send_text(from, "x1");
    send_text(from, "a2");
    receive_text(pair[0], "a2");
    CHECK(wp_stream_event(stream, &event) == WP_OK && event.kind == WP_EVENT_RECORD_REFUSED);
    CHECK(strstr(event.text, "it begins with x"));
    wp_stream_free(stream);
    close(pair[0]);
    close(pair[1]);
    close(from);
    close(to);
}

/* The number with which a line begins; lines with a minus have none, and others are an error. */
static int line_number(void *context, const uint8_t *record, size_t length, uint64_t *tag)
{
    (void)context;
    CHECK(length > 0);
    if (record[0] == '-')
        return 0;
    if (record[0] < '0' || record[0] > '9')
        return wp_fail("no number");
    *tag = (uint64_t)(record[0] - '0');
    return 1;
}

static int64_t add_lines(wp_stream *stream, const char *text)
{
    return wp_stream_input_memory(stream, "lines", text, strlen(text), lines);
}

/* Records leave in the order of their tags, or joined by their keys. */
static void ordered(void)
{
    static int released;
    wp_tag tag = { .context = &released, .tag = line_number, .window = 16, .waiting_bytes = 10000,
                   .release = release };

    for (int kind = 0; kind <= 2; kind++) {
        int pair[2];
        wp_stream *stream = wp_stream_new();

        CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
        if (kind == 1)
            CHECK(wp_stream_join_by_key(stream, &tag) == WP_OK);
        else
            CHECK(wp_stream_order_by_tag(stream, &tag, WP_LATE_PASS) == WP_OK);
        CHECK(add_lines(stream, "1 a\n3 a\n") >= 0);
        CHECK(add_lines(stream, kind == 2 ? "x\n" : "1 b\n- b\n3 b\n") >= 0);
        CHECK(wp_stream_output(stream, "socket", pair[1]) >= 0);
        close(pair[1]);
        CHECK(wp_stream_start(stream, NULL) == WP_OK);
        if (kind == 2) {
            CHECK(wp_stream_wait(stream, -1, NULL) == WP_FAILED);
            SAYS("no number");
            CHECK(sent(stream, pair[0], ""));
            continue;
        }
        CHECK(wp_stream_wait(stream, -1, NULL) == WP_OK);
        CHECK(sent(stream, pair[0], kind == 1 ? "1 a\n1 b\n3 a\n3 b\n" : "1 a\n1 b\n- b\n3 a\n3 b\n"));
    }

    wp_stream *stream = wp_stream_new();
    int once = 0;

    tag.context = &once;
    CHECK(wp_stream_order_by_tag(stream, &tag, 7) == WP_INVALID);
    SAYS("invalid late 7");
    CHECK(once == 1);
    tag.window = 0;
    CHECK(wp_stream_join_by_key(stream, &tag) == WP_INVALID);
    SAYS("expected at least 1");
    tag.window = 1;
    CHECK(wp_stream_join_by_key(stream, &tag) == WP_OK && once == 2);
    CHECK(wp_stream_order_by_tag(stream, &tag, WP_LATE_DROP) == WP_OK);
    CHECK(once == 3); /* it replaced the one before */
    CHECK(add_lines(stream, "1\n") >= 0);
    CHECK(wp_stream_join_by_key(stream, &tag) == WP_STATE);
    SAYS("before inputs, outputs and handlers");
    CHECK(once == 4);
    wp_stream_free(stream);
    CHECK(once == 5);
}

int main(void)
{
    alarm(60); /* what hangs has failed */
    wrong_arguments();
    wrong_arguments_of_changes();
    kinds();
    failures();
    held();
    reader_gone();
    events();
    changed_handlers();
    changed_before_the_start();
    removed_behind_a_record();
    detached();
    options();
    rate_before_the_start();
    trust();
    peeks();
    refused_records();
    ordered();
    return 0;
}
