//! Playbacks: trains of packets, each sent to a receiver when it is due.
//!
//! A [`TrainSource`] has trains in segments; a [`Playback`] sends them to one receiver by the source's
//! timetable. [`Playbacks`] are all those of an [`Engine`](wirepath_engine::Engine). Those of an engine
//! thread are one task, so that trains that are due together are sent together: they are prefetched into the
//! processor's caches as a batch and, with an io_uring, sent by one kernel call. Nothing on an engine thread
//! blocks: a source that must first read a segment returns that, and wakes the playback later.
//!
//! A receiver is a UDP socket, or a channel of an RTSP connection, whose [`ConnectionWriter`] writes
//! everything on the connection: trains, responses and reports. A source may have several streams, such as
//! picture and sound. Each sent stream has its own receiver; trains of other streams are skipped.
//!
//! ```
//! use std::io::Write;
//! use std::net::UdpSocket;
//! use std::sync::Arc;
//! use std::sync::mpsc::channel;
//!
//! use wirepath_datapath::calibration::Calibrations;
//! use wirepath_datapath::rtp::{Header, Run};
//! use wirepath_datapath::{MappedFile, Support, Train};
//! use wirepath_engine::{Engine, EngineOptions, Waker};
//! use wirepath_playback::{
//!     Burst, Departure, Load, PlaybackEvent, PlaybackOptions, PlaybackSettings, PlaybackSink, Playbacks, RingUse,
//!     Segment, TrainSource,
//! };
//!
//! /// A source of one segment.
//! struct Source(Arc<Segment>);
//!
//! impl TrainSource for Source {
//!     fn segment(&self, number: u32, _waker: Option<&Waker>) -> Load {
//!         if number == 0 { Load::Ready(Arc::clone(&self.0)) } else { Load::End }
//!     }
//! }
//!
//! // A file with one packet, and the train that consists of it.
//! let first = Header { padding: false, marker: false, payload_type: 33, sequence: 7, timestamp: 90, ssrc: 42 };
//! let packet = [&first.to_bytes()[..], b"payload"].concat();
//! let mut file = tempfile::tempfile()?;
//! file.write_all(&packet)?;
//! let train = Train {
//!     offset: 0,
//!     length: packet.len() as u32,
//!     packet_size: packet.len() as u16,
//!     skip: 0,
//!     first: 0,
//!     packets_before: 0,
//!     run: Run::new(first, 0),
//! };
//! let segment = Segment {
//!     mapped_file: Arc::new(MappedFile::new(file, packet.len() as u64)?),
//!     departures: [Departure { at_us: 0, train }].into(),
//!     original: None, clock: None,
//! };
//!
//! let engine = Arc::new(Engine::start(EngineOptions::default())?);
//! let support = Arc::new(Support::probe(None, Calibrations::default(), false));
//! let (ring, burst) = (RingUse::Never, Burst::Fixed(20_000));
//! let playbacks = Playbacks::start(engine, PlaybackSettings { support, ring, burst });
//!
//! let (receiver, socket) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
//! socket.connect(receiver.local_addr()?)?;
//! let (sender, events) = channel();
//! let playback = playbacks.open(PlaybackOptions {
//!     source: Arc::new(Source(Arc::new(segment))),
//!     streams: 1,
//!     sink: PlaybackSink::Udp { socket, packet_size: packet.len() as u16 }.into(),
//!     most_burst_us: 100_000,
//!     on_event: Box::new(move |event| sender.send(event).unwrap_or_default()),
//! })?;
//! playback.play(None, None, |position| assert_eq!(position.unwrap().streams[0].sequence, Some(7)));
//!
//! let mut received = [0; 100];
//! let length = receiver.recv(&mut received)?;
//! assert_eq!(received[..length], packet);
//! assert_eq!(events.recv(), Ok(PlaybackEvent::Finished));
//! assert_eq!(playback.progress().packets, 1);
//! # Ok::<(), std::io::Error>(())
//! ```

mod balance;
mod burst;
mod connection_writer;
mod counters;
mod frame_writer;
mod lateness;
mod lending;
mod numbering;
mod output;
mod paced_playback;
mod pacer;
mod playback;
mod playbacks;
mod playhead;
mod progress;
mod replay;
mod request;
mod ring_use;
mod scale;
mod scan;
mod settings;
mod slots;
mod source;
mod speed;
mod streams;
mod thread_state;
mod timetable;

pub use burst::Burst;
pub use connection_writer::ConnectionWriter;
pub use counters::Counters;
pub use lateness::LatenessSnapshot;
pub use numbering::Timestamps;
pub use playback::{MOST_STREAMS, Playback, PlaybackOptions, PlaybackSink, StreamSink};
pub use playbacks::Playbacks;
pub use progress::{Progress, RtpClock, StreamProgress};
pub use replay::{AccessUnits, IntraPictures, ReplayRequest};
pub use request::{Pictures, PlayError, PlayRequest, PlaybackEvent, Position, StreamPosition};
pub use ring_use::RingUse;
pub use scale::Scale;
pub use settings::PlaybackSettings;
pub use source::{At, Cursor, Departure, Load, Segment, SegmentClock, TrainSource};
pub use speed::Speed;
