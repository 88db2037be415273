/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Streams of records between descriptors: the library libwirepath.
 *
 * A stream reads records from its inputs in an order, has handlers see them, and gives them to its outputs by
 * a pattern. Build one (wp_stream_new, wp_stream_input, wp_stream_output, wp_stream_handler), start it
 * (wp_stream_start), wait for its end (wp_stream_wait) and free it (wp_stream_free).
 *
 * Every function may be called from every thread, but from a handler only wp_fail, wp_last_error and
 * wp_stream_stop; nothing is freed while another thread uses it. A function that fails answers with a
 * negative number, or NULL, and wp_last_error says what failed: why; what to do. NULL and wrong numbers are
 * errors (WP_INVALID); a pointer to memory that is not what it is declared to be cannot be noticed. Strings
 * are UTF-8, end with a zero byte and are copied. The interface may change before version 1.0; then so does
 * the library's soname. Do not unload the library (dlclose) while it may still have threads.
 */
#ifndef WIREPATH_H
#define WIREPATH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results of functions. */
enum {
    WP_OK = 0,
    WP_INVALID = -1, /* an argument is NULL, out of range, or not UTF-8 */
    WP_FAILED = -2,  /* a system call failed, or the stream ended with an error */
    WP_STOPPED = -3, /* the stream was stopped */
    WP_TIMEOUT = -4, /* not within the time that was given */
    WP_STATE = -5,   /* not at this time: before the start, behind it, or from a handler */
    WP_BUG = -6      /* an error of the library itself, which was caught */
};

/* Reason of this thread's last failure. Never NULL; valid until the next function fails in this thread. */
const char *wp_last_error(void);

/* Version of the library: "0.1.0". */
const char *wp_version(void);

/* ---- Stream ---- */

typedef struct wp_stream wp_stream;

/* A stream without inputs and outputs; NULL if that fails. */
wp_stream *wp_stream_new(void);

/*
 * Stops the stream if it runs, and gives back its memory. Never blocks: handlers may still be called until
 * the stream has ended. Who frees what a handler uses waits for the end before, or has it freed by `release`.
 */
void wp_stream_free(wp_stream *stream);

/* Order of inputs. */
enum {
    WP_ROUND_ROBIN = 0, /* a record from each in turn; the default */
    WP_ARRIVAL = 1      /* a record from any that has one */
};

/* Sets the order of inputs: before the first input, output or handler. */
int wp_stream_order(wp_stream *stream, int order);

/* Pattern of outputs. */
enum {
    WP_STRIPE = 0,  /* a record to each in turn; the default */
    WP_MIRROR = 1,  /* every record to all; the stream goes on without one that fails */
    WP_CAPACITY = 2 /* a record to the one with the shortest wait */
};

/* Sets the pattern of outputs: before the first input, output or handler. */
int wp_stream_pattern(wp_stream *stream, int pattern);

/*
 * ---- Inputs and outputs: before the start, or while the stream runs ----
 *
 * A running stream is changed by its thread between two turns. If the thread is in a handler that does not
 * return, the answer is WP_TIMEOUT after 10 seconds; should the handler return later, the change is still
 * made.
 */

/* Division of an input into records. */
enum {
    WP_WHOLE = 0,           /* none: all bytes are one record; each datagram is one */
    WP_FIXED = 1,           /* records of `bytes` bytes */
    WP_LINES = 2,           /* lines of at most `bytes` bytes, with the line feed */
    WP_LENGTH32 = 3,        /* records behind their length in four bytes (big-endian), at most `bytes` long */
    WP_RTP = 4,             /* packets behind their length in two bytes (RFC 4571) */
    WP_TRANSPORT_STREAM = 5 /* packets of an MPEG transport stream */
};

typedef struct wp_framing {
    int kind;
    size_t bytes; /* not looked at where the kind does not name it */
} wp_framing;

/*
 * Attaches an input: a connected socket, a pipe, a terminal, or a file from its offset on. Answers its port,
 * a number that is not negative. The library has a duplicate of the descriptor; the caller closes its own, or
 * the end of a pipe or connection may never be seen. A socket is put into non-blocking mode.
 */
int64_t wp_stream_input(wp_stream *stream, const char *name, int descriptor, wp_framing framing);

/* Attaches bytes in memory as an input. They are copied. */
int64_t wp_stream_input_memory(wp_stream *stream, const char *name, const void *bytes, size_t length,
                               wp_framing framing);

/* Attaches an output, as wp_stream_input does. */
int64_t wp_stream_output(wp_stream *stream, const char *name, int descriptor);

/* ---- Handlers: before the start, or while the stream runs ---- */

/* A record, or a piece of one. Valid during the call. */
typedef struct wp_piece {
    const uint8_t *bytes; /* never NULL */
    size_t length;
    int begins; /* 1 if the first byte is the first of a record */
    int ends;   /* 1 if the last byte is the last of a record */
} wp_piece;

/* Decisions of a handler. */
enum {
    WP_PASS = 0,
    WP_DROP = -1, /* the record goes no further */
    WP_FAIL = -2  /* the stream ends with an error: see wp_fail */
};

/*
 * A handler: one of `read`, `modify` and `rewrite`, the others NULL. Its functions are called on the thread
 * of the stream, one at a time, and must not block.
 */
typedef struct wp_handler {
    const char *name;
    void *context; /* first argument of the functions */
    size_t whole;  /* 0: a long record is given in pieces as they come; else whole, up to so many bytes */
    /* Sees a record; answers WP_PASS, WP_DROP or WP_FAIL. */
    int (*read)(void *context, const wp_piece *piece);
    /* Changes the bytes where they are; answers as `read`. */
    int (*modify)(void *context, uint8_t *bytes, size_t length, int begins, int ends);
    /* Writes new bytes to `out`, which has room for `piece->length + grows_by`; answers how many, or WP_DROP
     * or WP_FAIL. */
    int64_t (*rewrite)(void *context, const wp_piece *piece, uint8_t *out, size_t room);
    size_t grows_by;
    /* Called once when the context is not needed any more, also if wp_stream_handler fails; or NULL. On any
     * thread, the stream's among them: like a handler it must not block, and functions that wait answer
     * WP_STATE. */
    void (*release)(void *context);
} wp_handler;

/* Adds a handler behind the others. It sees the records that begin from then on. */
int wp_stream_handler(wp_stream *stream, const wp_handler *handler);

/* Sets the reason for which a handler fails, and answers WP_FAIL: `return wp_fail("no header");`. */
int wp_fail(const char *reason);

/* ---- Running ---- */

typedef struct wp_engine wp_engine;

/* Threads for many streams, which wait for the handlers of others on the same thread. NULL if that fails. */
wp_engine *wp_engine_new(unsigned threads);

/* Ends the engine when its last stream is freed. Never blocks. */
void wp_engine_free(wp_engine *engine);

/* Starts the stream on the engine; on a thread of its own if that is NULL. */
int wp_stream_start(wp_stream *stream, wp_engine *engine);

/* Stops the stream. Bytes that were read and have not left are lost. */
int wp_stream_stop(wp_stream *stream);

typedef struct wp_status {
    uint64_t bytes_in;
    uint64_t records_in; /* begun; a stream of bytes without framing is one */
    uint64_t zero_copy_bytes;
    uint64_t bytes_out;
    uint64_t bytes_pending; /* read and not yet given to outputs */
    uint64_t bytes_dropped; /* read and lost */
    uint64_t inputs;        /* that have not ended */
    uint64_t outputs;       /* that are not gone */
} wp_status;

/*
 * Waits for the end of the stream, at most `timeout_ms` milliseconds; for ever if that is negative. Answers
 * WP_OK if it ended well, WP_STOPPED, WP_FAILED with the reason, or WP_TIMEOUT. Unless that, `status` (if not
 * NULL) has its last status, and no handler is called any more.
 */
int wp_stream_wait(wp_stream *stream, int64_t timeout_ms, wp_status *status);

/* Status so far. Its thread answers, which a handler that does not return prevents: then WP_TIMEOUT. */
int wp_stream_status(wp_stream *stream, int64_t timeout_ms, wp_status *status);

/* ---- Events ---- */

/*
 * Descriptor for poll, select or epoll: readable (POLLIN) while an event waits, and from the end of the
 * stream on. It is the stream's: not to be read, written or closed. Valid from wp_stream_start to
 * wp_stream_free.
 */
int wp_stream_descriptor(wp_stream *stream);

enum {
    WP_EVENT_NONE = 0, /* none waits, and the stream goes on */
    WP_EVENT_ENDED = 1,
    WP_EVENT_INPUT_GONE = 2,
    WP_EVENT_INPUT_FAILED = 3,
    WP_EVENT_OUTPUT_GONE = 4,
    WP_EVENT_OUTPUT_FAILED = 5,
    WP_EVENT_OUTPUT_DISCONNECTED = 6,
    WP_EVENT_RECORD_REFUSED = 7,
    WP_EVENT_OTHER = 8
};

typedef struct wp_event {
    int kind;
    int64_t port;   /* the input or output; -1 if it is of none */
    char text[256]; /* its name, and what failed; cut to this length */
} wp_event;

/* Takes the event that waits longest. At most 1,024 wait; later ones are lost. */
int wp_stream_event(wp_stream *stream, wp_event *event);

#ifdef __cplusplus
}
#endif

#endif
