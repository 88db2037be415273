//! Counters of playbacks.

use wirepath_counters::{Gauge, LocalCounter, LocalTime, counters};

use crate::lateness::Lateness;

counters! {
    /// Counters of one thread's playbacks, on cache lines of their own.
    #[repr(align(128))]
    pub(crate) struct ThreadCounters;
    /// Counters of all playbacks of an engine since they were started.
    pub struct Counters;

    /// Trains of packets sent.
    trains: LocalCounter,
    /// RTP packets sent.
    packets: LocalCounter,
    /// RTP payload bytes sent, with padding.
    payload_bytes: LocalCounter,
    /// RTP packets that the network rejected: no route, a packet filter, a device that is down.
    packets_lost: LocalCounter,
    /// Times that a socket had no room for a train, which was then tried again.
    sockets_full: LocalCounter,
    /// Times that a client over TCP read so slowly that its playback skipped forward to a random access
    /// point.
    forward_skips: LocalCounter,
    /// Times that a playback was more than 250 ms late, so that its timetable was moved; it then catches up slowly.
    clock_resyncs: LocalCounter,
    /// Times that a playback had to wait until a segment was read or packed.
    io_stalls: LocalCounter,
    /// Bytes that storage had to read while a thread waited, since they were not in memory when they were
    /// sent.
    cold_bytes: LocalCounter,
    /// Playbacks moved from a busy thread to another.
    moves: LocalCounter,
    /// Kernel calls that sent the trains of many playbacks at once.
    batches: LocalCounter,
    /// Trains sent by io_uring, from hot memory or from the mapping of an image.
    trains_lent: LocalCounter,
    /// Trains of those sent by io_uring that left from the mapping of an image (wire_mapping).
    trains_mapped: LocalCounter,
    /// Trains sent by io_uring that the kernel copied.
    trains_copied: LocalCounter,
    /// Trains over UDP that were copied only because of the rule of lending.
    trains_copied_by_rule: LocalCounter,
    /// Time that threads took to send trains, including time while preempted.
    busy_seconds: LocalTime,
    /// Trains sent by io_uring whose pages the network may still use, as of the last such train of each thread.
    trains_out: Gauge,
    /// Playbacks that exist, playing or not.
    playbacks: Gauge,
    /// Playbacks that play.
    playing: Gauge,
    /// Sum of the speeds of playbacks that play, in thousandths: one at Speed 4 adds 4000.
    speed_thousandths: Gauge,
    /// Time between when a train was due and when it left.
    lateness_seconds: Lateness,
}
