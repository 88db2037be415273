//! All playbacks of an engine, and their places on its threads.

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use wirepath_datapath::{Choice, Region, RegisterError, Support, UdpSink, path_mtu};
use wirepath_engine::{Engine, Handle, Placement};

use crate::burst::Burst;
use crate::connection_writer::ConnectionWriter;
use crate::counters::{Counters, ThreadCounters};
use crate::output::{DataPaths, InterleavedOutput, Output, UdpOutput};
use crate::paced_playback::{PacedOptions, PacedPlayback};
use crate::pacer::Pacer;
use crate::playback::{Playback, PlaybackOptions, PlaybackSink};
use crate::progress::SharedProgress;
use crate::thread_state::Place;

/// Settings of all playbacks of an engine.
#[derive(Clone, Debug)]
pub struct PlaybackSettings {
    /// Data paths that the host and its routes support.
    pub support: Arc<Support>,
    /// True if each thread opens an io_uring, to send from [registered](Playbacks::register) memory.
    pub ring: bool,
    /// Length of bursts.
    pub burst: Burst,
}

/// All playbacks of an engine. They end when this is dropped.
pub struct Playbacks {
    engine: Arc<Engine>,
    threads: Vec<PacerThread>,
    support: Arc<Support>,
    next_id: AtomicU64,
    registration_failures: Arc<Mutex<Vec<RegisterError>>>,
}

struct PacerThread {
    pacer: Handle<Pacer>,
    counters: Arc<ThreadCounters>,
}

/// Reason for how trains leave on a connection.
const OVER_TCP: &str = "over TCP: one call and one copy for a train";

/// Playbacks that share a thread before another thread gets one: few playbacks on one thread wake one thread,
/// on many threads they wake many.
const FEW: u64 = 32;

impl Playbacks {
    /// Prepares each thread of an engine for playbacks. A thread that cannot open an io_uring logs why, and
    /// sends without.
    pub fn start(engine: Arc<Engine>, settings: PlaybackSettings) -> Playbacks {
        let PlaybackSettings { support, ring, burst } = settings;
        let registration_failures = Arc::default();
        let threads = (0..engine.threads()).map(|number| {
            let counters = Arc::default();
            let (failures, support) = (Arc::clone(&registration_failures), Arc::clone(&support));
            let pacer = Box::new(Pacer::new(ring, burst, Arc::clone(&counters), support, failures));
            let placement = Placement { thread: Some(number), ..Placement::default() };
            PacerThread { pacer: engine.spawn(pacer, placement), counters }
        });
        let threads = threads.collect();
        Playbacks { engine, threads, support, next_id: AtomicU64::new(1), registration_failures }
    }

    /// Opens a playback, which rests at the start of its source until it is told to play.
    ///
    /// # Errors
    /// Failure to set up the socket.
    pub fn open(&self, options: PlaybackOptions) -> io::Result<Playback> {
        let PlaybackOptions { source, sink, most_burst_us, on_event } = options;
        let progress = Arc::<SharedProgress>::default();
        let id = self.next_id.fetch_add(1, Relaxed);
        let (output, reason, writer) = match sink {
            PlaybackSink::Udp { socket, packet_size } => {
                let (output, reason) = self.udp_output(socket, packet_size, &progress)?;
                (Output::Udp(output), reason, None)
            }
            PlaybackSink::Interleaved { writer, channel, max_lag_us } => {
                let output = Output::Interleaved(InterleavedOutput::new(channel, max_lag_us));
                (output, OVER_TCP.to_owned(), Some(writer))
            }
        };
        let number = writer.as_ref().map_or_else(|| self.choose_thread(), |writer| writer.thread);
        let PacerThread { pacer, counters } = &self.threads[number];
        let place = Place::new(counters, self.engine.add_load(number));
        let options = PacedOptions { source, output, most_burst_us, on_event };
        let shared = Arc::clone(&progress);
        let paced = PacedPlayback::new(options, shared, pacer.waker(id), place, self.engine.pool());
        let (paced, writer_id) = (Box::new(paced), writer.as_ref().map(|writer| writer.id));
        pacer.with(move |pacer, _| match writer_id {
            Some(writer_id) => pacer.add_interleaved(writer_id, id, paced),
            None => pacer.add(id, paced),
        });
        Ok(Playback { id, pacer: pacer.clone(), progress, reason, _writer: writer })
    }

    fn udp_output(
        &self,
        socket: UdpSocket,
        packet_size: u16,
        progress: &Arc<SharedProgress>,
    ) -> io::Result<(UdpOutput, String)> {
        let local = socket.local_addr()?.ip();
        let mtu = path_mtu(&socket)?;
        let Choice { path, reason } = self.support.choose(local, mtu);
        let own = self.support.choose_for_own_headers(local, mtu).path;
        let sink = UdpSink::new(socket, packet_size, path)?;
        let paths = DataPaths { stored: path, own };
        Ok((UdpOutput::new(sink, paths, Arc::clone(progress)), reason))
    }

    /// Opens the writer of a connection, of which `socket` is a descriptor of its own. From now on nobody else
    /// may write to it.
    ///
    /// # Errors
    /// Failure to set up the socket.
    pub fn open_writer(&self, socket: OwnedFd) -> io::Result<ConnectionWriter> {
        let id = self.next_id.fetch_add(1, Relaxed);
        let number = self.choose_thread();
        ConnectionWriter::new(id, self.threads[number].pacer.clone(), number, socket)
    }

    /// Has all threads register a region with their io_urings. A thread that has done so sends a file that
    /// the region is a [copy of](wirepath_datapath::MappedFile::set_hot) from there.
    pub fn register(&self, region: &Arc<Region>) {
        for thread in &self.threads {
            let region = Arc::clone(region);
            thread.pacer.with(move |pacer, context| pacer.register(region, context));
        }
    }

    /// Has all threads unregister a region, each when the network is done with what was sent from it.
    pub fn unregister(&self, region: &Region) {
        let region_id = region.id();
        for thread in &self.threads {
            thread.pacer.with(move |pacer, context| pacer.unregister(region_id, context));
        }
    }

    /// Takes the failures to register a region that threads had since the last call.
    pub fn registration_failures(&self) -> Vec<RegisterError> {
        std::mem::take(&mut *self.registration_failures.lock())
    }

    /// Sums the counters of all threads.
    pub fn counters(&self) -> Counters {
        self.threads.iter().map(|thread| thread.counters.snapshot()).sum()
    }

    /// Data paths that the host and its routes support.
    pub fn support(&self) -> &Support {
        &self.support
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A thread that has few playbacks and nothing else to do, else the least loaded one.
    fn choose_thread(&self) -> usize {
        let has_only_few = |number: &usize| {
            let playbacks = self.threads[*number].counters.playbacks.value();
            // The pacer itself is a unit of load, too.
            (1..FEW).contains(&playbacks) && self.engine.load(*number) <= playbacks + 1
        };
        let numbers = 0..self.threads.len();
        let least_loaded = || numbers.clone().min_by_key(|number| self.engine.load(*number));
        numbers.clone().find(has_only_few).or_else(least_loaded).unwrap_or_default()
    }
}

impl Drop for Playbacks {
    fn drop(&mut self) {
        self.threads.iter().for_each(|thread| thread.pacer.stop());
    }
}
