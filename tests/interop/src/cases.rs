//! Clients, formats, transports and operations of the matrix.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use wirepath_tests::frames::{self, Frame};
use wirepath_tests::server::Server;
use wirepath_tests::tls::Certificate;
use wirepath_tests::{clips, process};

use crate::{ffmpeg, gstreamer, live555, retina, vlc};

/// Seconds of each clip.
pub(crate) const CLIP_S: u32 = 6;

/// Seconds into the clip to which clients seek. Random access points are a second apart.
pub(crate) const SEEK_S: u32 = 3;

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
    Vp9,
    Aac,
    Opus,
    Ac3,
    Mp3,
    L16,
    MuLaw,
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
}

impl Format {
    const fn movie(
        name: &'static str,
        file: &'static str,
        (video, audio): (Codec, Codec),
        encoders: (&'static str, &'static str),
    ) -> Format {
        Format { name, file, query: "", video, audio: Some(audio), encoders: Some(encoders) }
    }

    pub(crate) const ALL: [Format; 10] = [
        Format {
            name: "transport stream",
            file: "clip.ts",
            query: "",
            video: Codec::TransportStream,
            audio: None,
            encoders: None,
        },
        Format {
            name: "transport stream by tracks: H.264, AAC",
            file: "tracks.ts",
            query: "?demux=1",
            video: Codec::H264,
            audio: Some(Codec::Aac),
            encoders: Some(("libx264", "aac")),
        },
        Format::movie("MP4: H.264, AAC", "h264.mp4", (Codec::H264, Codec::Aac), ("libx264", "aac")),
        Format::movie("MP4: H.265, Opus", "h265.mp4", (Codec::H265, Codec::Opus), ("libx265", "libopus")),
        Format::movie("MP4: H.265, AC-3", "ac3.mp4", (Codec::H265, Codec::Ac3), ("libx265", "ac3")),
        Format::movie("MP4: H.264, MP3", "mp3.mp4", (Codec::H264, Codec::Mp3), ("libx264", "libmp3lame")),
        Format::movie("Matroska: H.264, AAC", "h264.mkv", (Codec::H264, Codec::Aac), ("libx264", "aac")),
        Format::movie("WebM: VP9, Opus", "vp9.webm", (Codec::Vp9, Codec::Opus), ("libvpx-vp9", "libopus")),
        Format::movie("Matroska: H.264, L16", "l16.mkv", (Codec::H264, Codec::L16), ("libx264", "pcm_s16be")),
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
            Some((video, audio)) => {
                let extension = self.file.rsplit('.').next().context("a file without an extension")?;
                clips::film(CLIP_S, video, audio, extension)
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
}

impl Transport {
    pub(crate) const ALL: [Transport; 5] =
        [Transport::Udp, Transport::Tcp, Transport::Tunnel, Transport::Multicast, Transport::Tls];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
            Transport::Tunnel => "HTTP tunnel",
            Transport::Multicast => "multicast",
            Transport::Tls => "rtsps",
        }
    }
}

/// What the client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Plays to the end.
    Play,
    /// Plays from [`SEEK_S`] to the end.
    Seek,
}

impl Operation {
    pub(crate) const ALL: [Operation; 2] = [Operation::Play, Operation::Seek];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Play => "plays to the end",
            Operation::Seek => "seeks",
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

    /// Plays, and compares what came with the file.
    ///
    /// # Errors
    /// [`Cannot`] for what the client has not, `Skip` where it is not installed; else the server's fault.
    pub(crate) fn play(&self, bed: &Bed) -> Result<()> {
        if (self.transport, self.operation) == (Transport::Multicast, Operation::Seek) {
            return Err(Cannot("a multicast group has one position for all clients").into());
        }
        match self.client {
            Client::Ffmpeg => ffmpeg::play(self, bed),
            Client::GStreamer => gstreamer::play(self, bed),
            Client::Vlc => vlc::play(self, bed),
            Client::Live555 => live555::play(self, bed),
            Client::Retina => retina::play(self, bed),
        }
    }

    /// Ensures that decoded pictures are those of the file, from its beginning or from a random access point near the
    /// time of the seek on. So many may be missing at the end, which the client cuts.
    pub(crate) fn ensure_pictures(&self, came: &[Frame], bed: &Bed, missing: usize) -> Result<()> {
        let stored = &bed.stored(&self.format)?[0];
        match self.operation {
            Operation::Play => frames::ensure_all(came, stored, missing),
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

    /// Ensures that decoded sound is that of the file, if it is compared: of PCM, packets divide it otherwise, and after
    /// a seek decoders begin with other noise.
    pub(crate) fn ensure_sound(&self, came: &[Frame], bed: &Bed, missing: usize) -> Result<()> {
        let is_pcm = matches!(self.format.audio, Some(Codec::L16 | Codec::MuLaw));
        if is_pcm || self.operation == Operation::Seek {
            return Ok(());
        }
        let stored = bed.stored(&self.format)?.get(1).context("the file has no sound")?;
        // Of WebM, a decoder of the file leaves out the last samples (DiscardPadding).
        let padded = usize::from(self.format.file.ends_with(".webm"));
        frames::ensure_from(&came[..came.len() - padded], stored, 2, missing + padded).map(drop)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { client, format, transport, operation } = self;
        write!(out, "{}, {}, {}, {}", client.name(), format.name, transport.name(), operation.name())
    }
}

/// A server of all formats.
pub(crate) struct Bed {
    pub(crate) server: Server,
    /// Frames of each file.
    stored: HashMap<&'static str, Vec<Vec<Frame>>>,
    folder: TempDir,
    _certificate: Certificate,
}

impl Bed {
    /// Makes the clips, and starts the server.
    pub(crate) fn new() -> Result<Bed> {
        let clips = Format::ALL.iter().map(|format| Ok((format.file, format.clip()?)));
        let clips: Vec<(&str, PathBuf)> = clips.collect::<Result<_>>()?;
        let files: Vec<_> = clips.iter().map(|(name, clip)| (*name, clip.as_path())).collect();
        let folder = clips::folder(&files)?;
        let mut stored = HashMap::new();
        for format in Format::ALL {
            let file = folder.path().join(format.file);
            let file = file.to_str().context("a file's name")?;
            stored.insert(format.file, frames::decode(format.reading(), file, LIMIT_S)?);
        }
        let certificate = Certificate::new()?;
        let groups = "239.9.9.1-239.9.9.99:5004?ttl=1&interface=127.0.0.1";
        let server =
            Server::of(folder.path()).with(certificate.arguments()).with(["--multicast", groups]).start()?;
        Ok(Bed { server, stored, folder, _certificate: certificate })
    }

    /// URL of a case for clients that know its transport by an option.
    pub(crate) fn url(&self, case: &Case) -> Result<String> {
        let (scheme, address) = match case.transport {
            Transport::Tls => ("rtsps", self.server.rtsps.context("the server has no rtsps")?),
            Transport::Tunnel => ("rtsp", self.server.http),
            Transport::Udp | Transport::Tcp | Transport::Multicast => ("rtsp", self.server.rtsp),
        };
        Ok(format!("{scheme}://{address}/{}{}", case.format.file, case.format.query))
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

/// A folder for what a client stores.
pub(crate) fn home() -> Result<TempDir> {
    process::open_folder()
}

/// Decodes what a client stored.
pub(crate) fn decode(file: &std::path::Path) -> Result<Vec<Vec<Frame>>> {
    frames::decode(&[], file.to_str().context("a file's name")?, LIMIT_S)
        .with_context(|| format!("decoding {}", file.display()))
}
