//! Transport streams by their tracks: whatever the file, reading refuses it or gives samples whose bytes are kept and
//! are not more than those of the file with lengths of NAL units. Packing makes an image that the reader accepts.

use wirepath_media::container::{MovieReader, Samples};
use wirepath_media::image::{Header, Layout, PAGE, PathLimits, Plan, Table};
use wirepath_media::pack::PlayableMovie;
use wirepath_media::track::{Extent, Next};

use crate::seeds;

/// Most bytes of a payload.
const LIMIT: u16 = 200;

/// The target.
pub fn fuzz(file: &[u8]) {
    let bytes = |wanted: Extent| file[wanted.offset as usize..wanted.end() as usize].to_vec();
    let mut reader = MovieReader::of_transport_stream(file.len() as u64);
    while let Some(wanted) = reader.wanted() {
        if reader.take(bytes(wanted)).is_err() {
            return;
        }
    }
    let Ok(movie) = reader.finish() else { return };
    let (mut samples, mut length) = (movie.samples(), 0);
    let mut decoded = vec![0; movie.tracks().len()];
    loop {
        match samples.next() {
            Ok(Next::Read(wanted)) if samples.take(bytes(wanted)).is_err() => samples.end(),
            Ok(Next::Read(_)) => {}
            Ok(Next::Sample(sample)) => {
                let kept = samples.stored(sample.extent).expect("the bytes of a sample");
                assert_eq!(kept.len() as u64, sample.extent.length);
                assert!(decoded[sample.track] <= sample.decode_time, "decode times out of order");
                decoded[sample.track] = sample.decode_time;
                length += kept.len();
                let Samples::TransportStream(samples) = &mut samples else { panic!("another container") };
                samples.release(sample.extent);
            }
            Ok(Next::Growth) => panic!("nobody said that the file grows"),
            Ok(Next::End) => break,
            Err(error) => panic!("{error}"),
        }
    }
    // A start code of three bytes becomes a length of four.
    assert!(length <= 2 * file.len(), "{length} bytes of samples");
    pack(file, PlayableMovie::of(movie).ok());
}

/// Packs the tracks that can be played.
fn pack(file: &[u8], playable: Option<PlayableMovie>) {
    let Some(plan) = playable.and_then(|playable| seeds::movie_plan(file, &playable, LIMIT)) else { return };
    let recipe = PathLimits { payload: LIMIT, burst_us: 20_000 }.demuxed();
    let Ok(image) = seeds::pack(file, Plan { recipe, ..plan }, Layout::Image) else { return };
    let header = Header::decode(&image[..PAGE as usize], image.len() as u64).expect("a header");
    let table = Table::decode(&image[header.table.offset as usize..], &header).expect("a table");
    for (index, entry) in table.segments.iter().enumerate() {
        let bytes = &image[entry.offset as usize..][..entry.length() as usize];
        let trains = entry.trains(&header.plan, table.until_us(index, &header), bytes).expect("a segment");
        assert!(trains.iter().all(|train| train.packet_size <= 12 + LIMIT));
    }
}
