//! Assets of other shapes, and files that are none.

use std::path::Path;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{self, Server};
use wirepath_tests::{clips, process, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        variable_rates_play_whole,
        two_programmes_play_whole,
        the_prefix_of_192_byte_packets_is_dropped,
        a_truncated_asset_plays_as_far_as_it_goes,
        what_is_no_transport_stream_is_refused,
        the_error_names_file_and_reason,
    ]
}

/// Promise: Variable rates, several programmes, a PCR on a separate PID and PCR gaps play at the right pace.
fn variable_rates_play_whole() -> Result<()> {
    let clip = clips::variable(6)?;
    let received = play(&clip, "clip.ts")?;
    ensure_bytes(&received, &std::fs::read(&clip)?)?;
    ensure!((5.0..7.5).contains(&received.seconds()), "6 s took {:.3} s", received.seconds());
    Ok(())
}

/// Promise: Variable rates, several programmes, a PCR on a separate PID and PCR gaps play at the right pace.
fn two_programmes_play_whole() -> Result<()> {
    let clip = clips::two_programmes(4)?;
    ensure_bytes(&play(&clip, "clip.ts")?, &std::fs::read(&clip)?)
}

/// Promise: Transport packets of 188, 192 and 204 bytes are read; 188 bytes are sent.
fn the_prefix_of_192_byte_packets_is_dropped() -> Result<()> {
    let clip = clips::timestamped(4)?;
    let stored = std::fs::read(&clip)?;
    ensure!(stored.len() % 192 == 0 && stored[4] == 0x47, "the clip has no 192-byte packets");
    let expected: Vec<u8> = stored.chunks_exact(192).flat_map(|packet| &packet[4..]).copied().collect();
    ensure_bytes(&play(&clip, "clip.m2ts")?, &expected)
}

/// Promise: A truncated or damaged file plays as far as possible, with a warning.
fn a_truncated_asset_plays_as_far_as_it_goes() -> Result<()> {
    let folder = process::open_folder()?;
    let stored = std::fs::read(clips::constant(4)?)?;
    let half = &stored[..stored.len() / 2 / 188 * 188 + 100];
    std::fs::write(folder.path().join("clip.ts"), half)?;
    let server = Server::of(folder.path()).start()?;
    let received = Playback::whole(server.rtsp, "clip.ts", 15.0)?;
    ensure_bytes(&received, &half[..half.len() / 188 * 188])
}

/// Promise: A file that is not a transport stream or has no PCR is refused with file, offset and reason.
fn what_is_no_transport_stream_is_refused() -> Result<()> {
    let folder = process::open_folder()?;
    std::fs::write(folder.path().join("empty.ts"), b"")?;
    std::fs::write(folder.path().join("text.ts"), b"this is a text\n".repeat(10_000))?;
    let server = Server::of(folder.path()).start()?;
    for name in ["empty.ts", "text.ts"] {
        let mut client = Client::connect(server.rtsp)?;
        let answer = client.request("DESCRIBE", &server.rtsp_url(name), &[])?;
        ensure!((400..600).contains(&answer.status), "{name}: {answer:?}");
    }
    Ok(())
}

/// Promise: A file that cannot be inspected is named, with the reason.
fn the_error_names_file_and_reason() -> Result<()> {
    let folder = process::open_folder()?;
    let file = folder.path().join("text.ts");
    std::fs::write(&file, b"this is a text\n".repeat(10_000))?;
    let mut command = std::process::Command::new(server::binary()?);
    let mut process = process::Process::start(command.arg("inspect").arg(&file), true)?;
    let status = process.wait(wirepath_tests::Deadline::seconds(10.0))?;
    let log = process.log();
    ensure!(
        !status.success() && log.contains("text.ts") && log.contains("transport stream"),
        "{status}: {log}"
    );
    ensure!(!log.contains("panicked"), "{log}");
    Ok(())
}

fn play(clip: &Path, name: &str) -> Result<wirepath_tests::rtp::Received> {
    let folder = clips::folder(&[(name, clip)])?;
    let server = Server::of(folder.path()).start()?;
    Playback::whole(server.rtsp, name, 20.0)
}
