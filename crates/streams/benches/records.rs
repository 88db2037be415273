//! Benchmarks of splitting into records and of merging by tag: `cargo bench -p wirepath-streams`.
//!
//! Each stream reads from memory and writes to `/dev/null`, so the measured time is that of the stream
//! itself.

use std::fs::File;

use bytes::Bytes;
use divan::Bencher;
use divan::counter::BytesCount;
use wirepath_streams::{Framing, Late, Object, Stream, StreamBuilder};

/// Bytes of a record: a tag, padding and a line end.
const RECORD_BYTES: usize = 64;

/// Total number of records of all inputs.
const RECORDS: usize = 65_536;

fn main() {
    divan::main();
}

#[divan::bench]
fn split_into_lines(bencher: Bencher<'_, '_>) {
    split(bencher, || Framing::lines(RECORD_BYTES));
}

#[divan::bench]
fn split_into_fixed_sizes(bencher: Bencher<'_, '_>) {
    split(bencher, || Framing::Fixed(RECORD_BYTES));
}

#[divan::bench(args = [2, 16])]
fn merge_by_tag(bencher: Bencher<'_, '_>, inputs: usize) {
    let shares: Vec<Bytes> = (0..inputs).map(|input| records((input..RECORDS).step_by(inputs))).collect();
    let stream = || {
        let tag = |record: &[u8]| Some(u64::from_be_bytes(record.first_chunk().copied()?));
        let merging = StreamBuilder::default().order_by_tag(1024, 1 << 20, Late::Drop, tag);
        let with_inputs = shares.iter().fold(merging, |builder, share| {
            builder.input(Object::memory("share", share.clone()), Framing::Fixed(RECORD_BYTES))
        });
        with_inputs.output(null()).build()
    };
    run(bencher, stream);
}

fn split(bencher: Bencher<'_, '_>, framing: impl Fn() -> Framing) {
    let all = records(0..RECORDS);
    run(bencher, || {
        let input = Object::memory("records", all.clone());
        StreamBuilder::default().input(input, framing()).output(null()).build()
    });
}

fn run(bencher: Bencher<'_, '_>, stream: impl FnMut() -> Stream) {
    let bytes = BytesCount::new(RECORDS * RECORD_BYTES);
    bencher.counter(bytes).with_inputs(stream).bench_local_refs(|stream| {
        stream.run().expect("memory can be read and /dev/null written");
        assert_eq!(stream.status().bytes_out, (RECORDS * RECORD_BYTES) as u64);
    });
}

/// Records with these tags. A tag is written as text, so that only the last byte of a record is a line end.
fn records(tags: impl Iterator<Item = usize>) -> Bytes {
    let record = |tag: usize| {
        let mut record = [b' '; RECORD_BYTES];
        record[..8].copy_from_slice(format!("{tag:08}").as_bytes());
        record[RECORD_BYTES - 1] = b'\n';
        record
    };
    tags.flat_map(record).collect()
}

fn null() -> Object {
    let file = File::options().write(true).open("/dev/null").expect("every Linux has it");
    Object::stream("/dev/null", file.into()).expect("it takes bytes")
}
