//! Clients, formats, transports and operations of the matrix.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use wirepath_tests::frames::{self, Frame};
use wirepath_tests::server::Server;
use wirepath_tests::tls::{Certificate, TunnelListener};
use wirepath_tests::{clips, process};

use crate::sessions::{self, Seen};
use crate::{ffmpeg, gstreamer, live555, retina, vlc};

/// Seconds of each clip.
pub(crate) const CLIP_S: u32 = 6;

/// Seconds into the clip to which clients seek.
pub(crate) const SEEK_S: u32 = 3;

/// Seconds of a pause.
pub(crate) const PAUSE_S: f64 = 1.0;

/// Rate requested by Speed.
pub(crate) const SPEED: f64 = 2.0;

/// Rate requested by Scale.
pub(crate) const SCALE: f64 = 4.0;

/// Rate requested by Scale for a rewind.
pub(crate) const REWIND: f64 = -4.0;

/// Seconds into the clip from which clients rewind to its beginning.
pub(crate) const REWIND_FROM_S: u32 = 5;

/// Pictures from one random access point of a clip to the next, a second.
const GROUP: usize = 25;

/// First frames of sound that may differ.
const DIFFERING: usize = 2;

/// Time limit of a player.
pub(crate) const LIMIT_S: f64 = 60.0;

/// A program that plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Ffmpeg,
    GStreamer,
    Vlc,
    Live555,
    Retina,
}

impl Client {
    pub(crate) const ALL: [Client; 5] =
        [Client::Ffmpeg, Client::GStreamer, Client::Vlc, Client::Live555, Client::Retina];

    /// Its name in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Client::Ffmpeg => "ffmpeg",
            Client::GStreamer => "GStreamer",
            Client::Vlc => "VLC",
            Client::Live555 => "openRTSP (live555)",
            Client::Retina => "retina",
        }
    }
}

/// Codec of a track, and how RTP carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    TransportStream,
    H264,
    H265,
    Vp8,
    Vp9,
    Av1,
    Aac,
    Opus,
    Ac3,
    Mp3,
    L16,
    L24,
    MuLaw,
    ALaw,
}

impl Codec {
    /// Name of raw PCM in ffmpeg.
    pub(crate) fn pcm(self) -> Option<&'static str> {
        match self {
            Codec::L16 => Some("s16be"),
            Codec::L24 => Some("s24be"),
            Codec::MuLaw => Some("mulaw"),
            Codec::ALaw => Some("alaw"),
            _ => None,
        }
    }
}

/// A file to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) name: &'static str,
    /// Name of the served file.
    pub(crate) file: &'static str,
    /// Query of its URL.
    pub(crate) query: &'static str,
    pub(crate) video: Codec,
    /// None for a transport stream, whose tracks are inside.
    pub(crate) audio: Option<Codec>,
    /// ffmpeg's encoders of both.
    encoders: Option<(&'static str, &'static str)>,
    /// ffmpeg's options of the container.
    container: &'static [&'static str],
}

impl Format {
    const fn movie(
        name: &'static str,
        file: &'static str,
        (video, audio): (Codec, Codec),
        encoders: (&'static str, &'static str),
    ) -> Format {
        Format { name, file, query: "", video, audio: Some(audio), encoders: Some(encoders), container: &[] }
    }

    pub(crate) const ALL: [Format; 15] = [
        Format {
            name: "transport stream",
            file: "clip.ts",
            query: "",
            video: Codec::TransportStream,
            audio: None,
            encoders: None,
            container: &[],
        },
        Format {
            name: "transport stream by tracks: H.264, AAC",
            file: "tracks.ts",
            query: "?demux=1",
            video: Codec::H264,
            audio: Some(Codec::Aac),
            encoders: Some(("libx264", "aac")),
            container: &[],
        },
        Format::movie("MP4: H.264, AAC", "h264.mp4", (Codec::H264, Codec::Aac), ("libx264", "aac")),
        Format {
            container: &["-movflags", "frag_keyframe+empty_moov+default_base_moof"],
            ..Format::movie(
                "fragmented MP4: H.264, AAC",
                "fragmented.mp4",
                (Codec::H264, Codec::Aac),
                ("libx264", "aac"),
            )
        },
        Format::movie("MP4: H.265, Opus", "h265.mp4", (Codec::H265, Codec::Opus), ("libx265", "libopus")),
        Format::movie("MP4: H.265, AC-3", "ac3.mp4", (Codec::H265, Codec::Ac3), ("libx265", "ac3")),
        Format::movie("MP4: H.264, MP3", "mp3.mp4", (Codec::H264, Codec::Mp3), ("libx264", "libmp3lame")),
        Format::movie("MP4: AV1, AAC", "av1.mp4", (Codec::Av1, Codec::Aac), ("libaom-av1", "aac")),
        Format::movie("Matroska: H.264, AAC", "h264.mkv", (Codec::H264, Codec::Aac), ("libx264", "aac")),
        Format::movie("WebM: VP8, Opus", "vp8.webm", (Codec::Vp8, Codec::Opus), ("libvpx", "libopus")),
        Format::movie("WebM: VP9, Opus", "vp9.webm", (Codec::Vp9, Codec::Opus), ("libvpx-vp9", "libopus")),
        Format::movie("Matroska: H.264, L16", "l16.mkv", (Codec::H264, Codec::L16), ("libx264", "pcm_s16be")),
        Format::movie("Matroska: H.264, L24", "l24.mkv", (Codec::H264, Codec::L24), ("libx264", "pcm_s24be")),
        Format::movie(
            "QuickTime: H.264, A-law",
            "alaw.mov",
            (Codec::H264, Codec::ALaw),
            ("libx264", "pcm_alaw"),
        ),
        Format::movie(
            "QuickTime: H.264, µ-law",
            "g711.mov",
            (Codec::H264, Codec::MuLaw),
            ("libx264", "pcm_mulaw"),
        ),
    ];

    fn clip(&self) -> Result<PathBuf> {
        match self.encoders {
            None => clips::constant(CLIP_S),
            Some(encoders) => {
                let extension = self.file.rsplit('.').next().context("a file without an extension")?;
                clips::film_with(CLIP_S, encoders, extension, self.container)
            }
        }
    }

    /// Options with which ffmpeg reads the file as it is sent: with what its edit list hides.
    pub(crate) fn reading(&self) -> &'static [&'static str] {
        let has_edits = self.file.ends_with(".mp4") || self.file.ends_with(".mov");
        if has_edits { &["-ignore_editlist", "1"] } else { &[] }
    }
}

/// Way of packets to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
    Tunnel,
    Multicast,
    Tls,
    /// SRTP over UDP, of a session over TLS.
    SrtpUdp,
    /// SRTP interleaved in the connection over TLS.
    SrtpTls,
}

impl Transport {
    pub(crate) const ALL: [Transport; 7] = [
        Transport::Udp,
        Transport::Tcp,
        Transport::Tunnel,
        Transport::Multicast,
        Transport::Tls,
        Transport::SrtpUdp,
        Transport::SrtpTls,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
            Transport::Tunnel => "HTTP tunnel",
            Transport::Multicast => "multicast",
            Transport::Tls => "rtsps",
            Transport::SrtpUdp => "SRTP, UDP",
            Transport::SrtpTls => "SRTP, rtsps",
        }
    }

    /// Returns whether packets are encrypted by SRTP.
    pub(crate) fn is_srtp(self) -> bool {
        matches!(self, Transport::SrtpUdp | Transport::SrtpTls)
    }

    /// Name of the transport in the server's status.
    fn status(self) -> &'static str {
        match self {
            Transport::Udp | Transport::SrtpUdp => "udp",
            Transport::Tcp | Transport::Tunnel | Transport::Tls | Transport::SrtpTls => "tcp",
            Transport::Multicast => "multicast",
        }
    }
}

/// Action of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Plays to the end.
    Play,
    /// Pauses for [`PAUSE_S`] once media have come, and plays to the end.
    Pause,
    /// Plays from [`SEEK_S`] to the end.
    Seek,
    /// Plays all pictures at [`SPEED`].
    Speed,
    /// Plays random access points at [`SCALE`].
    Scale,
    /// Plays random access points at [`REWIND`], from [`REWIND_FROM_S`] to the beginning.
    Rewind,
}

impl Operation {
    pub(crate) const ALL: [Operation; 6] = [
        Operation::Play,
        Operation::Pause,
        Operation::Seek,
        Operation::Speed,
        Operation::Scale,
        Operation::Rewind,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Play => "play",
            Operation::Pause => "pause",
            Operation::Seek => "seek",
            Operation::Speed => "speed",
            Operation::Scale => "scale",
            Operation::Rewind => "rewind",
        }
    }
}

/// A cell of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) client: Client,
    pub(crate) format: Format,
    pub(crate) transport: Transport,
    pub(crate) operation: Operation,
}

/// A client that has not what a case asks for, which is no fault of the server's.
#[derive(Debug)]
pub(crate) struct Cannot(pub(crate) &'static str);

impl fmt::Display for Cannot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for Cannot {}

impl Case {
    /// All cells, those of a client together.
    pub(crate) fn all() -> impl Iterator<Item = Case> {
        Client::ALL.into_iter().flat_map(|client| {
            Format::ALL.into_iter().flat_map(move |format| {
                Transport::ALL.into_iter().flat_map(move |transport| {
                    Operation::ALL.map(|operation| Case { client, format, transport, operation })
                })
            })
        })
    }

    /// Names of client, format, transport and operation.
    pub(crate) fn fields(&self) -> [&'static str; 4] {
        [self.client.name(), self.format.name, self.transport.name(), self.operation.name()]
    }

    /// Note about how the output is compared, if it is unlike that of other cells.
    pub(crate) fn remark(&self) -> Option<&'static str> {
        let is_rewritten = self.client == Client::Live555
            && self.format.video == Codec::H265
            && self.operation == Operation::Rewind;
        is_rewritten.then_some("rewind: its CRA pictures are marked as BLA pictures before they are decoded")
    }

    /// Plays, and compares what came with the file.
    ///
    /// # Errors
    /// [`Cannot`] for what the client has not, `Skip` where it is not installed; else the server's fault.
    pub(crate) fn play(&self, bed: &Bed) -> Result<()> {
        if self.transport == Transport::Multicast && self.operation != Operation::Play {
            return Err(Cannot("a multicast group has one position for all clients").into());
        }
        let is_scan = matches!(self.operation, Operation::Scale | Operation::Rewind);
        if self.format.video == Codec::TransportStream && is_scan {
            return Err(Cannot("the server plays whole transport streams at Scale 1 only").into());
        }
        match self.client {
            Client::Ffmpeg => ffmpeg::play(self, bed),
            Client::GStreamer => gstreamer::play(self, bed),
            Client::Vlc => vlc::play(self, bed),
            Client::Live555 => live555::play(self, bed),
            Client::Retina => retina::play(self, bed),
        }
    }

    /// User agent that the client sends, by which the server's status tells its session from others.
    pub(crate) fn agent(&self) -> String {
        let transport = self.transport.name().replace([' ', ','], "");
        format!("interop/{}/{transport}/{}", self.format.file, self.operation.name())
    }

    /// Value of the server's `--srtp`.
    fn keys(&self) -> &'static str {
        match (self.transport.is_srtp(), self.client) {
            (false, _) => "off",
            (true, Client::Ffmpeg) => "sdes",
            (true, _) => "mikey",
        }
    }

    /// Ensures that the server sent over the transport of the case, encrypted or not, at its rate, and with its
    /// pause.
    pub(crate) fn ensure_seen(&self, seen: &Seen) -> Result<()> {
        let transport = self.transport.status();
        ensure!(
            seen.transports.iter().eq([transport]),
            "the server saw no session over {transport}: {seen:?}"
        );
        ensure!(seen.srtp.iter().eq([&self.transport.is_srtp()]), "SRTP of the session: {seen:?}");
        let (name, rates, wanted) = match self.operation {
            Operation::Play | Operation::Seek => return Ok(()),
            Operation::Pause => return seen.ensure_paused(),
            Operation::Speed => ("Speed", &seen.speeds, SPEED),
            Operation::Scale => ("Scale", &seen.scales, SCALE),
            Operation::Rewind => ("Scale", &seen.scales, REWIND),
        };
        ensure!(rates.contains(&wanted), "the server saw no {name} {wanted}: {seen:?}");
        Ok(())
    }

    /// Ensures that decoded pictures are those of the file: all, from a random access point near the time of
    /// the seek on, or random access points only. So many may be missing at the end, which the client cuts.
    pub(crate) fn ensure_pictures(&self, came: &[Frame], bed: &Bed, missing: usize) -> Result<()> {
        let stored = &bed.stored(&self.format)?[0];
        match self.operation {
            Operation::Play | Operation::Pause | Operation::Speed => {
                frames::ensure_all(came, stored, missing)
            }
            Operation::Scale => ensure_random_access_points(came, &random_access_points(stored), self.cut()),
            Operation::Rewind => {
                let mut points = random_access_points(stored);
                points.truncate(1 + REWIND_FROM_S as usize);
                points.reverse();
                ensure_random_access_points(came, &points, self.cut())
            }
            Operation::Seek => {
                // The decoder may show a picture that needs one before the random access point.
                let first = frames::ensure_from(came, stored, 2, missing)?;
                let second = stored[first].seconds - stored[0].seconds;
                let wanted = f64::from(SEEK_S);
                ensure!((wanted - 1.1..=wanted + 1.1).contains(&second), "playing began at {second} s");
                Ok(())
            }
        }
    }

    /// Last pictures that the comparison leaves out, since the client may have cut them.
    fn cut(&self) -> usize {
        usize::from(self.client == Client::GStreamer)
    }

    /// Ensures that decoded sound is that of the file, if it is compared: of PCM, packets divide it
    /// otherwise, and after a seek decoders begin with other noise.
    pub(crate) fn ensure_sound(&self, came: &[Frame], bed: &Bed, missing: usize) -> Result<()> {
        let is_pcm = self.format.audio.and_then(Codec::pcm).is_some();
        if is_pcm || self.operation == Operation::Seek {
            return Ok(());
        }
        let stored = bed.stored(&self.format)?.get(1).context("the file has no sound")?;
        // Of WebM, a decoder of the file leaves out the last samples (DiscardPadding).
        let padded = usize::from(self.format.file.ends_with(".webm"));
        let came = &came[..came.len().saturating_sub(padded)];
        // A decoder of the file leaves out or changes the first samples, by its edit list or its delay.
        let place = frames::ensure_from(came, stored, DIFFERING, missing + padded)?;
        ensure!(place <= DIFFERING, "the first {} frames of sound did not come", place - DIFFERING);
        Ok(())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.fields().join(", "))
    }
}

/// Random access points of a clip.
fn random_access_points(stored: &[Frame]) -> Vec<&Frame> {
    stored.iter().step_by(GROUP).collect()
}

/// Ensures that pictures are of these in their order, at least half of them, and that at most one is missing at each
/// end, and `cut` more at the last.
fn ensure_random_access_points(came: &[Frame], points: &[&Frame], cut: usize) -> Result<()> {
    let mut left = points;
    for (index, picture) in came.iter().enumerate() {
        let place = left.iter().position(|point| point.hash == picture.hash);
        let place = place.with_context(|| {
            format!("picture {index} of {} is not the next random access point", came.len())
        })?;
        ensure!(index > 0 || place <= 1, "the first {place} random access points did not come");
        left = &left[place + 1..];
    }
    ensure!(left.len() <= 1 + cut, "the last {} random access points did not come", left.len());
    ensure!(2 * came.len() >= points.len(), "{} of {} random access points came", came.len(), points.len());
    Ok(())
}

/// Servers of the formats to play.
pub(crate) struct Bed {
    /// Servers by their `--srtp`.
    servers: HashMap<&'static str, Server>,
    /// Frames of each file.
    stored: HashMap<&'static str, Vec<Vec<Frame>>>,
    folder: TempDir,
    certificate: Certificate,
}

impl Bed {
    /// Makes the clips of these cases, and starts their servers.
    pub(crate) fn new(cases: &[Case]) -> Result<Bed> {
        let is_played = |format: &Format| cases.iter().any(|case| case.format == *format);
        let formats: Vec<Format> = Format::ALL.into_iter().filter(is_played).collect();
        let clips = formats.iter().map(|format| Ok((format.file, format.clip()?)));
        let clips: Vec<(&str, PathBuf)> = clips.collect::<Result<_>>()?;
        let files: Vec<_> = clips.iter().map(|(name, clip)| (*name, clip.as_path())).collect();
        let folder = clips::folder(&files)?;
        let mut stored = HashMap::new();
        for format in formats {
            let file = folder.path().join(format.file);
            let file = file.to_str().context("a file's name")?;
            stored.insert(format.file, frames::decode(format.reading(), file, LIMIT_S)?);
        }
        let certificate = Certificate::new()?;
        let groups = "239.9.9.1-239.9.9.99:5004?ttl=1&interface=127.0.0.1";
        let mut servers = HashMap::new();
        for keys in ["off", "sdes", "mikey"] {
            if cases.iter().any(|case| case.keys() == keys) {
                let options = ["--multicast", groups, "--srtp", keys];
                let server = Server::of(folder.path()).with(certificate.arguments()).with(options).start()?;
                servers.insert(keys, server);
            }
        }
        Ok(Bed { servers, stored, folder, certificate })
    }

    /// Server of a case.
    pub(crate) fn server(&self, case: &Case) -> Result<&Server> {
        self.servers.get(case.keys()).context("a case without a server")
    }

    /// URL of a case for clients that know its transport by an option.
    pub(crate) fn url(&self, case: &Case) -> Result<String> {
        let server = self.server(case)?;
        let (scheme, address) = match case.transport {
            Transport::Tls | Transport::SrtpUdp | Transport::SrtpTls => {
                ("rtsps", server.rtsps.context("the server has no rtsps")?)
            }
            Transport::Tunnel => ("rtsp", server.http),
            Transport::Udp | Transport::Tcp | Transport::Multicast => ("rtsp", server.rtsp),
        };
        Ok(format!("{scheme}://{address}/{}{}", case.format.file, case.format.query))
    }

    /// Address where a client without TLS may connect once to reach the server of a case over TLS.
    pub(crate) fn tunnel(&self, case: &Case) -> Result<TunnelListener> {
        let address = self.server(case)?.rtsps.context("the server has no rtsps")?;
        TunnelListener::open(address, &self.certificate.file())
    }

    /// Plays a case, and returns what the server's status showed of its sessions meanwhile.
    pub(crate) fn watch<T>(&self, case: &Case, play: impl FnOnce() -> Result<T>) -> Result<(T, Seen)> {
        sessions::watch(self.server(case)?, &case.agent(), play)
    }

    /// The file of a format.
    pub(crate) fn file(&self, format: &Format) -> PathBuf {
        self.folder.path().join(format.file)
    }

    /// Decoded frames of a file, by tracks.
    pub(crate) fn stored(&self, format: &Format) -> Result<&[Vec<Frame>]> {
        Ok(self.stored.get(format.file).context("a format without frames")?)
    }
}

/// A folder for what a client stores. Raw pictures of a clip are 52 MB: a disk that others keep busy would stall the
/// client, so it is in memory if it can be.
pub(crate) fn home() -> Result<TempDir> {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { process::open_folder_in(memory) } else { process::open_folder() }
}

/// Decodes what a client stored. Damaged pictures are for the comparison to find: ffmpeg does not tell of
/// them.
pub(crate) fn decode(file: &std::path::Path) -> Result<Vec<Vec<Frame>>> {
    frames::decode(&["-v", "fatal"], file.to_str().context("a file's name")?, LIMIT_S)
        .with_context(|| format!("decoding {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pictures(numbers: impl IntoIterator<Item = usize>) -> Vec<Frame> {
        numbers.into_iter().map(|number| Frame { seconds: 0.0, hash: number.to_string() }).collect()
    }

    #[test]
    fn a_scan_has_random_access_points_in_order() {
        let stored = pictures(0..6 * GROUP);
        let points = random_access_points(&stored);
        let ensure =
            |numbers: &[usize]| ensure_random_access_points(&pictures(numbers.iter().copied()), &points, 0);
        assert!(ensure(&[0, 25, 50, 75, 100, 125]).is_ok() && ensure(&[0, 50, 125]).is_ok());
        assert!(ensure(&[25, 50, 75, 100]).is_ok(), "one is missing at each end");
        assert!(ensure(&[0, 125]).is_err(), "too few");
        assert!(ensure(&[50, 75, 100, 125]).is_err(), "the first two are missing");
        let cut = pictures([0, 25, 50, 75]);
        assert!(ensure_random_access_points(&cut, &points, 0).is_err(), "the last two are missing");
        assert!(ensure_random_access_points(&cut, &points, 1).is_ok(), "one of them was cut");
        assert!(ensure(&[0, 25, 26, 50, 100]).is_err(), "another picture");
        assert!(ensure(&[0, 50, 25, 75, 100]).is_err(), "another order");
        assert!(ensure(&[0, 25, 25, 50, 100]).is_err(), "one twice");
    }
}
