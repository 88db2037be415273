//! GStreamer: `rtspsrc` and the depayloaders of each format, by its library.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use wirepath_tests::clients::{self, Control, GSTREAMER_LATENCY_S as LATENCY_S};
use wirepath_tests::frames::{self, Frame};
use wirepath_tests::{process, require};

use crate::cases::{
    Bed, CLIP_S, Cannot, Case, Codec, LIMIT_S, Operation, PAUSE_S, REWIND, REWIND_FROM_S, SCALE, SEEK_S,
    SPEED, Transport, decode, home,
};

/// Last pictures and frames of sound that parsers hold back.
const MISSING: usize = 3;

/// First pictures after a change of the rate that may be of those before it: `rtspsrc` passes on all packets that
/// come, also those that were on the way when it requested the change. On a busy machine one of them may be a
/// random access point, which parsers and decoders do not leave out.
const ON_THE_WAY: usize = 2;

/// Seconds that a client may take longer than the media: to set the session up, and with its latency.
const SLACK_S: f64 = 10.0;

pub(crate) fn play(case: &Case, bed: &Bed) -> Result<()> {
    require!(process::find("gst-launch-1.0").is_some(), "not installed");
    let (scheme, properties): (_, &[&str]) = match case.transport {
        Transport::Udp => ("rtsp:", &["protocols=udp"]),
        Transport::Tcp => ("rtsp:", &["protocols=tcp"]),
        Transport::Tunnel => ("rtsph:", &[]),
        Transport::Multicast => ("rtsp:", &["protocols=udp-mcast"]),
        Transport::Tls | Transport::SrtpTls => ("rtsps:", &["protocols=tcp", "tls-validation-flags=0"]),
        Transport::SrtpUdp => ("rtsps:", &["protocols=udp", "tls-validation-flags=0"]),
    };
    let agent = format!("user-agent={}", case.agent());
    // By default a socket has room for a second of these clips, and a busy machine stalls longer.
    let properties = [properties, &[&agent, "udp-buffer-size=4194304"]].concat();
    let url = bed.url(case)?;
    let (_, place) = url.split_once(':').context("a URL without a scheme")?;
    let url = format!("{scheme}{place}");
    let control = match case.operation {
        Operation::Play => Control::Play,
        Operation::Pause => Control::Pause(PAUSE_S),
        Operation::Seek => Control::Seek(SEEK_S.into()),
        Operation::Speed => Control::Speed(SPEED),
        Operation::Scale => Control::Scale(SCALE),
        Operation::Rewind => Control::Rewind(REWIND, REWIND_FROM_S.into()),
    };
    // Without a chain, the script leaves sound out: at a Scale there is none, and the chain would wait for it.
    let is_normal = matches!(case.operation, Operation::Play | Operation::Pause | Operation::Seek);
    let audio = case.format.audio.filter(|_| is_normal);
    let home = home()?;
    let (pictures, sound) = (home.path().join("pictures"), home.path().join("sound"));
    let mut chains = vec![chain("video", case, case.format.video, &pictures)?];
    if let Some(codec) = audio {
        chains.push(chain("audio", case, codec, &sound)?);
    }
    // Half a second.
    let enough = match case.format.video {
        Codec::Vp8 | Codec::Vp9 => 13 * RAW_PICTURE,
        _ => 100_000,
    };
    let to_play = (chains.as_slice(), pictures.as_path(), enough);
    let play = || clients::gstreamer_chains_controlled(&properties, &url, to_play, control, LIMIT_S);
    let (took, seen) = bed.watch(case, play)?;
    case.ensure_seen(&seen)?;
    ensure_duration(case.operation, took)?;
    ensure_pictures(case, bed, &pictures).context("pictures")?;
    match audio {
        Some(codec) if case.operation != Operation::Seek => {
            ensure_sound(case, bed, codec, &sound).context("sound")
        }
        _ => Ok(()),
    }
}

/// Ensures that a client that took so many seconds from its operation to the end did not wait for the end, and
/// did not play at normal speed where it requested another.
fn ensure_duration(operation: Operation, took_s: f64) -> Result<()> {
    let limit_s = match operation {
        Operation::Play => f64::from(CLIP_S) + SLACK_S,
        Operation::Pause => f64::from(CLIP_S) + PAUSE_S + SLACK_S,
        Operation::Seek => f64::from(CLIP_S - SEEK_S) + SLACK_S,
        // At its normal speed it takes as long as the clip, and then the latency.
        Operation::Speed => f64::from(CLIP_S),
        Operation::Scale | Operation::Rewind => return Ok(()),
    };
    ensure!(took_s < limit_s, "{} took {took_s} s: expected less than {limit_s} s", operation.name());
    Ok(())
}

/// Compares the pictures. After a seek the file has only those that came behind it, since a `filesink` begins
/// again at a flush.
fn ensure_pictures(case: &Case, bed: &Bed, file: &Path) -> Result<()> {
    let came = match case.format.video {
        Codec::Vp8 | Codec::Vp9 => frames::decode(RAW, file.to_str().context("a file's name")?, LIMIT_S)?,
        _ => decode(file)?,
    };
    let speed = if case.operation == Operation::Speed { SPEED } else { 1.0 };
    let held_back = MISSING + frames::within_last(&bed.stored(&case.format)?[0], speed * LATENCY_S);
    let came = &came[0];
    match case.operation {
        Operation::Play | Operation::Pause | Operation::Seek => {
            case.ensure_pictures(whole(came)?, bed, held_back)
        }
        Operation::Speed | Operation::Scale => ensure_after_change(case, bed, whole(came)?, held_back),
        Operation::Rewind => ensure_rewind(case, bed, came),
    }
}

/// Compares the pictures after a change of the rate.
fn ensure_after_change(case: &Case, bed: &Bed, came: &[Frame], missing: usize) -> Result<()> {
    let without = |count: usize| {
        case.ensure_pictures(came.get(count..).context("too few pictures came")?, bed, missing)
    };
    (0..=ON_THE_WAY).map(without).find(Result::is_ok).unwrap_or_else(|| without(0))
}

/// Compares the pictures of a rewind. Parsers and decoders of GStreamer gather what comes up to a buffer marked
/// as a discontinuity, and then pass it on in the opposite order; `rtspsrc` marks none.
fn ensure_rewind(case: &Case, bed: &Bed, came: &[Frame]) -> Result<()> {
    let compare = |came: &[Frame]| ensure_after_change(case, bed, whole(came)?, 0);
    if compare(came).is_ok() {
        return Ok(());
    }
    compare(&came.iter().rev().cloned().collect::<Vec<_>>())?;
    Err(Cannot(
        "receives a rewind, but its parsers and decoders pass the pictures on at the end only, forward",
    )
    .into())
}

fn ensure_sound(case: &Case, bed: &Bed, codec: Codec, file: &Path) -> Result<()> {
    if let Some(name) = codec.pcm() {
        let came = std::fs::read(file)?;
        let stored = pcm(case, bed, name)?;
        let seconds =
            (stored.len() - came.len().min(stored.len())) as f64 / stored.len() as f64 * f64::from(CLIP_S);
        ensure!(stored.starts_with(&came), "{} bytes that came differ from those stored", came.len());
        ensure!(seconds < LATENCY_S + 0.1, "the last {seconds} s did not come");
        return Ok(());
    }
    let came = decode(file)?;
    let held_back = MISSING + frames::within_last(&bed.stored(&case.format)?[1], LATENCY_S);
    case.ensure_sound(whole(&came[0])?, bed, held_back)
}

/// Frames without the last, which may be cut.
fn whole(came: &[Frame]) -> Result<&[Frame]> {
    Ok(came.split_last().context("nothing came")?.1)
}

/// Samples of a file as they are stored. `name` is that of ffmpeg's raw format.
fn pcm(case: &Case, bed: &Bed, name: &str) -> Result<Vec<u8>> {
    let home = home()?;
    let output = home.path().join("stored");
    let (input, output_name) = (bed.file(&case.format), output.to_str().context("a file's name")?);
    let input = input.to_str().context("a file's name")?;
    let copy = ["-map", "0:a:0", "-c", "copy", "-f", name, output_name];
    let before = ["-nostdin", "-v", "error"];
    process::run("ffmpeg", [&before[..], case.format.reading(), &["-i", input], &copy].concat(), LIMIT_S)?;
    std::fs::read(&output).context("reading the sound")
}

/// Options with which ffmpeg reads raw pictures of clips.
const RAW: &[&str] = &["-f", "rawvideo", "-pixel_format", "yuv420p", "-video_size", "640x360"];

/// Bytes of a raw picture.
const RAW_PICTURE: u64 = 640 * 360 * 3 / 2;

/// Elements that store a track in a file that ffmpeg reads.
fn chain(media: &str, case: &Case, codec: Codec, file: &Path) -> Result<String> {
    let elements = match codec {
        Codec::TransportStream => "rtpmp2tdepay",
        Codec::H264 => "rtph264depay ! h264parse ! video/x-h264,stream-format=byte-stream",
        Codec::H265 => "rtph265depay ! h265parse ! video/x-h265,stream-format=byte-stream",
        // Their muxers do not accept the flush of a seek.
        Codec::Vp8 => "rtpvp8depay ! vp8dec",
        Codec::Vp9 => "rtpvp9depay ! vp9parse ! vp9dec",
        Codec::Av1 => return Err(Cannot("has no depayloader of AV1 in the packages of Debian 12").into()),
        Codec::Aac => "rtpmp4gdepay ! aacparse ! audio/mpeg,stream-format=adts",
        Codec::Opus => "rtpopusdepay ! opusparse ! oggmux",
        Codec::Ac3 => "rtpac3depay ! ac3parse",
        Codec::Mp3 => "rtpmpadepay ! mpegaudioparse",
        Codec::L16 => "rtpL16depay",
        Codec::L24 => "rtpL24depay",
        Codec::MuLaw => "rtppcmudepay",
        Codec::ALaw => "rtppcmadepay",
    };
    let file = file.to_str().context("a file's name")?;
    // Its name links it, and a seek is sent to it, since what writes a container (oggmux) takes none.
    let (depayloader, others) = elements.split_at(elements.find(' ').unwrap_or(elements.len()));
    // Times of buffers count from before the session is set up, which takes half a second with TLS and longer on a
    // busy machine, but the segment ends with the range: parsers and sinks would leave out what is behind. A parser
    // that passes a rewind on must see the segment's rate.
    let open = if case.operation == Operation::Rewind { "" } else { " ! identity single-segment=true" };
    let elements = format!("{depayloader} name={media}{open}{others}");
    // A pause ends only when all sinks have paused, for which one would wait for a buffer.
    let sink = format!("filesink async=false location={file}");
    Ok(format!("{elements} ! queue ! {sink}"))
}
