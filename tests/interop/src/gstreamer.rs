//! GStreamer: `rtspsrc` and the depayloaders of each format, by `gst-launch-1.0`, which does not seek, and by its library.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use wirepath_tests::frames;
use wirepath_tests::{clients, process, require};

use crate::cases::{Bed, Cannot, Case, Codec, LIMIT_S, Operation, SEEK_S, Transport, decode, home};

pub(crate) fn play(case: &Case, bed: &Bed) -> Result<()> {
    require!(process::find("gst-launch-1.0").is_some(), "not installed");
    let (scheme, properties): (_, &[&str]) = match case.transport {
        Transport::Udp => ("rtsp:", &["protocols=udp"]),
        Transport::Tcp => ("rtsp:", &["protocols=tcp"]),
        Transport::Tunnel => ("rtsph:", &[]),
        Transport::Multicast => ("rtsp:", &["protocols=udp-mcast"]),
        Transport::Tls => ("rtsps:", &["tls-validation-flags=0"]),
    };
    let url = bed.url(case)?;
    let (_, place) = url.split_once(':').context("a URL without a scheme")?;
    let home = home()?;
    let (pictures, sound) = (home.path().join("pictures"), home.path().join("sound"));
    let mut chains = vec![chain("video", case.format.video, &pictures)?];
    if let Some(codec) = case.format.audio {
        chains.push(chain("audio", codec, &sound)?);
    }
    let url = format!("{scheme}{place}");
    if case.operation == Operation::Seek {
        if case.format.video == Codec::Vp9 {
            return Err(Cannot("not tried: the muxer that stores VP9 does not accept seeks").into());
        }
        clients::gstreamer_chains_seeking(properties, &url, (&chains, &pictures), SEEK_S.into(), LIMIT_S)?;
        // A `filesink` keeps only what came behind the last flush, so behind the seek.
        let came = decode(&pictures)?;
        let (_, whole) = came[0].split_last().context("nothing came after the seek")?;
        let held_back = 3 + frames::within_last(&bed.stored(&case.format)?[0], clients::GSTREAMER_LATENCY_S);
        return case.ensure_pictures(whole, bed, held_back);
    }
    let files: &[&Path] = if case.format.audio.is_some() { &[&pictures, &sound] } else { &[&pictures] };
    clients::gstreamer_chains(properties, &url, (&chains, files), LIMIT_S)?;
    let stored = bed.stored(&case.format)?;
    let held_back = |track: usize| 3 + frames::within_last(&stored[track], clients::GSTREAMER_LATENCY_S);
    let came = decode(&pictures)?;
    // The last frame of each may be cut.
    let (_, whole) = came[0].split_last().context("no picture")?;
    case.ensure_pictures(whole, bed, held_back(0)).context("pictures")?;
    match case.format.audio {
        None | Some(Codec::L16 | Codec::MuLaw) => ensure!(pictures.metadata()?.len() > 0, "nothing came"),
        Some(_) => {
            let came = decode(&sound)?;
            let (_, whole) = came[0].split_last().context("no sound")?;
            case.ensure_sound(whole, bed, held_back(1)).context("sound")?;
        }
    }
    Ok(())
}

/// Elements that store a track in a file that ffmpeg reads.
fn chain(media: &str, codec: Codec, file: &Path) -> Result<String> {
    let elements = match codec {
        Codec::TransportStream => "rtpmp2tdepay",
        Codec::H264 => "rtph264depay ! h264parse ! video/x-h264,stream-format=byte-stream",
        Codec::H265 => "rtph265depay ! h265parse ! video/x-h265,stream-format=byte-stream",
        Codec::Vp9 => "rtpvp9depay ! vp9parse ! matroskamux",
        Codec::Aac => "rtpmp4gdepay ! aacparse ! audio/mpeg,stream-format=adts",
        Codec::Opus => "rtpopusdepay ! opusparse ! oggmux",
        Codec::Ac3 => "rtpac3depay ! ac3parse",
        Codec::Mp3 => "rtpmpadepay ! mpegaudioparse",
        Codec::L16 => "rtpL16depay",
        Codec::MuLaw => "rtppcmudepay",
    };
    let file = file.to_str().context("a file's name")?;
    // A seek is sent to the depayloader, since what writes a container (oggmux) takes none.
    let (depayloader, others) = elements.split_at(elements.find(' ').unwrap_or(elements.len()));
    let elements = format!("{depayloader} name={media}{others}");
    Ok(format!("source. ! application/x-rtp,media={media} ! {elements} ! queue ! filesink location={file}"))
}
