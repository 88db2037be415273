//! openRTSP, the client of live555. It stores each track as an elementary stream.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use wirepath_tests::process::{Process, find};
use wirepath_tests::{Deadline, require};

use crate::cases::{
    Bed, Cannot, Case, Codec, LIMIT_S, Operation, REWIND, REWIND_FROM_S, SCALE, SEEK_S, Transport, decode,
    home,
};

/// Pictures at the end that may be in its buffer when the BYE comes.
const MISSING: usize = 3;

/// The program in PATH, or that of the variable `OPENRTSP`.
fn program() -> Option<PathBuf> {
    std::env::var_os("OPENRTSP").map(PathBuf::from).or_else(|| find("openRTSP"))
}

pub(crate) fn play(case: &Case, bed: &Bed) -> Result<()> {
    let program = program();
    require!(program.is_some(), "not installed");
    let server = bed.server(case)?;
    let tunnel = server.http.port().to_string();
    let transport: &[&str] = match case.transport {
        Transport::Udp => &[],
        Transport::Tcp => &["-t"],
        Transport::Tunnel => &["-T", &tunnel],
        Transport::Multicast => return Err(Cannot("does not request multicast").into()),
        Transport::Tls | Transport::SrtpUdp | Transport::SrtpTls => {
            return Err(Cannot("built without TLS").into());
        }
    };
    match (case.format.video, case.operation) {
        (Codec::Av1, _) => return Err(Cannot("has no depacketizer of AV1").into()),
        (Codec::Vp8 | Codec::Vp9, _) => {
            return Err(Cannot("stores VP8 and VP9 without a container, so they cannot be decoded").into());
        }
        (_, Operation::Pause) => return Err(Cannot("has no option to pause").into()),
        (_, Operation::Speed) => return Err(Cannot("does not request Speed").into()),
        (_, Operation::Play | Operation::Seek | Operation::Scale | Operation::Rewind) => {}
    }
    let home = home()?;
    let mut command = Command::new(program.context("no openRTSP")?);
    // It ends when nothing has come for a second. Buffers have room for a picture.
    command.current_dir(home.path()).args(["-D", "1", "-b", "1000000", "-g", &case.agent()]).args(transport);
    command.args(match case.operation {
        Operation::Seek => vec!["-s".to_owned(), SEEK_S.to_string()],
        Operation::Scale => vec!["-z".to_owned(), SCALE.to_string()],
        Operation::Rewind => {
            vec!["-z".to_owned(), REWIND.to_string(), "-s".to_owned(), REWIND_FROM_S.to_string()]
        }
        Operation::Play | Operation::Pause | Operation::Speed => vec![],
    });
    // It also takes the port of a tunnel by its option.
    let url = format!("rtsp://{}/{}{}", server.rtsp, case.format.file, case.format.query);
    let mut process = Process::start(command.arg(url), true)?;
    let (status, seen) = bed.watch(case, || process.wait(Deadline::seconds(LIMIT_S)))?;
    let video = std::fs::read_dir(home.path())?.filter_map(|entry| Some(entry.ok()?.path()));
    let video = video.into_iter().find(|file| file.to_string_lossy().contains("video-"));
    let video =
        video.with_context(|| format!("it stored no pictures, ended with {status}: {}", process.log()))?;
    let is_whole = video.to_string_lossy().contains("video-MP2T");
    ensure!(is_whole == (case.format.video == Codec::TransportStream), "it stored {}", video.display());
    ensure!(video.metadata()?.len() > 0, "it received nothing: {}", process.log());
    case.ensure_seen(&seen)?;
    if (case.format.video, case.operation) == (Codec::H265, Operation::Rewind) {
        std::fs::write(&video, with_ends(&std::fs::read(&video)?))?;
    }
    case.ensure_pictures(&decode(&video)?[0], bed, MISSING)
}

/// A stream of H.265 with an end of sequence before each of its beginnings. Without it a decoder takes the pictures
/// of a rewind, which count backward, for one sequence, and sorts them.
fn with_ends(stream: &[u8]) -> Vec<u8> {
    const VIDEO_PARAMETER_SET: u8 = 32;
    const END_OF_SEQUENCE: [u8; 5] = [0, 0, 1, 36 << 1, 1];
    let is_beginning = |unit: &[u8]| unit[..3] == [0, 0, 1] && unit[3] >> 1 == VIDEO_PARAMETER_SET;
    let beginnings = stream.windows(4).enumerate().filter(|(_, unit)| is_beginning(unit)).map(|(at, _)| at);
    let (mut ended, mut copied) = (Vec::with_capacity(stream.len()), 0);
    for at in beginnings {
        ended.extend_from_slice(&stream[copied..at]);
        ended.extend(END_OF_SEQUENCE);
        copied = at;
    }
    ended.extend_from_slice(&stream[copied..]);
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_end_before_the_next_begins() {
        let (set, picture) = ([0, 0, 1, 64, 7], [0, 0, 1, 42, 9]);
        let stream = [set, picture, set, picture].concat();
        let end = [0, 0, 1, 72, 1];
        assert_eq!(with_ends(&stream), [end, set, picture, end, set, picture].concat());
    }
}
