//! Images through the store: packed from files, played, damaged, found again.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use wirepath_engine::{BlockingPool, Priority};
use wirepath_media::rtp::HEADER_LENGTH;
use wirepath_media::ts::synthetic::{Sample, SampleStream};
use wirepath_playback::{At, Load, Segment, TrainSource};

use super::*;

struct Fixture {
    folder: tempfile::TempDir,
    store: Arc<Store>,
    sample: SampleStream,
}

/// A sample of several segments, and a store whose cache is empty.
fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let sample = Sample { packets: 20_000, ..Sample::default() }.stream();
    fs::write(folder.path().join("clip.ts"), &sample.bytes).unwrap();
    let store = open_store(&folder, 1 << 30);
    Fixture { folder, store, sample }
}

fn open_store(folder: &tempfile::TempDir, budget: u64) -> Arc<Store> {
    let cache = ImageFolder::open(&folder.path().join("cache"), budget).unwrap();
    Store::new(cache, readers(), 1).unwrap()
}

fn readers() -> BlockingPool {
    BlockingPool::start("reader", 1, Priority::Normal).unwrap()
}

impl Fixture {
    fn asset(&self) -> Arc<File> {
        Arc::new(File::open(self.folder.path().join("clip.ts")).unwrap())
    }

    fn image(&self) -> Arc<Image> {
        self.store.image(self.asset(), "clip.ts", self.store.usual_limits()).unwrap()
    }

    /// The files in the cache.
    fn cached(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("cache")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// Repeats a request until there is an answer, like an engine.
fn segment(image: &Image, number: u32) -> Result<Option<Arc<Segment>>, String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match image.segment(number, None) {
            Load::Ready(segment) => return Ok(Some(segment)),
            Load::End => return Ok(None),
            Load::Failed(reason) => return Err(reason.to_string()),
            Load::Pending | Load::Busy => {
                assert!(Instant::now() < deadline, "segment {number} does not come")
            }
        }
        std::thread::yield_now();
    }
}

/// The payloads of all packets from segment 0 on, read from the positions in the trains.
fn payload(image: &Image) -> Result<Vec<u8>, String> {
    let mut payload = Vec::new();
    let mut number = 0;
    while let Some(segment) = segment(image, number)? {
        for departure in &segment.departures {
            let train = departure.train;
            let mut bytes = vec![0; train.length as usize];
            segment.mapped_file.file().read_exact_at(&mut bytes, train.offset).unwrap();
            bytes
                .chunks(train.packet_size.into())
                .for_each(|packet| payload.extend(&packet[HEADER_LENGTH..]));
        }
        number += 1;
    }
    Ok(payload)
}

fn complete(image: &Image) {
    assert!(payload(image).is_ok());
    assert_eq!(*image.progress().borrow(), Progress::Complete);
}

#[test]
fn an_image_plays_while_it_is_packed_and_is_found_again() {
    let fixture = fixture();
    let image = fixture.image();
    assert!(image.summary().duration_us.is_some(), "the head and tail say how long it is");
    assert!(payload(&image).unwrap() == fixture.sample.payload);
    assert_eq!(fixture.store.counts().packed, 1);
    let duration_us = fixture.sample.departures.last().unwrap() / 27;
    assert_eq!(image.summary().duration_us, Some(duration_us));
    assert!(Arc::ptr_eq(&image, &fixture.image()), "one image for all who play it");

    let another = open_store(&fixture.folder, 1 << 30);
    let found = another.image(fixture.asset(), "clip.ts", another.usual_limits()).unwrap();
    assert_eq!(found.plan(), image.plan());
    assert!(payload(&found).unwrap() == fixture.sample.payload);
    assert_eq!(another.counts().found, 1);
    assert_eq!(another.counts().packed, 0);
}

#[test]
fn a_time_is_located_at_the_random_access_point_before_it() {
    let fixture = fixture();
    let image = fixture.image();
    complete(&image);
    let starts: Vec<u64> =
        fixture.sample.starts.iter().map(|packet| fixture.sample.departures[*packet as usize] / 27).collect();
    assert!(starts.len() > 3);
    for (index, start_us) in starts.iter().enumerate().skip(1) {
        for at_us in [*start_us, start_us + 1000] {
            let SeekResult::At(cursor) = image.locate(at_us) else { panic!("{at_us}") };
            let At::Packet { train, skip, .. } = cursor.at else { panic!("{cursor:?}") };
            let segment = segment(&image, cursor.segment).unwrap().unwrap();
            let train = segment.departures[train as usize].train;
            let mut first = [0; 188];
            let place = train.offset + (HEADER_LENGTH + usize::from(skip)) as u64;
            segment.mapped_file.file().read_exact_at(&mut first, place).unwrap();
            let packet = fixture.sample.starts[index] as usize;
            assert_eq!(first, fixture.sample.payload[packet * 188..][..188]);
        }
    }
    assert_eq!(image.locate(u64::MAX), SeekResult::BeyondEnd);
}

/// Promise: A damaged wire image is detected before any of its bytes is sent, and packed again.
///
/// Damage in the middle of the packets is noticed before any of that segment is played, and mended from the
/// asset.
#[test]
fn a_damaged_segment_is_packed_again_with_the_same_bytes() {
    let fixture = fixture();
    complete(&fixture.image());
    let path = fixture.cached().remove(0);
    let whole = fs::read(&path).unwrap();
    let mut file = File::options().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(1_500_000)).unwrap();
    file.write_all(&[whole[1_500_000] ^ 1]).unwrap();

    let another = open_store(&fixture.folder, 1 << 30);
    let image = another.image(fixture.asset(), "clip.ts", another.usual_limits()).unwrap();
    assert!(payload(&image).unwrap() == fixture.sample.payload);
    assert_eq!(another.counts().rejected, 1);
    assert!(fs::read(&path).unwrap() == whole, "the same plan gives the same image");
}

#[test]
fn a_damaged_header_or_table_and_a_shortened_file_are_packed_again() {
    for damage in [
        (|bytes| bytes[100] ^= 4) as fn(&mut Vec<u8>),
        |bytes| {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        },
        |bytes| bytes.truncate(3_000_000),
        |bytes| bytes.truncate(10),
        |bytes| bytes.clear(),
    ] {
        let fixture = fixture();
        complete(&fixture.image());
        let path = fixture.cached().remove(0);
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let another = open_store(&fixture.folder, 1 << 30);
        let image = another.image(fixture.asset(), "clip.ts", another.usual_limits()).unwrap();
        assert!(payload(&image).unwrap() == fixture.sample.payload);
        assert_eq!(another.counts().rejected, 1);
    }
}

#[test]
fn a_changed_asset_is_packed_again_and_sessions_of_the_old_one_continue() {
    let fixture = fixture();
    let old = fixture.image();
    complete(&old);
    let changed = Sample { packets: 9000, seed: 2, ..Sample::default() }.stream();
    fs::write(fixture.folder.path().join("clip.ts"), &changed.bytes).unwrap();
    let new = fixture.image();
    assert!(payload(&new).unwrap() == changed.payload);
    assert!(payload(&old).unwrap() == fixture.sample.payload);
}

#[test]
fn what_is_no_transport_stream_is_refused_and_leaves_nothing() {
    let fixture = fixture();
    let path = fixture.folder.path().join("clip.ts");
    fs::write(&path, vec![b'x'; 100_000]).unwrap();
    let error = fixture.store.image(fixture.asset(), "clip.ts", fixture.store.usual_limits()).err().unwrap();
    assert!(matches!(error, StoreError::NotPlayable(_)), "{error}");
    assert!(error.to_string().contains("0x47"), "{error}");

    // Only a complete reading shows that a stream has no clock.
    let mut silent = Sample { packets: 5000, ..Sample::default() };
    silent.programmes[0].ticks = false;
    fs::write(&path, silent.stream().bytes).unwrap();
    let image = fixture.image();
    let reason = payload(&image).unwrap_err();
    assert!(reason.contains("PCR"), "{reason}");
    assert_eq!(fixture.cached(), Vec::<PathBuf>::new());
    assert_eq!(fixture.store.counts().failed, 1);

    // It is not packed again at once.
    let error = fixture.store.image(fixture.asset(), "clip.ts", fixture.store.usual_limits()).err().unwrap();
    assert!(matches!(error, StoreError::NotPlayable(_)) && error.to_string().contains("PCR"), "{error}");
    assert_eq!(fixture.store.counts().failed, 1);
}

/// Promise: An open wire image is repaired at most twice; then it fails with the reason and is removed.
///
/// A file that loses its end again and again: twice it is packed anew, then the image fails for good.
#[test]
fn an_image_is_repaired_twice_and_then_fails() {
    let fixture = fixture();
    let image = fixture.image();
    complete(&image);
    for repairs in 1..=2 {
        File::options().write(true).open(&fixture.cached()[0]).unwrap().set_len(10).unwrap();
        assert!(segment(&image, 0).unwrap().is_some());
        complete(&image);
        assert_eq!(fixture.store.counts().packed, 1 + repairs);
    }
    File::options().write(true).open(&fixture.cached()[0]).unwrap().set_len(10).unwrap();
    let reason = segment(&image, 0).unwrap_err();
    assert!(reason.contains("packed again 2 times") && reason.contains("disk"), "{reason}");
    assert_eq!(fixture.cached(), Vec::<PathBuf>::new());
}

#[test]
fn a_damaged_image_of_an_asset_that_changed_is_not_packed_from_it() {
    let fixture = fixture();
    let image = fixture.image();
    complete(&image);
    fs::write(fixture.folder.path().join("clip.ts"), &fixture.sample.bytes[..188 * 9000]).unwrap();
    File::options().write(true).open(&fixture.cached()[0]).unwrap().set_len(10).unwrap();
    let reason = segment(&image, 0).unwrap_err();
    assert!(reason.contains("has changed since it was packed"), "{reason}");
    assert_eq!(fixture.store.counts().packed, 1);
}

#[test]
fn concurrent_requests_share_an_image() {
    let fixture = fixture();
    let images: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| fixture.image())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    complete(&images[0]);
    assert!(images.iter().all(|image| Arc::ptr_eq(image, &images[0])));
    assert_eq!(fixture.store.counts().packed, 1);
}

/// Promise: Storage that does not answer blocks neither other requests nor the shutdown of the server.
///
/// A FIFO in the place of an image: opening it waits, as a disk may, until somebody opens its other end.
#[test]
fn storage_that_does_not_answer_blocks_neither_other_images_nor_the_status() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let fixture = fixture();
    let path = fixture.store.path_of(&fixture.image());
    complete(&fixture.image());
    fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let other = fixture.folder.path().join("other.ts");
    fs::write(&other, Sample { packets: 5000, seed: 3, ..Sample::default() }.stream().bytes).unwrap();

    let store = open_store(&fixture.folder, 1 << 30);
    let (waiting, asset) = (Arc::clone(&store), fixture.asset());
    let waiter =
        std::thread::spawn(move || waiting.image(asset, "clip.ts", waiting.usual_limits()).map(drop));
    let (answers, answered) = std::sync::mpsc::channel();
    let asking = Arc::clone(&store);
    std::thread::spawn(move || {
        let asset = Arc::new(File::open(&other).unwrap());
        complete(&asking.image(asset, "other.ts", asking.usual_limits()).unwrap());
        answers.send((asking.open_images().len(), asking.counts().open as usize)).unwrap();
    });
    let (images, count) = answered.recv_timeout(Duration::from_secs(20)).expect("nothing waits");
    assert_eq!((images, count), (1, 1));
    assert!(!waiter.is_finished());
    drop(File::options().write(true).open(&path).unwrap());
    waiter.join().unwrap().unwrap();
}

#[test]
fn images_at_rest_make_room_and_images_in_use_do_not() {
    let fixture = fixture();
    let budget = 6_000_000; // room for one image of 20,000 packets
    let store = open_store(&fixture.folder, budget);
    let recipe = store.usual_limits();
    complete(&store.image(fixture.asset(), "clip.ts", recipe).unwrap());
    let other = fixture.folder.path().join("other.ts");
    fs::write(&other, Sample { packets: 20_000, seed: 3, ..Sample::default() }.stream().bytes).unwrap();
    let image = store.image(Arc::new(File::open(&other).unwrap()), "other.ts", recipe).unwrap();
    complete(&image);
    assert_eq!(fixture.cached().len(), 1);

    let in_the_way = store.image(fixture.asset(), "clip.ts", recipe).unwrap();
    let reason = payload(&in_the_way).unwrap_err();
    assert!(reason.contains("--cache-size"), "{reason}");
    complete(&image);
}

/// Promise: A movie whose image cannot fit the cache is refused at DESCRIBE, with its size and `--cache-size`.
#[test]
fn a_movie_larger_than_the_cache_is_refused_with_its_size() {
    let fixture = fixture();
    let film = fixture.folder.path().join("film.mp4");
    fs::write(&film, wirepath_media::mp4::synthetic::File::default().bytes()).unwrap();
    let length = fs::metadata(&film).unwrap().len();
    let needed = 4096 + length + length / 8;
    let asked = |budget| {
        let store = open_store(&fixture.folder, budget);
        let asset = Arc::new(File::open(&film).unwrap());
        store.image(asset, "film.mp4", store.usual_limits()).map(drop)
    };
    asked(needed).unwrap();
    let public = asked(needed - 1).unwrap_err().public();
    let expected = format!(
        "no space for its wire image: it needs {needed} bytes, and the server's cache has {}: raise --cache-size",
        needed - 1
    );
    assert_eq!(public, expected);
}

#[test]
fn an_image_says_what_is_in_it() {
    let fixture = fixture();
    let image = fixture.image();
    complete(&image);
    let contents = image.contents().unwrap();
    assert_eq!(contents.packets, 20_000u64.div_ceil(7));
    assert!(contents.trains > 0 && contents.trains < contents.packets);
    assert_eq!(image.asset_bytes_packed(), image.plan().identity.size);
    let path = fixture.store.path_of(&image);
    assert_eq!(fixture.cached(), std::slice::from_ref(&path));
    assert_eq!(fs::metadata(path).unwrap().len(), contents.stored_bytes);
}

/// Promise: A signal during packing leaves no incomplete file.
#[test]
fn packing_that_is_stopped_leaves_nothing() {
    let fixture = fixture();
    fixture.store.stop_packing();
    let reason = payload(&fixture.image()).unwrap_err();
    assert!(reason.contains("stopped"), "{reason}");
    assert_eq!(fixture.cached(), Vec::<PathBuf>::new());
}

/// Another user holds the image at this path open.
fn is_open(path: &Path) -> bool {
    File::open(path).unwrap().try_lock().is_err()
}

/// Promise: An asset and its image are closed a minute after their last use, so deleted files free their
/// space.
///
/// The asset and the image of a film that was deleted take room for as long as anybody has them open.
#[test]
fn an_unused_image_is_closed_without_further_requests() {
    let fixture = fixture();
    complete(&fixture.image());
    let path = fixture.cached().remove(0);
    drop(fixture.store);
    while is_open(&path) {
        std::thread::yield_now();
    }
    let cache = ImageFolder::open(&fixture.folder.path().join("cache"), 1 << 30).unwrap();
    let rest = Duration::from_millis(200);
    let options = StoreOptions { idle_ttl: rest, ..StoreOptions::new(readers(), 1) };
    let store = Store::start(cache, options).unwrap();
    let (asset, begun) =
        (Arc::new(File::open(fixture.folder.path().join("clip.ts")).unwrap()), Instant::now());
    drop(store.image(asset, "clip.ts", store.usual_limits()).unwrap());
    while is_open(&path) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it stays open");
        std::thread::yield_now();
    }
    assert!(begun.elapsed() >= rest, "it was let go of after {:?}", begun.elapsed());
}

/// Promise: No engine thread and no connection thread closes files.
///
/// The last owner of an image may be the control thread or an engine thread.
#[test]
fn the_file_of_an_image_is_closed_elsewhere() {
    struct Gate(Receiver<()>);
    impl Drop for Gate {
        fn drop(&mut self) {
            assert!(self.0.recv().is_err(), "it is only ever dropped");
        }
    }
    let fixture = fixture();
    let cache = ImageFolder::open(&fixture.folder.path().join("cache"), 1 << 30).unwrap();
    let readers = readers();
    let options = StoreOptions { idle_ttl: Duration::ZERO, ..StoreOptions::new(readers.clone(), 1) };
    let store = Store::start(cache, options).unwrap();
    let image = store.image(fixture.asset(), "clip.ts", store.usual_limits()).unwrap();
    complete(&image);
    let path = fixture.cached().remove(0);
    // The packer also holds it for a moment after it is complete.
    while Arc::strong_count(&image) > 1 {
        std::thread::yield_now();
    }
    let (close, gate) = channel();
    readers.discard(Gate(gate));
    drop(image);
    assert!(is_open(&path), "it was closed by whoever let go of it");
    drop(close);
    readers.wait_for_discarded();
    assert!(!is_open(&path));
}

/// Promise: Assets are packed in turns, so a long asset does not delay others.
#[test]
fn a_long_asset_does_not_keep_others_waiting() {
    let fixture = fixture();
    let path = fixture.folder.path().join("long.ts");
    // Longer than this thread may have to wait for a processor between its two requests.
    const TIMES: usize = 200;
    fs::write(&path, fixture.sample.bytes.repeat(TIMES)).unwrap();
    let recipe = fixture.store.usual_limits();
    let long = fixture.store.image(Arc::new(File::open(&path).unwrap()), "long.ts", recipe).unwrap();
    assert!(segment(&long, 0).unwrap().is_some());
    let other = fixture.image();
    assert!(segment(&other, 0).unwrap().is_some());
    let (packed, size) = (long.asset_bytes_packed(), long.plan().identity.size);
    assert!(packed < size, "it came when all of the long one had been packed");
    complete(&other);
    assert!(payload(&long).unwrap() == fixture.sample.payload.repeat(TIMES), "turns leave no seams");
}
