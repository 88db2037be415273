//! Packs movies and reads them back: restores the samples from the packets of their streams.

use proptest::prelude::*;

use super::*;
use crate::container::Movie;
use crate::image::{Identity, PathLimits, StreamPlan};
use crate::mp4::synthetic::{File, Layout, SampleShape, SampleTrack, audio, avc_configuration, visual};
use crate::mp4::synthetic::{atom, elementary_stream};
use crate::pack::testing::{Read, pack_movie, read};
use crate::payload::Units;
use crate::payload::depacketize::{Packet, depacketize, received};
use crate::payload::{Format, PcmEncoding, PcmFormat, TrackDescription};
use crate::rtp::{HEADER_LENGTH, Header, without_padding};
use crate::track::{Codec, Next, Sample, Track, TrackKind};

const LIMITS: PathLimits = PathLimits { payload: 300, burst_us: 20_000 };

pub(super) const VIDEO: [Format; 5] = [Format::H264, Format::H265, Format::Av1, Format::Vp8, Format::Vp9];

pub(super) const SOUND: [Format; 9] = [
    Format::Aac,
    Format::Opus,
    Format::MpegAudio,
    Format::Ac3,
    pcm(PcmEncoding::Pcma),
    pcm(PcmEncoding::L16),
    pcm(PcmEncoding::L24),
    pcm(PcmEncoding::L16Little),
    pcm(PcmEncoding::L24Little),
];

const fn pcm(encoding: PcmEncoding) -> Format {
    Format::Pcm(PcmFormat { encoding, channels: 2, sample_rate: 48_000 })
}

/// Configuration of H.265 with one parameter set of each kind.
pub(super) const HEVC: [&[u8]; 8] = [
    &[1, 1],
    &[0; 10],
    &[93],
    &[0; 8],
    &[3, 3],
    &[32, 0, 1, 0, 3, 0x40, 1, 2],
    &[33, 0, 1, 0, 4, 0x42, 1, 1, 60],
    &[34, 0, 1, 0, 3, 0x44, 1, 0xc1],
];

fn entry(format: Format) -> Vec<u8> {
    match format {
        Format::H264 => visual(b"avc1", &[avc_configuration()]),
        Format::H265 => visual(b"hvc1", &[atom(b"hvcC", &[HEVC.concat()])]),
        Format::Av1 => visual(b"av01", &[atom(b"av1C", &[vec![0x81, 8, 0, 0]])]),
        Format::Vp8 => visual(b"vp08", &[]),
        Format::Vp9 => visual(b"vp09", &[atom(b"vpcC", &[vec![1, 0, 0, 0, 2]])]),
        Format::Aac => audio(b"mp4a", &[elementary_stream(0x40, &[0x11, 0x90])]),
        Format::Opus => audio(b"Opus", &[]),
        Format::MpegAudio => audio(b".mp3", &[]),
        Format::Ac3 => audio(b"ac-3", &[]),
        Format::Pcm(PcmFormat { encoding, .. }) => match encoding {
            PcmEncoding::Pcma => audio(b"alaw", &[]),
            PcmEncoding::Pcmu => audio(b"ulaw", &[]),
            PcmEncoding::L16 => audio(b"twos", &[]),
            PcmEncoding::L24 => audio(b"in24", &[]),
            PcmEncoding::L16Little => audio(b"sowt", &[]),
            PcmEncoding::L24Little => audio(b"ipcm", &[atom(b"pcmC", &[vec![0, 0, 0, 0, 1, 24]])]),
        },
    }
}

pub(super) fn track(format: Format, samples: Vec<SampleShape>, edits: Vec<(u32, i32)>) -> SampleTrack {
    let handler = if VIDEO.contains(&format) { *b"vide" } else { *b"soun" };
    SampleTrack { timescale: 48_000, handler, entry: entry(format), samples, edits }
}

/// All samples of a file.
pub(super) fn samples(file: &[u8]) -> (Movie, Vec<Sample>) {
    let bytes = |wanted: Extent| file[wanted.offset as usize..wanted.end() as usize].to_vec();
    let mut reader = MovieReader::of(file, file.len() as u64).expect("a movie");
    while let Some(wanted) = reader.wanted() {
        reader.take(bytes(wanted)).expect("a good file");
    }
    let movie = reader.finish().expect("a good file");
    let (mut samples, mut found) = (movie.samples(), Vec::new());
    loop {
        match samples.next().expect("a good file") {
            Next::Read(wanted) => samples.take(bytes(wanted)).expect("a good file"),
            Next::Sample(sample) => found.push(sample),
            Next::Growth | Next::End => return (movie, found),
        }
    }
}

/// Fills samples of video with NAL units or OBUs of the given lengths in turn; the last unit fills the
/// sample.
pub(super) fn fill(file: &mut [u8], lengths: &[usize]) -> (Movie, Vec<Sample>) {
    let (movie, samples) = samples(file);
    let mut lengths = lengths.iter().copied().cycle();
    for sample in &samples {
        let mut rest = &mut file[sample.extent.offset as usize..sample.extent.end() as usize];
        let format = Format::of(&movie.tracks()[sample.track]);
        let header: &[u8] = match format {
            Ok(Format::H264) => &[0x61],
            Ok(Format::H265) => &[0x02, 0x01],
            Ok(Format::Av1) => {
                let (delimiter, units) = rest.split_at_mut(2);
                delimiter.copy_from_slice(&[0x12, 0]);
                rest = units;
                &[]
            }
            _ => continue,
        };
        while rest.len() >= 6 {
            let left = rest.len() - 4;
            let length = lengths.next().filter(|length| length + 6 <= left).unwrap_or(left).max(header.len());
            let prefix = match format {
                // OBU header of a frame with a size field of three bytes.
                Ok(Format::Av1) => {
                    [0x32, 0x80 | length as u8, 0x80 | (length >> 7) as u8, (length >> 14) as u8]
                }
                _ => (length as u32).to_be_bytes(),
            };
            rest[..4].copy_from_slice(&prefix);
            rest[4..4 + header.len()].copy_from_slice(header);
            rest = &mut rest[4 + length..];
        }
    }
    (movie, samples)
}

/// Units of a sample.
fn units(file: &[u8], track: &Track, sample: Extent) -> Vec<Unit> {
    let (mut walk, mut units) = (Units::new(&track.codec, sample), Vec::new());
    while let Some(wanted) = walk.wanted() {
        let bytes = &file[wanted.offset as usize..wanted.end() as usize];
        units.extend(walk.take(bytes).expect("a good sample"));
    }
    units
}

pub(super) fn playable(movie: &Movie) -> PlayableMovie {
    PlayableMovie::of(movie.clone()).expect("tracks that can be played")
}

pub(super) fn plan(file: &[u8], movie: &Movie) -> Plan {
    let mut number = 0;
    let mut random = || {
        number += 1;
        Ok::<_, ()>((number, 65_500, u32::MAX - 10 * number))
    };
    let streams = playable(movie).streams(&mut random).expect("numbers").expect("tracks");
    let identity = Identity { size: file.len() as u64, mtime_ns: 1, inode: 2, device: 3 };
    Plan { identity, recipe: LIMITS.tracks(), streams }
}

/// Packs a file into an image and reads the image back.
pub(super) fn packed(file: &[u8], movie: &Movie) -> Read {
    let (image, _) = pack_movie(file, plan(file, movie)).expect("it can be packed");
    read(&image).expect("an image as it should be")
}

/// Returns the packets of a stream with their headers; checks their sequence numbers and payload types.
pub(super) fn packets(image: &Read, stream: &StreamPlan) -> Vec<(Header, Packet)> {
    let packets = image.packets.iter().map(|packet| {
        let header = Header::parse(packet).expect("a header of RTP");
        let payload = without_padding(&header, &packet[HEADER_LENGTH..]).expect("valid padding");
        (header, (payload.to_vec(), header.marker))
    });
    let packets: Vec<_> = packets.filter(|(header, _)| header.ssrc == stream.ssrc).collect();
    for (number, (header, _)) in (0..).zip(&packets) {
        assert_eq!(header.sequence, stream.sequence_of(number), "packets of a stream are in sequence");
        assert_eq!(header.payload_type, stream.payload_type);
    }
    packets
}

/// Timestamp of a sample, from its presentation time.
fn timestamp(track: &Track, sample: &Sample, stream: &StreamPlan) -> u32 {
    let presented = sample.decode_time as i64 + sample.composition_offset + track.shift;
    let ticks = (presented * i64::from(stream.clock_hz)).div_euclid(track.timescale.into());
    stream.timestamp.wrapping_add(ticks as u32)
}

/// Parameter sets of a configuration, each after its length.
fn parameter_sets(codec: &Codec) -> Vec<u8> {
    let lists = match codec {
        Codec::H264(avc) => [&avc.sequence_sets[..], &avc.picture_sets, &[]],
        Codec::H265(hevc) => [&hevc.video_sets[..], &hevc.sequence_sets, &hevc.picture_sets],
        _ => return Vec::new(),
    };
    let all = lists.into_iter().flatten();
    all.flat_map(|set| [&(set.len() as u32).to_be_bytes()[..], set].concat()).collect()
}

pub(super) fn check(file: &[u8], movie: &Movie, samples: &[Sample]) {
    let image = packed(file, movie);
    let plan = image.header.plan;
    for (index, (track, stream)) in movie.tracks().iter().zip(plan.streams.iter()).enumerate() {
        let format = Format::of(track).expect("it is played");
        let ours: Vec<&Sample> = samples.iter().filter(|sample| sample.track == index).collect();
        let bytes = |sample: &Sample| {
            let sets = if sample.sync { parameter_sets(&track.codec) } else { Vec::new() };
            [sets, received(file, format, sample.extent, &units(file, track, sample.extent))].concat()
        };
        let packets = packets(&image, stream);
        let read: Vec<Packet> = packets.iter().map(|(_, packet)| packet.clone()).collect();
        let read = depacketize(format, &read).expect("packets that a receiver takes");
        let expected: Vec<Vec<u8>> = ours.iter().map(|sample| bytes(sample)).collect();
        assert_eq!(read.concat(), expected.concat(), "other bytes of track {index}");
        if track.kind == TrackKind::Video {
            assert_eq!(read, expected);
            let last = packets.iter().filter(|(header, _)| header.marker);
            let times: Vec<u32> = last.map(|(header, _)| header.timestamp).collect();
            let expected: Vec<u32> = ours.iter().map(|sample| timestamp(track, sample, stream)).collect();
            assert_eq!(times, expected, "timestamps are presentation times");
        }
    }
    let trains = image.trains.iter().flatten();
    for start in &image.table.starts {
        let train = image.trains[start.segment as usize][start.train as usize];
        assert!(train.start && train.departure_us == start.departure_us);
    }
    assert_eq!(trains.filter(|train| train.start).count(), image.table.starts.len());
    let description = image.table.description.movie().expect("a movie");
    assert!(description.warnings.is_empty(), "{:?}", description.warnings);
    assert_eq!(description.tracks.len(), movie.tracks().len());
}

fn shape() -> impl Strategy<Value = SampleShape> {
    (prop_oneof![12u32..60, 12u32..6000], 1u32..4000, 0i32..5000, any::<bool>()).prop_map(
        |(length, duration, composition_offset, sync)| SampleShape {
            length,
            duration,
            composition_offset,
            sync,
        },
    )
}

fn audio_shape() -> impl Strategy<Value = SampleShape> {
    (1u32..400, prop_oneof![Just(1024u32), 1u32..9000]).prop_map(|(length, duration)| SampleShape {
        length,
        duration,
        composition_offset: 0,
        sync: true,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Promise: Samples of all tracks of an MP4 file are restored from its image byte for byte, with their
    /// times.
    #[test]
    fn samples_come_back(
        video in proptest::collection::vec(shape(), 1..20),
        sound in proptest::collection::vec(audio_shape(), 1..40),
        format in proptest::sample::select(&VIDEO[..]),
        sounds in proptest::sample::subsequence(&SOUND[..], 0..4),
        lengths in proptest::collection::vec(3usize..2000, 1..8),
        layout in proptest::sample::select(
            vec![Layout::Front, Layout::End, Layout::SeveralMdat, Layout::Fragments]),
        samples_in_chunk in 1usize..5,
        edit in 0i32..2000,
        long: bool,
    ) {
        let edits = if edit > 0 { vec![(0, edit)] } else { Vec::new() };
        let mut tracks = vec![track(format, video, edits)];
        tracks.extend(sounds.into_iter().map(|format| {
            let most = if format == Format::Opus { 300 } else { 400 };
            let fitting = |shape: &SampleShape| SampleShape { length: shape.length.min(most), ..*shape };
            track(format, sound.iter().map(fitting).collect(), Vec::new())
        }));
        let mut file = File { tracks, layout, samples_in_chunk, long }.bytes();
        let (movie, samples) = fill(&mut file, &lengths);
        check(&file, &movie, &samples);
    }
}

pub(super) fn shapes(count: usize, length: u32, duration: u32) -> Vec<SampleShape> {
    let shape = |number| SampleShape { length, duration, composition_offset: 0, sync: number % 5 == 0 };
    (0..count).map(shape).collect()
}

pub(super) fn one_track(track: SampleTrack) -> File {
    File { tracks: vec![track], layout: Layout::Front, samples_in_chunk: 2, long: false }
}

/// Promise: The packets of a picture are spread over its frame duration.
#[test]
fn the_packets_of_a_picture_are_spread_over_its_time() {
    // 40 ms for 60 packets of 300 bytes.
    let mut file = one_track(track(Format::H264, shapes(4, 60 * 298, 1920), Vec::new())).bytes();
    let (movie, _) = fill(&mut file, &[1 << 20]);
    let image = packed(&file, &movie);
    let trains: Vec<_> = image.trains.iter().flatten().collect();
    let of_first: Vec<_> = trains.iter().filter(|train| train.departure_us < 40_000).collect();
    let sizes: Vec<_> = of_first.iter().map(|train| (train.departure_us / 20_000, train.packets())).collect();
    // With padding, the picture needs a packet more. The packet of parameter sets is a train by itself.
    assert_eq!(sizes, [(0, 1), (0, 30), (1, 31)]);
    assert!(trains.iter().all(|train| train.packets() <= 31), "no spike");
}

/// Promise: Pictures at 23.976 Hz and sound stay in sync within a tick for an hour.
#[test]
fn pictures_and_sound_are_in_step_for_an_hour() {
    const HOUR_S: usize = 3600;
    let (pictures, frames) = (HOUR_S * 24_000 / 1001, HOUR_S * 48_000 / 1024);
    let video = track(Format::H264, shapes(pictures, 20, 1001), Vec::new());
    let tracks = vec![
        SampleTrack { timescale: 24_000, ..video },
        track(Format::Aac, shapes(frames, 12, 1024), Vec::new()),
    ];
    let mut file = File { tracks, layout: Layout::End, samples_in_chunk: 30, long: false }.bytes();
    let (movie, _) = fill(&mut file, &[1 << 20]);
    let image = packed(&file, &movie);
    let streams = image.header.plan.streams;
    let ticks = |stream: usize| {
        let first = streams[stream].timestamp;
        let packets = packets(&image, &streams[stream]).into_iter();
        packets.map(move |(header, _)| header.timestamp.wrapping_sub(first)).collect::<Vec<u32>>()
    };
    let video = ticks(0);
    let expected = (0..pictures as u64).map(|picture| (picture * 1001 * 90_000 / 24_000) as u32);
    assert!(video.iter().copied().eq(expected), "a timestamp of a picture is not its time");
    let sound = ticks(1);
    assert!(sound.iter().all(|ticks| ticks % 1024 == 0), "a timestamp of sound is not that of a frame");
    let last = sound.last().copied().unwrap_or_default() as usize / 1024;
    assert!((frames - 4..frames).contains(&last), "the last packet begins with frame {last} of {frames}");
    // Both leave at their times, too.
    for train in image.trains.iter().flatten() {
        let stream = &streams[usize::from(train.stream)];
        let ticks = u64::from(train.timestamp.wrapping_sub(stream.timestamp));
        let time_us = ticks * 1_000_000 / u64::from(stream.clock_hz);
        assert!(train.departure_us.abs_diff(time_us) < 250_000, "{time_us} leaves at {}", train.departure_us);
    }
}

#[test]
fn frames_of_audio_do_not_share_a_packet_over_a_gap() {
    let mut frames = shapes(8, 20, 1024);
    frames[2].duration = 48_000;
    let file = one_track(track(Format::Aac, frames, Vec::new())).bytes();
    let (movie, found) = samples(&file);
    check(&file, &movie, &found);
    let image = packed(&file, &movie);
    let frames = |packet: &Vec<u8>| packet[HEADER_LENGTH + 1] / 16;
    assert_eq!(image.packets.iter().map(frames).collect::<Vec<_>>(), [3, 4, 1]);
}

#[test]
fn starts_are_random_access_points_of_video_with_the_audio_of_their_time() {
    let tracks = vec![
        track(Format::H264, shapes(20, 500, 4800), Vec::new()),
        track(Format::Opus, shapes(100, 40, 960), Vec::new()),
    ];
    let mut file = File { tracks, layout: Layout::End, samples_in_chunk: 3, long: false }.bytes();
    let (movie, found) = fill(&mut file, &[50]);
    check(&file, &movie, &found);
    let image = packed(&file, &movie);
    let starts: Vec<u64> = image.table.starts.iter().map(|start| start.departure_us).collect();
    assert_eq!(starts, [0, 500_000, 1_000_000, 1_500_000]);
    let start = image.table.starts[2];
    let behind = image.trains[start.segment as usize].iter().skip(start.train as usize);
    let sound = behind.clone().find(|train| train.stream == 1).expect("sound");
    assert_eq!(sound.departure_us, 1_000_000);
    assert_eq!(image.header.duration_us, 2_000_000);
}

#[test]
fn what_is_long_before_the_beginning_is_left_out() {
    // Random access points every 500 ms; the edit begins at 1.2 s.
    let tracks = vec![
        track(Format::H264, shapes(20, 500, 4800), vec![(0, 57_600)]),
        track(Format::Opus, shapes(100, 40, 960), vec![(0, 57_600)]),
    ];
    let mut file = File { tracks, layout: Layout::End, samples_in_chunk: 3, long: false }.bytes();
    let (movie, _) = fill(&mut file, &[50]);
    let image = packed(&file, &movie);
    let streams = image.header.plan.streams;
    // The first picture sent is that at 0.5 s, which ends at 0.6 s: half a second of preroll is sent.
    let pictures = packets(&image, &streams[0]).iter().filter(|(header, _)| header.marker).count();
    assert_eq!((pictures, packets(&image, &streams[1]).len()), (15, 65));
}

/// Promise: The duration of a fragmented MP4 file with reordered pictures is the same before and after packing.
#[test]
fn the_duration_of_a_fragmented_file_is_that_of_its_image() {
    for (edits, duration_us) in [(Vec::new(), 1_040_000), (vec![(0, 3840)], 960_000)] {
        // Shown two pictures late, in the order 0, 2, 3, 1: the last one decoded is not the last one shown.
        let offsets = [2, 4, 1, 1].map(|pictures| pictures * 1920);
        let picture = |number: usize| SampleShape {
            length: 300,
            duration: 1920,
            composition_offset: offsets[number % 4],
            sync: number.is_multiple_of(4),
        };
        let tracks = vec![track(Format::H264, (0..24).map(picture).collect(), edits)];
        let mut file = File { tracks, layout: Layout::Fragments, samples_in_chunk: 4, long: false }.bytes();
        let (movie, _) = fill(&mut file, &[50]);
        let mut reader = movie.duration();
        while let Some(wanted) = reader.wanted() {
            reader.take(file[wanted.offset as usize..wanted.end() as usize].to_vec());
        }
        let packed_us = packed(&file, &movie).header.duration_us;
        assert_eq!((reader.finish(), packed_us), (Some(duration_us), duration_us));
    }
}

/// Promise: A movie that was trimmed without encoding ends where its edit list says, in all tracks.
#[test]
fn what_is_after_the_end_is_left_out() {
    let tracks = vec![
        track(Format::H264, shapes(20, 500, 4800), vec![(1000, 24_000)]),
        track(Format::Opus, shapes(100, 40, 960), vec![(1000, 24_000)]),
    ];
    let mut file = File { tracks, layout: Layout::End, samples_in_chunk: 3, long: false }.bytes();
    let (movie, _) = fill(&mut file, &[50]);
    let image = packed(&file, &movie);
    let streams = image.header.plan.streams;
    let pictures = packets(&image, &streams[0]).iter().filter(|(header, _)| header.marker).count();
    // The half second before the beginning is sent, too.
    assert_eq!((pictures, packets(&image, &streams[1]).len()), (15, 75));
    assert_eq!((image.header.duration_us, movie.duration_us()), (1_000_000, None));
}

/// Promise: Edits of MP4 and rates of edits that are not applied are warnings that name the track.
#[test]
fn edits_that_are_not_applied_are_warned_of() {
    let edits = vec![(500, 24_000), (500, 72_000)];
    let mut file = one_track(track(Format::Opus, shapes(100, 40, 960), edits)).bytes();
    let list = file.windows(4).position(|name| name == b"elst").expect("an edit list");
    file[list + 20..list + 24].copy_from_slice(&0x8000u32.to_be_bytes());
    let PlayableMovie { description, .. } = playable(&samples(&file).0);
    let warnings: Vec<String> =
        description.warnings.first.iter().map(|warning| warning.kind.to_string()).collect();
    assert_eq!(
        warnings,
        [
            "track 1: 1 edits after the first are not applied: their media is left out",
            "track 1: the rate of 1 edits is not applied: their media is played at the normal rate",
        ]
    );
}

/// Promise: A damaged track of an MP4 file is left out with a warning that names it.
#[test]
fn tracks_that_cannot_be_played_are_left_out_with_a_warning() {
    let other = |entry| SampleTrack { entry, ..track(Format::Opus, shapes(3, 40, 960), Vec::new()) };
    let tracks = vec![
        other(audio(b"fLaC", &[])),
        track(Format::H264, shapes(3, 500, 4800), Vec::new()),
        other(audio(b"enca", &[])),
        other(visual(b"avc1", &[])[..20].to_vec()),
    ];
    let mut file = File { tracks, layout: Layout::Front, samples_in_chunk: 3, long: false }.bytes();
    let (movie, _) = fill(&mut file, &[50]);
    let PlayableMovie { movie: left, description, .. } = playable(&movie);
    assert_eq!(left.tracks().len(), 1);
    let warnings: Vec<String> =
        description.warnings.first.iter().map(|warning| warning.kind.to_string()).collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].starts_with("track 4 is left out: MP4 box avc1"), "{warnings:?}");
    assert_eq!(warnings[1], "track 1 is left out: no RTP payload format for fLaC");
    assert_eq!(warnings[2], "track 3 is left out: its samples are encrypted");
    let image = packed(&file, &movie);
    assert_eq!(image.table.description.movie().map(|movie| movie.warnings.first.len()), Some(3));

    let file = one_track(other(audio(b"fLaC", &[]))).bytes();
    let error = PlayableMovie::of(samples(&file).0).expect_err("nothing can be played").to_string();
    assert!(error.ends_with("; track 1 is left out: no RTP payload format for fLaC"), "{error}");
}

#[test]
fn a_damaged_sample_is_played_as_far_as_it_is_good() {
    let mut file = one_track(track(Format::H264, shapes(3, 500, 4800), Vec::new())).bytes();
    let (movie, found) = fill(&mut file, &[50]);
    let second = found[1].extent.offset as usize;
    file[second + 54..second + 58].copy_from_slice(&[0xff; 4]);
    let image = packed(&file, &movie);
    let description = image.table.description.movie().expect("a movie");
    let warnings: Vec<String> = description.warnings.first.iter().map(ToString::to_string).collect();
    let at = second + 54;
    let expected = format!(
        "byte {second}: a sample of track 1 is damaged: NAL unit at byte {at}: it ends after its sample"
    );
    assert_eq!(warnings, [expected]);
    let pictures =
        packets(&image, &image.header.plan.streams[0]).iter().filter(|(header, _)| header.marker).count();
    assert_eq!(pictures, 3);
}

#[test]
fn a_file_that_is_cut_is_played_as_far_as_it_goes() {
    let tracks = vec![
        track(Format::H264, shapes(20, 500, 4800), Vec::new()),
        track(Format::Opus, shapes(100, 40, 960), Vec::new()),
    ];
    let mut file = File { tracks, layout: Layout::Front, samples_in_chunk: 3, long: false }.bytes();
    fill(&mut file, &[50]);
    file.truncate(file.len() - 5000);
    let (movie, _) = samples(&file);
    let image = packed(&file, &movie);
    let description = image.table.description.movie().expect("a movie");
    let warnings: Vec<String> =
        description.warnings.first.iter().map(|warning| warning.kind.to_string()).collect();
    assert!(warnings.iter().any(|warning| warning.starts_with("track 1 ends early: sample ")));
    assert!(image.packets.len() > 20);
}

#[test]
fn descriptions_have_rates_and_payload_types() {
    let tracks = vec![
        track(Format::MpegAudio, shapes(10, 40, 1152), Vec::new()),
        track(Format::H264, shapes(10, 500, 1920), Vec::new()),
    ];
    let mut file = File { tracks, layout: Layout::Front, samples_in_chunk: 3, long: false }.bytes();
    let (movie, _) = fill(&mut file, &[50]);
    let image = packed(&file, &movie);
    let of = |track: &TrackDescription| (track.payload_type, track.video, track.bits_per_second);
    let tracks: Vec<_> = image.table.description.movie().expect("a movie").tracks.iter().map(of).collect();
    assert_eq!(
        tracks.iter().map(|(kind, video, _)| (*kind, *video)).collect::<Vec<_>>(),
        [(14, false), (97, true)]
    );
    assert!(tracks[1].2.is_some_and(|rate| (95_000..100_000).contains(&rate)), "{tracks:?}");
}

#[test]
fn another_kind_of_file_is_not_packed() {
    let mut packer = MoviePacker::new(plan_of_text()).expect("a plan that can be followed");
    assert_eq!(packer.wanted(), Wanted::Bytes(Extent { offset: 0, length: 12 }));
    assert_eq!(packer.take(b"no movie at all"), Err(Error::NotMovie));
}

fn plan_of_text() -> Plan {
    let (movie, _) = samples(&one_track(track(Format::Opus, shapes(3, 40, 960), Vec::new())).bytes());
    plan(b"no movie at all", &movie)
}

/// Promise: A movie whose first sample is late in the file departs from time 0 on, with its tracks in sync.
#[test]
fn the_time_before_the_first_sample_is_left_out() {
    let tracks = |minute: u32| {
        let delay = |ms| vec![(ms, -1), (400, 0)];
        vec![
            track(Format::H264, shapes(10, 400, 1920), delay(60_000 * minute)),
            track(Format::Aac, shapes(18, 30, 1024), delay(60_000 * minute + 80)),
        ]
    };
    let images = [0, 1, 1000].map(|minute| {
        let mut file =
            File { tracks: tracks(minute), layout: Layout::Front, samples_in_chunk: 2, long: false }.bytes();
        let (movie, _) = fill(&mut file, &[500]);
        packed(&file, &movie)
    });
    let streams = images[0].header.plan.streams;
    for image in &images {
        assert_eq!(image.trains[0][0].departure_us, 0);
        assert_eq!(image.header.duration_us, images[0].header.duration_us);
        for (stream, first) in streams.iter().zip([0, 80]) {
            let (header, _) = packets(image, stream)[0];
            assert_eq!(header.timestamp.wrapping_sub(stream.timestamp), first * (stream.clock_hz / 1000));
        }
    }
}
