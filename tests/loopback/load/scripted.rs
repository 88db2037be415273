//! RTSP server that sends each client the packets of a script, over UDP or interleaved.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::STEP_MS;

/// Times of sending in milliseconds, and sequence numbers. Timestamps go with sequence numbers.
type Script = Vec<(u64, u16)>;

const SDP: &str = "v=0\r\ns=script\r\nm=video 0 RTP/AVP 33\r\na=control:trackID=0\r\n";

/// First sequence number: wraps soon.
const FIRST: u16 = 65_500;

/// A sender report of SSRC 7 without report blocks (RFC 3550 section 6.4.1).
const SENDER_REPORT: [u8; 28] =
    [0x80, 200, 0, 6, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5];

pub(super) struct Scripted {
    address: SocketAddr,
    answered: Arc<AtomicBool>,
}

/// Where packets go.
enum Way {
    Udp { rtp: UdpSocket, rtcp: UdpSocket, client: u16 },
    Interleaved(TcpStream),
}

impl Scripted {
    /// Starts it; it ends with the test.
    pub(super) fn start(script: Script) -> Result<Scripted> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, answered) = (listener.local_addr()?, Arc::<AtomicBool>::default());
        let seen = Arc::clone(&answered);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, seen) = (script.clone(), Arc::clone(&seen));
                // A client that leaves ends its thread; what it missed is the test's to see.
                std::thread::spawn(move || drop(serve(stream, script, &seen)));
            }
        });
        Ok(Scripted { address, answered })
    }

    pub(super) fn url(&self) -> String {
        format!("rtsp://{}/script", self.address)
    }

    /// Returns whether a client answered the server's own request.
    pub(super) fn was_answered(&self) -> bool {
        self.answered.load(Relaxed)
    }
}

fn serve(stream: TcpStream, script: Script, answered: &AtomicBool) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut way = None;
    while let Some(head) = read_head(&mut reader)? {
        if head.starts_with("RTSP/1.0 200") {
            answered.store(true, Relaxed);
            continue;
        }
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let cseq = field("CSeq:").context("no CSeq")?;
        let mut more = "Session: s;timeout=60\r\n".to_owned();
        match head.split(' ').next() {
            Some("DESCRIBE") => {
                more = format!("Content-Base: rtsp://x/\r\nContent-Length: {}\r\n\r\n{SDP}", SDP.len());
            }
            Some("SETUP") => {
                let (answer, found) = set_up(field("Transport:").unwrap_or_default(), &stream)?;
                way = Some(found);
                more += &format!("Transport: {answer}\r\n");
            }
            Some("PLAY") => more += &format!("RTP-Info: url=rtsp://x/trackID=0;seq={FIRST};rtptime=0\r\n"),
            _ => {}
        }
        let end = if more.contains("\r\n\r\n") { "" } else { "\r\n" };
        (&stream).write_all(format!("RTSP/1.0 200 OK\r\nCSeq: {cseq}\r\n{more}{end}").as_bytes())?;
        if head.starts_with("PLAY") {
            let (way, script) = (way.take().context("PLAY without SETUP")?, script.clone());
            std::thread::spawn(move || drop(send(way, &script)));
        }
    }
    Ok(())
}

/// The next request or response; frames of the client are skipped.
fn read_head(reader: &mut impl BufRead) -> Result<Option<String>> {
    loop {
        let Some(first) = reader.fill_buf()?.first().copied() else { return Ok(None) };
        if first != b'$' {
            break;
        }
        let mut header = [0; 4];
        reader.read_exact(&mut header)?;
        let length = u64::from(u16::from_be_bytes([header[2], header[3]]));
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
    }
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(reader.read_line(&mut head)? > 0, "the connection ended inside a head");
    }
    Ok(Some(head))
}

fn set_up(asked: &str, stream: &TcpStream) -> Result<(String, Way)> {
    if asked.contains("/TCP") {
        return Ok(("RTP/AVP/TCP;unicast;interleaved=0-1".to_owned(), Way::Interleaved(stream.try_clone()?)));
    }
    let ports = asked.split("client_port=").nth(1).context("no client_port")?;
    let client = ports.split('-').next().unwrap_or_default().parse()?;
    let (rtp, rtcp) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    let ports = (rtp.local_addr()?.port(), rtcp.local_addr()?.port());
    Ok((format!("RTP/AVP;unicast;server_port={}-{}", ports.0, ports.1), Way::Udp { rtp, rtcp, client }))
}

fn send(mut way: Way, script: &Script) -> Result<()> {
    let start = Instant::now();
    way.send(1, &SENDER_REPORT)?;
    if let Way::Interleaved(stream) = &mut way {
        stream.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")?;
    }
    for (at_ms, index) in script {
        std::thread::sleep(Duration::from_millis(*at_ms).saturating_sub(start.elapsed()));
        let mut packet = vec![0x80, 33];
        packet.extend(FIRST.wrapping_add(*index).to_be_bytes());
        packet.extend((u32::from(*index) * (STEP_MS as u32) * 90).to_be_bytes());
        packet.extend(7u32.to_be_bytes());
        packet.resize(1_000, 0);
        way.send(0, &packet)?;
    }
    Ok(())
}

impl Way {
    /// Sends RTP (0) or RTCP (1).
    fn send(&mut self, channel: u8, bytes: &[u8]) -> Result<()> {
        match self {
            Way::Udp { rtp, rtcp, client } => {
                let socket = if channel == 0 { rtp } else { rtcp };
                socket.send_to(bytes, ("127.0.0.1", *client + u16::from(channel)))?;
            }
            Way::Interleaved(stream) => {
                let length = (bytes.len() as u16).to_be_bytes();
                stream.write_all(&[&[b'$', channel, length[0], length[1]], bytes].concat())?;
            }
        }
        Ok(())
    }
}
