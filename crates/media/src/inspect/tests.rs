use super::*;
use crate::pack::testing::{pack, plan, read};
use crate::ts::synthetic::{Jump, Sample, SampleProgramme};

const RECIPE: Recipe = Recipe { ts_per_packet: 7, burst_us: 20_000 };

fn inspect(asset: &[u8]) -> Report {
    let mut inspector = Inspector::new(RECIPE).expect("a recipe that can be followed");
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
    let pids = report.pids.expect("an asset's PIDs are counted");
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
    assert_eq!(report.trains.discontinuities, Some(1));
    let by_packets = report.trains.by_packets.expect("an asset's trains are measured");
    assert_eq!(by_packets.iter().sum::<u64>(), report.trains.count);
    assert_eq!((1..).zip(&by_packets).map(|(packets, count)| packets * count).sum::<u64>(), report.packets);
}

#[test]
fn missing_packets_are_noticed() {
    let mut bytes = Sample { packets: 3000, ..Sample::default() }.stream().bytes;
    let lost = (1000..).find(|&packet| bytes[packet * 188 + 1] == 0x01 && bytes[packet * 188 + 2] == 1);
    let lost = lost.expect("a packet of AAC");
    bytes.drain(lost * 188..(lost + 1) * 188);
    let pids = inspect(&bytes).pids.expect("an asset's PIDs are counted");
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
        assert!(rate.abs_diff(mean * 1328 / 1316) < mean / 4, "{rate} where {mean} is the mean");
    }
}

#[test]
fn an_image_says_the_same_as_its_asset() {
    let stream = Sample { packets: 30_000, ..Sample::default() }.stream();
    let (file, _) =
        pack(&stream.bytes, plan(stream.bytes.len()), 1 << 20).expect("an asset that can be packed");
    let image = read(&file).expect("an image as it should be");
    let (of_image, of_asset) = (Report::of_image(&image.header, &image.table), inspect(&stream.bytes));
    assert_eq!(of_image.description, of_asset.description);
    assert_eq!((of_image.duration_us, of_image.packets), (of_asset.duration_us, of_asset.packets));
    assert_eq!((of_image.trains.count, of_image.starts_us), (of_asset.trains.count, of_asset.starts_us));
    let sum = |rate: &BitRate| rate.bytes.iter().sum::<u64>();
    assert_eq!(sum(&of_image.bit_rate), sum(&of_asset.bit_rate));
}
