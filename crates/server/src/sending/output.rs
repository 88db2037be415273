//! An output of a channel: its playback to one destination, and RTCP beside it.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use tokio::sync::{Notify, watch};
use wirepath_media::image::{Plan, StreamPlan};
use wirepath_media::rtcp::SenderState;
use wirepath_playback::{
    Cursor, PlayError, Playback, PlaybackEvent, PlaybackOptions, PlaybackSink, Playbacks, Position, Progress,
    RtpClock, StreamProgress, StreamSink, Timestamps, TrainSource,
};

use super::destination::{Destination, Form};
use crate::sender_report::{self, ntp};

/// Interval of reports (RFC 3550 section 6.2).
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Time until the next attempt at a report while the clock is not known, as before the first packet.
const REPORT_RETRY: Duration = Duration::from_secs(1);

/// Ports from one track to the next: RTP and RTCP.
pub(super) const PORTS_PER_TRACK: u16 = 2;

/// Source of an output.
pub(crate) trait OutputSource: TrainSource {
    /// Name of the asset whose packets were given away last.
    fn asset(&self) -> String;
}

/// Output of a channel.
pub(crate) struct Output {
    pub(crate) destination: Destination,
    playback: Playback,
    source: Arc<dyn OutputSource>,
    /// The sockets of the streams, in order, to be connected anew.
    sockets: Vec<UdpSocket>,
    reports: Vec<ReportedStream>,
    cname: String,
    /// True once a BYE was sent.
    has_left: AtomicBool,
    /// Notified when the first packet leaves.
    begun: Arc<Notify>,
    ended: watch::Receiver<Option<End>>,
}

/// End of an output.
pub(crate) type End = Result<(), String>;

/// Losses of an output at the last report.
#[derive(Default)]
struct Losses {
    packets: u64,
    is_losing: bool,
}

/// Errors by which packets are lost that have nothing to do with this host's addresses and interfaces: nobody listens,
/// or the file cannot be read.
const KEEP_CONNECTION: [Errno; 4] = [Errno::CONNREFUSED, Errno::FAULT, Errno::IO, Errno::NODATA];

/// Stream with RTCP.
struct ReportedStream {
    number: u8,
    plan: StreamPlan,
    socket: UdpSocket,
    /// The clock as it was when packets were last being sent.
    clock: parking_lot::Mutex<Option<RtpClock>>,
}

impl Output {
    /// Opens an output, which rests until it is told to play. Of the streams it takes ports in order. Packets leave
    /// at most `most_burst_us` ahead of their departure. Packet sizes and streams are those of `plan`; `source` makes
    /// the source, whose packets have the numbers of the given streams.
    ///
    /// # Errors
    /// Those of sockets; no random numbers.
    pub(crate) fn open(
        destination: &Destination,
        plan: &Plan,
        playbacks: &Playbacks,
        most_burst_us: u64,
        source: impl FnOnce(Vec<StreamPlan>) -> Arc<dyn OutputSource>,
    ) -> io::Result<Output> {
        let streams = own_streams(plan)?;
        let source = source(streams.clone());
        let (ending, ended) = watch::channel(None);
        let (mut sinks, mut sockets) = (Vec::new(), Vec::new());
        for (number, stream) in (0_u8..).zip(&streams) {
            let socket = destination.connect(ports(number))?;
            sockets.push(socket.try_clone()?);
            sinks.push(sink(destination, plan, number, stream, socket));
        }
        let mut sinks = sinks.into_iter();
        let first = sinks.next().ok_or(io::ErrorKind::InvalidInput)?;
        let cname = format!("wirepath@{}", local_address(&first)?);
        let playback = playbacks.open(PlaybackOptions {
            source: Arc::clone(&source) as Arc<dyn TrainSource>,
            streams: streams.len() as u8, // 16 at most
            sink: first,
            most_burst_us,
            on_event: Box::new(move |event| {
                ending.send_replace(Some(match event {
                    PlaybackEvent::Finished => Ok(()),
                    PlaybackEvent::Failed(error) => Err(error.to_string()),
                }));
            }),
        })?;
        for other in sinks {
            playbacks.add(&playback, other)?;
        }
        let mut reports = Vec::new();
        for (number, plan) in (0_u8..).zip(streams).filter(|_| destination.form == Form::Rtp) {
            let socket = destination.connect(ports(number) + 1)?;
            socket.set_nonblocking(true)?;
            reports.push(ReportedStream { number, plan, socket, clock: parking_lot::Mutex::default() });
        }
        Ok(Output {
            destination: destination.clone(),
            playback,
            source,
            sockets,
            reports,
            cname,
            has_left: AtomicBool::new(false),
            begun: Arc::default(),
            ended,
        })
    }

    /// Sends from a place of the source; from its start, or where the output rested, if none is given. The reply is the
    /// first packets.
    pub(crate) fn play(
        &self,
        from: Option<Cursor>,
        reply: impl FnOnce(Result<Position, PlayError>) + Send + 'static,
    ) {
        let begun = Arc::clone(&self.begun);
        self.playback.play(from, None, move |result| {
            begun.notify_one();
            reply(result);
        });
    }

    /// Rests when the access units that have begun are complete. The reply is the position in microseconds
    /// from the beginning.
    pub(crate) fn pause(&self, reply: impl FnOnce(Result<u64, PlayError>) + Send + 'static) {
        self.playback.pause(reply);
    }

    /// Rests at once. The reply is that of [`Output::pause`].
    pub(crate) fn stop(&self, reply: impl FnOnce(Result<u64, PlayError>) + Send + 'static) {
        self.playback.stop(reply);
    }

    /// Sends reports, and mends what loses packets, until the output has ended; answers how.
    pub(crate) async fn report(&self) -> End {
        let mut ended = self.ended.clone();
        let mut wait = REPORT_INTERVAL;
        let mut losses = Losses::default();
        loop {
            tokio::select! {
                end = ended.wait_for(Option::is_some) => {
                    let end = end.ok().and_then(|end| end.clone());
                    return end.unwrap_or_else(|| Err("the engine has ended".to_owned()));
                }
                () = self.begun.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
            wait = if self.send_reports() { REPORT_INTERVAL } else { REPORT_RETRY };
            self.note_losses(&mut losses);
        }
    }

    /// Logs when packets begin to be lost, and when they leave again. Connects the sockets anew while the network
    /// does not take packets.
    fn note_losses(&self, losses: &mut Losses) {
        let progress = self.playback.progress();
        let new = progress.packets_lost - losses.packets;
        let was_losing = std::mem::replace(&mut losses.is_losing, new > 0);
        losses.packets = progress.packets_lost;
        let to = &self.destination;
        let Some(errno) = progress.loss_errno.filter(|_| new > 0) else {
            if was_losing {
                tracing::info!(%to, "packets leave again");
            }
            return;
        };
        if !was_losing {
            let error = io::Error::from_raw_os_error(errno);
            tracing::warn!(%to, packets = new, %error, "packets are lost");
        }
        if !KEEP_CONNECTION.contains(&Errno::from_raw_os_error(errno)) {
            self.reconnect();
        }
    }

    /// Connects all sockets anew.
    fn reconnect(&self) {
        let packets = (0_u8..).zip(&self.sockets).map(|(number, socket)| (ports(number), socket));
        let reports = self.reports.iter().map(|stream| (ports(stream.number) + 1, &stream.socket));
        for (ports, socket) in packets.chain(reports) {
            if let Err(error) = self.destination.reconnect(socket, ports) {
                tracing::debug!(to = %self.destination, %error, "a socket cannot be connected anew yet");
            }
        }
    }

    /// Sends a BYE for each stream of which packets were sent (RFC 3550 section 6.3.7), once.
    pub(crate) fn send_bye(&self) {
        if self.has_left.swap(true, Relaxed) {
            return;
        }
        self.for_each_clock(|stream, state| {
            if state.packets > 0 {
                stream.send(&state.bye(&self.cname));
            }
        });
    }

    /// Sends a sender report for each stream whose clock is known; answers whether all are, as without RTCP.
    fn send_reports(&self) -> bool {
        self.for_each_clock(|stream, state| stream.send(&state.report(&self.cname))) == self.reports.len()
    }

    /// Calls a function with each stream whose clock is known; answers how many these are.
    fn for_each_clock(&self, act: impl Fn(&ReportedStream, &SenderState)) -> usize {
        let (now, now_us) = (ntp(SystemTime::now()), wirepath_engine::now_us());
        let mut known = 0;
        for stream in &self.reports {
            let progress = self.playback.stream_progress(stream.number);
            let mut clock = stream.clock.lock();
            *clock = progress.clock.or(*clock);
            if let Some(clock) = *clock {
                let StreamPlan { ssrc, clock_hz, .. } = stream.plan;
                act(stream, &sender_report::state(ssrc, clock_hz, clock, &progress, now, now_us));
                known += 1;
            }
        }
        known
    }

    pub(crate) fn progress(&self) -> Progress {
        self.playback.progress()
    }

    pub(crate) fn stream_progress(&self, stream: u8) -> StreamProgress {
        self.playback.stream_progress(stream)
    }

    /// SSRC of a stream, and ticks of its timestamps in a second. The output has RTP.
    pub(crate) fn source(&self, stream: u8) -> (u32, u32) {
        let reported = self.reports.get(usize::from(stream)).unwrap_or(&self.reports[0]);
        (reported.plan.ssrc, reported.plan.clock_hz)
    }

    /// Reason for its first data path.
    pub(crate) fn reason(&self) -> &str {
        self.playback.reason()
    }

    /// Name of the asset that is being sent, or read for what is sent next.
    pub(crate) fn asset(&self) -> String {
        self.source.asset()
    }
}

impl ReportedStream {
    /// Sends a report. One that the network does not take is not sent again: the next one says more.
    fn send(&self, packet: &[u8]) {
        if let Err(error) = self.socket.send(packet) {
            tracing::debug!(%error, "RTCP was not sent");
        }
    }
}

/// Streams like those of an image, with an SSRC, a sequence number and a timestamp of their own.
fn own_streams(plan: &Plan) -> io::Result<Vec<StreamPlan>> {
    let random = || getrandom::u32().map_err(io::Error::other);
    let own = plan.streams.iter().map(|stream| {
        Ok(StreamPlan { ssrc: random()?, sequence: random()? as u16, timestamp: random()?, ..*stream })
    });
    own.collect()
}

/// Ports from that of a destination to that of a track's packets.
fn ports(track: u8) -> u16 {
    PORTS_PER_TRACK * u16::from(track)
}

/// Sink of a stream at a destination, to which the socket is connected.
fn sink(
    destination: &Destination,
    plan: &Plan,
    number: u8,
    own: &StreamPlan,
    socket: UdpSocket,
) -> StreamSink {
    let timestamps = match plan.recipe.is_transport_stream() {
        true => Timestamps::Departure,
        false => Timestamps::Presentation { first: own.timestamp, clock_hz: own.clock_hz },
    };
    let sink = PlaybackSink::Push {
        socket,
        packet_size: plan.recipe.packet_size(),
        has_headers: destination.form == Form::Rtp,
    };
    StreamSink { stream: number, timestamps, sink, key: None, replay: None }
}

fn local_address(sink: &StreamSink) -> io::Result<std::net::IpAddr> {
    match &sink.sink {
        PlaybackSink::Push { socket, .. } | PlaybackSink::Udp { socket, .. } => Ok(socket.local_addr()?.ip()),
        PlaybackSink::Interleaved { .. } => Err(io::ErrorKind::InvalidInput.into()),
    }
}
