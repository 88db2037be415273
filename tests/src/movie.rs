//! A raw client that receives all tracks of a presentation over UDP.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};

use crate::Deadline;
use crate::http::Response;
use crate::rtp::{Received, Receiver};
use crate::rtsp::{Client, parameter};

/// A session of all tracks of a presentation.
pub struct Movie {
    /// The control connection.
    pub client: Client,
    /// The presentation's URL.
    pub url: String,
    /// The session's identifier.
    pub session: String,
    /// Receivers of the tracks, in the order of the description.
    pub tracks: Vec<Receiver>,
    /// Ticks in a second of the tracks' timestamps.
    pub clocks: Vec<f64>,
}

impl Movie {
    /// Sets up all tracks.
    pub fn set_up(server: SocketAddr, path: &str) -> Result<Movie> {
        Self::set_up_with(server, path, &[])
    }

    /// The same with further headers in each SETUP.
    pub fn set_up_with(server: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Movie> {
        let mut client = Client::connect(server)?;
        let url = format!("rtsp://{server}/{path}");
        let answer = client.succeed("DESCRIBE", &url, &[("Accept", "application/sdp")])?;
        let description = String::from_utf8(answer.body.clone()).context("the SDP is not UTF-8")?;
        let base = answer.header("content-base").unwrap_or(&url).trim_end_matches('/').to_owned();
        let mut movie = Movie { client, url, session: String::new(), tracks: Vec::new(), clocks: Vec::new() };
        for media in description.split("\r\nm=").skip(1) {
            let value = |name: &str| media.lines().find_map(|line| line.strip_prefix(name));
            let control = value("a=control:").context("a track without a URL")?;
            let clock = value("a=rtpmap:").and_then(|map| map.split('/').nth(1)).context("a clock rate")?;
            movie.clocks.push(clock.parse()?);
            movie.set_up_track(&format!("{base}/{control}"), headers)?;
        }
        Ok(movie)
    }

    fn set_up_track(&mut self, control: &str, further: &[(&str, &str)]) -> Result<()> {
        let receiver = Receiver::bind([127, 0, 0, 1].into())?;
        let port = receiver.port()?;
        let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
        let mut headers = [&[("Transport", transport.as_str())], further].concat();
        let session = self.session.clone();
        headers.extend((!session.is_empty()).then_some(("Session", session.as_str())));
        let answer = self.client.succeed("SETUP", control, &headers)?;
        let id = answer.header("session").context("SETUP was answered without a Session")?;
        let id = id.split(';').next().unwrap_or_default();
        ensure!(session.is_empty() || session == id, "another session was answered: {id}");
        self.session = id.to_owned();
        self.tracks.push(receiver);
        Ok(())
    }

    /// Asks to play, with a Range if there is one. Answers sequence number and timestamp of each track.
    pub fn play(&mut self, range: Option<&str>) -> Result<Vec<Announced>> {
        announced(&self.request_play(range)?)
    }

    /// Asks to play, with a Range if there is one.
    pub fn request_play(&mut self, range: Option<&str>) -> Result<Response> {
        let mut headers = vec![("Session", self.session.as_str())];
        headers.extend(range.map(|range| ("Range", range)));
        self.client.succeed("PLAY", &self.url, &headers)
    }

    /// Asks to pause.
    pub fn pause(&mut self) -> Result<Response> {
        self.client.succeed("PAUSE", &self.url, &[("Session", &self.session)])
    }

    /// Waits for the BYE of each track.
    pub fn to_the_end(&self, deadline: Deadline) -> Result<Vec<Received>> {
        self.tracks.iter().map(|track| track.to_the_end(deadline)).collect()
    }
}

/// Sequence number of a track's first packet, which may be left out, and timestamp of the beginning.
pub type Announced = (Option<u16>, u32);

/// What `RTP-Info` announces for each track (RFC 2326 section 12.33).
pub fn announced(answer: &Response) -> Result<Vec<Announced>> {
    let info = answer.header("rtp-info").context("no RTP-Info")?;
    let tracks = info.split(',').map(|track| {
        let number = |key| parameter(track, key)?.parse::<u32>().ok();
        let timestamp = number("rtptime").with_context(|| format!("RTP-Info: {info}"))?;
        Ok((number("seq").map(u16::try_from).transpose().context("seq")?, timestamp))
    });
    tracks.collect()
}
