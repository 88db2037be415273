//! Kinds of objects, operations, faults, handlers and endings that every longer run must cover, so that the
//! model tests all of them.

use crate::dice::Tally;

const KINDS: [&str; 70] = [
    "object: a Unix socket",
    "object: a TCP connection",
    "object: a pipe",
    "object: one with tiny buffers",
    "object: a file to read",
    "object: a file to write",
    "object: a mapping of memory",
    "object: a mapping of a file",
    "object: a mapping to read",
    "object: a mapping to write",
    "object: a TCP socket that listens",
    "object: a Unix socket that listens",
    "object: one that waits for a writer",
    "object: one that waits for a reader",
    "object: a link of which one end waits for the other",
    "operation: write",
    "operation: read",
    "operation: audit",
    "operation: connect to write",
    "operation: connect to read",
    "operation: stand in a queue in vain",
    "operation: connect where nobody listens any more",
    "operation: attach an input",
    "operation: attach an input again",
    "operation: detach an input",
    "operation: attach an output",
    "operation: detach an output",
    "operation: stop",
    "operation: start on the engine",
    "operation: start in a class that shares processor time",
    "operation: start on a thread",
    "operation: set a rate",
    "operation: take a rate away",
    "operation: set the options of an output",
    "operation: add a handler",
    "operation: control a handler",
    "operation: add a handler of an output",
    "operation: add a handler that depends on trust",
    "operation: set the trust in an output",
    "order: a join of portions",
    "order: a custom one that takes turns",
    "order: a custom one of what is ready",
    "pattern: a custom one that gives to one output",
    "pattern: a custom one that gives to all outputs",
    "handler: one that peeks",
    "handler: one that was there from the beginning",
    "handler: one that reads",
    "handler: one that selects",
    "handler: one that rewrites",
    "handler: of records in pieces",
    "handler: of whole records",
    "handler: of records in slices",
    "fault: a reader of single bytes",
    "fault: a reader that stops",
    "fault: a reader that shuts its socket",
    "fault: a reader that resets its connection",
    "fault: a reader that closes its pipe",
    "fault: a writer that resets its connection",
    "fault: a writer for whom all is urgent",
    "fault: a file with no room left",
    "fault: a mapping that is full",
    "fault: an output that does not keep up",
    "ending: well",
    "ending: stopped",
    "ending: by a fault",
    "ending: all together again, in order",
    "ending: nobody came to read",
    "ending: nobody came to write",
    "bytes in, that nobody looked at",
    "bytes in behind their lengths, that nobody looked at",
];

/// Fails if a listed kind was never covered, or if an unlisted kind was, so that the list stays complete.
pub(crate) fn check(tally: &Tally) {
    KINDS.iter().for_each(|kind| assert!(tally.of(kind) > 0, "it never came to this: {kind}"));
    let is_kind = |name: &&str| {
        ["object:", "operation:", "order:", "pattern:", "handler:", "fault:", "ending:"]
            .iter()
            .any(|kind| name.starts_with(kind))
    };
    tally
        .names()
        .filter(is_kind)
        .for_each(|name| assert!(KINDS.contains(&name), "it is not among the kinds: {name}"));
}
