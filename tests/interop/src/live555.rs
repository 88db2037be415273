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
        Transport::Multicast => return Err(Cannot("not tried: requests multicast by its option -C").into()),
        Transport::Tls | Transport::SrtpUdp | Transport::SrtpTls => {
            return Err(Cannot("not tried: built without OpenSSL").into());
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
        let mut stream = std::fs::read(&video)?;
        splice(&mut stream);
        std::fs::write(&video, stream)?;
    }
    case.ensure_pictures(&decode(&video)?[0], bed, MISSING)
}

/// Marks the random access pictures of a stream of H.265 as those of spliced sequences (CRA as BLA pictures, ITU-T
/// H.265 section 8.1.3). Without it a decoder takes the pictures of a rewind, which count backward, for one sequence,
/// and sorts them.
fn splice(stream: &mut [u8]) {
    const CLEAN_RANDOM_ACCESS: u8 = 21 << 1;
    const BROKEN_LINK_ACCESS: u8 = 16 << 1;
    let is_random_access = |unit: &[u8]| unit == [0, 0, 1, CLEAN_RANDOM_ACCESS];
    let found = stream.windows(4).enumerate().filter(|(_, unit)| is_random_access(unit)).map(|(at, _)| at);
    for at in found.collect::<Vec<_>>() {
        stream[at + 3] = BROKEN_LINK_ACCESS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_random_access_pictures_are_marked() {
        let (set, picture, other) = ([0, 0, 1, 64, 7], [0, 0, 1, 42, 9], [0, 0, 1, 2, 42]);
        let mut stream = [set, picture, other, picture].concat();
        splice(&mut stream);
        let marked = [0, 0, 1, 32, 9];
        assert_eq!(stream, [set, marked, other, marked].concat());
    }
}
