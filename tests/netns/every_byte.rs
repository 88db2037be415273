//! Every byte through every data path, over links of every kind.
//!
//! ```text
//!   client                              server
//!   10.77.0.2/24 veth ---------- veth 10.77.0.1/24
//!                 (segments, or not; checksums, or not; MTU)
//! ```

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_datapath::calibration::Host;
use wirepath_datapath::release;
use wirepath_tests::hot::wait_for_path;
use wirepath_tests::namespace::{Link, SERVER};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::rtp::Received;
use wirepath_tests::seek::seek_twice;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        wire_sendfile_crosses_a_link => || crosses_a_link("wire_sendfile"),
        gso_writev_crosses_a_link => || crosses_a_link("gso_writev"),
        sendmmsg_crosses_a_link => || crosses_a_link("sendmmsg"),
        read_writev_crosses_a_link => || crosses_a_link("read_writev"),
        gso_zerocopy_crosses_a_link => || crosses_a_link("gso_zerocopy"),
        mmap_writev_crosses_a_link => || crosses_a_link("mmap_writev"),
        read_send_rtp_crosses_a_link => || crosses_a_link("read_send_rtp"),
        mmap_send_rtp_crosses_a_link => || crosses_a_link("mmap_send_rtp"),
        rtp_sendfile_crosses_a_link => || crosses_a_link("rtp_sendfile"),
        a_device_without_segmentation_is_served,
        a_device_without_checksums_is_served,
        a_seek_crosses_a_link_from_the_right_byte,
        wire_sendfile_seeks_across_a_link => || seeks_across_a_link("wire_sendfile", "gso_writev"),
        gso_writev_seeks_across_a_link => || seeks_across_a_link("gso_writev", "gso_writev"),
        sendmmsg_seeks_across_a_link => || seeks_across_a_link("sendmmsg", "sendmmsg"),
        read_writev_seeks_across_a_link => || seeks_across_a_link("read_writev", "read_writev"),
        a_smaller_mtu_costs_a_session_one_step,
        packets_fit_a_small_mtu,
    ]
}

/// Promise: Through each data path, a receiver gets every packet in order, and the payloads equal the file.
fn crosses_a_link(path: &str) -> Result<()> {
    TestBed::new(&[])?.ensure_whole(&["--path", path])
}

/// Promise: A seek sends from the right byte through each data path, before and during playback.
///
/// Seeks by one data path, and by `then` in a session that has played.
fn seeks_across_a_link(path: &str, then: &str) -> Result<()> {
    TestBed::new(&[])?.seek(&["--path", path], [path, then])
}

fn a_device_without_segmentation_is_served() -> Result<()> {
    TestBed::new(&["ethtool -K veth tx-udp-segmentation off"])?.ensure_whole(&[])
}

/// Promise: On a route without segmentation, a session steps down by one path, and other sessions keep
/// theirs.
///
/// A payload sent by reference would be read after all to make its checksum, so it is copied; by a device
/// that the kernel makes segments for, from Linux 6.12 on.
fn a_device_without_checksums_is_served() -> Result<()> {
    let bed = TestBed::new(&["ethtool -K veth tx off"])?;
    let segments = release(&Host::this().kernel).is_none_or(|release| release >= (6, 12));
    let [by_copy, by_reference] = if segments { ["gso_writev", "wire_sendfile"] } else { ["sendmmsg"; 2] };
    bed.ensure_whole_by(by_copy, &[])?;
    bed.ensure_whole_by(by_reference, &["--path", "wire_sendfile"])
}

/// Promise: An RTP packet holds 7 transport packets, or fewer if the path MTU requires it.
///
/// 1,000 bytes hold an IPv4, a UDP and an RTP header and five transport packets, not seven.
fn packets_fit_a_small_mtu() -> Result<()> {
    let bed = TestBed::new(&["ip link set veth mtu 1000"])?;
    let received = bed.play(&[])?;
    ensure_bytes(&received, &bed.stored)?;
    let longest = received.packets.iter().map(|packet| packet.payload.len()).max();
    ensure!(longest == Some(5 * 188), "payloads of {longest:?} bytes");
    Ok(())
}

/// Promise: A seek starts at the random access point at or before the time, or exactly there if none is
/// needed.
fn a_seek_crosses_a_link_from_the_right_byte() -> Result<()> {
    TestBed::new(&[])?.seek(&[], ["wire_sendfile", "gso_writev"])
}

/// Promise: On a route without segmentation, a session steps down by one path, and other sessions keep
/// theirs.
///
/// The device's MTU falls below the size of packets that are playing: no segments any more, but packets in
/// fragments. Whoever comes then gets packets that fit, by the path that is best.
fn a_smaller_mtu_costs_a_session_one_step() -> Result<()> {
    let bed = TestBed::new(&[])?;
    let server = bed.server(&["--images", "all"])?;
    let status = || bed.link.client.enter(|| server.status());
    // The image is complete after the first playback.
    let mut playback = bed.session(&server)?;
    playback.play(None)?;
    playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    playback.ask("TEARDOWN")?;
    let mut playback = bed.session(&server)?;
    playback.play(None)?;
    wait_for_path("wire_sendfile", status)?;
    bed.link.server.ip("link set veth mtu 1300")?;
    wait_for_path("sendmmsg", status)?;
    let exceptions = status()?["data_path"]["exceptions"].clone();
    // A train may have been lent before.
    let is_it = |exception: &&serde_json::Value| exception["name"] == "sendmmsg";
    let exception = exceptions.as_array().and_then(|exceptions| exceptions.iter().find(is_it));
    let exception = exception.with_context(|| format!("{exceptions}"))?;
    ensure!(exception["local"] == SERVER.to_string(), "{exceptions}");
    let reason = exception["reason"].as_str().context("no reason")?;
    ensure!(reason.contains("wire_sendfile failed on a route from"), "{reason}");
    let is_of_loan = |exception: &serde_json::Value| {
        exception["reason"].as_str().is_some_and(|reason| reason.starts_with("wire_mapping failed"))
    };
    let mut others = exceptions.as_array().into_iter().flatten().filter(|exception| !is_it(exception));
    ensure!(others.all(is_of_loan), "{exceptions}");
    let mut second = bed.session(&server)?;
    second.play(None)?;
    // The first session goes on by single packets, the second by segments: by which path depends on whether its image,
    // of smaller packets, is there.
    let paths_in_use = || -> Result<Option<()>> {
        let sessions = status()?["sessions"].clone();
        let sessions = sessions.as_array().context("no sessions")?;
        let playing = sessions.iter().filter(|session| session["packets"] != 0);
        let by_packets = |session: &&serde_json::Value| session["data_path"] == "sendmmsg";
        let (single, segments): (Vec<_>, Vec<_>) = playing.partition(by_packets);
        Ok((single.len() == 1 && segments.len() == 1).then_some(()))
    };
    Deadline::seconds(5.0).wait_for("one session by single packets and one by segments", paths_in_use)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure_bytes(&received, &bed.stored).context("the session that stepped down")?;
    let longest = |received: &Received| received.packets.iter().map(|packet| packet.payload.len()).max();
    ensure!(longest(&received) == Some(7 * 188), "its packets became shorter");
    let received = second.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure_bytes(&received, &bed.stored).context("the session that came later")?;
    ensure!(longest(&received) == Some(6 * 188), "{:?} bytes in 1300", longest(&received));
    ensure!(!server.process.log().contains("panicked"), "{}", server.process.log());
    Ok(())
}

struct TestBed {
    link: Link,
    folder: tempfile::TempDir,
    stored: Vec<u8>,
    pictures: Vec<clips::Picture>,
}

impl TestBed {
    /// Two namespaces; the commands set up the server's end.
    fn new(commands: &[&str]) -> Result<Self> {
        let link = Link::new()?;
        for command in commands {
            link.server.run(command)?;
        }
        let clip = clips::constant(6)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        Ok(Self { link, folder, stored: std::fs::read(&clip)?, pictures: clips::pictures(&clip)? })
    }

    fn ensure_whole(&self, arguments: &[&str]) -> Result<()> {
        ensure_bytes(&self.play(arguments)?, &self.stored)
    }

    /// The same, and that this path is in use.
    fn ensure_whole_by(&self, path: &str, arguments: &[&str]) -> Result<()> {
        let server = self.server(arguments)?;
        let mut playback = self.session(&server)?;
        playback.play(None)?;
        wait_for_path(path, || self.link.client.enter(|| server.status()))?;
        ensure_bytes(&playback.receiver.to_the_end(Deadline::seconds(15.0))?, &self.stored)
    }

    /// Seeks twice, by the paths of which each `--path` consists for that.
    fn seek(&self, arguments: &[&str], paths: [&str; 2]) -> Result<()> {
        let server = self.server(arguments)?;
        let mut playback = self.session(&server)?;
        seek_twice(&mut playback, &self.stored, &self.pictures, |seek| {
            wait_for_path(paths[seek], || self.link.client.enter(|| server.status()))
        })
    }

    fn play(&self, arguments: &[&str]) -> Result<Received> {
        let server = self.server(arguments)?;
        let mut playback = self.session(&server)?;
        playback.play(None)?;
        playback.receiver.to_the_end(Deadline::seconds(15.0))
    }

    fn server(&self, arguments: &[&str]) -> Result<Server> {
        let server = Server::of(self.folder.path()).with(arguments).packed();
        server.inside(&self.link.server, &SERVER.to_string()).start()
    }

    /// A session that is about to play.
    fn session(&self, server: &Server) -> Result<Playback> {
        Playback::set_up_inside(&self.link.client, server.rtsp, "clip.ts")
    }
}
