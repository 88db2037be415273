//! All playbacks of an engine, and their placement on its threads.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use wirepath_datapath::rtp::HEADER_LENGTH;
use wirepath_datapath::srtp::MasterKey;
use wirepath_datapath::{
    Choice, DataPath, LendingSwitch, PacketMaker, Region, RegisterError, Support, UdpSink, path_mtu,
};
use wirepath_engine::{Engine, Handle, Placement, now_us};

use crate::balance::{ThreadLoad, least_loaded, next_move};
use crate::burst::Burst;
use crate::connection_writer::ConnectionWriter;
use crate::counters::{Counters, ThreadCounters};
use crate::lending::LendingState;
use crate::numbering::{Numbering, Timestamps};
use crate::output::{DataPaths, InterleavedOutput, Output, UdpOutput};
use crate::paced_playback::{PacedOptions, PacedPlayback};
use crate::pacer::Pacer;
use crate::playback::{MOST_STREAMS, Playback, PlaybackOptions, PlaybackSink, StreamSink};
use crate::progress::SharedProgress;
use crate::replay::ReplayStream;
use crate::ring_use::RingUse;
use crate::settings::PlaybackSettings;
use crate::streams::{OtherOutput, OtherStream, Stream, Streams};
use crate::thread_state::ThreadMembership;

/// All playbacks of an engine. They end when this is dropped.
pub struct Playbacks {
    engine: Arc<Engine>,
    threads: Vec<PacerThread>,
    support: Arc<Support>,
    ring: RingUse,
    burst: Burst,
    lending: LendingSwitch,
    next_id: AtomicU64,
    /// Reason for the data path of the last opened playback.
    last_reason: Mutex<Arc<str>>,
    registration_failures: Arc<Mutex<Vec<RegisterError>>>,
    measured: Mutex<Measured>,
}

/// Last measured loads of threads.
struct Measured {
    at_us: u64,
    awake: Vec<Duration>,
    loads: Vec<ThreadLoad>,
}

struct PacerThread {
    pacer: Handle<Pacer>,
    counters: Arc<ThreadCounters>,
}

/// Reason for the way by which trains leave on a connection.
const OVER_TCP: &str = "over TCP: one call and one copy for a train";

/// The same if threads have rings.
const LENT_OVER_TCP: &str =
    "over TCP: one call and one copy for a train; from hot memory one call for many trains and no copy";

/// The same for encrypted trains.
const PROTECTED_OVER_TCP: &str = "SRTP over TCP: a train is read, encrypted and sent, by two calls";
const PROTECTED: &str = "SRTP: a train is read, encrypted and sent with UDP_SEGMENT, by two calls";
const PROTECTED_EACH: &str = "SRTP: a train is read and encrypted, and its packets are sent one by one";
const EXTENDED_OVER_TCP: &str = "header extensions over TCP: a train is read, copied and sent, by two calls";
const EXTENDED: &str = "header extensions: a train is read, copied and sent with UDP_SEGMENT, by two calls";
const EXTENDED_EACH: &str =
    "header extensions: a train is read and copied, and its packets are sent one by one";

/// Playbacks that share a thread before another thread gets one: on one thread, a few playbacks share its
/// wake-ups.
const FEW: u64 = 32;

/// Share of a thread's time beyond which a few playbacks no longer share it.
const FEW_SHARE: f64 = 0.5;

/// Least time between two measurements of the threads' loads.
const LEAST_INTERVAL_US: u64 = 500_000;

impl Playbacks {
    /// Prepares each thread of an engine for playbacks. A thread that cannot open an io_uring logs the
    /// reason, and sends without it.
    pub fn start(engine: Arc<Engine>, settings: PlaybackSettings) -> Playbacks {
        let (registration_failures, lending) = (Arc::default(), LendingSwitch::default());
        let threads = (0..engine.threads()).map(|number| {
            let counters = Arc::default();
            let failures = Arc::clone(&registration_failures);
            let pacer = Pacer::new(&settings, lending.clone(), Arc::clone(&counters), failures);
            let placement = Placement { thread: Some(number), ..Placement::default() };
            PacerThread { pacer: engine.spawn(Box::new(pacer), placement), counters }
        });
        let threads: Vec<PacerThread> = threads.collect();
        let (awake, loads) =
            (vec![Duration::ZERO; threads.len()], vec![ThreadLoad::default(); threads.len()]);
        let measured = Mutex::new(Measured { at_us: now_us(), awake, loads });
        let next_id = AtomicU64::new(1);
        let last_reason = Mutex::new(Arc::from(OVER_TCP));
        let PlaybackSettings { support, ring, burst } = settings;
        Playbacks {
            engine,
            threads,
            support,
            ring,
            burst,
            lending,
            next_id,
            last_reason,
            registration_failures,
            measured,
        }
    }

    /// Opens a playback, which rests at the start of its source until it is told to play.
    ///
    /// # Errors
    ///
    /// Failure to set up the socket.
    pub fn open(&self, options: PlaybackOptions) -> io::Result<Playback> {
        let PlaybackOptions { source, streams, sink, most_burst_us, on_event } = options;
        let StreamSink { stream, timestamps, sink, key, replay } = sink;
        check(stream, streams)?;
        check_maker(&sink, key.is_some() || replay.is_some())?;
        let progress = Arc::new(SharedProgress::new(streams));
        let numbering = numbering(timestamps, &sink, key.is_some());
        let id = self.next_id.fetch_add(1, Relaxed);
        let (output, reason, writer) = match sink {
            PlaybackSink::Udp { socket, packet_size } => {
                let packets = (key.as_ref(), replay.is_some());
                let (output, reason) = self.udp_output(socket, packet_size, packets, &progress)?;
                (Output::Udp(output), reason, None)
            }
            PlaybackSink::Push { socket, packet_size, has_headers } => {
                let (output, reason) = self.push_output(socket, packet_size, has_headers, &progress)?;
                (Output::Udp(output), reason, None)
            }
            PlaybackSink::Interleaved { writer, channel, max_lag_us } => {
                let maker = maker(key.as_ref(), replay.is_some());
                let reason = match &maker {
                    Some(maker) if maker.encrypts() => PROTECTED_OVER_TCP,
                    Some(_) => EXTENDED_OVER_TCP,
                    None if writer.lends => LENT_OVER_TCP,
                    None => OVER_TCP,
                };
                let lending = if writer.lends { self.lending_over_tcp() } else { LendingState::OFF };
                let progress = Arc::clone(&progress);
                let output = InterleavedOutput::new(channel, max_lag_us, maker, lending, progress);
                (Output::Interleaved(output), reason.to_owned(), Some(writer))
            }
        };
        let replay = replay.map(|units| Box::new(ReplayStream::new(units)));
        let first = Stream { number: stream, numbering, replay };
        let sent = Streams::new(first, output);
        let number = writer.as_ref().map_or_else(|| self.choose_thread(), |writer| writer.thread);
        let PacerThread { pacer, counters } = &self.threads[number];
        let membership = ThreadMembership::new(counters, self.engine.add_load(number));
        let options = PacedOptions { source, streams: sent, most_burst_us, on_event };
        let shared = Arc::clone(&progress);
        let paced = PacedPlayback::new(options, shared, pacer.waker(id), membership, self.engine.pool());
        let (paced, writer_id) = (Box::new(paced), writer.as_ref().map(|writer| writer.id));
        pacer.with(move |pacer, _| match writer_id {
            Some(writer_id) => pacer.add_interleaved(writer_id, id, paced),
            None => _ = pacer.add(id, paced),
        });
        let reason = self.shared_reason(&reason);
        Ok(Playback { id, pacer: pacer.clone(), streams, progress, reason, writer })
    }

    /// Reuses the reason of the previous playback if it is the same, since it is long and most have the same.
    fn shared_reason(&self, reason: &str) -> Arc<str> {
        let mut last = self.last_reason.lock();
        if **last != *reason {
            *last = Arc::from(reason);
        }
        Arc::clone(&last)
    }

    /// Adds another stream to a playback: over UDP if its first stream is, else in another channel of the
    /// same connection. Timestamps of both are those of [presentation](crate::Timestamps::Presentation).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a stream that the source does not have, or for another lower transport. Failure to
    /// set up the socket.
    pub fn add(&self, playback: &Playback, sink: StreamSink) -> io::Result<()> {
        let StreamSink { stream, timestamps, sink, key, replay } = sink;
        check(stream, playback.streams)?;
        check_maker(&sink, key.is_some() || replay.is_some())?;
        let numbering = numbering(timestamps, &sink, key.is_some());
        let output = match (sink, &playback.writer) {
            (PlaybackSink::Push { socket, packet_size, has_headers }, None) => {
                let output = self.push_output(socket, packet_size, has_headers, &playback.progress)?;
                OtherOutput::Udp(output.0)
            }
            (PlaybackSink::Udp { socket, packet_size }, None) => {
                let packets = (key.as_ref(), replay.is_some());
                OtherOutput::Udp(self.udp_output(socket, packet_size, packets, &playback.progress)?.0)
            }
            (PlaybackSink::Interleaved { writer, channel, .. }, Some(first)) if writer.id == first.id => {
                OtherOutput::Channel(channel, maker(key.as_ref(), replay.is_some()).map(Box::new))
            }
            _ => {
                let why = "streams of a playback have one lower transport";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
        };
        let replay = replay.map(|units| Box::new(ReplayStream::new(units)));
        let stream = Stream { number: stream, numbering, replay };
        let (id, other) = (playback.id, Box::new(OtherStream { stream, output }));
        playback.pacer.with(move |pacer, _| pacer.add_stream(id, other));
        Ok(())
    }

    fn lending_over_tcp(&self) -> LendingState {
        match self.ring {
            RingUse::Never => LendingState::OFF,
            RingUse::Always { .. } => LendingState::ALWAYS,
            RingUse::UnlessCopied { .. } => LendingState::UNLESS_COPIED,
        }
    }

    fn udp_output(
        &self,
        socket: UdpSocket,
        packet_size: u16,
        (key, is_extended): (Option<&MasterKey>, bool),
        progress: &Arc<SharedProgress>,
    ) -> io::Result<(UdpOutput, String)> {
        let local = socket.local_addr()?.ip();
        let mtu = path_mtu(&socket)?;
        if let Some(maker) = maker(key, is_extended) {
            let packet_size = packet_size.saturating_add(PacketMaker::added_length(key, is_extended));
            return self.making_output(socket, packet_size, maker, progress);
        }
        let Choice { path, reason } = self.support.choose(local, mtu);
        let own = self.support.choose_for_own_headers(local, mtu).path;
        let sink = UdpSink::new(socket, packet_size, path)?;
        let paths = DataPaths { stored: path, own };
        let output = UdpOutput::new(sink, paths, Arc::clone(progress));
        let output = match self.ring {
            RingUse::Never => output,
            RingUse::Always { .. } | RingUse::UnlessCopied { .. } => output.lending(),
        };
        Ok((output, reason))
    }

    /// The output that encrypts or adds header extensions. Packets are made in memory and leave as trains,
    /// unless the operator or the host requires that they leave one by one.
    fn making_output(
        &self,
        socket: UdpSocket,
        packet_size: u16,
        maker: PacketMaker,
        progress: &Arc<SharedProgress>,
    ) -> io::Result<(UdpOutput, String)> {
        let Choice { path, .. } =
            self.support.choose_for_own_headers(socket.local_addr()?.ip(), path_mtu(&socket)?);
        let (path, reason) = match (path.sends_trains(), maker.encrypts()) {
            (true, true) => (DataPath::GsoWritev, PROTECTED),
            (true, false) => (DataPath::GsoWritev, EXTENDED),
            (false, true) => (DataPath::Sendmmsg, PROTECTED_EACH),
            (false, false) => (DataPath::Sendmmsg, EXTENDED_EACH),
        };
        let sink = UdpSink::new(socket, packet_size, path)?;
        let output = UdpOutput::new(sink, DataPaths { stored: path, own: path }, Arc::clone(progress));
        Ok((output.making(maker), reason.to_owned()))
    }

    /// The output to a receiver that did not request the packets; it never uses stored headers.
    fn push_output(
        &self,
        socket: UdpSocket,
        packet_size: u16,
        has_headers: bool,
        progress: &Arc<SharedProgress>,
    ) -> io::Result<(UdpOutput, String)> {
        let Choice { path, reason } =
            self.support.choose_for_own_headers(socket.local_addr()?.ip(), path_mtu(&socket)?);
        let (path, packet_size) = match has_headers {
            true => (path, packet_size),
            false if path.needs_module() => (DataPath::GsoWritev, packet_size - HEADER_LENGTH as u16),
            false => (path, packet_size - HEADER_LENGTH as u16),
        };
        let sink = UdpSink::new(socket, packet_size, path)?;
        let paths = DataPaths { stored: path, own: path };
        Ok((UdpOutput::new(sink, paths, Arc::clone(progress)).pushing(), reason))
    }

    /// Opens the writer of a connection. `socket` is a duplicate of its descriptor. From now on nobody else
    /// may write to the connection.
    ///
    /// # Errors
    ///
    /// Failure to set up the socket.
    pub fn open_writer(&self, socket: OwnedFd) -> io::Result<ConnectionWriter> {
        let id = self.next_id.fetch_add(1, Relaxed);
        let number = self.choose_thread();
        let lends = self.ring != RingUse::Never;
        ConnectionWriter::new(id, self.threads[number].pacer.clone(), number, socket, lends)
    }

    /// Approximate numbers of trains sent by io_uring so far, and of those that the kernel copied.
    pub fn lent(&self) -> (u64, u64) {
        let counts = self.threads.iter().map(|thread| &thread.counters);
        let sum = |one: fn(&ThreadCounters) -> u64| counts.clone().map(|counters| one(counters)).sum();
        (sum(|counters| counters.trains_lent.value()), sum(|counters| counters.trains_copied.value()))
    }

    /// Switch of the rule by which trains are sent without a copy. Images and hot memory are never written, so
    /// [`Lending::Safe`](wirepath_datapath::Lending::Safe) copies only trains with headers made by the playback.
    pub fn lending(&self) -> &LendingSwitch {
        &self.lending
    }

    /// Registers a region with the io_urings of all threads. Once registered, a thread sends a file from
    /// there if the region is a [copy](wirepath_datapath::MappedFile::set_hot) of the file.
    pub fn register(&self, region: &Arc<Region>) {
        for thread in &self.threads {
            let region = Arc::clone(region);
            thread.pacer.with(move |pacer, context| pacer.register(region, context));
        }
    }

    /// Unregisters a region on all threads, on each when the network no longer uses packets sent from it.
    pub fn unregister(&self, region: &Region) {
        let region_id = region.id();
        for thread in &self.threads {
            thread.pacer.with(move |pacer, context| pacer.unregister(region_id, context));
        }
    }

    /// Takes the threads' failures to register a region since the last call.
    pub fn registration_failures(&self) -> Vec<RegisterError> {
        std::mem::take(&mut *self.registration_failures.lock())
    }

    /// Sums the counters of all threads.
    pub fn counters(&self) -> Counters {
        self.threads.iter().map(|thread| thread.counters.snapshot()).sum()
    }

    /// Number of playbacks, playing or not.
    pub fn number(&self) -> u64 {
        self.threads.iter().map(|thread| thread.counters.playbacks.value()).sum()
    }

    /// Measures how busy each thread was since the last call, and moves playbacks from a thread that stays
    /// hot to one that has time. Does nothing if the last call was less than half a second ago.
    pub fn balance(&self) {
        let mut measured = self.measured.lock();
        let now_us = now_us();
        let elapsed_us = now_us.saturating_sub(measured.at_us);
        if elapsed_us < LEAST_INTERVAL_US {
            return;
        }
        let awake: Vec<Duration> = (0..self.threads.len()).map(|number| self.engine.awake(number)).collect();
        let since = |number: usize| awake[number].saturating_sub(measured.awake[number]).as_secs_f64();
        let loads = self.threads.iter().enumerate().map(|(number, thread)| ThreadLoad {
            share: (since(number) * 1e6 / elapsed_us as f64).min(1.0),
            units: self.engine.load(number),
            playing: thread.counters.playing.value(),
        });
        let loads: Vec<ThreadLoad> = loads.collect();
        if let Some(next) = next_move(&measured.loads, &loads) {
            let (from, to, playbacks) = (next.from, next.to, next.playbacks);
            tracing::debug!(from, to, playbacks, "playbacks move to a thread that has time");
            self.move_playbacks(from, to, playbacks);
        }
        *measured = Measured { at_us: now_us, awake, loads };
    }

    /// Moves about `most` playbacks from a thread to another, each between two trains; those of an RTSP
    /// connection move together. Playbacks that rest or were moved before stay, and so do connections for
    /// which something waits.
    pub fn move_playbacks(&self, from: usize, to: usize, most: usize) {
        if from == to {
            return;
        }
        let (Some(from), Some(thread)) = (self.threads.get(from), self.threads.get(to)) else { return };
        let to = thread.pacer.clone();
        from.pacer.with(move |pacer, context| pacer.hand_over(most, &to, context));
    }

    /// Data paths that the host and its routes support.
    pub fn support(&self) -> &Support {
        &self.support
    }

    /// Longest burst: that of every playback while many play.
    pub fn longest_burst(&self) -> Duration {
        self.burst.longest()
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A thread that has few playbacks and no other work, else the least loaded one.
    fn choose_thread(&self) -> usize {
        let has_only_few = |number: &usize| {
            let playbacks = self.threads[*number].counters.playbacks.value();
            // The pacer itself counts as a unit of load, too.
            (1..FEW).contains(&playbacks) && self.engine.load(*number) <= playbacks + 1
        };
        let measured = self.measured.lock();
        let has_time = |number: &usize| measured.loads[*number].share < FEW_SHARE;
        let mut numbers = 0..self.threads.len();
        let few = numbers.find(|number| has_only_few(number) && has_time(number));
        few.unwrap_or_else(|| least_loaded(&measured.loads, |number| self.engine.load(number)))
    }
}

impl Drop for Playbacks {
    fn drop(&mut self) {
        self.threads.iter().for_each(|thread| thread.pacer.stop());
    }
}

/// Numbers of a stream to a sink.
fn numbering(timestamps: Timestamps, sink: &PlaybackSink, is_protected: bool) -> Numbering {
    let numbering = Numbering::new(timestamps, 0);
    let numbering = if is_protected { numbering.starting_low() } else { numbering };
    match sink {
        PlaybackSink::Push { has_headers, .. } => numbering.made(*has_headers),
        PlaybackSink::Udp { .. } | PlaybackSink::Interleaved { .. } => numbering,
    }
}

/// Maker of packets that are encrypted or have header extensions; none for others.
fn maker(key: Option<&MasterKey>, is_extended: bool) -> Option<PacketMaker> {
    (key.is_some() || is_extended).then(|| PacketMaker::new(key))
}

/// Checks that a sink supports packets made in memory, if its packets are.
fn check_maker(sink: &PlaybackSink, is_made: bool) -> io::Result<()> {
    match sink {
        PlaybackSink::Push { .. } if is_made => {
            let why = "packets that nobody asked for are not encrypted, and have no header extensions";
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
        _ => Ok(()),
    }
}

/// Checks the number of a stream against the source's number of streams.
fn check(stream: u8, streams: u8) -> io::Result<()> {
    if stream < streams.min(MOST_STREAMS) {
        return Ok(());
    }
    let why = format!("stream {stream} of {streams}, of which at most {MOST_STREAMS} can be sent");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}
