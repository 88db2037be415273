//! A raw client of RTP over the RTSP connection (RFC 2326 section 10.12): every byte that comes is part of a
//! frame or of a response.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::Deadline;
use crate::http::{self, Response};
use crate::playback::describe;
use crate::rtp::{Received, enter_packet, enter_report};
use crate::rtsp::Client;

/// A session whose packets come over the connection that controls it.
pub struct Interleaved {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The asset's URL.
    pub url: String,
    /// The session's identifier.
    pub session: String,
    /// Transport that the server chose.
    pub transport: String,
    channels: [u8; 2],
    sequence: u32,
    /// Media and reports that came so far.
    pub received: Received,
    /// Responses that were sent requests for, and read.
    pub responses: u32,
}

/// Something that came.
#[derive(Debug)]
pub enum Came {
    /// A frame, which is in [`Interleaved::received`] now.
    Frame,
    /// A response.
    Response(Response),
    /// The server closed the connection.
    End,
}

/// Channels that it asks for, unless told otherwise.
const CHANNELS: [u8; 2] = [2, 3];

impl Interleaved {
    /// Sets a session up, with a receive buffer of so many bytes if that matters.
    pub fn set_up(server: SocketAddr, path: &str, receive_buffer: Option<usize>) -> Result<Self> {
        let stream = http::connect(server)?;
        if let Some(bytes) = receive_buffer {
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, bytes).context("SO_RCVBUF")?;
        }
        Self::over(stream, format!("rtsp://{server}/{path}"))
    }

    /// Sets a session up with further headers in SETUP.
    pub fn set_up_with(server: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Self> {
        Self::open(http::connect(server)?, format!("rtsp://{server}/{path}"), CHANNELS, headers)
    }

    /// Sets a session up in these channels.
    pub fn set_up_in(server: SocketAddr, path: &str, channels: [u8; 2]) -> Result<Self> {
        Self::over_in(http::connect(server)?, format!("rtsp://{server}/{path}"), channels)
    }

    /// Sets a session up over a connection made elsewhere.
    pub fn over(stream: TcpStream, url: String) -> Result<Self> {
        Self::over_in(stream, url, CHANNELS)
    }

    /// Sets a session up in these channels over a connection made elsewhere.
    pub fn over_in(stream: TcpStream, url: String, channels: [u8; 2]) -> Result<Self> {
        Self::open(stream, url, channels, &[])
    }

    fn open(stream: TcpStream, url: String, channels: [u8; 2], headers: &[(&str, &str)]) -> Result<Self> {
        let mut client = Client::over(stream.try_clone().context("dup")?);
        let (_, control) = describe(&mut client, &url)?;
        let asked = format!("RTP/AVP/TCP;unicast;interleaved={}-{}", channels[0], channels[1]);
        let headers = [&[("Transport", asked.as_str())], headers].concat();
        let answer = client.succeed("SETUP", &control, &headers)?;
        let session = answer.header("session").context("SETUP was answered without a Session")?;
        let session = session.split(';').next().unwrap_or_default().to_owned();
        let transport = answer.header("transport").context("SETUP was answered without a Transport")?;
        let transport = transport.to_owned();
        ensure!(transport.starts_with(&asked), "{transport} was answered to {asked}");
        let (buffer, received, responses) = (Vec::new(), Received::default(), 0);
        Ok(Self { stream, buffer, url, session, transport, channels, sequence: 100, received, responses })
    }

    /// Sends a request in the session and waits for nothing.
    pub fn send(&mut self, method: &str, headers: &[(&str, &str)]) -> Result<()> {
        self.sequence += 1;
        let mut text = format!("{method} {} RTSP/1.0\r\nCSeq: {}\r\n", self.url, self.sequence);
        text += &format!("Session: {}\r\n", self.session);
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        self.stream.write_all((text + "\r\n").as_bytes()).context("sending a request")
    }

    /// Sends a request and reads what comes up to its answer, which must be 200.
    pub fn succeed(&mut self, method: &str, headers: &[(&str, &str)]) -> Result<Response> {
        self.send(method, headers)?;
        loop {
            match self.read()? {
                Came::Frame => {}
                Came::Response(response) => {
                    ensure!(response.status == 200, "{method} was answered with {response:?}");
                    let expected = self.sequence.to_string();
                    ensure!(response.header("cseq") == Some(&expected), "{response:?} to {expected}");
                    return Ok(response);
                }
                Came::End => bail!("the connection ended before the answer to {method}"),
            }
        }
    }

    /// Asks to play, with a Range if there is one.
    pub fn play(&mut self, range: Option<&str>) -> Result<Response> {
        let headers: Vec<_> = range.map(|range| ("Range", range)).into_iter().collect();
        self.succeed("PLAY", &headers)
    }

    /// Reads until the server says BYE.
    pub fn to_the_end(&mut self, deadline: Deadline) -> Result<()> {
        while self.received.bye.is_none() {
            ensure!(!deadline.has_passed(), "no BYE in time: {} packets", self.received.packets.len());
            if let Came::End = self.read()? {
                bail!("the connection ended after {} packets", self.received.packets.len());
            }
        }
        Ok(())
    }

    /// Reads the next frame or response.
    pub fn read(&mut self) -> Result<Came> {
        if !self.fill(1)? {
            return Ok(Came::End);
        }
        match self.buffer[0] {
            b'$' => self.frame(),
            b'R' => {
                // What waits for a length is never followed by nothing: RTSP has no bodies without one.
                let response = self.response()?;
                self.responses += 1;
                Ok(Came::Response(response))
            }
            byte => bail!("byte {byte:#04x} is in neither frame nor response"),
        }
    }

    /// The connection, to do something unexpected with.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    fn frame(&mut self) -> Result<Came> {
        ensure!(self.fill(4)?, "the connection ended in the head of a frame");
        let (channel, length) =
            (self.buffer[1], usize::from(u16::from_be_bytes([self.buffer[2], self.buffer[3]])));
        ensure!(self.fill(4 + length)?, "the connection ended in a frame");
        let frame: Vec<u8> = self.buffer.drain(..4 + length).skip(4).collect();
        let now = Instant::now();
        let entered = match channel {
            channel if channel == self.channels[0] => enter_packet(&mut self.received, &frame, now),
            channel if channel == self.channels[1] => enter_report(&mut self.received, &frame, now),
            other => bail!("a frame of channel {other}"),
        };
        entered.map_err(anyhow::Error::msg)?;
        Ok(Came::Frame)
    }

    fn response(&mut self) -> Result<Response> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            let length = self.buffer.len();
            ensure!(self.fill(length + 1)?, "the connection ended in a response");
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
        http::read_response(&mut self.stream, &mut self.buffer, !head.contains("\r\ncontent-length:"))
    }

    /// Reads until so many bytes are there; false at the end.
    fn fill(&mut self, length: usize) -> Result<bool> {
        let mut more = [0; 65_536];
        while self.buffer.len() < length {
            let read = crate::uninterrupted(|| self.stream.read(&mut more)).context("reading")?;
            if read == 0 {
                return Ok(false);
            }
            self.buffer.extend_from_slice(&more[..read]);
        }
        Ok(true)
    }
}
