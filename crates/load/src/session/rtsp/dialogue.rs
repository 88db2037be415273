//! Requests of a session and their responses.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;
use wirepath_media::rtsp::{Npt, NptRange, ServerResponse};

use super::description::{Description, TrackDescription};
use super::track::{Track, Way};
use super::transport::{Reply, first_sequences};
use super::{Event, Session};
use crate::failure::Failure;
use crate::judge::Judge;
use crate::options::Transport;
use crate::sockets::UdpPair;

/// Minimum time between keep-alives, for servers with a very short timeout.
const LEAST_KEEP_ALIVE: Duration = Duration::from_secs(2);

/// Time limit of the response to TEARDOWN: a leaving player does not wait.
const GOODBYE: Duration = Duration::from_secs(2);

/// Status of a server that accepts no more connections.
const SERVICE_UNAVAILABLE: u16 = 503;

/// Maximum length of a session identifier that is sent back.
const LONGEST_ID: usize = 256;

impl Session {
    /// Sends OPTIONS, DESCRIBE, and a SETUP for each track.
    pub(super) async fn set_up(&mut self) -> Result<(), Failure> {
        let url = self.description.url.clone();
        // Players send OPTIONS, too. The methods in its response are useful, but not required. A server beyond
        // its limits responds with 503, and resets the connection.
        let options = self.exchange("OPTIONS", &url, &[]).await?;
        if options.status == SERVICE_UNAVAILABLE {
            return Err(Failure::refused("OPTIONS", options.status, &options.reason));
        }
        let methods: Vec<&str> = options.headers.list("Public").collect();
        if methods.iter().any(|method| method.eq_ignore_ascii_case("GET_PARAMETER")) {
            self.keep_alive_method = "GET_PARAMETER";
        }
        let described = self.succeed("DESCRIBE", &url, &[("Accept", "application/sdp")]).await?;
        let base = described.headers.first("Content-Base").or(described.headers.first("Content-Location"));
        let text = String::from_utf8_lossy(&described.body);
        let mut description = Description::read(&text, &url, base);
        let tracks = std::mem::take(&mut description.tracks);
        self.description = description;
        if tracks.is_empty() {
            return Err(Failure::NoTrack);
        }
        for (index, track) in tracks.iter().enumerate() {
            self.set_up_track(index, track).await?;
        }
        Ok(())
    }

    async fn set_up_track(&mut self, index: usize, track: &TrackDescription) -> Result<(), Failure> {
        let options = &self.shared.options;
        let buffer_us = options.buffer.as_micros() as i64;
        let from_us = options.judged_after().as_micros() as i64;
        let judge = self
            .plan
            .judged
            .then(|| Judge::new(track.payload_type, track.hz, buffer_us).judging_from(from_us));
        let (way, answer) = match options.transport {
            Transport::Udp => self.set_up_udp(&track.url).await?,
            Transport::Tcp => self.set_up_tcp(index, &track.url).await?,
        };
        self.read_session(&answer);
        let ssrc = self.random.below(1 << 32) as u32;
        self.tracks.push(Track::new(way, judge, ssrc));
        Ok(())
    }

    async fn set_up_udp(&mut self, url: &str) -> Result<(Way, ServerResponse), Failure> {
        let local = self.connection.local().map_err(Failure::Connection)?;
        let server = self.shared.options.targets[self.plan.target].address.ip();
        let shares = !self.plan.judged && self.shared.options.shares_sockets();
        if let (true, IpAddr::V4(local)) = (shares, local) {
            let membership = self.shared.pairs.join(local).map_err(Failure::Sockets)?;
            let (answer, source, rtcp) = self.set_up_ports(url, membership.port(), server).await?;
            let reports_to = rtcp.map(|rtcp| SocketAddr::new(source, rtcp));
            return Ok((Way::Shared { membership, reports_to }, answer));
        }
        let pair = UdpPair::bind(local, self.plan.judged).map_err(Failure::Sockets)?;
        let (answer, source, rtcp) = self.set_up_ports(url, pair.port(), server).await?;
        let reports_to = rtcp.map(|rtcp| SocketAddr::new(source, rtcp));
        Ok((Way::Udp { pair, source, reports_to }, answer))
    }

    /// Sends SETUP with this port for RTP and the next port for RTCP. Returns the response, the source of the
    /// media, and its RTCP port.
    async fn set_up_ports(
        &mut self,
        url: &str,
        port: std::io::Result<u16>,
        server: IpAddr,
    ) -> Result<(ServerResponse, IpAddr, Option<u16>), Failure> {
        let port = port.map_err(Failure::Sockets)?;
        let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
        let answer = self.succeed("SETUP", url, &[("Transport", &transport)]).await?;
        let stated = answer.headers.first("Transport").unwrap_or_default();
        let reply = Reply::read(stated);
        if reply.is_tcp {
            return Err(Failure::transport(stated));
        }
        let source = reply.source.filter(|source| source.is_ipv4() == server.is_ipv4()).unwrap_or(server);
        Ok((answer, source, reply.server_ports.map(|(_, rtcp)| rtcp)))
    }

    async fn set_up_tcp(&mut self, index: usize, url: &str) -> Result<(Way, ServerResponse), Failure> {
        let channel = (index * 2) as u8;
        let transport = format!("RTP/AVP/TCP;unicast;interleaved={channel}-{}", channel + 1);
        let answer = self.succeed("SETUP", url, &[("Transport", &transport)]).await?;
        let stated = answer.headers.first("Transport").unwrap_or_default();
        let reply = Reply::read(stated);
        if !reply.is_tcp {
            return Err(Failure::transport(stated));
        }
        let (rtp, rtcp) = reply.channels.unwrap_or((channel, channel + 1));
        Ok((Way::Interleaved { rtp, rtcp }, answer))
    }

    /// Reads the `Session` header of a response: identifier and timeout (RFC 2326 section 12.37).
    fn read_session(&mut self, answer: &ServerResponse) {
        let Some(value) = answer.headers.first("Session") else { return };
        let (id, parameters) = value.split_once(';').unwrap_or((value, ""));
        self.id = Some(id.trim().chars().take(LONGEST_ID).collect());
        let timeout = parameters.split(';').find_map(|part| part.trim().strip_prefix("timeout="));
        if let Some(seconds) = timeout.and_then(|seconds| seconds.trim().parse().ok()) {
            self.keep_alive = Duration::from_secs(u64::min(seconds, 3600)).mul_f64(0.4);
        } else {
            self.keep_alive = Duration::from_secs(24); // 40 % of the default timeout, a minute
        }
        self.keep_alive = self.keep_alive.max(LEAST_KEEP_ALIVE);
    }

    /// Sends PLAY from a position. Packets are held until the response.
    pub(super) async fn start(&mut self, position_us: u64) -> Result<(), Failure> {
        let now_us = self.shared.clock.now_us();
        for track in &mut self.tracks {
            track.has_ended = false;
            track.judge.as_mut().into_iter().for_each(|judge| judge.ask(now_us));
        }
        let range = NptRange { start: Some(Npt::At(position_us)), end: None }.to_string();
        let url = self.description.url.clone();
        if self.discards {
            return self.send_in_session("PLAY", &url, &[("Range", &range)]);
        }
        let answer = self.succeed("PLAY", &url, &[("Range", &range)]).await?;
        let firsts = first_sequences(answer.headers.list("RTP-Info"));
        let known = firsts.len() == self.tracks.len();
        for (index, track) in self.tracks.iter_mut().enumerate() {
            let first = firsts.get(index).copied().flatten().filter(|_| known);
            for change in track.judge.as_mut().map(|judge| judge.play(first)).unwrap_or_default() {
                self.shared.totals.change(&change);
            }
        }
        self.playing_since_us.get_or_insert(self.shared.clock.now_us());
        if !self.plan.judged && self.shared.options.transport == Transport::Tcp {
            self.discards = true;
            self.connection.discard_from_now_on().map_err(Failure::Connection)?;
        }
        Ok(())
    }

    /// Sends PAUSE, and then PLAY from another position.
    pub(super) async fn seek(&mut self, position_us: u64) -> Result<(), Failure> {
        let now_us = self.shared.clock.now_us();
        let url = self.description.url.clone();
        for judge in self.tracks.iter_mut().filter_map(|track| track.judge.as_mut()) {
            judge.stop(now_us, false);
        }
        if self.discards {
            self.send_in_session("PAUSE", &url, &[])?;
        } else {
            // A server that cannot pause may still play from another position.
            self.exchange("PAUSE", &url, &[]).await?;
        }
        self.seeks += 1;
        self.start(position_us).await
    }

    /// Sends TEARDOWN. The result does not matter any more.
    pub(super) async fn tear_down(&mut self) {
        let url = self.description.url.clone();
        if self.discards {
            if self.send_in_session("TEARDOWN", &url, &[]).is_ok() {
                self.connection.finish(GOODBYE).await;
            }
        } else {
            _ = self.exchange_within(GOODBYE, "TEARDOWN", &url, &[]).await;
        }
    }

    /// Sends a request without waiting for the response.
    pub(super) fn send_in_session(
        &mut self,
        method: &'static str,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<(), Failure> {
        let mut headers = headers.to_vec();
        headers.extend(self.id.as_deref().map(|id| ("Session", id)));
        self.connection.request(method, url, &headers).map(drop)
    }

    /// Sends a request and waits for a response with status 2xx.
    async fn succeed(
        &mut self,
        method: &'static str,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<ServerResponse, Failure> {
        let response = self.exchange(method, url, headers).await?;
        match response.status {
            200..300 => Ok(response),
            status => Err(Failure::refused(method, status, &response.reason)),
        }
    }

    async fn exchange(
        &mut self,
        method: &'static str,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<ServerResponse, Failure> {
        self.exchange_within(self.shared.options.timeout, method, url, headers).await
    }

    /// Sends a request and waits for its response. Media are received meanwhile.
    async fn exchange_within(
        &mut self,
        limit: Duration,
        method: &'static str,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<ServerResponse, Failure> {
        let deadline = Instant::now() + limit;
        let mut headers = headers.to_vec();
        let id = self.id.clone();
        headers.extend(id.as_deref().map(|id| ("Session", id)));
        let cseq = self.connection.request(method, url, &headers)?.to_string();
        loop {
            match self.event(deadline).await? {
                // Responses to keep-alives may come first. A server that sends no CSeq is assumed to respond
                // in order.
                Event::Response(response)
                    if response.headers.first("CSeq").is_none_or(|number| number == cseq) =>
                {
                    return Ok(response);
                }
                Event::Response(_) | Event::Received => {}
                Event::Deadline => return Err(Failure::Timeout(method)),
                Event::Stop => return Err(Failure::Stopped),
            }
        }
    }
}
