//! retina, a client and depacketizer in Rust: it gives samples, which are compared byte for byte.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use md5::{Digest, Md5};
use retina::client::{PlayOptions, Session, SessionOptions, SetupOptions};
use retina::codec::{CodecItem, FrameFormat};
use wirepath_tests::frames;
use wirepath_tests::process::run;

use crate::cases::{Bed, Cannot, Case, Codec, LIMIT_S, Operation, Transport, home};

/// Samples at the end that may be missing: a picture is complete when the next begins, unless its last packet
/// is marked.
const MISSING: usize = 1;

pub(crate) fn play(case: &Case, bed: &Bed) -> Result<()> {
    match case.operation {
        Operation::Play => {}
        Operation::Pause => return Err(Cannot("has no pause").into()),
        Operation::Seek => return Err(Cannot("has no seek").into()),
        Operation::Speed | Operation::Scale | Operation::Rewind => {
            return Err(Cannot("requests neither Speed nor Scale").into());
        }
    }
    let transport = match case.transport {
        Transport::Udp => retina::client::Transport::Udp(Default::default()),
        Transport::Tcp => retina::client::Transport::Tcp(Default::default()),
        Transport::Tunnel => return Err(Cannot("has no tunnel").into()),
        Transport::Multicast => return Err(Cannot("has no multicast").into()),
        Transport::Tls | Transport::SrtpUdp | Transport::SrtpTls => {
            return Err(Cannot("has no TLS").into());
        }
    };
    // Of the sound that it has a depacketizer for, only AAC is divided into samples as the file is.
    let has_sound = case.format.audio == Some(Codec::Aac);
    if !matches!(case.format.video, Codec::H264 | Codec::H265) {
        return Err(Cannot("has no depacketizer").into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let url = bed.url(case)?;
    let agent = case.agent();
    let (came, seen) = bed.watch(case, || {
        let samples = Samples::receive(&url, &agent, &transport, has_sound);
        let limited = async { tokio::time::timeout(Duration::from_secs_f64(LIMIT_S), samples).await };
        runtime.block_on(limited).context("it did not end in time")?
    })?;
    case.ensure_seen(&seen)?;
    let home = home()?;
    let file = in_mp4(bed.file(&case.format), home.path())?;
    ensure_equal(&came.pictures, &stored(&file, case, "0:v:0")?).context("pictures")?;
    if has_sound {
        ensure_equal(&came.sound, &stored(&file, case, "0:a:0")?).context("sound")?;
    }
    Ok(())
}

/// Packet type of an RTCP BYE (RFC 3550 section 6.6).
const BYE: u8 = 203;

/// MD5 of each sample that came.
#[derive(Default)]
struct Samples {
    pictures: Vec<String>,
    sound: Vec<String>,
}

impl Samples {
    /// Plays to the end.
    async fn receive(
        url: &str,
        agent: &str,
        transport: &retina::client::Transport,
        has_sound: bool,
    ) -> Result<Samples> {
        let options = SessionOptions::default().user_agent(agent.to_owned());
        let mut session = Session::describe(url::Url::parse(url)?, options).await?;
        for number in 0..session.streams().len() {
            if has_sound || session.streams()[number].media() == "video" {
                let options =
                    SetupOptions::default().transport(transport.clone()).frame_format(FrameFormat::MP4);
                session.setup(number, options).await?;
            }
        }
        let mut items = session.play(PlayOptions::default()).await?.demuxed()?;
        let tracks = items.streams().iter().filter(|stream| stream.ctx().is_some()).count();
        let (mut samples, mut ended) = (Samples::default(), 0);
        while ended < tracks
            && let Some(item) = items.next().await
        {
            match item {
                Ok(CodecItem::VideoFrame(frame)) => samples.pictures.push(hash(frame.data())),
                Ok(CodecItem::AudioFrame(frame)) => samples.sound.push(hash(frame.data())),
                // It goes on after a BYE, and so does the connection.
                Ok(CodecItem::Rtcp(report)) => {
                    ended += report.pkts().filter(|packet| packet.payload_type() == BYE).count()
                }
                Ok(_) => {}
                // Over TCP the server closes the connection behind the last packet's BYE.
                Err(error) if !samples.pictures.is_empty() => {
                    eprintln!("retina ended after {} pictures: {error}", samples.pictures.len());
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(samples)
    }
}

fn hash(sample: &[u8]) -> String {
    Md5::digest(sample).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// MD5 of each sample of a track of a file, in the order of decoding.
fn stored(file: &Path, case: &Case, track: &str) -> Result<Vec<String>> {
    let file = file.to_str().context("a file's name")?;
    let before = ["-nostdin", "-v", "error", "-copyts"];
    let behind = ["-i", file, "-map", track, "-c", "copy", "-f", "framemd5", "-"];
    let text = run("ffmpeg", [&before[..], case.format.reading(), &behind].concat(), LIMIT_S)?;
    let frames = frames::parse(&text)?.into_iter().next().context("no such track")?;
    Ok(frames.into_iter().map(|frame| frame.hash).collect())
}

/// The file, or a copy of a transport stream as MP4, whose samples are those that retina gives: NAL units
/// after lengths, without parameter sets and delimiters.
fn in_mp4(file: PathBuf, folder: &Path) -> Result<PathBuf> {
    if file.extension().is_none_or(|extension| extension != "ts") {
        return Ok(file);
    }
    let copy = folder.join("copy.mp4");
    let (from, to) = (file.to_str().context("a file's name")?, copy.to_str().context("a file's name")?);
    let filter = "filter_units=remove_types=7-9|12";
    run("ffmpeg", ["-nostdin", "-v", "error", "-i", from, "-c", "copy", "-bsf:v", filter, to], LIMIT_S)?;
    Ok(copy)
}

fn ensure_equal(came: &[String], stored: &[String]) -> Result<()> {
    let counts = || format!("{} samples came, {} are stored", came.len(), stored.len());
    ensure!(came.len() <= stored.len() && came.len() + MISSING >= stored.len(), "{}", counts());
    let wrong = came.iter().zip(stored).position(|(came, stored)| came != stored);
    ensure!(wrong.is_none(), "sample {wrong:?} differs: {}", counts());
    Ok(())
}
