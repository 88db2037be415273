//! First inputs that are made, not kept: transport streams, and images packed from them. They are the same
//! each time.

use wirepath_media::container::MovieReader;
use wirepath_media::image::{
    Identity, Layout, PAGE, PathLimits, Plan, Recipe, StreamPlan, Writer, copy_payload,
};
use wirepath_media::matroska;
use wirepath_media::mp4::synthetic::{self, File, SampleShape, SampleTrack};
use wirepath_media::pack::{Error, PlayableMovie, Wanted, packer};
use wirepath_media::payload::{Format, PcmEncoding, PcmFormat, cases};
use wirepath_media::ts::synthetic::{Jump, Sample, SampleProgramme};
use wirepath_media::ts::{Framing, NULL_PID};

/// An input.
pub struct Seed {
    /// The target that it is for.
    pub target: &'static str,
    /// Its name, by what is special.
    pub name: &'static str,
    /// The input itself.
    pub bytes: Vec<u8>,
}

/// All of them.
pub fn all() -> Result<Vec<Seed>, Error> {
    let text = b"\x06\x40This is not a transport stream.".to_vec();
    let mut seeds = vec![
        Seed { target: "ts", name: "text", bytes: text },
        Seed { target: "image", name: "unfinished", bytes: vec![1; PAGE as usize + 1] },
    ];
    for (name, sample) in samples() {
        let bytes = sample.stream().bytes;
        seeds.push(Seed { target: "ts", name, bytes: [&[6, 200], &bytes[..]].concat() });
        if sample.programmes.iter().any(|programme| programme.ticks) {
            let image = image(&bytes, 1 + bytes.len() as u16 % 3, Layout::Image)?;
            seeds.push(Seed { target: "image", name, bytes: [&[1], &image[..]].concat() });
        }
    }
    let index = image(&Sample { packets: 60, ..Sample::default() }.stream().bytes, 3, Layout::Index)?;
    seeds.push(Seed { target: "image", name: "index", bytes: [&[1], &index[..]].concat() });
    for movie in movies().chain(matroska_files()) {
        if let Some(image) = movie_image(&movie.bytes)? {
            seeds.push(Seed { target: "image", name: movie.name, bytes: [&[1], &image[..]].concat() });
        }
        seeds.push(movie);
    }
    seeds.extend(demuxed());
    Ok(seeds)
}

/// The image of a movie that has samples to be played.
fn movie_image(asset: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let Some(mut reader) = MovieReader::of(asset, asset.len() as u64) else { return Ok(None) };
    while let Some(wanted) = reader.wanted() {
        reader.take(asset[wanted.offset as usize..wanted.end() as usize].to_vec())?;
    }
    let Ok(playable) = PlayableMovie::of(reader.finish()?) else { return Ok(None) };
    let Some(plan) = movie_plan(asset, &playable, 100) else { return Ok(None) };
    match pack(asset, plan, Layout::Image) {
        Err(Error::NothingPlayable) => Ok(None),
        image => image.map(Some),
    }
}

/// Movies: one for each way to lay one out, and one for each case of a payload format.
fn movies() -> impl Iterator<Item = Seed> {
    use synthetic::Layout::{End, Fragments, Front, SeveralMdat};
    let layouts = [
        ("front", Front, false),
        ("end", End, false),
        ("long", End, true),
        ("several-mdat", SeveralMdat, false),
        ("fragments", Fragments, false),
    ];
    let layouts = layouts.into_iter().map(|(name, layout, long)| {
        let mut file = File { layout, long, ..File::default() };
        file.tracks[0].samples[1].composition_offset = 80;
        file.tracks[0].edits = vec![(40, -1), (200, 40)];
        file.tracks.push(track(Format::Aac, &[&[7], &[9], &[200]]));
        Seed { target: "mp4", name, bytes: file.bytes() }
    });
    let cases = cases::CASES.iter().map(|case| {
        let tracks = vec![track(case.format, case.samples)];
        Seed { target: "mp4", name: case.name, bytes: with_units(File { tracks, ..File::default() }, case) }
    });
    layouts.chain(cases)
}

/// A track of this format, whose samples have so many bytes as its units with their lengths.
fn track(format: Format, samples: &[&[usize]]) -> SampleTrack {
    use synthetic::{atom, audio, avc_configuration, elementary_stream, visual};
    let hevc = atom(b"hvcC", &[[&[1, 1][..], &[0; 10], &[93], &[0; 8], &[3, 0]].concat()]);
    let (entry, prefix) = match format {
        Format::H264 => (visual(b"avc1", &[avc_configuration()]), 4),
        Format::H265 => (visual(b"hvc1", &[hevc]), 4),
        Format::Aac => (audio(b"mp4a", &[elementary_stream(0x40, &[0x11, 0x90])]), 0),
        Format::Opus => (audio(b"Opus", &[]), 0),
        Format::MpegAudio => (audio(b".mp3", &[]), 0),
        Format::Ac3 => (audio(b"ac-3", &[atom(b"dac3", &[vec![0x10, 0x3d, 0x60]])]), 0),
        Format::Av1 => (visual(b"av01", &[atom(b"av1C", &[vec![0x81, 8, 0, 0]])]), 5),
        Format::Vp8 => (visual(b"vp08", &[]), 0),
        Format::Vp9 => (visual(b"vp09", &[atom(b"vpcC", &[vec![1, 0, 0, 0, 2]])]), 0),
        Format::Pcm(PcmFormat { encoding, .. }) => match encoding {
            PcmEncoding::Pcma => (audio(b"alaw", &[]), 0),
            PcmEncoding::Pcmu => (audio(b"ulaw", &[]), 0),
            PcmEncoding::L16 => (audio(b"twos", &[]), 0),
            PcmEncoding::L24 => (audio(b"in24", &[]), 0),
            PcmEncoding::L16Little => (audio(b"sowt", &[]), 0),
            PcmEncoding::L24Little => (audio(b"ipcm", &[atom(b"pcmC", &[vec![0, 0, 0, 0, 1, 24]])]), 0),
        },
    };
    let shape = |units: &&[usize]| {
        let length = units.iter().map(|length| length + prefix).sum::<usize>() as u32;
        SampleShape { length, duration: 40, composition_offset: 0, sync: true }
    };
    let video = prefix > 0 || matches!(format, Format::Vp8 | Format::Vp9);
    let handler = if video { *b"vide" } else { *b"soun" };
    let samples = samples.iter().map(shape).collect();
    SampleTrack { timescale: 1000, handler, entry, samples, edits: Vec::new() }
}

/// The file with NAL units or OBUs in the samples of its only track, which are at its end.
fn with_units(file: File, case: &cases::Case) -> Vec<u8> {
    let mut bytes = file.bytes();
    if matches!(case.format, Format::H264 | Format::H265 | Format::Av1) {
        let units = case.samples.iter().flat_map(|sample| sample.iter());
        let media: Vec<u8> = units.flat_map(|length| unit(case.format, *length)).collect();
        let start = bytes.len() - media.len();
        bytes[start..].copy_from_slice(&media);
    }
    bytes
}

/// A unit as it is in a sample: a NAL unit after its length; or an OBU, whose size has five bytes, and of
/// whose length its header is one.
fn unit(format: Format, length: usize) -> Vec<u8> {
    if format != Format::Av1 {
        return [&(length as u32).to_be_bytes()[..], &vec![2; length]].concat();
    }
    let body = length.saturating_sub(1);
    let size = [0, 7, 14, 21].map(|shift| 0x80 | (body >> shift) as u8);
    [&[0x32][..], &size, &[0], &vec![3; body]].concat()
}

/// Matroska files: one for each way to lay one out, and one for each codec that is read by its configuration.
fn matroska_files() -> impl Iterator<Item = Seed> {
    use matroska::synthetic::{BlockShape, File, Lacing, audio, avc_configuration, element, number, video};
    let lace = |time, lacing, group, frames: &[usize]| BlockShape {
        track: 2,
        time,
        lacing,
        group,
        frames: frames.to_vec(),
        ..BlockShape::default()
    };
    let mut file = File::default();
    file.tracks.push(audio(2, "A_AAC", &[0x11, 0x90], &number(0x56aa, 21_333_333)));
    file.blocks.extend([
        lace(81, Lacing::Xiph, false, &[300, 7, 9]),
        lace(145, Lacing::Ebml, true, &[80, 200, 9]),
        lace(209, Lacing::Fixed, false, &[40; 3]),
    ]);
    let encrypted = element(0x6d80, &element(0x6240, &number(0x5033, 1)));
    let with = |tracks: Vec<Vec<u8>>| File { tracks, ..File::default() };
    let sound = |codec: &str, private: &[u8]| with(vec![audio(1, codec, private, &[])]);
    let picture =
        |codec: &str, private: &[u8]| with(vec![video(1, codec, private, &number(0x23e383, 40_000_000))]);
    let files = [
        ("unknown-sizes", File { unknown_sizes: true, document: "webm", ..file.clone() }),
        ("tracks-last", File { tracks_last: true, ..file.clone() }),
        ("laces", file),
        ("h264", picture("V_MPEG4/ISO/AVC", &avc_configuration())),
        ("av1", picture("V_AV1", &[0x81, 8, 0, 0])),
        ("vp8", picture("V_VP8", &[])),
        ("opus", sound("A_OPUS", &[])),
        ("mp3", sound("A_MPEG/L3", &[])),
        ("pcm", sound("A_PCM/INT/BIG", &[])),
        ("g711", sound("A_MS/ACM", &[6, 0])),
        ("encrypted", with(vec![audio(1, "A_AC3", &[], &encrypted)])),
    ];
    files.into_iter().map(|(name, file)| Seed { target: "matroska", name, bytes: file.bytes() })
}

/// Transport streams with elementary streams: one for each codec, one of timestamps that wrap and that jump.
fn demuxed() -> impl Iterator<Item = Seed> {
    use wirepath_media::demux::synthetic::{File, PesPacket, access_unit, adts};
    let file = |zero: u64, streams: &[(u16, u8, Vec<u8>)], data: &dyn Fn(usize, u64) -> Vec<u8>| {
        let packets = (0..12).flat_map(|index| (0..streams.len()).map(move |stream| (index, stream)));
        let packets = packets.map(|(index, stream)| {
            let time = (zero + 3600 * index) % (1 << 33);
            let (times, sized) = (Some((time, time)), stream > 0);
            PesPacket { stream, times, sized, data: data(stream, index) }
        });
        File { streams: streams.to_vec(), packets: packets.collect(), tables_every: 8 }.bytes()
    };
    let usual = [(0x100, 0x1b, vec![]), (0x101, 0x0f, b"\x0a\x04deu\0".to_vec())];
    let both = |stream: usize, index: u64| match stream {
        0 => access_unit(index.is_multiple_of(5), &[vec![index as u8 + 1; 300], vec![3; 9]]),
        _ => [adts(&[index as u8; 90]), adts(&[7; 50])].concat(),
    };
    let plain = file(1000, &usual, &both);
    let h265 = |_: usize, index: u64| {
        let sets = b"\0\0\x01\x40\x01\x0c\0\0\x01\x42\x01\x01\x01\x60\0\0\x03\0\x90\0\0\x03\0\0\x03\0\x5d\0\0\x01\x44\x01\xc1";
        [&sets[..], &[0, 0, 1, if index == 0 { 0x26 } else { 2 }, 1, 0x80, 9, 9]].concat()
    };
    let mpeg_audio = |_: usize, _: u64| [&[0xff, 0xfb, 0x90, 0][..], &[1; 413]].concat();
    let ac3 = |_: usize, _: u64| [&[0x0b, 0x77, 0, 0, 0, 0x40, 0x40][..], &[1; 121]].concat();
    let opus = |_: usize, _: u64| vec![0x7f, 0xe0, 3, 0x08, 1, 2];
    let registered = |name: &[u8; 4]| [&[5, 4][..], name].concat();
    [
        ("joined", [&plain[..], &file(70_000, &usual, &both)].concat()),
        ("wrap", file((1 << 33) - 9000, &usual, &both)),
        ("h265", file(0, &[(0x100, 0x24, vec![])], &h265)),
        ("mp3", file(0, &[(0x100, 0x03, vec![])], &mpeg_audio)),
        ("ac3", file(0, &[(0x100, 0x81, vec![])], &ac3)),
        ("opus", file(0, &[(0x100, 0x06, [registered(b"Opus"), vec![0x7f, 2, 0x80, 2]].concat())], &opus)),
        ("plain", plain),
    ]
    .into_iter()
    .map(|(name, bytes)| Seed { target: "demux", name, bytes })
}

/// Short streams, one for each thing that can be special about one.
fn samples() -> Vec<(&'static str, Sample)> {
    let small = Sample { packets: 60, tables_every: 20, pcr_every: 10, ..Sample::default() };
    let own = SampleProgramme { pcr_pid: 0x1f0, ..SampleProgramme::numbered(1) };
    let clockless = SampleProgramme { pcr_pid: NULL_PID, ticks: false, ..SampleProgramme::numbered(1) };
    let several = (1..4).map(SampleProgramme::numbered).collect();
    let with_video = |stream_type| {
        let mut programme = SampleProgramme::numbered(1);
        programme.streams[0].1 = stream_type;
        Sample { programmes: vec![programme], marks_random_access: false, ..small.clone() }
    };
    let jumping =
        |ticks, flagged| Sample { jumps: vec![Jump { packet: 30, ticks, flagged }], ..small.clone() };
    vec![
        ("bare", small.clone()),
        ("timestamped", Sample { framing: Framing::Timestamped, ..small.clone() }),
        ("protected", Sample { framing: Framing::Protected, ..small.clone() }),
        ("clock-on-its-own", Sample { programmes: vec![own], ..small.clone() }),
        ("no-clock", Sample { programmes: vec![clockless.clone()], ..small.clone() }),
        (
            "second-programme-ticks",
            Sample { programmes: vec![clockless, SampleProgramme::numbered(2)], ..small.clone() },
        ),
        ("several-programmes", Sample { programmes: several, ..small.clone() }),
        ("no-tables", Sample { tables_every: 0, ..small.clone() }),
        ("wrap", Sample { first_pcr: (300 << 33) - 300_000, ..small.clone() }),
        ("jump-forward", jumping(1 << 40, false)),
        ("jump-back", jumping((300 << 33) - (1 << 30), false)),
        ("jump-announced", jumping(5_000_000, true)),
        ("one-reference", Sample { pcr_every: 1000, ..small.clone() }),
        ("mpeg2-video", with_video(0x02)),
        ("h264-video", with_video(0x1b)),
        ("h265-video", with_video(0x24)),
        ("sound-only", with_video(0x0f)),
    ]
}

fn image(asset: &[u8], ts_per_packet: u16, layout: Layout) -> Result<Vec<u8>, Error> {
    let recipe = Recipe::transport_stream(ts_per_packet, 5000);
    let streams = StreamPlan::transport_stream(4, 5, 6).into();
    pack(asset, Plan { identity: identity(asset), recipe, streams }, layout)
}

/// Identity of a file that is in memory.
pub(crate) fn identity(asset: &[u8]) -> Identity {
    Identity { size: asset.len() as u64, mtime_ns: 1, inode: 2, device: 3 }
}

/// Plan of the image of a movie of which all tracks are played.
pub(crate) fn movie_plan(asset: &[u8], movie: &PlayableMovie, limit: u16) -> Option<Plan> {
    let mut number = 0;
    let mut random = || {
        number += 1;
        Ok::<_, ()>((number, 65_500, u32::MAX - 1000 * number))
    };
    let streams = movie.streams(&mut random).ok().flatten()?;
    let recipe = PathLimits { payload: limit, burst_us: 20_000 }.tracks();
    Some(Plan { identity: identity(asset), recipe, streams })
}

/// The file of an image or index of an asset that is in memory.
pub(crate) fn pack(asset: &[u8], plan: Plan, layout: Layout) -> Result<Vec<u8>, Error> {
    let mut packer = packer(plan).expect("a plan that can be followed");
    let (mut image, mut writer) = (vec![0; PAGE as usize], Writer::new(plan, layout));
    let mut end = None;
    loop {
        while let Some(segment) = packer.pop()? {
            let written = writer.add(&segment, copy_payload(asset)).expect("copying does not fail");
            image.resize(written.entry.offset as usize, 0);
            image.extend(written.bytes);
        }
        match packer.wanted() {
            _ if end.is_some() => break,
            Wanted::Bytes(wanted) => packer.take(&asset[wanted.offset as usize..wanted.end() as usize])?,
            Wanted::Nothing => {}
            Wanted::Growth(_) => unreachable!("the packer was not told that the asset grows"),
            Wanted::End => end = Some(packer.finish()?),
        }
    }
    let summary = writer.finish(end.expect("it has ended"));
    image.resize(summary.header.table.offset as usize, 0);
    image.extend(summary.table_bytes);
    image[..PAGE as usize].copy_from_slice(&summary.header.encode());
    Ok(image)
}
