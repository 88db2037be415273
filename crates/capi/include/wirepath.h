/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Streams of records between descriptors: the library libwirepath.
 *
 * A stream reads records from its inputs in an order, has handlers see them, and gives them to its outputs by
 * a pattern. Build one (wp_stream_new, wp_stream_input, wp_stream_output, wp_stream_handler), start it
 * (wp_stream_start), wait for its end (wp_stream_wait) and free it (wp_stream_free).
 *
 * Every function may be called from every thread, but from a handler only wp_fail, wp_refuse, wp_last_error
 * and wp_stream_stop; nothing is freed while another thread uses it. A function that fails answers with a
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
    WP_INVALID = -1, /* an argument is NULL, out of range, not UTF-8, or names what is not there */
    WP_FAILED = -2,  /* a system call failed, or the stream ended with an error */
    WP_STOPPED = -3, /* the stream was stopped */
    WP_TIMEOUT = -4, /* not within the time that was given */
    WP_STATE = -5,   /* not at this time: before the start, behind it, or from a handler */
    WP_BUG = -6,     /* an error of the library itself, which was caught */
    WP_REFUSED = -7  /* a handler refuses the message */
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

/*
 * A number in each record, by which records of several inputs are ordered or joined, and how many wait for
 * others. `tag` is called on the thread of the stream, one at a time, as a handler is: it must not block, and
 * calls the same functions of the library only.
 */
typedef struct wp_tag {
    void *context; /* first argument of the functions */
    /* Answers 1 and sets `*tag`; 0 if the record has none; or WP_FAIL, which ends the stream: see wp_fail. */
    int (*tag)(void *context, const uint8_t *record, size_t length, uint64_t *tag);
    size_t window;        /* most records that wait, at least 1 */
    size_t waiting_bytes; /* about so many bytes of them, at least 1 */
    /* As that of a handler, also called if the function that takes the tag fails; or NULL. */
    void (*release)(void *context);
} wp_tag;

/* Records whose tag is smaller than one that has left. */
enum {
    WP_LATE_DROP = 0, /* are dropped: outputs stay in order */
    WP_LATE_PASS = 1  /* leave at once: nothing is missing */
};

/*
 * Sets the order of inputs to that of tags, the smallest first: before the first input, output or handler. A
 * record without a tag stays behind the one before it. A record waits until every input has one or has ended,
 * and no longer than the window allows.
 */
int wp_stream_order_by_tag(wp_stream *stream, const wp_tag *tag, int late);

/*
 * Joins records with the same key, one of each input, to one record, in the order of inputs: before the first
 * input, output or handler. A record without a key is dropped, and so is one whose others do not come while
 * it waits.
 */
int wp_stream_join_by_key(wp_stream *stream, const wp_tag *key);

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

/*
 * Detaches an input or output of a running stream, by its port, behind the current record (at once if there
 * are no records); an output when all that waits for it has left. The library then closes its duplicate of
 * the descriptor, and there is a WP_EVENT_INPUT_GONE or WP_EVENT_OUTPUT_GONE. What was read from an input and
 * not used is lost. Waits for that for at most `timeout_ms` milliseconds (0: not at all), for ever if that is
 * negative. After WP_TIMEOUT it is still detached later.
 */
int wp_stream_detach(wp_stream *stream, int64_t port, int64_t timeout_ms);

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
    WP_DROP = -1,  /* the record goes no further */
    WP_FAIL = -2,  /* the stream ends with an error: see wp_fail */
    WP_REFUSE = -3 /* see wp_refuse. A control message has no effect. A record of a stream with datagrams is
                    * dropped, the first one with a WP_EVENT_RECORD_REFUSED; any other as by WP_FAIL */
};

/*
 * A handler: one of `read`, `peek`, `modify` and `rewrite`, the others NULL. Its functions are called on the
 * thread of the stream (`control`, before the start, on the caller's), one at a time, and must not block.
 */
typedef struct wp_handler {
    const char *name;
    void *context; /* first argument of the functions */
    size_t whole;  /* 0: a long record is given in pieces as they come; else whole, up to so many bytes */
    /* Sees a record; answers a decision. */
    int (*read)(void *context, const wp_piece *piece);
    /* Sees the first `peek_bytes` bytes of a record, or all of a shorter one; answers as `read`. Where this
     * is the only handler, the other bytes of large records need not be copied to the program. */
    int (*peek)(void *context, const uint8_t *head, size_t length);
    size_t peek_bytes; /* 1 to 16384 */
    /* Changes the bytes where they are; answers as `read`. */
    int (*modify)(void *context, uint8_t *bytes, size_t length, int begins, int ends);
    /* Writes new bytes to `out`, which has room for `piece->length + grows_by`; answers how many, or a
     * decision other than WP_PASS. */
    int64_t (*rewrite)(void *context, const wp_piece *piece, uint8_t *out, size_t room);
    size_t grows_by;
    /* Handles a message of wp_stream_control between two records. Writes the answer to `answer`, which has
     * room for 65536 bytes; answers its length, or WP_REFUSE or WP_FAIL. NULL: messages are refused. */
    int64_t (*control)(void *context, const void *message, size_t length, void *answer, size_t room);
    /* Called once when the context is not needed any more, also if the function that takes the handler
     * fails; or NULL. On any thread, the stream's among them: like a handler it must not block, and
     * functions that wait answer WP_STATE. */
    void (*release)(void *context);
} wp_handler;

/* Adds a handler behind the others. It sees the records that begin from then on. Answers its number, which is
 * not negative and not that of another handler of the stream. */
int64_t wp_stream_handler(wp_stream *stream, const wp_handler *handler);

/*
 * Adds a handler of one output, by its port, behind its others. With `trust_below` from 1 to 100 it is in
 * force while the trust in the output's peer is below that, see wp_stream_set_trust; with 0 always.
 */
int64_t wp_stream_output_handler(wp_stream *stream, int64_t output, int trust_below,
                                 const wp_handler *handler);

/*
 * The next three functions act on a handler, also one of an output, by its number, between two records; where
 * there are no records, at once. They wait for that for at most `timeout_ms` milliseconds, for ever if that
 * is negative. After WP_TIMEOUT it is still done later, and a handler that is removed then is released on the
 * stream's thread. At most 16 of them wait for the end of a record; further calls fail with WP_STATE.
 */

/* Removes a handler. After WP_OK its functions are not called any more, and its context is released. */
int wp_stream_remove_handler(wp_stream *stream, int64_t handler, int64_t timeout_ms);

/* Has a new handler take the place and the number of another, which is removed. */
int wp_stream_replace_handler(wp_stream *stream, int64_t handler, const wp_handler *by, int64_t timeout_ms);

/*
 * Gives a message of at most 65536 bytes to the `control` of a handler. Answers the length of its answer, of
 * which at most `room` bytes are written to `answer` (NULL if `room` is 0). WP_REFUSED if the handler refuses
 * the message; WP_FAILED if it fails, which ends the stream. The message is copied, and nothing is written to
 * `answer` after the call.
 */
int64_t wp_stream_control(wp_stream *stream, int64_t handler, const void *message, size_t length,
                          void *answer, size_t room, int64_t timeout_ms);

/* Sets the reason for which a handler fails, and answers WP_FAIL: `return wp_fail("no header");`. */
int wp_fail(const char *reason);

/* Sets the reason for which a handler refuses a record or message, and answers WP_REFUSE. */
int wp_refuse(const char *reason);

/* ---- Options: before the start, or while the stream runs ---- */

typedef struct wp_option {
    char key[32];
    char value[32]; /* a number, `none`, or a word */
    char unit[16];  /* of a number: `bytes/s`; or empty */
    int may_change; /* 0 if it is fixed */
} wp_option;

/*
 * Options of the stream: `rate` and `burst` of what it reads, `stall`, and others. Writes at most `room` of
 * them to `options` (NULL if `room` is 0), and answers how many there are.
 */
int64_t wp_stream_options(wp_stream *stream, wp_option *options, size_t room);

/* Sets an option at once: `wp_stream_set_option(stream, "rate", "1000000")`. WP_STATE if it is fixed. */
int wp_stream_set_option(wp_stream *stream, const char *key, const char *value);

/* Options of an output, by its port: `waiting-bytes`, `when-full` (`block`, `drop-newest`, `drop-oldest`,
 * `disconnect`) and `trust`. As wp_stream_options. */
int64_t wp_stream_output_options(wp_stream *stream, int64_t output, wp_option *options, size_t room);

/* Sets an option of an output, from the next record on. */
int wp_stream_set_output_option(wp_stream *stream, int64_t output, const char *key, const char *value);

/*
 * Sets the trust in the peer of an output, 0 to 100; it begins with 100. Handlers that were added to the
 * output with a greater `trust_below` are in force from the next record on, those with a smaller or equal one
 * up to the end of the current one.
 */
int wp_stream_set_trust(wp_stream *stream, int64_t output, int trust);

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
