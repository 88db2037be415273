//! A player without media: tests see its requests and control its replies and events.

use super::super::player::*;
use super::soon;
use crate::admission::Overload;
use crate::played_as::PlayedAs;
use parking_lot::Mutex;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wirepath_datapath::calibration::Calibrations;
use wirepath_datapath::{DataPath, Support};
use wirepath_engine::{Engine, EngineOptions};
use wirepath_media::sdp::{Description, Track};
use wirepath_playback::{
    Burst, ConnectionWriter, PlayError, PlaybackEvent, PlaybackSettings, Playbacks, Position, Progress,
    RingUse, RtpClock, Scale, Speed, StreamPosition, StreamProgress,
};

/// Synchronisation source of the first track. The next track has the next number.
pub(super) const SSRC: u32 = 0xabcd_1234;

/// Ticks per second of the first track's timestamps, and of all others'.
const CLOCKS_HZ: [u32; 2] = [90_000, 48_000];

/// Request to a playback.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    SetUp,
    /// Of another track.
    Add(u8),
    Play {
        from_us: Option<u64>,
        until_us: Option<u64>,
    },
    /// At another speed or scale than the normal one.
    PlayAt(PlayRange),
    Pause,
    /// Only for a playback over the RTSP connection.
    Release,
    Dropped,
}

/// One minute of `film.mp4`, which has two tracks, of `silent.mp4`, whose second track has no packets, of
/// `clip.ts` and of `sub folder/fü.ts`, and of `growing.ts`, of which that is not known and which is never
/// packed as far as [`UNPACKED_US`]; `broken.ts` cannot be played, `busy.ts` not now, and `slow.ts` never
/// answers.
pub(super) struct FakePlayer {
    shared: Arc<Shared>,
    seen: tokio::sync::Mutex<UnboundedReceiver<Asked>>,
    /// For the writers of connections, which are real.
    playbacks: Playbacks,
}

/// State shared by the player, its presentations and their playbacks.
struct Shared {
    asked: UnboundedSender<Asked>,
    /// Of the playback that was set up last.
    on_event: Mutex<Option<Arc<OnEvent>>>,
    /// Of the waiting request to play.
    waiting: Mutex<Option<Reply<Position>>>,
    /// Of all playbacks.
    failure: Mutex<Option<PlaybackFailure>>,
    /// Plays that were counted.
    plays: AtomicUsize,
    /// Called once, when the state of a playback is read for the status.
    on_status: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Default for FakePlayer {
    fn default() -> Self {
        let (asked, seen) = unbounded_channel();
        let (on_event, waiting, plays, failure, on_status) = Default::default();
        let shared = Arc::new(Shared { asked, on_event, waiting, plays, failure, on_status });
        Self { shared, seen: seen.into(), playbacks: playbacks() }
    }
}

fn playbacks() -> Playbacks {
    let engine = Arc::new(Engine::start(EngineOptions::default()).expect("an engine"));
    let support = Arc::new(Support::probe(Some(DataPath::Sendmmsg), Calibrations::default(), false));
    Playbacks::start(engine, PlaybackSettings { support, ring: RingUse::Never, burst: Burst::Fixed(20_000) })
}

impl FakePlayer {
    /// The next thing that was asked.
    pub(super) async fn expect(&self, expected: Asked) {
        let asked = soon("being asked", async { self.seen.lock().await.recv().await }).await;
        assert_eq!(asked, Some(expected));
    }

    /// Plays that were counted.
    pub(super) fn plays(&self) -> usize {
        self.shared.plays.load(Relaxed)
    }

    /// Calls `act` when the state of a playback is read for the status, once.
    pub(super) fn on_status(&self, act: impl FnOnce() + Send + 'static) {
        *self.shared.on_status.lock() = Some(Box::new(act));
    }

    /// The playback is ended in order: it rests before it is dropped.
    pub(super) async fn expect_end(&self) {
        self.expect(Asked::Pause).await;
        self.expect(Asked::Dropped).await;
    }

    /// Causes an event of the playback that was set up last.
    pub(super) fn tell(&self, event: PlaybackEvent) {
        let on_event = self.shared.on_event.lock().clone().expect("a playback");
        on_event(event);
    }

    /// The waiting request is answered with success.
    pub(super) fn answer_late(&self) {
        let reply = self.shared.waiting.lock().take().expect("a request that waits");
        let stream = StreamPosition { stream: 0, sequence: Some(1), timestamp: 90_000 };
        reply(Ok(Position { at_us: UNPACKED_US, streams: vec![stream] }));
    }

    /// All presentations fail from now on.
    pub(super) fn set_failure(&self, is_asset: bool) {
        let reason = "no clock".to_owned();
        *self.shared.failure.lock() = Some(PlaybackFailure { reason, is_asset });
    }

    /// The waiting request is answered with a failure.
    pub(super) fn fail_waiting(&self) {
        let reply = self.shared.waiting.lock().take().expect("a request that waits");
        reply(Err(PlayError::Source(format!("no space left in {SECRET}").into())));
    }
}

impl Shared {
    fn note(&self, asked: Asked) {
        // The test has ended, and nobody reads the result.
        _ = self.asked.send(asked);
    }
}

impl Player for FakePlayer {
    fn open<'a>(
        &'a self,
        path: &'a [u8],
        played_as: PlayedAs,
        _client: IpAddr,
    ) -> BoxFuture<'a, Result<Arc<dyn Presentation>, OpenError>> {
        let error = match path {
            b"clip.ts" | b"sub folder/f\xc3\xbc.ts" | b"growing.ts" | b"film.mp4" | b"silent.mp4" => {
                let (shared, is_silent) = (Arc::clone(&self.shared), path == b"silent.mp4");
                let duration_us = (path != b"growing.ts").then_some(MINUTE_US);
                let has_tracks = path.ends_with(b".mp4") || played_as == PlayedAs::Tracks;
                let tracks = if has_tracks { 2 } else { 1 };
                let presentation = FakePresentation { shared, duration_us, tracks, is_silent };
                return Box::pin(async { Ok(Arc::new(presentation) as Arc<dyn Presentation>) });
            }
            b"slow.ts" => return Box::pin(std::future::pending()),
            b"broken.ts" => OpenError::NotPlayable("broken.ts, byte 0: no sync byte".to_owned()),
            b"busy.ts" => OpenError::Busy(format!("{SECRET} is full")),
            b"large.ts" => OpenError::NoSpace("raise --cache-size".to_owned()),
            b"failing.ts" => OpenError::Failed(format!("{SECRET}/1.wpi: input/output error")),
            _ => OpenError::NotFound,
        };
        Box::pin(async { Err(error) })
    }

    fn admit(&self, _bits_per_second: Option<u64>) -> Result<(), Overload> {
        Ok(())
    }

    /// There is room for six sessions.
    fn admit_faster(&self, more: f64) -> Result<(), Overload> {
        if more < 6.0 { Ok(()) } else { Err(Overload::Processor { needed: 0.9, limit: 0.75 }) }
    }

    fn has_groups(&self) -> bool {
        false
    }

    fn open_writer(&self, socket: OwnedFd) -> io::Result<ConnectionWriter> {
        self.playbacks.open_writer(socket)
    }
}

/// A place on the machine, which clients must not see.
pub(super) const SECRET: &str = "/var/cache/wirepath";

/// A request for this time or a later one waits until the test continues it.
const UNPACKED_US: u64 = 3_600_000_000;

const MINUTE_US: u64 = 60_000_000;

const NO_PROGRESS: Progress = Progress {
    packets: 0,
    payload_bytes: 0,
    packets_lost: 0,
    loss_errno: None,
    position_us: 0,
    is_playing: false,
    speed: Speed::NORMAL,
    scale: Scale::NORMAL,
    forward_skips: 0,
    path: Some(DataPath::Sendmmsg),
    burst_us: 0,
};

struct FakePresentation {
    shared: Arc<Shared>,
    duration_us: Option<u64>,
    tracks: u8,
    is_silent: bool,
}

impl Presentation for FakePresentation {
    fn describe(&self) -> Description {
        let Self { duration_us, .. } = *self;
        Description {
            name: "clip.ts".to_owned(),
            id: 1,
            version: 1,
            duration_us,
            clock: None,
            is_live: false,
            has_replay: false,
            tracks: vec![Track::transport_stream(Some(4_000_000)); self.tracks.into()],
        }
    }

    fn tracks(&self) -> u8 {
        self.tracks
    }

    fn set_up(
        &self,
        track: u8,
        sink: MediaSink,
        _most_burst_us: Option<u64>,
        on_event: OnEvent,
    ) -> BoxFuture<'_, Result<Box<dyn SessionPlayback>, OpenError>> {
        *self.shared.on_event.lock() = Some(Arc::new(on_event));
        self.shared.note(Asked::SetUp);
        let (shared, progress) = (Arc::clone(&self.shared), Mutex::new(NO_PROGRESS));
        let Self { duration_us, tracks, is_silent, .. } = *self;
        let sinks = Mutex::new(vec![(track, sink)]);
        let playback = FakePlayback { shared, sinks, progress, duration_us, tracks, is_silent };
        Box::pin(async { Ok(Box::new(playback) as Box<dyn SessionPlayback>) })
    }

    fn join(&self, _on_event: OnEvent) -> BoxFuture<'_, Result<Joined, OpenError>> {
        Box::pin(async { Err(OpenError::Busy("no groups here".to_owned())) })
    }
}

/// Each time it plays it sends one packet for each track (over the RTSP connection when it is released), and
/// its position is the start of the range. Another packet is on its way when it is paused.
struct FakePlayback {
    shared: Arc<Shared>,
    sinks: Mutex<Vec<(u8, MediaSink)>>,
    /// That of each track.
    progress: Mutex<Progress>,
    duration_us: Option<u64>,
    tracks: u8,
    /// No packet of the second track is counted.
    is_silent: bool,
}

impl SessionPlayback for FakePlayback {
    fn tracks(&self) -> u8 {
        self.tracks
    }

    fn add(&self, track: u8, sink: MediaSink) -> Result<(), OpenError> {
        self.shared.note(Asked::Add(track));
        self.sinks.lock().push((track, sink));
        Ok(())
    }

    /// Of two tracks, the second has pictures.
    fn scanned_track(&self) -> Option<u8> {
        (self.tracks == 2).then_some(1)
    }

    fn source(&self, track: u8) -> TrackSource {
        let clock_hz = CLOCKS_HZ[usize::from(track.min(1))];
        TrackSource { ssrc: SSRC + u32::from(track), clock_hz }
    }

    fn play(&self, range: PlayRange, reply: Reply<Position>) {
        let PlayRange { from_us, until_us, speed, scale, .. } = range;
        self.shared.note(match (speed, scale) {
            (Speed::NORMAL, Scale::NORMAL) => Asked::Play { from_us, until_us },
            _ => Asked::PlayAt(range),
        });
        let mut progress = self.progress.lock();
        let from_us = from_us.unwrap_or(progress.position_us);
        if from_us >= UNPACKED_US {
            *self.shared.waiting.lock() = Some(reply);
            return;
        }
        if from_us >= MINUTE_US {
            return reply(Err(PlayError::BeyondEnd));
        }
        progress.position_us = from_us;
        progress.packets += 1;
        progress.payload_bytes += 1316;
        progress.is_playing = true;
        let mut streams = Vec::new();
        for (track, sink) in &*self.sinks.lock() {
            if let MediaSink::Udp(socket, _) = sink {
                socket.send(b"a packet").expect("the client listens");
            }
            let (sequence, timestamp) = (Some(progress.packets as u16), self.source(*track).clock_hz);
            streams.push(StreamPosition { stream: *track, sequence, timestamp });
        }
        reply(Ok(Position { at_us: progress.position_us, streams }));
    }

    fn release(&self) {
        for (_, sink) in &*self.sinks.lock() {
            if let MediaSink::Interleaved(writer, channel, _) = sink {
                self.shared.note(Asked::Release);
                writer.write_report(*channel, b"a packet");
            }
        }
    }

    fn pause(&self, reply: Reply<u64>) {
        self.shared.note(Asked::Pause);
        let mut progress = self.progress.lock();
        progress.packets += u64::from(std::mem::take(&mut progress.is_playing));
        progress.position_us += 1_500_000;
        reply(Ok(progress.position_us));
    }

    fn stop(&self, reply: Reply<u64>) {
        self.pause(reply);
    }

    fn progress(&self) -> Progress {
        *self.progress.lock()
    }

    fn track_progress(&self, track: u8) -> StreamProgress {
        let Progress { packets, payload_bytes, is_playing, .. } = *self.progress.lock();
        let clock = is_playing.then_some(RtpClock { at_us: 0, timestamp: 0, speed: Speed::NORMAL });
        if self.is_silent && track == 1 {
            return StreamProgress { clock, ..StreamProgress::default() };
        }
        StreamProgress { packets, payload_bytes, clock }
    }

    fn failure(&self) -> Option<PlaybackFailure> {
        self.shared.failure.lock().clone()
    }

    fn duration_us(&self) -> Option<u64> {
        self.duration_us
    }

    fn reason(&self) -> &str {
        let act = self.shared.on_status.lock().take();
        if let Some(act) = act {
            act();
        }
        "a test's"
    }

    fn count_play(&self) {
        self.shared.plays.fetch_add(1, Relaxed);
    }
}

impl Drop for FakePlayback {
    fn drop(&mut self) {
        self.shared.note(Asked::Dropped);
    }
}
