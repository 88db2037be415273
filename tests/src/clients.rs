//! The players that people have.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{Process, as_ordinary_user, find};
use crate::{Deadline, require};

/// Plays to the end with ffmpeg over UDP and stores what arrives.
pub fn ffmpeg(url: &str, output: &Path, seconds: f64) -> Result<()> {
    ffmpeg_with(&["-rtsp_transport", "udp"], url, output, seconds)
}

/// The same with these options in front of the URL.
pub fn ffmpeg_with(options: &[&str], url: &str, output: &Path, seconds: f64) -> Result<()> {
    require!(find("ffmpeg").is_some(), "ffmpeg is not installed");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y"]).args(options).args(["-i", url]);
    command.args(["-map", "0", "-c", "copy", "-f", "mpegts"]).arg(output);
    Process::start(&command, true)?.succeed(Deadline::seconds(seconds)).map(drop)
}

/// Plays to the end with GStreamer over UDP and stores the transport stream as it arrives.
///
/// Having played to the end, `rtspsrc` cancels the PAUSE it is about to send. Where that meets the sending
/// itself, GStreamer (1.22 and 1.26) takes it for an end of file, and gst-launch for an error: one time in
/// ten or twenty.
pub fn gstreamer(url: &str, output: &Path, seconds: f64) -> Result<()> {
    gstreamer_over("udp", url, output, seconds)
}

/// The same over `udp` or `tcp`.
pub fn gstreamer_over(protocol: &str, url: &str, output: &Path, seconds: f64) -> Result<()> {
    gstreamer_with(&[&format!("protocols={protocol}")], url, output, seconds)
}

/// Returns whether GLib has its module for TLS.
pub fn gstreamer_has_tls() -> bool {
    let folder = format!("/usr/lib/{}-linux-gnu/gio/modules", std::env::consts::ARCH);
    ["libgiognutls.so", "libgioopenssl.so"].iter().any(|module| Path::new(&folder).join(module).exists())
}

/// Time that GStreamer's jitter buffer holds packets back. It ends at the BYE, on a busy machine without the
/// packets that are in the buffer then: so much may be missing of what it stores. Other clients count every
/// byte.
pub const GSTREAMER_LATENCY_S: f64 = 0.5;

/// Bytes a second of [`clips::constant`](crate::clips::constant).
const CLIP_RATE: f64 = 4_000_000.0 / 8.0;

/// Ensures that GStreamer stored what a clip has, but for the last half second at most.
pub fn ensure_gstreamer_has(came: &[u8], clip: &[u8]) -> Result<()> {
    let lacking = clip.len().saturating_sub(came.len());
    ensure!(
        clip.starts_with(came) && lacking as f64 <= GSTREAMER_LATENCY_S * CLIP_RATE,
        "{lacking} of {} bytes lack or differ",
        clip.len()
    );
    Ok(())
}

/// The same with these properties of `rtspsrc`.
pub fn gstreamer_with(properties: &[&str], url: &str, output: &Path, seconds: f64) -> Result<()> {
    require!(find("gst-launch-1.0").is_some(), "gst-launch-1.0 is not installed");
    let location = format!("location={}", output.to_str().context("a file name")?);
    let mut command = Command::new("gst-launch-1.0");
    command.args(["-q", "rtspsrc", &format!("location={url}")]);
    command.args(properties).args([latency().as_str(), "!"]);
    command.args(["rtpmp2tdepay", "!", "filesink", &location]);
    gstreamer_to_the_end(&mut command, seconds)
}

/// Operation of a playing GStreamer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// Plays to the end only.
    Play,
    /// Pauses for so many seconds, and resumes.
    Pause(f64),
    /// Seeks to a time in seconds.
    Seek(f64),
    /// Seeks to the beginning with a rate at which all pictures are wanted, which `rtspsrc` requests by
    /// `Speed`.
    Speed(f64),
    /// The same with random access points only, which `rtspsrc` requests by `Scale`.
    Scale(f64),
    /// The same with a negative rate, from a time in seconds to the beginning.
    Rewind(f64, f64),
}

impl Control {
    /// Arguments of the script.
    fn arguments(self) -> Vec<String> {
        let (name, numbers) = match self {
            Control::Play => ("play", vec![]),
            Control::Pause(seconds) => ("pause", vec![seconds]),
            Control::Seek(seconds) => ("seek", vec![seconds]),
            Control::Speed(rate) => ("speed", vec![rate]),
            Control::Scale(rate) => ("scale", vec![rate]),
            Control::Rewind(rate, from) => ("rewind", vec![rate, from]),
        };
        std::iter::once(name.to_owned()).chain(numbers.iter().map(f64::to_string)).collect()
    }
}

/// Plays with GStreamer over `udp` or `tcp`, seeks to a time once media have come, and plays to the end;
/// stores what comes before and after the seek in one file.
pub fn gstreamer_seeking(protocol: &str, url: &str, to_s: f64, output: &Path, seconds: f64) -> Result<()> {
    let file = output.to_str().context("a file name")?;
    let sink = "filesink sync=false buffer-mode=unbuffered";
    let chains = [format!("source. ! rtpmp2tdepay ! {sink} location={file}")];
    let properties = format!("protocols={protocol}");
    let control = Control::Seek(to_s);
    gstreamer_chains_controlled(&[&properties], url, (&chains, output, 100_000), control, seconds).map(drop)
}

/// The same with these properties of `rtspsrc`, this operation, and these chains of elements, one of which
/// stores the file that tells when media have come: it has so many bytes then. Returns the seconds from the
/// operation to the end.
pub fn gstreamer_chains_controlled(
    properties: &[&str],
    url: &str,
    (chains, file, enough): (&[String], &Path, u64),
    control: Control,
    seconds: f64,
) -> Result<f64> {
    const MISSING: i32 = 77;
    require!(find("python3").is_some(), "python3 is not installed");
    let file = file.to_str().context("a file name")?;
    let source = format!("rtspsrc name=source location={url} {} {}", properties.join(" "), latency());
    let description = format!("{source} {}", chains.join(" "));
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("gstreamer_control.py"), &description, file, &enough.to_string()]);
    command.args(control.arguments());
    // The script reads messages.
    command.env("LC_ALL", "C");
    let mut process = Process::start(&command, true)?;
    let status = process.wait(Deadline::seconds(seconds))?;
    require!(status.code() != Some(MISSING), "libgstreamer-1.0 is not installed");
    let log = process.log();
    ensure!(status.success(), "GStreamer ended with {status}; it printed:\n{log}");
    let took = log.lines().rev().find_map(|line| line.parse().ok());
    took.with_context(|| format!("GStreamer did not print how long it took, but:\n{log}"))
}

/// Plays an archive of a movie of H.264 and AAC over `tcp` or `udp` to the end with GStreamer as a client of
/// ONVIF replay, with or without rate control, and stores both tracks as elementary streams. Each request requires
/// replay, which `rtspsrc` leaves to applications.
pub fn gstreamer_replay(
    url: &str,
    protocol: &str,
    has_rate_control: bool,
    (video, audio): (&Path, &Path),
    seconds: f64,
) -> Result<()> {
    const MISSING: i32 = 77;
    require!(find("python3").is_some(), "python3 is not installed");
    let place =
        |file: &Path| Ok::<_, anyhow::Error>(format!("location={}", file.to_str().context("a name")?));
    let description = format!(
        "rtspsrc name=source location={url} protocols={protocol} tls-validation-flags=0 onvif-mode=true \
         onvif-rate-control={has_rate_control} {} \
         source. ! application/x-rtp,media=video ! rtponvifparse ! rtph264depay ! h264parse ! \
         video/x-h264,stream-format=byte-stream ! queue ! filesink sync=false {} \
         source. ! application/x-rtp,media=audio ! rtponvifparse ! rtpmp4gdepay ! aacparse ! \
         audio/mpeg,stream-format=adts ! queue ! filesink sync=false {}",
        latency(),
        place(video)?,
        place(audio)?
    );
    let mut command = Command::new("python3");
    command.args(["-c", include_str!("gstreamer_replay.py"), &description]);
    let mut process = Process::start(&command, true)?;
    let status = process.wait(Deadline::seconds(seconds))?;
    require!(
        status.code() != Some(MISSING),
        "libgstreamer-1.0 or its element rtponvifparse is not installed"
    );
    ensure!(status.success(), "GStreamer ended with {status}; it printed:\n{}", process.log());
    Ok(())
}

fn latency() -> String {
    format!("latency={}", (GSTREAMER_LATENCY_S * 1000.0) as u32)
}

fn gstreamer_to_the_end(command: &mut Command, seconds: f64) -> Result<()> {
    // Its warnings tell a cancelled request from one that the server did not take.
    command.env("GST_DEBUG", "default:2").env("GST_DEBUG_NO_COLOR", "1").env("LC_ALL", "C");
    let mut gstreamer = Process::start(command, true)?;
    let status = gstreamer.wait(Deadline::seconds(seconds))?;
    let log = gstreamer.log();
    let cancelled = log.contains("writev_bytes: Operation was cancelled");
    ensure!(status.success() || cancelled, "gst-launch-1.0 ended with {status}; it printed:\n{log}");
    Ok(())
}

/// Plays a movie of H.264 and AAC to the end with GStreamer and stores both tracks as elementary streams.
pub fn gstreamer_movie(protocol: &str, url: &str, video: &Path, audio: &Path, seconds: f64) -> Result<()> {
    let place =
        |file: &Path| Ok::<_, anyhow::Error>(format!("location={}", file.to_str().context("a name")?));
    let pictures = "source. ! application/x-rtp,media=video ! rtph264depay ! h264parse ! \
                    video/x-h264,stream-format=byte-stream ! queue ! filesink";
    let sound = "source. ! application/x-rtp,media=audio ! rtpmp4gdepay ! aacparse ! \
                 audio/mpeg,stream-format=adts ! queue ! filesink";
    let chains = [format!("{pictures} {}", place(video)?), format!("{sound} {}", place(audio)?)];
    gstreamer_chains(&[&format!("protocols={protocol}")], url, (&chains, &[video, audio]), seconds)
}

/// Plays to the end with GStreamer, with these properties of `rtspsrc` and a chain of elements for each
/// track, which begins with `source.` and stores the track in its file. Words of a chain have no spaces.
///
/// gst-launch links chains as pads appear. Of two pads that appear at once it sometimes leaves one out (1.22:
/// one time in thirty on a busy machine): its file stays empty, and the program never ends. Such a run is
/// repeated.
fn gstreamer_chains(
    properties: &[&str],
    url: &str,
    (chains, files): (&[String], &[&Path]),
    seconds: f64,
) -> Result<()> {
    const RUNS: u32 = 4;
    require!(find("gst-launch-1.0").is_some(), "gst-launch-1.0 is not installed");
    let mut command = Command::new("gst-launch-1.0");
    command.args(["-q", "rtspsrc", "name=source", &latency()]);
    command.arg(format!("location={url}")).args(properties);
    command.args(chains.iter().flat_map(|chain| chain.split_whitespace()));
    let is_empty = |file: &&Path| file.metadata().is_ok_and(|metadata| metadata.len() == 0);
    for _ in 1..RUNS {
        match gstreamer_to_the_end(&mut command, seconds) {
            Err(error) if files.iter().any(is_empty) => eprintln!("a chain was not linked: {error:#}"),
            ended => return ended,
        }
    }
    gstreamer_to_the_end(&mut command, seconds)
}

/// Plays to the end with VLC, which refuses to run as root, and stores what arrives. `home` is open to
/// everyone.
///
/// Debian builds VLC without live555: its SAT>IP module speaks RTSP then, and wants transport streams.
pub fn vlc(url: &str, home: &Path, output: &Path, seconds: f64) -> Result<()> {
    vlc_with(&[], url, home, output, seconds)
}

/// The same with these options.
pub fn vlc_with(options: &[&str], url: &str, home: &Path, output: &Path, seconds: f64) -> Result<()> {
    require!(find("cvlc").is_some(), "cvlc is not installed");
    let chain = format!("#std{{access=file,mux=ts,dst={}}}", output.display());
    let mut command = as_ordinary_user("cvlc", home);
    command.args(options).args([
        "-v",
        "--no-plugins-cache",
        "--sout",
        &chain,
        "--sout-all",
        url,
        "vlc://quit",
    ]);
    Process::start(&command, true)?.succeed(Deadline::seconds(seconds)).map(drop)
}
