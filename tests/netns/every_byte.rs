//! Every byte through every data path, over links of every kind.
//!
//! ```text
//!   client                              server
//!   10.77.0.2/24 veth ---------- veth 10.77.0.1/24
//!                 (segments, or not; checksums, or not; MTU)
//! ```

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::namespace::{Link, SERVER};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::rtp::Received;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        wire_sendfile_crosses_a_link,
        gso_writev_crosses_a_link,
        sendmmsg_crosses_a_link,
        read_writev_crosses_a_link,
        gso_zerocopy_crosses_a_link,
        mmap_writev_crosses_a_link,
        read_send_rtp_crosses_a_link,
        mmap_send_rtp_crosses_a_link,
        rtp_sendfile_crosses_a_link,
        a_device_without_segmentation_is_served,
        a_device_without_checksums_is_served,
        a_seek_crosses_a_link_from_the_right_byte,
        packets_fit_a_small_mtu,
    ]
}

fn wire_sendfile_crosses_a_link() -> Result<()> {
    Stage::new(&[])?.ensure_whole(&["--path", "wire_sendfile"])
}

fn gso_writev_crosses_a_link() -> Result<()> {
    Stage::new(&[])?.ensure_whole(&["--path", "gso_writev"])
}

fn sendmmsg_crosses_a_link() -> Result<()> {
    Stage::new(&[])?.ensure_whole(&["--path", "sendmmsg"])
}

fn read_writev_crosses_a_link() -> Result<()> {
    Stage::new(&[])?.ensure_whole(&["--path", "read_writev"])
}

fn gso_zerocopy_crosses_a_link() -> Result<()> {
    Stage::new(&[])?.ensure_whole(&["--path", "gso_zerocopy"])
}

fn mmap_writev_crosses_a_link() -> Result<()> {
    Stage::new(&[])?.ensure_whole(&["--path", "mmap_writev"])
}

fn read_send_rtp_crosses_a_link() -> Result<()> {
    Stage::new(&[])?.ensure_whole(&["--path", "read_send_rtp"])
}

fn mmap_send_rtp_crosses_a_link() -> Result<()> {
    Stage::new(&[])?.ensure_whole(&["--path", "mmap_send_rtp"])
}

fn rtp_sendfile_crosses_a_link() -> Result<()> {
    Stage::new(&[])?.ensure_whole(&["--path", "rtp_sendfile"])
}

fn a_device_without_segmentation_is_served() -> Result<()> {
    Stage::new(&["ethtool -K veth tx-udp-segmentation off"])?.ensure_whole(&[])
}

fn a_device_without_checksums_is_served() -> Result<()> {
    let stage = Stage::new(&["ethtool -K veth tx off"])?;
    stage.ensure_whole(&[])?;
    stage.ensure_whole(&["--path", "wire_sendfile"]) // refused, and told in a way of its own, before Linux 6.12
}

/// 1,000 bytes hold an IPv4, a UDP and an RTP header and five transport packets, not seven.
fn packets_fit_a_small_mtu() -> Result<()> {
    let stage = Stage::new(&["ip link set veth mtu 1000"])?;
    let received = stage.play(&[], None)?;
    ensure_bytes(&received, &stage.stored)?;
    let longest = received.packets.iter().map(|packet| packet.payload.len()).max();
    ensure!(longest == Some(5 * 188), "payloads of {longest:?} bytes");
    Ok(())
}

fn a_seek_crosses_a_link_from_the_right_byte() -> Result<()> {
    let stage = Stage::new(&[])?;
    let received = stage.play(&[], Some("npt=3.5-"))?;
    ensure!(received.errors.is_empty() && received.gaps().is_empty(), "{:?}", received.gaps());
    ensure!(stage.stored.ends_with(&received.payload), "other bytes came");
    let start = stage.stored.len() - received.payload.len();
    let asked = 3.5 * clips::CONSTANT_RATE / 8.0;
    let is_before = |picture: &&clips::Picture| picture.is_key && picture.offset as f64 <= asked;
    let key = stage.pictures.iter().rfind(is_before).context("no key picture")?.offset as usize;
    // The tables before the picture may come along.
    ensure!(start <= key && key - start <= 4 * 188, "began at byte {start}, the key picture at {key}");
    Ok(())
}

struct Stage {
    link: Link,
    folder: tempfile::TempDir,
    stored: Vec<u8>,
    pictures: Vec<clips::Picture>,
}

impl Stage {
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
        ensure_bytes(&self.play(arguments, None)?, &self.stored)
    }

    fn play(&self, arguments: &[&str], range: Option<&str>) -> Result<Received> {
        let server = Server::of(self.folder.path()).with(arguments);
        let server = server.inside(&self.link.server, &SERVER.to_string()).start()?;
        let mut playback = Playback::set_up_inside(&self.link.client, server.rtsp, "clip.ts")?;
        playback.play(range)?;
        playback.receiver.to_the_end(Deadline::seconds(15.0))
    }
}
