//! Many sessions, played by the load client: the media of all but the first go to the sink.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use wirepath_load::{Mix, Observer, Options, Snapshot, Target, Transport};
use wirepath_tests::Deadline;

/// Sessions started each second.
const RAMP: f64 = 200.0;

/// Time in which all sessions must play, besides that to start them.
const PATIENCE: f64 = 20.0;

/// Longer than any measurement: sessions play until the crowd is dropped.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Sessions that play until this is dropped.
pub(crate) struct Crowd {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    stop: AtomicBool,
    playing: AtomicU64,
    failed: AtomicU64,
}

/// Watches the load client.
struct Watch(Arc<State>);

impl Observer for Watch {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.0.playing.store(snapshot.playing, Relaxed);
        self.0.failed.store(snapshot.failed, Relaxed);
    }

    fn is_stopped(&mut self) -> bool {
        self.0.stop.load(Relaxed)
    }
}

/// Starts so many sessions in the calling thread's namespace, and waits until all of them play.
pub(crate) fn play(server: SocketAddr, asset: &str, sessions: usize) -> Result<Crowd> {
    let address = |network: u8, number: usize| -> Result<IpAddr> {
        let [.., high, low] = u32::try_from(number + 256)?.to_be_bytes();
        Ok(Ipv4Addr::new(10, network, high, low).into())
    };
    let options = Options {
        targets: vec![Target::parse(&format!("rtsp://{server}/{asset}"))?],
        mix: Mix::Even,
        sessions,
        ramp: RAMP,
        duration: LONG,
        settle: Duration::ZERO,
        transport: Transport::Udp,
        rate: None,
        // The first session always is judged.
        sample: 0.0,
        seek_every: None,
        churn: None,
        vanish: 0.0,
        buffer: Duration::from_millis(200),
        from: (0..sessions.max(2)).map(|number| address(78, number)).collect::<Result<_>>()?,
        sample_from: vec![address(79, 0)?],
        storm: None,
        threads: 1,
        timeout: Duration::from_secs(20),
    };
    let state = Arc::<State>::default();
    let mut watch = Watch(Arc::clone(&state));
    let run = move || match wirepath_load::run(options, &mut watch) {
        Ok(_) => {}
        Err(error) => eprintln!("the load client failed: {error}"),
    };
    let thread =
        std::thread::Builder::new().name("crowd".to_owned()).spawn(run).context("starting a thread")?;
    let crowd = Crowd { state, thread: Some(thread) };
    crowd.wait_until_playing(sessions)?;
    Ok(crowd)
}

impl Crowd {
    fn wait_until_playing(&self, sessions: usize) -> Result<()> {
        let deadline = Deadline::seconds(PATIENCE + sessions as f64 / RAMP);
        while self.state.playing.load(Relaxed) < sessions as u64 {
            let failed = self.state.failed.load(Relaxed);
            ensure!(failed == 0, "{failed} of {sessions} sessions failed");
            if deadline.has_passed() || self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                bail!("{} of {sessions} sessions play", self.state.playing.load(Relaxed));
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.state.stop.store(true, Relaxed);
        // A thread that panicked has said why.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}
