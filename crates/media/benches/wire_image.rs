//! Benchmarks packing of an asset and reading of its wire image: `cargo bench -p wirepath-media`.

use divan::Bencher;
use divan::counter::BytesCount;
use wirepath_media::image::{
    Header, Identity, Layout, PAGE, Plan, Recipe, SegmentEntry, StreamPlan, Table, Writer, WrittenSegment,
    copy_payload,
};
use wirepath_media::pack::Packer;
use wirepath_media::ts::synthetic::Sample;
use wirepath_media::ts::{Deframer, Event};

/// Packets of the asset: about 4 MB.
const PACKETS: u64 = 20_000;

fn main() {
    divan::main();
}

#[divan::bench]
fn pack(bencher: Bencher<'_, '_>) {
    let asset = asset();
    bencher.counter(BytesCount::of_slice(&asset)).bench(|| packed(&asset));
}

#[divan::bench]
fn find_packets(bencher: Bencher<'_, '_>) {
    let asset = asset();
    bencher.counter(BytesCount::of_slice(&asset)).bench(|| {
        let (mut deframer, mut input, mut packets) = (Deframer::new(), &asset[..], 0);
        while let Some(event) = deframer.next(&mut input).expect("a transport stream") {
            if let Event::Packets(run) = event {
                packets += run.count();
            }
        }
        packets
    });
}

#[divan::bench]
fn read_and_check_a_segment(bencher: Bencher<'_, '_>) {
    let (header, segment) = first_segment();
    let bytes = &segment.bytes[..segment.entry.length() as usize];
    let read = || segment.entry.trains(&header.plan, u64::MAX, bytes).expect("a segment as it was packed");
    bencher.counter(BytesCount::of_slice(bytes)).bench(read);
}

#[divan::bench]
fn read_train_records(bencher: Bencher<'_, '_>) {
    let (header, segment) = first_segment();
    let SegmentEntry { data_length, .. } = segment.entry;
    let records = &segment.bytes[data_length as usize..segment.entry.length() as usize];
    bencher.counter(BytesCount::of_slice(records)).bench(|| {
        let trains = segment.entry.trains_of_records(&header.plan, u64::MAX, records);
        trains.expect("records as they were packed")
    });
}

#[divan::bench]
fn read_header_and_table(bencher: Bencher<'_, '_>) {
    let (header, table, _) = packed(&asset());
    let (page, file_length) = (header.encode(), header.table.offset + header.table.length);
    assert_eq!(page.len() as u64, PAGE);
    bencher.bench(|| {
        let header = Header::decode(&page, file_length).expect("the header as it was packed");
        Table::decode(&table, &header).expect("the table as it was packed")
    });
}

fn asset() -> Vec<u8> {
    Sample { packets: PACKETS, ..Sample::default() }.stream().bytes
}

/// Packs an asset, and returns header, table and segments of its wire image.
fn packed(asset: &[u8]) -> (Header, Vec<u8>, Vec<WrittenSegment>) {
    let plan = Plan {
        identity: Identity { size: asset.len() as u64, mtime_ns: 0, inode: 1, device: 1 },
        recipe: Recipe::transport_stream(7, 20_000),
        streams: StreamPlan::transport_stream(1, 0, 0).into(),
    };
    let mut packer = Packer::new(plan).expect("a recipe in range");
    packer.push(asset).expect("an asset that can be packed");
    let end = packer.finish().expect("an asset that can be packed");
    let mut writer = Writer::new(plan, Layout::Image);
    let mut write = |segment| writer.add(&segment, copy_payload(asset)).expect("copying does not fail");
    let segments = std::iter::from_fn(|| packer.pop()).map(&mut write).collect();
    let summary = writer.finish(end);
    (summary.header, summary.table_bytes, segments)
}

fn first_segment() -> (Header, WrittenSegment) {
    let (header, _, segments) = packed(&asset());
    (header, segments.into_iter().next().expect("an image has a segment"))
}
