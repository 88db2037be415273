//! Multicast over RTSP: one sender for all who ask for a group.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;
use wirepath_tests::http::Response;
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::rtp::{Received, Receiver};
use wirepath_tests::rtsp::{Client, parameter};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, process, trials};

use crate::recordings::{append, parts, pictures};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        sessions_of_an_asset_share_one_sender,
        a_sender_rests_while_all_members_pause,
        the_last_member_ends_the_sender,
        a_sender_at_its_end_frees_its_group,
        one_address_does_not_take_all_groups,
        all_tracks_of_a_movie_go_to_the_group,
        sessions_of_a_channel_share_one_sender,
        a_recording_is_sent_from_now_on => || unless_overloaded(a_recording_is_sent_from_now_on),
    ]
}

/// Port of the first track.
const PORT: u16 = 5004;

/// A server of a clip of 6 s and a movie, with this many groups from `first`.
struct TestBed {
    server: Server,
    first: Ipv4Addr,
    _folder: TempDir,
}

impl TestBed {
    fn with(first: [u8; 4], groups: u32) -> Result<TestBed> {
        let movie = clips::film(6, "libx264", "aac", "mp4")?;
        let folder = clips::folder(&[("clip.ts", &clips::constant(6)?), ("film.mp4", &movie)])?;
        let first = Ipv4Addr::from(first);
        let last = Ipv4Addr::from_bits(first.to_bits() + groups - 1);
        let option = format!("{first}-{last}:{PORT}?ttl=3&interface=127.0.0.1");
        let server = Server::of(folder.path()).with(["--multicast", &option]).start()?;
        Ok(TestBed { server, first, _folder: folder })
    }

    fn member(&self, asset: &str) -> Result<Member> {
        Member::set_up(&self.server, asset, "")
    }
}

/// A session that asked for the group.
struct Member {
    client: Client,
    url: String,
    session: String,
    transport: String,
}

/// Offer of a client that names no address of its own choice.
const OFFER: (&str, &str) = ("Transport", "RTP/AVP;multicast");

impl Member {
    fn set_up(server: &Server, asset: &str, track: &str) -> Result<Member> {
        let (mut client, url) = (Client::connect(server.rtsp)?, server.rtsp_url(asset));
        let answer = client.succeed("SETUP", &format!("{url}{track}"), &[OFFER])?;
        let session = answer.header("session").context("no session")?;
        let session = session.split(';').next().unwrap_or_default().to_owned();
        let transport = answer.header("transport").context("no transport")?.to_owned();
        Ok(Member { client, url, session, transport })
    }

    fn succeed(&mut self, method: &str, fields: &[(&str, &str)]) -> Result<Response> {
        let fields = [&[("Session", self.session.as_str())][..], fields].concat();
        self.client.succeed(method, &self.url, &fields)
    }

    /// Plays from the beginning if it can be chosen; returns where it does, in seconds.
    fn play(&mut self) -> Result<f64> {
        let answer = self.succeed("PLAY", &[("Range", "npt=0-"), ("Speed", "2")])?;
        ensure!(answer.header("speed").is_some_and(|speed| speed.parse::<f64>() == Ok(1.0)), "{answer:?}");
        let range = answer.header("range").context("no range")?;
        let start = range.strip_prefix("npt=").and_then(|range| range.split_once('-'));
        Ok(start.with_context(|| range.to_owned())?.0.parse()?)
    }
}

fn wait_for_media(receiver: &Receiver, seconds: f64) -> Result<()> {
    let deadline = Deadline::seconds(10.0);
    receiver.wait_for("media", deadline, |received| received.seconds() > seconds).map(drop)
}

fn ensure_whole(receiver: &Receiver) -> Result<usize> {
    let received = receiver.to_the_end(Deadline::seconds(20.0))?;
    let stored = std::fs::read(clips::constant(6)?)?;
    let (came, gaps) = (received.payload.len(), received.gaps());
    ensure!(received.payload == stored, "{came} of {} bytes came, gaps {gaps:?}", stored.len());
    Ok(received.packets.len())
}

/// Promise: Sessions that request multicast share one sender; each begins at its position, and packets leave
/// once.
fn sessions_of_an_asset_share_one_sender() -> Result<()> {
    let bed = TestBed::with([239, 255, 77, 1], 2)?;
    let receiver = Receiver::join(bed.first, PORT)?;
    let mut first = bed.member("clip.ts")?;
    let said = |key| parameter(&first.transport, key);
    ensure!(first.transport.starts_with("RTP/AVP;multicast;"), "{}", first.transport);
    ensure!(
        said("destination") == Some("239.255.77.1")
            && said("port") == Some("5004-5005")
            && said("ttl") == Some("3"),
        "{}",
        first.transport
    );
    ensure!(first.play()? == 0.0);
    wait_for_media(&receiver, 1.0)?;
    let mut second = bed.member("clip.ts")?;
    ensure!(second.transport == first.transport, "{}", second.transport);
    let joined_s = second.play()?;
    ensure!((0.5..5.0).contains(&joined_s), "the second began at {joined_s} s");
    first.succeed("TEARDOWN", &[])?;
    let packets = ensure_whole(&receiver)?;
    let received = receiver.received();
    let ssrc = format!("{:08X}", received.packets[0].ssrc);
    ensure!(parameter(&second.transport, "ssrc") == Some(&ssrc), "{ssrc}: {}", second.transport);
    ensure!(!received.reports.is_empty(), "no sender report");
    let status = bed.server.status()?;
    ensure!(status["counters"]["playback"]["packets"] == packets, "{packets} packets came: {status}");
    ensure!(status["sessions"][0]["transport"] == "multicast", "{status}");

    // It is over; who asks now gets a sender that begins anew.
    ensure!(bed.member("clip.ts")?.play()? == 0.0);
    Ok(())
}

/// Promise: PAUSE of a member stops the sender only if no other member plays; PLAY continues at its position.
fn a_sender_rests_while_all_members_pause() -> Result<()> {
    let bed = TestBed::with([239, 255, 77, 11], 1)?;
    let receiver = Receiver::join(bed.first, PORT)?;
    let (mut first, mut second) = (bed.member("clip.ts")?, bed.member("clip.ts")?);
    first.play()?;
    second.play()?;
    wait_for_media(&receiver, 1.0)?;
    first.succeed("PAUSE", &[])?;
    wait_for_media(&receiver, 2.0)?;
    second.succeed("PAUSE", &[])?;
    ensure!(receiver.falls_silent_within(2.0), "packets come though all members rest");
    let again_s = first.play()?;
    ensure!(again_s > 1.5, "it goes on at {again_s} s");
    ensure_whole(&receiver).map(drop)
}

/// Promise: When the last member leaves, the sender ends with BYE, and its group is free for another asset.
fn the_last_member_ends_the_sender() -> Result<()> {
    let bed = TestBed::with([239, 255, 77, 21], 1)?;
    let receiver = Receiver::join(bed.first, PORT)?;
    let (mut first, mut second) = (bed.member("clip.ts")?, bed.member("clip.ts")?);
    first.play()?;
    second.play()?;
    wait_for_media(&receiver, 0.5)?;
    let mut third = Client::connect(bed.server.rtsp)?;
    let url = bed.server.rtsp_url("film.mp4/track1");
    let full = third.request("SETUP", &url, &[OFFER])?;
    ensure!(full.status == 453, "{full:?}");
    drop(first); // its connection ends
    wait_for_media(&receiver, 1.5)?;
    second.succeed("TEARDOWN", &[])?;
    let received = receiver.to_the_end(Deadline::seconds(5.0))?;
    ensure!(received.payload.len() < std::fs::metadata(clips::constant(6)?)?.len() as usize);
    let answer = third.succeed("SETUP", &url, &[OFFER])?;
    let transport = answer.header("transport").context("no transport")?;
    ensure!(parameter(transport, "destination") == Some("239.255.77.21"), "{transport}");
    Ok(())
}

/// Promise: At the end of its asset a sender frees its group, even if members stay.
fn a_sender_at_its_end_frees_its_group() -> Result<()> {
    let bed = TestBed::with([239, 255, 77, 51], 1)?;
    let receiver = Receiver::join(bed.first, PORT)?;
    let mut member = bed.member("clip.ts")?;
    member.play()?;
    receiver.to_the_end(Deadline::seconds(20.0))?;
    let other = Member::set_up(&bed.server, "film.mp4", "/track1")?;
    ensure!(parameter(&other.transport, "destination") == Some("239.255.77.51"), "{}", other.transport);
    member.succeed("GET_PARAMETER", &[])?;
    Ok(())
}

/// Promise: One address takes a quarter of the multicast groups at most; it joins those of others, who have the rest.
fn one_address_does_not_take_all_groups() -> Result<()> {
    let bed = TestBed::with([239, 255, 77, 61], 4)?;
    let url = bed.server.rtsp_url("film.mp4/track1");
    let member = bed.member("clip.ts")?;
    let mut client = Client::connect(bed.server.rtsp)?;
    let full = client.request("SETUP", &url, &[OFFER])?;
    ensure!(full.status == 453, "{full:?}");
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into())?;
    socket.connect(&bed.server.rtsp.into())?;
    let mut neighbour = Client::over(socket.into());
    let answer = neighbour.succeed("SETUP", &url, &[OFFER])?;
    let destination = |answer: &Response| {
        let transport = answer.header("transport").unwrap_or_default();
        parameter(transport, "destination").unwrap_or_default().to_owned()
    };
    ensure!(destination(&answer) == "239.255.77.62", "{answer:?}");
    ensure!(destination(&client.succeed("SETUP", &url, &[OFFER])?) == "239.255.77.62", "a joiner");
    drop(member);
    Ok(())
}

/// Promise: Sessions of a channel that request multicast share one sender, which is at the channel's position.
fn sessions_of_a_channel_share_one_sender() -> Result<()> {
    let (one, two) = (clips::constant(2)?, clips::variable(2)?);
    let folder = clips::folder(&[("one.ts", &one), ("two.ts", &two)])?;
    let list = folder.path().join("news.m3u");
    std::fs::write(&list, "one.ts\ntwo.ts\n")?;
    let (group, channel) = (Ipv4Addr::new(239, 255, 77, 71), format!("tv/news={}", list.display()));
    let groups = format!("{group}-{group}:{PORT}?interface=127.0.0.1");
    let server = Server::of(folder.path()).with(["--multicast", &groups, "--channel", &channel]).start()?;
    let receiver = Receiver::join(group, PORT)?;
    let play = |member: &mut Member| {
        let answer = member.succeed("PLAY", &[("Range", "npt=0-")])?;
        ensure!(answer.header("range") == Some("npt=now-"), "{answer:?}");
        Ok(())
    };

    let mut first = Member::set_up(&server, "tv/news", "")?;
    play(&mut first)?;
    wait_for_media(&receiver, 1.0)?;
    let mut second = Member::set_up(&server, "TV/news", "")?;
    ensure!(second.transport == first.transport, "{}", second.transport);
    play(&mut second)?;
    first.succeed("TEARDOWN", &[])?;
    // More than one loop: over a joint, and from the end of the list to its beginning.
    let stored = [std::fs::read(&one)?, std::fs::read(&two)?].concat();
    let enough = |received: &Received| received.payload.len() > stored.len() + stored.len() / 2;
    let received = receiver.wait_for("loops", Deadline::seconds(60.0), enough)?;
    ensure!(received.gaps().is_empty() && received.errors.is_empty(), "{:?}", received.gaps());
    let loops = stored.repeat(4);
    ensure!(loops.windows(received.payload.len()).any(|part| part == received.payload), "other bytes");
    let reported = receiver.wait_for("a report", Deadline::seconds(20.0), |came| !came.reports.is_empty())?;
    ensure!(reported.reports[0].ssrc == received.packets[0].ssrc, "{:?}", reported.reports);

    // Without a member that plays nothing is sent; then the sender is where the channel is, and its numbers go on.
    second.succeed("PAUSE", &[])?;
    ensure!(receiver.falls_silent_within(2.0), "packets come though all members rest");
    let before = receiver.received().packets.len();
    play(&mut second)?;
    let came =
        receiver.wait_for("more", Deadline::seconds(20.0), |came| came.packets.len() > before + 100)?;
    ensure!(came.gaps().is_empty(), "{:?}", came.gaps());
    let status = server.status()?;
    ensure!(status["sessions"][0]["transport"] == "multicast", "{status}");
    Ok(())
}

/// Promise: Each track of a movie has two ports of its group.
fn all_tracks_of_a_movie_go_to_the_group() -> Result<()> {
    let bed = TestBed::with([239, 255, 77, 31], 1)?;
    let tracks = [Receiver::join(bed.first, PORT)?, Receiver::join(bed.first, PORT + 2)?];
    let mut member = Member::set_up(&bed.server, "film.mp4", "/track1")?;
    let second = format!("{}/track2", member.url);
    let fields = [("Session", member.session.as_str()), OFFER];
    let answer = member.client.succeed("SETUP", &second, &fields)?;
    let transport = answer.header("transport").context("no transport")?;
    ensure!(parameter(transport, "port") == Some("5006-5007"), "{transport}");
    member.play()?;
    for (number, track) in tracks.iter().enumerate() {
        let received = track.to_the_end(Deadline::seconds(20.0))?;
        ensure!(
            received.gaps().is_empty() && received.errors.is_empty(),
            "track {number}: {:?}",
            received.gaps()
        );
        ensure!((5.0..7.0).contains(&received.seconds()), "track {number}: {} s came", received.seconds());
        ensure!(!received.reports.is_empty(), "track {number}: no sender report");
    }
    let status: Value = bed.server.status()?;
    ensure!(status["sessions"][0]["tracks"].as_array().is_some_and(|tracks| tracks.len() == 2), "{status}");
    Ok(())
}

/// Promise: Sessions that request multicast of a recording get it from now on, by one sender, up to its end.
fn a_recording_is_sent_from_now_on() -> Result<()> {
    let parts = parts(&std::fs::read(clips::fragmented(6)?).context("reading the clip")?)?;
    let folder = process::open_folder()?;
    let path = folder.path().join("film.mp4");
    std::fs::write(&path, parts[..5].concat()).context("recording")?;
    let first = Ipv4Addr::new(239, 255, 77, 121);
    let option = format!("{first}:{PORT}?interface=127.0.0.1");
    let server = Server::of(folder.path()).with(["--multicast", &option]).start()?;
    let receiver = Receiver::join(first, PORT)?;
    let mut members = Vec::new();
    for _ in 0..2 {
        let mut member = Member::set_up(&server, "film.mp4", "/track1")?;
        let answer = member.succeed("PLAY", &[("Range", "npt=0-")])?;
        ensure!(answer.header("range") == Some("npt=now-"), "{answer:?}");
        members.push(member);
    }
    // Of four seconds, playing begins between the second and the fourth.
    let some = |received: &Received| pictures(received) >= 13;
    receiver.wait_for("pictures", Deadline::seconds(20.0), some)?;
    for part in &parts[5..] {
        append(&path, part)?;
    }
    let received = receiver.to_the_end(Deadline::seconds(20.0))?;
    let count = pictures(&received);
    ensure!(received.gaps().is_empty(), "gaps: {:?}", received.gaps());
    ensure!((50..=100).contains(&count), "{count} pictures of the last seconds");
    ensure!(server.status()?["sessions"][0]["asset"].as_str().is_some_and(|name| name == "film.mp4"));
    Ok(())
}
