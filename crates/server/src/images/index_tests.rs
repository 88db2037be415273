//! Indexes through the store: assets that are played from the file itself, and images made of them.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirepath_datapath::PageCache;
use wirepath_engine::{BlockingPool, Priority};
use wirepath_media::rtp::HEADER_LENGTH;
use wirepath_media::ts::Framing;
use wirepath_media::ts::synthetic::{Sample, SampleStream};
use wirepath_playback::{Load, Segment, TrainSource};

use super::*;
use crate::played_as::PlayedAs;

struct Fixture {
    folder: tempfile::TempDir,
    sample: SampleStream,
}

fn fixture() -> Fixture {
    of(Sample { packets: 20_000, ..Sample::default() })
}

fn of(sample: Sample) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let sample = sample.stream();
    fs::write(folder.path().join("clip.ts"), &sample.bytes).unwrap();
    Fixture { folder, sample }
}

impl Fixture {
    fn store(&self, images: ImagePolicy) -> Arc<Store> {
        self.store_with(|options| options.images = images)
    }

    fn store_with(&self, change: impl FnOnce(&mut StoreOptions)) -> Arc<Store> {
        let cache = ImageFolder::open(&self.folder.path().join("cache"), 1 << 30).unwrap();
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let mut options = StoreOptions::new(readers, 1);
        change(&mut options);
        Store::start(cache, options).unwrap()
    }

    fn asset(&self) -> Arc<File> {
        Arc::new(File::open(self.folder.path().join("clip.ts")).unwrap())
    }

    fn image(&self, store: &Store) -> Arc<Image> {
        store.image(self.asset(), "clip.ts", store.usual_limits()).unwrap()
    }

    /// The complete image or index.
    fn complete(&self, store: &Store) -> Arc<Image> {
        let image = self.image(store);
        wait_until("the end of packing", || *image.progress().borrow() == Progress::Complete);
        image
    }

    /// Writes all files to storage, and drops their pages from the page cache.
    fn leave_page_cache(&self) {
        for path in self.cached_paths().into_iter().chain([self.folder.path().join("clip.ts")]) {
            let file = File::open(path).unwrap();
            file.sync_all().unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }

    /// Extensions of the finished files in the cache, in order.
    fn cached(&self) -> Vec<&'static str> {
        let names = self.cached_paths().into_iter().map(|path| path.to_string_lossy().into_owned());
        let mut endings: Vec<_> =
            names.map(|name| if name.ends_with(".index.wpi") { "index" } else { "image" }).collect();
        endings.sort_unstable();
        endings
    }

    fn cached_paths(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("cache")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "wpi")).collect()
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::yield_now();
    }
}

fn segment(image: &Image, number: u32) -> Result<Option<Arc<Segment>>, String> {
    let mut answer = None;
    wait_until("a segment", || {
        answer = match image.segment(number, None) {
            Load::Ready(segment) => Some(Ok(Some(segment))),
            Load::End => Some(Ok(None)),
            Load::Failed(reason) => Some(Err(reason.to_string())),
            Load::Pending | Load::Busy => None,
        };
        answer.is_some()
    });
    answer.unwrap()
}

fn is_from_asset(segment: &Segment) -> bool {
    segment.mapped_file.has_payload_only()
}

/// The packets of a segment as a data path sends them.
fn packets(segment: &Segment) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for departure in &segment.departures {
        let train = departure.train;
        let mut bytes = vec![0; train.length as usize];
        segment.mapped_file.file().read_exact_at(&mut bytes, train.offset).unwrap();
        for (index, packet) in (0..).zip(bytes.chunks(train.packet_size.into())) {
            let header = train.run.header(train.first + index).to_bytes();
            if is_from_asset(segment) {
                packets.push([&header[..], packet].concat());
            } else {
                assert_eq!(packet[..HEADER_LENGTH], header);
                packets.push(packet.to_vec());
            }
        }
    }
    packets
}

fn all_packets(image: &Image) -> Vec<Vec<u8>> {
    let segments = (0..).map_while(|number| segment(image, number).unwrap());
    segments.flat_map(|segment| packets(&segment)).collect()
}

/// Promise: An asset without a wire image plays from its own bytes, with the same packets as from an image.
#[test]
fn an_asset_is_played_from_its_index_which_is_found_again() {
    let fixture = fixture();
    let store = fixture.store(ImagePolicy::None);
    let image = fixture.complete(&store);
    let sent = all_packets(&image);
    let payload: Vec<u8> = sent.iter().flat_map(|packet| &packet[HEADER_LENGTH..]).copied().collect();
    assert!(payload == fixture.sample.payload);
    assert!(image.is_sent_from_asset() && image.whole().is_none());
    assert_eq!((fixture.cached(), store.counts().indexed, store.counts().packed), (vec!["index"], 1, 0));
    let index_length = fs::metadata(store.path_of(&image)).unwrap().len();
    assert!(index_length < fixture.sample.bytes.len() as u64 / 50, "{index_length}");

    let another = fixture.store(ImagePolicy::None);
    let found = fixture.complete(&another);
    assert_eq!(
        (found.plan(), another.counts().indexed, another.counts().indexes_found),
        (image.plan(), 0, 1)
    );
    assert!(all_packets(&found) == sent);
}

/// Promise: A damaged index is detected before use and made again.
#[test]
fn a_damaged_index_is_made_again() {
    let fixture = fixture();
    let sent = all_packets(&fixture.complete(&fixture.store(ImagePolicy::None)));
    let path = fixture.cached_paths().remove(0);
    // Damage in the header, which is read when the index is opened, and in a segment, which is read when it
    // is played.
    for (at, keeps_plan) in [(100, false), (4100, true)] {
        let whole = fs::read(&path).unwrap();
        let mut file = File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[whole[at as usize] ^ 1]).unwrap();
        let store = fixture.store(ImagePolicy::None);
        let again = all_packets(&fixture.image(&store));
        assert_eq!(again.len(), sent.len());
        assert_eq!(store.counts().rejected, 1);
        wait_until("the index", || store.counts().indexed == 1);
        if keeps_plan {
            assert!(fs::read(&path).unwrap() == whole, "the same plan gives the same index");
        }
    }
}

/// Promise: Playbacks move from the asset to its image between two trains, and packets stay the same.
#[test]
fn an_image_that_is_made_takes_the_place_of_the_asset() {
    let fixture = fixture();
    let store = fixture.store(ImagePolicy::None);
    let sent = all_packets(&fixture.complete(&store));
    drop(store);
    let store = fixture.store(ImagePolicy::All);
    let image = fixture.image(&store);
    let first = segment(&image, 0).unwrap().unwrap();
    wait_until("the image", || !image.is_sent_from_asset());
    let second = segment(&image, 1).unwrap().unwrap();
    assert!(!is_from_asset(&second), "it leaves from the image");
    let moved: Vec<_> = [packets(&first), packets(&second)].concat();
    assert!(moved == sent[..moved.len()], "no packet differs");
    assert!(all_packets(&image) == sent);
    wait_until("the count", || store.counts().packed == 1);
    assert_eq!((fixture.cached(), store.counts().indexes_found), (vec!["image", "index"], 1));
    assert!(image.whole().is_some());

    // The image is damaged, and the asset is played again.
    let path = store.path_of(&image);
    File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
    let numbers = (0..).map_while(|number| segment(&image, number).unwrap());
    assert!(numbers.flat_map(|segment| packets(&segment)).collect::<Vec<_>>() == sent);
    assert_eq!(store.counts().rejected, 1);
}

/// Promise: If an image is damaged, its sessions continue from the file if the index exists.
///
/// Also after a restart, and where the damaged image cannot be removed.
#[test]
fn a_damaged_image_is_left_for_the_asset_after_a_restart() {
    for can_be_removed in [true, false] {
        let fixture = fixture();
        let store = fixture.store(ImagePolicy::All);
        let image = fixture.complete(&store);
        let sent = all_packets(&image);
        wait_until("the image", || !image.is_sent_from_asset());
        let path = store.path_of(&image);
        drop((image, store));

        let store = fixture.store(ImagePolicy::None);
        let image = fixture.complete(&store);
        assert!(!image.is_sent_from_asset());
        let first = segment(&image, 0).unwrap().unwrap();
        File::options().write(true).open(&path).unwrap().write_all_at(&[0xa5; 64], 3_000_000).unwrap();
        if !can_be_removed {
            // Calls on the path fail with ENOTDIR.
            let cache = path.parent().unwrap();
            fs::rename(cache, fixture.folder.path().join("moved")).unwrap();
            fs::write(cache, "").unwrap();
        }
        let numbers = (1..).map_while(|number| segment(&image, number).unwrap());
        let rest = numbers.flat_map(|segment| packets(&segment));
        assert!(packets(&first).into_iter().chain(rest).collect::<Vec<_>>() == sent);
        assert!(image.is_sent_from_asset());
        wait_until("the count", || store.counts().rejected == 1);
        assert!(!path.exists());
        assert_eq!(store.counts().indexed, 0, "the index that was there is used");
        assert!(store.next_to_make().is_none(), "not at once");
    }
}

/// Promise: An image or index of an older version of its asset is removed when found.
#[test]
fn an_image_of_an_asset_that_was_changed_is_removed() {
    let fixture = fixture();
    let store = fixture.store(ImagePolicy::All);
    let image = fixture.complete(&store);
    all_packets(&image);
    wait_until("the image", || fixture.cached() == ["image", "index"]);
    drop((image, store));
    let file = File::options().write(true).open(fixture.folder.path().join("clip.ts")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let store = fixture.store(ImagePolicy::None);
    fixture.complete(&store);
    assert_eq!((fixture.cached(), store.counts().rejected), (vec!["index"], 2));
}

/// Promise: `--images all` makes an image of each file that is played, but not of files that are only
/// described.
#[test]
fn an_asset_that_nobody_plays_gets_no_image() {
    let fixture = fixture();
    let store = fixture.store(ImagePolicy::All);
    let image = fixture.complete(&store);
    assert!(store.next_to_make().is_none());
    assert!(segment(&image, 0).unwrap().is_some());
    wait_until("the image", || !image.is_sent_from_asset());
}

/// Promise: `--images auto` makes an image only of files that are played often enough to pay for it.
#[test]
fn an_image_is_made_when_it_pays() {
    let fixture = fixture();
    let store = fixture.store_with(|options| {
        options.images = ImagePolicy::Auto;
        // An image costs 2 x 2,000 ns a packet, so three plays pay for one.
        options.saved_ns_per_packet = Box::new(|| Some(1500.0));
    });
    let image = fixture.complete(&store);
    all_packets(&image);
    all_packets(&image);
    assert!(store.next_to_make().is_none());
    all_packets(&image);
    wait_until("the image", || !image.is_sent_from_asset());

    let store = fixture.store_with(|options| {
        options.images = ImagePolicy::Auto;
        options.saved_ns_per_packet = Box::new(|| Some(-1.0));
    });
    for path in fixture.cached_paths() {
        fs::remove_file(path).unwrap();
    }
    let image = fixture.complete(&store);
    (0..10).for_each(|_| drop(all_packets(&image)));
    assert!(store.next_to_make().is_none(), "it would save nothing");
}

/// Promise: Plays before a restart count when the server decides whether an image pays off.
#[test]
fn plays_before_a_restart_count() {
    let fixture = fixture();
    let options = |options: &mut StoreOptions| {
        options.images = ImagePolicy::Auto;
        options.saved_ns_per_packet = Box::new(|| Some(1500.0));
    };
    let store = fixture.store_with(options);
    let image = fixture.complete(&store);
    all_packets(&image);
    all_packets(&image);
    assert!(store.next_to_make().is_none(), "three plays pay for one");
    store.keep_popularity();
    drop((image, store));

    let store = fixture.store_with(options);
    let image = fixture.complete(&store);
    all_packets(&image);
    wait_until("the image", || !image.is_sent_from_asset());
}

#[test]
fn one_address_has_so_many_assets_packed_at_a_time() {
    let fixture = fixture();
    let other = fixture.folder.path().join("other.ts");
    fs::write(&other, &fixture.sample.bytes).unwrap();
    let store = fixture.store_with(|options| {
        options.images = ImagePolicy::None;
        options.packings_per_address = 0;
    });
    let other = Arc::new(File::open(other).unwrap());
    let address = Some([10, 0, 0, 1].into());
    let refused =
        store.image_for(address, Arc::clone(&other), "other.ts", store.usual_limits(), PlayedAs::Stored);
    assert!(matches!(refused.map(drop), Err(StoreError::AddressBusy)));
    assert_eq!(store.counts().packings_refused, 1);
    drop(store);

    let store = fixture.store_with(|options| {
        options.images = ImagePolicy::None;
        options.packings_per_address = 1;
    });
    let image = store.image_for(address, other, "other.ts", store.usual_limits(), PlayedAs::Stored).unwrap();
    wait_until("the index", || *image.progress().borrow() == Progress::Complete);
    let recipe = store.usual_limits();
    wait_until("room for another", || {
        store.image_for(address, fixture.asset(), "clip.ts", recipe, PlayedAs::Stored).is_ok()
    });
}

/// Promise: If an asset is changed or truncated, its playbacks end with an error that says so.
#[test]
fn a_changed_asset_ends_what_plays_it() {
    for change in [|file: &File| file.set_len(100_000), |file: &File| file.write_all_at(b"other", 3_000_000)]
    {
        let fixture = fixture();
        let store = fixture.store(ImagePolicy::Auto);
        let image = fixture.complete(&store);
        assert!(segment(&image, 0).unwrap().is_some());
        let file = File::options().write(true).open(fixture.folder.path().join("clip.ts")).unwrap();
        change(&file).unwrap();
        let reason = segment(&image, 5).unwrap_err();
        assert!(reason.contains("changed or truncated"), "{reason}");
        let again = fixture.image(&store);
        assert!(segment(&again, 0).unwrap().is_some(), "the new version is played");
    }
}

/// Promise: An asset that is replaced by another file is played to its end.
#[test]
fn a_replaced_asset_is_played_on() {
    let fixture = fixture();
    let store = fixture.store(ImagePolicy::None);
    let image = fixture.complete(&store);
    assert!(segment(&image, 0).unwrap().is_some());
    let other = fixture.folder.path().join("other.ts");
    fs::write(&other, vec![0; 100]).unwrap();
    fs::rename(&other, fixture.folder.path().join("clip.ts")).unwrap();
    let payload: Vec<u8> =
        all_packets(&image).iter().flat_map(|packet| &packet[HEADER_LENGTH..]).copied().collect();
    assert!(payload == fixture.sample.payload);
}

/// An asset whose packets are not contiguous gets an image under every policy.
#[test]
fn packets_with_gaps_between_them_need_an_image() {
    let fixture = of(Sample { packets: 5000, framing: Framing::Timestamped, ..Sample::default() });
    let store = fixture.store(ImagePolicy::None);
    let image = fixture.complete(&store);
    assert!(!image.is_sent_from_asset());
    assert_eq!((fixture.cached(), store.counts().packed), (vec!["image"], 1));
    let payload: Vec<u8> =
        all_packets(&image).iter().flat_map(|packet| &packet[HEADER_LENGTH..]).copied().collect();
    assert!(payload == fixture.sample.payload);
}

/// Promise: The larger index of a damaged file, which lists the damage, still keeps to `--cache-size`.
#[test]
fn an_index_that_takes_more_than_was_expected_keeps_the_budget() {
    let fixture = fixture();
    let damaged: Vec<u8> =
        fixture.sample.bytes.chunks(188 * 100).flat_map(|chunk| [chunk, b"x"].concat()).collect();
    fs::write(fixture.folder.path().join("clip.ts"), &damaged).unwrap();
    let open = |budget: u64| {
        let cache = ImageFolder::open(&fixture.folder.path().join("cache"), budget).unwrap();
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let options = StoreOptions { images: ImagePolicy::None, ..StoreOptions::new(readers, 1) };
        Store::start(cache, options).unwrap()
    };
    let store = open(1 << 20);
    let image = fixture.image(&store);
    let reason = (0..).find_map(|number| segment(&image, number).map(|found| assert!(found.is_some())).err());
    assert!(reason.unwrap().contains("--cache-size"));
    wait_until("the room", || store.counts().cache_used_bytes == 0);
    drop((image, store));

    let store = open(16 << 20);
    let image = fixture.complete(&store);
    let length = fs::metadata(store.path_of(&image)).unwrap().len();
    assert!(length > 3 << 20, "{length} bytes: it has the packets");
    wait_until("the count", || store.counts().cache_used_bytes == length);
}

/// Releases of media that leave the page cache.
fn released(store: &Store) -> u64 {
    store.page_counts().released_bytes
}

/// Promise: Sent pages leave the page cache before pages that sessions need next; pages that several sent
/// stay longer.
#[test]
fn what_was_sent_makes_room_for_what_is_next() {
    for policy in [ImagePolicy::None, ImagePolicy::AtOnce] {
        let fixture = of(Sample { packets: 60_000, ..Sample::default() });
        let store = fixture.store_with(|options| {
            options.images = policy;
            options.page_bytes = Some(1); // whatever is held is too much
        });
        let image = fixture.complete(&store);
        fixture.leave_page_cache();
        let packed = released(&store);
        let mut playing = segment(&image, 0).unwrap().unwrap();
        let first = (Arc::clone(&playing.mapped_file), extent(&playing));
        assert_eq!(released(&store), packed, "a playback has it");
        let _follower = segment(&image, 0).unwrap().unwrap();
        for number in 1..4 {
            playing = segment(&image, number).unwrap().unwrap();
        }
        assert_eq!(released(&store), packed, "another follows");
        drop(_follower);
        for number in 4..9 {
            playing = segment(&image, number).unwrap().unwrap();
        }
        // The first segment was taken twice, so it stays at its first check.
        wait_until("a release", || released(&store) > packed + (3 << 20));
        let (file, range) = first;
        let is_memory = rustix::fs::fstatfs(file.file()).unwrap().f_type == 0x0102_1994; // tmpfs
        assert!(is_memory || PageCache::of(file.file(), range) == PageCache::Cold);
        let held = store.page_counts().held_bytes;
        assert!(held < 5 << 20, "{held} bytes are held");
        assert_eq!(packets(&playing).len() as u64, image_packets(&playing));
    }
}

/// Packets of a segment by its trains.
fn image_packets(segment: &Segment) -> u64 {
    segment.departures.iter().map(|departure| u64::from(departure.train.packets())).sum()
}

/// Range of the file that a segment is sent from.
fn extent(segment: &Segment) -> std::ops::Range<u64> {
    let last = segment.departures.last().unwrap().train;
    segment.departures[0].train.offset..last.offset + u64::from(last.length)
}
