//! Packs Matroska files and reads them back.

use proptest::prelude::*;

use super::tests::{HEVC, SOUND, VIDEO, check, fill, packed, packets, playable, samples};
use super::*;
use crate::container::Movie;
use crate::matroska::synthetic as matroska;
use crate::payload::depacketize::{Packet, depacketize};
use crate::payload::{Format, PcmEncoding, PcmFormat};

/// Track entry of Matroska.
fn matroska_entry(number: u64, format: Format) -> Vec<u8> {
    use matroska::{audio, avc_configuration, video};
    match format {
        Format::H264 => video(number, "V_MPEG4/ISO/AVC", &avc_configuration(), &[]),
        Format::H265 => video(number, "V_MPEGH/ISO/HEVC", &HEVC.concat(), &[]),
        Format::Av1 => video(number, "V_AV1", &[0x81, 8, 0, 0], &[]),
        Format::Vp8 => video(number, "V_VP8", &[], &[]),
        Format::Vp9 => video(number, "V_VP9", &[], &[]),
        Format::Aac => audio(number, "A_AAC", &[0x11, 0x90], &[]),
        Format::Opus => audio(number, "A_OPUS", &[], &[]),
        Format::MpegAudio => audio(number, "A_MPEG/L3", &[], &[]),
        Format::Ac3 => audio(number, "A_AC3", &[], &[]),
        Format::Pcm(PcmFormat { encoding: PcmEncoding::Pcma, .. }) => audio(number, "A_MS/ACM", &[6, 0], &[]),
        Format::Pcm(PcmFormat { encoding: PcmEncoding::L16Little, .. }) => {
            audio(number, "A_PCM/INT/LIT", &[], &[])
        }
        Format::Pcm(_) => audio(number, "A_PCM/INT/BIG", &[], &[]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Promise: Samples of all tracks of a Matroska file are restored from its image byte for byte, with
    /// their times.
    #[test]
    fn samples_of_matroska_come_back(
        video in proptest::collection::vec((12usize..6000, 1u64..80, any::<bool>(), any::<bool>()), 1..20),
        sound in proptest::collection::vec(
            (1usize..300, 1usize..4, proptest::sample::select(
                vec![matroska::Lacing::Xiph, matroska::Lacing::Fixed, matroska::Lacing::Ebml])), 1..20),
        format in proptest::sample::select(&VIDEO[..]),
        sounds in proptest::sample::subsequence(
            vec![Format::Aac, Format::Opus, Format::MpegAudio, Format::Ac3, SOUND[4], SOUND[5]], 0..4),
        lengths in proptest::collection::vec(3usize..2000, 1..8),
        blocks_in_cluster in 1usize..5,
        unknown_sizes: bool,
        webm: bool,
    ) {
        let mut tracks = vec![matroska_entry(1, format)];
        let mut blocks = Vec::new();
        let mut time = 0;
        for (length, apart, key, group) in video {
            let frames = vec![length];
            blocks.push(matroska::BlockShape { time, key, group, frames, ..matroska::BlockShape::default() });
            time += apart;
        }
        for (track, format) in (2u8..).zip(sounds) {
            tracks.push(matroska_entry(track.into(), format));
            for (number, (length, frames, lacing)) in (0..).zip(&sound) {
                let (time, frames) = (number * 30, vec![*length; *frames]);
                let lacing = if frames.len() == 1 { matroska::Lacing::None } else { *lacing };
                blocks.push(matroska::BlockShape { track, time, key: true, lacing, frames, group: false });
            }
        }
        blocks.sort_by_key(|block| block.time);
        let document = if webm { "webm" } else { "matroska" };
        let file =
            matroska::File { document, tracks, blocks, blocks_in_cluster, unknown_sizes, ..Default::default() };
        let mut file = file.bytes();
        let (movie, samples) = fill(&mut file, &lengths);
        check(&file, &movie, &samples);
    }
}

#[test]
fn tracks_of_matroska_that_cannot_be_played_are_left_out_with_a_warning() {
    let tracks = vec![matroska::audio(7, "A_FLAC", &[], &[]), matroska_entry(1, Format::Vp9)];
    let file = matroska::File { tracks, tracks_last: true, ..Default::default() }.bytes();
    let (movie, found) = samples(&file);
    let image = packed(&file, &movie);
    let description = image.table.description.movie().expect("a movie");
    let warnings: Vec<String> =
        description.warnings.first.iter().map(|warning| warning.kind.to_string()).collect();
    assert_eq!(warnings, ["track 7 is left out: no RTP payload format for A_FLAC"]);
    let read: Vec<Packet> =
        packets(&image, &image.header.plan.streams[0]).into_iter().map(|(_, packet)| packet).collect();
    let read = depacketize(Format::Vp9, &read).expect("packets that a receiver takes");
    let lengths: Vec<u64> = found.iter().map(|sample| sample.extent.length).collect();
    assert_eq!(read.iter().map(|sample| sample.len() as u64).collect::<Vec<_>>(), lengths);
    let Movie::Matroska(left) = playable(&movie).movie else { panic!("{movie:?}") };
    assert!(!left.cues.is_empty() && left.cues.iter().all(|cue| cue.track == 0), "{:?}", left.cues);
}

/// Promise: A damaged or truncated Matroska file plays up to the damage, with a warning.
#[test]
fn a_damaged_matroska_file_is_played_as_far_as_it_is_good() {
    let file = matroska::File { blocks_in_cluster: 1, ..Default::default() }.bytes();
    let cluster = |number: usize| {
        let found = file.windows(4).enumerate().filter(|(_, id)| *id == [0x1f, 0x43, 0xb6, 0x75]);
        found.map(|(at, _)| at).nth(number).expect("a cluster")
    };
    let damaged = [&file[..cluster(2)], &[0; 200]].concat();
    for (file, expected) in [
        (damaged, "the rest of the file is left out: byte "),
        (file[..cluster(2) + 40].to_vec(), "the file ends within an element, which is left out"),
    ] {
        let mut reader = MovieReader::of(&file, file.len() as u64).expect("a movie");
        while let Some(wanted) = reader.wanted() {
            reader.take(file[wanted.offset as usize..wanted.end() as usize].to_vec()).expect("good tracks");
        }
        let image = packed(&file, &reader.finish().expect("good tracks"));
        let description = image.table.description.movie().expect("a movie");
        let warnings: Vec<String> =
            description.warnings.first.iter().map(|warning| warning.kind.to_string()).collect();
        assert!(warnings.iter().any(|warning| warning.starts_with(expected)), "{warnings:?}");
        assert!(!image.packets.is_empty());
    }
}
