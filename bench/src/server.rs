//! One measurement of the real server.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use wirepath_tests::namespace::SERVER;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips};

use crate::report::ServerRun;
use crate::test_bed::{self, TestBed};
use crate::{Options, crowd};

/// Payload bytes per second of one session.
const BYTES_PER_SECOND: f64 = clips::CONSTANT_RATE / 8.0;

/// Load of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Load {
    /// Sessions at a time.
    pub(crate) sessions: usize,
    /// The server's burst window: it makes the length of the trains.
    pub(crate) burst: String,
}

impl Load {
    /// Payload bytes of all sessions in a time.
    pub(crate) fn bytes_in(&self, seconds: f64) -> u64 {
        (BYTES_PER_SECOND * seconds * self.sessions as f64) as u64
    }
}

impl fmt::Display for Load {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} sessions, --burst {}", self.sessions, self.burst)
    }
}

/// Serves a load over a path, and measures a window of it.
pub(crate) fn run(bed: &TestBed, path: &str, load: &Load, options: &Options) -> Result<ServerRun> {
    let sessions = load.sessions;
    let clip = clip((options.warm_up + options.window).ceil() as u32 + 30)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let cache = test_bed::scratch("images")?;
    let server = Server::of(folder.path())
        .cache(cache)
        .with(["--path", path, "--burst", &load.burst])
        .with(memory_for(path))
        .with(&options.server_arguments)
        .packed();
    let server = server.inside(bed.server(), &SERVER.to_string()).start()?;
    let address = server.rtsp;
    let clients = bed.client().enter(|| crowd::play(address, "clip.ts", sessions))?;
    wait(options.warm_up);

    // Asking for the counters costs the server something, so it happens outside the window.
    let (counted, dropped) = (Counters::of(bed, &server)?, bed.dropped()?);
    let (before, start) = (Usage::of(&server)?, Instant::now());
    wait(options.window);
    let (after, seconds) = (Usage::of(&server)?, start.elapsed().as_secs_f64());
    let arrived = bed.dropped()? - dropped;
    let sent = Counters::of(bed, &server)?.since(&counted);

    ensure!(arrived > 0, "no packet arrived at the sink");
    let status = bed.client().enter(|| server.status())?;
    let playing = status["sessions"].as_array().map_or(0, Vec::len);
    ensure!(playing == sessions, "{playing} of {sessions} sessions play after the measurement");
    drop(clients);
    let (cpu, engine) = (after.seconds - before.seconds, after.engine_seconds - before.engine_seconds);
    let gib = BYTES_PER_SECOND * seconds * sessions as f64 / (1u64 << 30) as f64;
    Ok(ServerRun {
        path: path.to_owned(),
        path_in_use: path_in_use(&status, path),
        load: load.clone(),
        cpu_seconds_per_client_minute: cpu * 60.0 / seconds / sessions as f64,
        cpu_seconds_per_gib: cpu / gib,
        engine_seconds_per_gib: engine / gib,
        bare_seconds_per_gib: 0.0,
        paced_seconds_per_gib: 0.0,
        packets_per_train: sent.packets_per_train(),
        trains_per_wakeup: sent.trains / sent.wakeups.max(1.0),
        wakeups_per_second: sent.wakeups / seconds,
        lateness_us: status["lateness_us"].clone(),
    })
}

/// The path that trains leave by: that which was asked for, if all do.
fn path_in_use(status: &serde_json::Value, asked: &str) -> String {
    let sessions = status["sessions"].as_array().into_iter().flatten();
    let mut paths = sessions.map(|session| session["data_path"].as_str().unwrap_or_default());
    paths.find(|path| *path != asked).unwrap_or(asked).to_owned()
}

/// Arguments for a path: memory for the clip's image, which is there long before the warm-up is over.
fn memory_for(path: &str) -> &'static [&'static str] {
    if path == "wire_uring" { &["--hot-memory", "256MiB"] } else { &[] }
}

/// A clip of 4 Mb/s: one minute of pictures, as often as needed.
fn clip(seconds: u32) -> Result<PathBuf> {
    clips::constant(seconds.max(60))
}

/// Waits while the load runs.
fn wait(seconds: f64) {
    let deadline = Deadline::seconds(seconds);
    while !deadline.has_passed() {
        std::thread::park_timeout(deadline.left().max(Duration::from_micros(1)));
    }
}

/// Processor time of a process.
struct Usage {
    /// All its threads together, to the nanosecond.
    seconds: f64,
    /// Its engine threads.
    engine_seconds: f64,
}

impl Usage {
    fn of(server: &Server) -> Result<Self> {
        let folder = format!("/proc/{}", server.process.pid());
        let (mut nanoseconds, mut of_engine) = (0, 0);
        for task in std::fs::read_dir(format!("{folder}/task")).context("listing the server's threads")? {
            // A thread may end between the two calls.
            let task = task?.path();
            let (Ok(text), Ok(name)) =
                (std::fs::read_to_string(task.join("schedstat")), std::fs::read_to_string(task.join("comm")))
            else {
                continue;
            };
            let used = text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            nanoseconds += used;
            of_engine += if name.starts_with("engine-") { used } else { 0 };
        }
        let [seconds, engine_seconds] = [nanoseconds, of_engine].map(|value| value as f64 / 1e9);
        Ok(Self { seconds, engine_seconds })
    }
}

/// Counters of the server: departures are trains.
struct Counters {
    trains: f64,
    packets: f64,
    /// Wake-ups of engine threads.
    wakeups: f64,
}

impl Counters {
    fn of(bed: &TestBed, server: &Server) -> Result<Self> {
        let status = bed.client().enter(|| server.status())?;
        let number = |part: &str, name: &str| {
            let counters = &status["counters"][part];
            counters[name].as_f64().with_context(|| format!("no {name} in counters: {counters}"))
        };
        let (trains, packets) = (number("playback", "trains")?, number("playback", "packets")?);
        Ok(Self { trains, packets, wakeups: number("engine", "wakeups")? })
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            trains: self.trains - earlier.trains,
            packets: self.packets - earlier.packets,
            wakeups: self.wakeups - earlier.wakeups,
        }
    }

    fn packets_per_train(&self) -> f64 {
        self.packets / self.trains.max(1.0)
    }
}
