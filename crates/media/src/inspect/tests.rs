use super::*;
use crate::container::MovieReader;
use crate::image::{Recipe, SegmentEntry};
use crate::mp4::synthetic;
use crate::pack::testing::{pack, plan, read};
use crate::ts::synthetic::{Jump, Sample, SampleProgramme};

const RECIPE: Recipe = Recipe::transport_stream(7, 20_000);

fn inspect(asset: &[u8]) -> Report {
    let mut inspector = AssetInspector::new(RECIPE).expect("a recipe that can be followed");
    for piece in asset.chunks(77_777) {
        inspector.push(piece).expect("an asset that can be packed");
    }
    inspector.finish().expect("an asset that can be packed")
}

#[test]
fn an_asset_is_counted_and_measured() {
    let own = SampleProgramme { pcr_pid: 0x1f0, ..SampleProgramme::numbered(1) };
    let jumps = vec![Jump { packet: 9000, ticks: 1 << 40, flagged: false }];
    let stream = Sample { packets: 20_000, programmes: vec![own], jumps, ..Sample::default() }.stream();
    let report = inspect(&stream.bytes);
    let pids = &report.pids;
    let roles: Vec<_> = pids.iter().map(|pid| (pid.pid, pid.role.as_str())).collect();
    let expected = [
        (0, "PAT"),
        (0x100, "H.264"),
        (0x101, "AAC"),
        (0x1f0, "clock of programme 1"),
        (0x1001, "PMT of programme 1"),
        (0x1fff, "null packets"),
    ];
    assert_eq!(roles, expected);
    assert_eq!(pids.iter().map(|pid| pid.packets).sum::<u64>(), 20_000);
    assert!(pids.iter().all(|pid| pid.continuity_errors == 0 && pid.transport_errors == 0));
    assert_eq!(report.duration_us, stream.departures[20_000] / 27);
    assert_eq!(report.starts_us.len(), stream.starts.len());
    assert_eq!(report.trains.discontinuities, 1);
    let by_packets = &report.trains.by_packets;
    assert_eq!(by_packets.iter().sum::<u64>(), report.trains.count);
    assert_eq!((1..).zip(by_packets).map(|(packets, count)| packets * count).sum::<u64>(), report.packets);
}

#[test]
fn missing_packets_are_noticed() {
    let mut bytes = Sample { packets: 3000, ..Sample::default() }.stream().bytes;
    let lost = (1000..).find(|&packet| bytes[packet * 188 + 1] == 0x01 && bytes[packet * 188 + 2] == 1);
    let lost = lost.expect("a packet of AAC");
    bytes.drain(lost * 188..(lost + 1) * 188);
    let pids = inspect(&bytes).pids;
    let errors: Vec<_> =
        pids.iter().map(|pid| (pid.pid, pid.continuity_errors)).filter(|pid| pid.1 > 0).collect();
    assert_eq!(errors, [(0x101, 1)]);
}

#[test]
fn the_bit_rate_is_that_of_the_stream() {
    let stream = Sample { packets: 30_000, ..Sample::default() }.stream();
    let report = inspect(&stream.bytes);
    let mean = report.mean_bits_per_second().expect("it takes some time");
    assert_eq!(mean, 188 * 8 * 27_000_000 / 10_000);
    let inner = report.bit_rate.bytes.len() - 1;
    for rate in report.bit_rate.bits_per_second().take(inner) {
        assert!(rate.abs_diff(mean) < mean / 4, "{rate} where {mean} is the mean");
    }
}

/// Promise: `wirepath inspect` shows the contents of an asset or a wire image, as text or JSON.
#[test]
fn an_image_says_the_same_as_its_asset() {
    let stream = Sample { packets: 30_000, ..Sample::default() }.stream();
    let (file, _) =
        pack(&stream.bytes, plan(stream.bytes.len()), 1 << 20).expect("an asset that can be packed");
    let image = read(&file).expect("an image as it should be");
    let segment = |entry: &SegmentEntry| &file[entry.offset as usize..][..entry.length() as usize];
    let mut inspector = ImageInspector::new(&image.header, &image.table);
    for (index, entry) in image.table.segments.iter().enumerate() {
        inspector.push(index, segment(entry)).expect("an image as it should be");
    }
    assert_eq!(inspector.finish(), inspect(&stream.bytes));
}

/// Promise: `wirepath inspect` finds every damaged segment of an image and shows its position.
#[test]
fn a_damaged_segment_is_noticed_and_the_rest_is_measured() {
    let stream = Sample { packets: 30_000, ..Sample::default() }.stream();
    let (file, _) =
        pack(&stream.bytes, plan(stream.bytes.len()), 1 << 20).expect("an asset that can be packed");
    let image = read(&file).expect("an image as it should be");
    let mut inspector = ImageInspector::new(&image.header, &image.table);
    let mut damaged = 0;
    for (index, entry) in image.table.segments.iter().enumerate() {
        let mut bytes = file[entry.offset as usize..][..entry.length() as usize].to_vec();
        bytes[5000] ^= u8::from(index == 1);
        damaged += u32::from(inspector.push(index, &bytes).is_err());
    }
    let (report, whole) = (inspector.finish(), inspect(&stream.bytes));
    assert_eq!(damaged, 1);
    assert_eq!((report.packets, report.trains.count), (whole.packets, whole.trains.count));
    let bytes = |report: &Report| report.bit_rate.bytes.iter().sum::<u64>();
    assert_eq!(bytes(&report), bytes(&whole));
    let counted = |report: &Report| report.pids.iter().map(|pid| pid.packets).sum::<u64>();
    assert!(counted(&report) < counted(&whole));
}

/// Inspects an MP4 file in memory.
fn examine_movie(file: &[u8]) -> Result<super::MovieReport, MovieError> {
    let reader = MovieReader::of(file, file.len() as u64).expect("a movie");
    let mut inspector = MovieInspector::new(reader);
    while let Some(wanted) = inspector.wanted() {
        inspector.take(file[wanted.offset as usize..wanted.end() as usize].to_vec())?;
    }
    Ok(inspector.finish()?.expect("a report"))
}

#[test]
fn samples_before_the_movie_depart_at_its_beginning() {
    let mut file = synthetic::File::default();
    for sample in &mut file.tracks[0].samples {
        sample.duration = 1000;
    }
    assert_eq!(examine_movie(&file.bytes()).unwrap().bit_rate.bytes.len(), 30);
    file.tracks[0].edits = vec![(1000, 1_000_000)];
    assert_eq!(examine_movie(&file.bytes()).unwrap().bit_rate.bytes, [60]);
}

#[test]
fn random_access_points_are_bounded() {
    let samples = (1u32 << 23) + 1;
    let mut file = synthetic::File::default();
    file.tracks[0].samples.truncate(1);
    let mut bytes = file.bytes();
    for (kind, field, value) in
        [(b"stts", 4, samples), (b"stsc", 8, samples), (b"stsz", 0, 1), (b"stsz", 4, samples)]
    {
        let at = bytes.windows(4).position(|name| name == kind).unwrap() + 8 + field;
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    bytes.resize(bytes.len() + samples as usize, 0);
    let error = examine_movie(&bytes).unwrap_err().to_string();
    assert_eq!(error, "this file has more random access points: at most 8388608 are read");
}
