//! Clients over TCP: connections, and sessions that send to them.

use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use socket2::{SockFilter, SockRef};
use wirepath_engine::Waker;
use wirepath_playback::{
    At, ConnectionWriter, Cursor, Load, Playback, PlaybackEvent, PlaybackOptions, PlaybackSink, Playbacks,
    Position, TrainSource,
};

use super::{Flood, PACKET};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A response of a server, as far as these tests go.
pub(crate) const RESPONSE: &[u8] = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n";

/// Both ends of a connection, with a send buffer of so many bytes if one is given.
pub(crate) fn connect(send_buffer: Option<usize>) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    far.set_read_timeout(Some(PATIENCE)).unwrap();
    let near = listener.accept().unwrap().0;
    near.set_nodelay(true).unwrap();
    if let Some(bytes) = send_buffer {
        rustix::net::sockopt::set_socket_send_buffer_size(&near, bytes).unwrap();
    }
    (near, far)
}

pub(crate) struct Client {
    pub(crate) writer: Arc<ConnectionWriter>,
    /// The descriptor that the server reads from.
    pub(crate) near: TcpStream,
    pub(crate) stream: TcpStream,
}

/// Items that come on a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Frame(u8, Vec<u8>),
    Response,
    End,
}

impl Client {
    pub(crate) fn new(playbacks: &Playbacks, send_buffer: Option<usize>) -> Client {
        let (near, stream) = connect(send_buffer);
        let socket = near.as_fd().try_clone_to_owned().unwrap();
        Client { writer: Arc::new(playbacks.open_writer(socket).unwrap()), near, stream }
    }

    /// Drops what arrives before TCP sees it, so that a connection that was full once remains full.
    pub(crate) fn acknowledge_nothing(&self) {
        /// `BPF_RET | BPF_K` of `linux/bpf_common.h`: keeps 0 bytes.
        const DROP: SockFilter = SockFilter::new(0x06, 0, 0, 0);
        SockRef::from(&self.stream).attach_filter(&[DROP]).unwrap();
    }

    /// The next frame or response; anything else is an error.
    pub(crate) fn next(&mut self) -> Came {
        let mut first = [0];
        match self.stream.read(&mut first).unwrap() {
            0 => Came::End,
            _ if first[0] == b'$' => {
                let mut head = [0; 3];
                self.stream.read_exact(&mut head).unwrap();
                let mut frame = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
                self.stream.read_exact(&mut frame).unwrap();
                Came::Frame(head[0], frame)
            }
            _ => {
                let mut response = RESPONSE.to_vec();
                response[0] = first[0];
                self.stream.read_exact(&mut response[1..]).unwrap();
                assert_eq!(response, RESPONSE);
                Came::Response
            }
        }
    }

    pub(crate) fn respond(&self) -> Receiver<()> {
        let (tell, told) = channel();
        self.writer.write(RESPONSE.to_vec(), move || tell.send(()).unwrap_or_default());
        told
    }
}

pub(crate) struct Session {
    pub(crate) playback: Playback,
    pub(crate) events: Receiver<PlaybackEvent>,
}

pub(crate) fn open(
    playbacks: &Playbacks,
    client: &Client,
    channel_number: u8,
    source: Arc<dyn TrainSource>,
) -> Session {
    with_lag(playbacks, client, channel_number, source, 2_000_000)
}

pub(crate) fn with_lag(
    playbacks: &Playbacks,
    client: &Client,
    channel_number: u8,
    source: Arc<dyn TrainSource>,
    max_lag_us: u64,
) -> Session {
    let (tell, events) = channel();
    let writer = Arc::clone(&client.writer);
    let playback = playbacks.open(PlaybackOptions {
        source,
        streams: 1,
        sink: PlaybackSink::Interleaved { writer, channel: channel_number, max_lag_us }.into(),
        most_burst_us: 8000,
        on_event: Box::new(move |event| tell.send(event).unwrap_or_default()),
    });
    Session { playback: playback.unwrap(), events }
}

impl Session {
    /// Begins to play, with a response in front of the first packet.
    pub(crate) fn play(&self, client: &Client, from: Option<Cursor>, until_us: Option<u64>) -> Position {
        let (tell, answer) = channel();
        self.playback.play(from, until_us, move |result| tell.send(result).unwrap_or_default());
        let position = answer.recv_timeout(PATIENCE).unwrap().unwrap();
        client.respond();
        self.playback.release();
        position
    }

    pub(crate) fn pause(&self) -> u64 {
        let (tell, answer) = channel();
        self.playback.pause(move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(PATIENCE).unwrap().unwrap()
    }

    pub(crate) fn wait_for_end(&self) {
        assert!(matches!(self.events.recv_timeout(PATIENCE), Ok(PlaybackEvent::Finished)));
    }
}

/// Waits until a connection was full.
pub(crate) fn wait_for_full(playbacks: &Playbacks) {
    let deadline = Instant::now() + PATIENCE;
    while playbacks.counters().sockets_full == 0 {
        assert!(Instant::now() < deadline, "the connection is never full");
        std::thread::yield_now();
    }
}

/// A source without an end that has a place to begin every 100 ms.
pub(crate) struct Starts(pub(crate) Arc<Flood>);

pub(crate) const START_US: u64 = 100_000;

impl TrainSource for Starts {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        self.0.segment(number, waker)
    }

    fn next_start(&self, at_us: u64) -> Option<Cursor> {
        let train = (at_us.next_multiple_of(START_US) / 100) as u32;
        let at = At::Packet { train, packet: 0, skip: 0 };
        (train < 10_000).then_some(Cursor { segment: 0, at })
    }
}

/// Ensures that a client of a flood that reads nothing for the first 400 ms of media gets whole frames only, and skips
/// forward.
pub(crate) fn ensure_skips_forward(playbacks: &Playbacks, flood: Arc<Flood>) {
    let mut client = Client::new(playbacks, None);
    let session = with_lag(playbacks, &client, 0, Arc::new(Starts(flood)), 50_000);
    session.play(&client, None, None);
    let deadline = Instant::now() + PATIENCE;
    let lags = || {
        let clock = session.playback.stream_progress(0).clock;
        clock.is_some_and(|clock| wirepath_engine::now_us() > clock.at_us + 400_000)
    };
    while !lags() {
        assert!(Instant::now() < deadline, "it does not play");
        std::thread::yield_now();
    }
    assert_eq!(client.next(), Came::Response);
    let (Session { playback, events }, near) = (session, client.near.try_clone().unwrap());
    let end = std::thread::spawn(move || {
        let event = events.recv_timeout(PATIENCE);
        near.shutdown(Shutdown::Write).unwrap();
        event
    });
    let mut packets = 0;
    while let Came::Frame(0, frame) = client.next() {
        assert_eq!(frame.len(), PACKET);
        packets += 1;
    }
    assert_eq!(end.join().unwrap(), Ok(PlaybackEvent::Finished));
    let progress = playback.progress();
    assert!(progress.forward_skips > 0);
    assert_eq!(playbacks.counters().forward_skips, progress.forward_skips);
    assert!(packets < 35_000, "{packets} of 40,000 packets came");
}
