//! A raw client: asks for an asset over RTSP and receives it with a pair of sockets of its own.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};

use crate::Deadline;
use crate::http::{self, Response};
use crate::namespace::Namespace;
use crate::rtp::{Received, Receiver};
use crate::rtsp::{Client, parameter};

/// A session that was set up, and what it receives.
pub struct Playback {
    /// The control connection.
    pub client: Client,
    /// Receiver of the media.
    pub receiver: Receiver,
    /// The asset's URL.
    pub url: String,
    /// The session's identifier.
    pub session: String,
    /// Transport that the server chose: ports, SSRC.
    pub transport: String,
    /// The server's answer to DESCRIBE.
    pub description: String,
}

impl Playback {
    /// Sets a session up from this process's network namespace.
    pub fn set_up(server: SocketAddr, path: &str) -> Result<Self> {
        Self::set_up_from(None, server, path, &[])
    }

    /// Sets a session up with further headers in SETUP.
    pub fn set_up_with(server: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Self> {
        Self::set_up_from(None, server, path, headers)
    }

    /// Sets a session up from a network namespace.
    pub fn set_up_inside(namespace: &Namespace, server: SocketAddr, path: &str) -> Result<Self> {
        Self::set_up_from(Some(namespace), server, path, &[])
    }

    /// Plays an asset from its beginning to its end.
    pub fn whole(server: SocketAddr, path: &str, seconds: f64) -> Result<Received> {
        let mut playback = Self::set_up(server, path)?;
        playback.play(None)?;
        playback.receiver.to_the_end(Deadline::seconds(seconds))
    }

    fn set_up_from(
        namespace: Option<&Namespace>,
        server: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self> {
        let open = || {
            let stream = http::connect(server)?;
            let local: IpAddr = stream.local_addr().context("getsockname")?.ip();
            Ok((Client::over(stream), Receiver::bind(local)?))
        };
        let (mut client, receiver) = match namespace {
            Some(namespace) => namespace.enter(open)?,
            None => open()?,
        };
        let url = format!("rtsp://{server}/{path}");
        let (description, control) = describe(&mut client, &url)?;
        let port = receiver.port()?;
        let asked = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
        let headers = [&[("Transport", asked.as_str())], headers].concat();
        let answer = client.succeed("SETUP", &control, &headers)?;
        let session = answer.header("session").context("SETUP was answered without a Session")?;
        let session = session.split(';').next().unwrap_or_default().to_owned();
        let transport =
            answer.header("transport").context("SETUP was answered without a Transport")?.to_owned();
        Ok(Self { client, receiver, url, session, transport, description })
    }

    /// Asks to play, with a Range if there is one.
    pub fn play(&mut self, range: Option<&str>) -> Result<Response> {
        let mut headers = vec![("Session", self.session.as_str())];
        headers.extend(range.map(|range| ("Range", range)));
        self.client.succeed("PLAY", &self.url, &headers)
    }

    /// Asks for something else in this session; the answer may be anything.
    pub fn ask(&mut self, method: &str) -> Result<Response> {
        self.client.request(method, &self.url, &[("Session", &self.session)])
    }

    /// Asks to pause.
    pub fn pause(&mut self) -> Result<()> {
        let answer = self.ask("PAUSE")?;
        ensure!(answer.status == 200, "PAUSE was answered with {answer:?}");
        Ok(())
    }

    /// The server's port for RTP (0) or RTCP (1).
    pub fn server_port(&self, index: usize) -> Result<u16> {
        let ports = parameter(&self.transport, "server_port");
        let port = ports.and_then(|ports| ports.split('-').nth(index)?.parse().ok());
        port.with_context(|| format!("no server_port in {}", self.transport))
    }

    /// The SSRC that the server announced.
    pub fn ssrc(&self) -> Result<u32> {
        let text =
            parameter(&self.transport, "ssrc").with_context(|| format!("no ssrc in {}", self.transport))?;
        u32::from_str_radix(text, 16).with_context(|| format!("ssrc={text}"))
    }
}

/// Asks for the description of an asset; answers it and the URL of its first medium.
pub fn describe(client: &mut Client, url: &str) -> Result<(String, String)> {
    let answer = client.succeed("DESCRIBE", url, &[("Accept", "application/sdp")])?;
    let description = String::from_utf8(answer.body.clone()).context("the SDP is not UTF-8")?;
    let control = control_url(&answer, &description, url);
    Ok((description, control))
}

/// Ensures that the received bytes are `expected`, whole and in order.
pub fn ensure_bytes(received: &Received, expected: &[u8]) -> Result<()> {
    ensure!(received.errors.is_empty(), "not RTP: {:?}", received.errors);
    let gaps = received.gaps();
    ensure!(
        gaps.is_empty(),
        "{} gaps in {} packets, first {:?}",
        gaps.len(),
        received.packets.len(),
        gaps[0]
    );
    let lengths = (received.payload.len(), expected.len());
    let wrong = || received.payload.iter().zip(expected).position(|(came, stored)| came != stored);
    ensure!(received.payload == expected, "bytes received, stored: {lengths:?}; first wrong: {:?}", wrong());
    Ok(())
}

/// Sequence number and timestamp that RTP-Info announces for the first packet (RFC 2326 section 12.33).
pub fn announced(answer: &Response) -> Result<(u16, u32)> {
    let info = answer.header("rtp-info").context("no RTP-Info")?;
    let number = |key| parameter(info, key)?.parse::<u32>().ok();
    let (sequence, timestamp) =
        number("seq").zip(number("rtptime")).with_context(|| format!("RTP-Info: {info}"))?;
    Ok((u16::try_from(sequence).context("seq")?, timestamp))
}

/// The URL of the first medium (RFC 2326 appendix C.1.1): its `a=control`, relative to Content-Base.
fn control_url(answer: &Response, description: &str, url: &str) -> String {
    let media = description.split_once("m=").map_or("", |(_, media)| media);
    let control = media.lines().find_map(|line| line.strip_prefix("a=control:")).unwrap_or("*").trim();
    if control == "*" {
        return url.to_owned();
    }
    if control.contains("://") {
        return control.to_owned();
    }
    let base = answer.header("content-base").unwrap_or(url);
    format!("{}/{control}", base.trim_end_matches('/'))
}
