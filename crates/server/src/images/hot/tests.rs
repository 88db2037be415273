//! Images that are held. The tests do not depend on io_uring: without it threads hold nothing, but copies are
//! made.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use wirepath_datapath::Support;
use wirepath_datapath::calibration::Calibrations;
use wirepath_engine::{Engine, EngineOptions};
use wirepath_media::ts::synthetic::Sample;
use wirepath_playback::{Burst, PlaybackSettings, RingUse};

use super::*;
use crate::images::image::WholeImage;
use crate::images::{ImageFolder, Progress, Store};

struct Fixture {
    folder: tempfile::TempDir,
    store: Arc<Store>,
    playbacks: Arc<Playbacks>,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let cache = ImageFolder::open(&folder.path().join("cache"), 1 << 30).unwrap();
    let engine = Arc::new(Engine::start(EngineOptions { threads: 2, ..EngineOptions::default() }).unwrap());
    let store = Store::new(cache, engine.pool().clone(), 1).unwrap();
    let support = Arc::new(Support::probe(None, Calibrations::default(), false));
    let playbacks = Arc::new(Playbacks::start(
        engine,
        PlaybackSettings { support, ring: RingUse::Always { maps: false }, burst: Burst::Fixed(20_000) },
    ));
    Fixture { folder, store, playbacks }
}

impl Fixture {
    /// A complete image of a file of this name.
    fn image(&self, name: &str) -> Arc<Image> {
        let path = self.folder.path().join(name);
        if !path.exists() {
            fs::write(&path, Sample { packets: 20_000, ..Sample::default() }.stream().bytes).unwrap();
        }
        let asset = Arc::new(File::open(path).unwrap());
        let image = self.store.image(asset, name, self.store.usual_limits()).unwrap();
        wait_for("the end of packing", || *image.progress().borrow() == Progress::Complete);
        image
    }

    /// Hot memory with space for so many images and a half.
    fn memory(&self, images: u64) -> Arc<HotMemory> {
        self.memory_with_stay(images, HotOptions::of_bytes(0).least_stay)
    }

    fn memory_with_stay(&self, images: u64, least_stay: Duration) -> Arc<HotMemory> {
        let length = self.image("measured.ts").whole().unwrap().length;
        let options = HotOptions { least_stay, ..HotOptions::of_bytes(images * length + length / 2) };
        HotMemory::new(options, Arc::clone(&self.playbacks)).unwrap()
    }
}

/// Looks until something is so.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::yield_now();
    }
}

impl HotMemory {
    fn names(&self) -> Vec<String> {
        let json = self.json();
        let images = json["images"].as_array().unwrap().iter();
        let mut names: Vec<String> = images.map(|image| image["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    fn used(&self) -> u64 {
        self.counts().used_bytes
    }

    fn wait_until_held(&self, names: &[&str]) {
        wait_for(&format!("{names:?}"), || {
            self.update();
            self.names() == names
        });
    }

    /// Updates often enough that all pending changes have happened.
    fn settle(&self) {
        let copied = self.counts().copied;
        for _ in 0..20 {
            self.update();
            wait_for("the end of copying", || !self.state.lock().is_copying());
        }
        assert_eq!(self.counts().copied, copied, "something was copied");
    }
}

#[test]
fn what_is_played_is_held_whole() {
    let fixture = fixture();
    let (memory, image) = (fixture.memory(1), fixture.image("a.ts"));
    memory.settle();
    assert_eq!(memory.names(), [""; 0], "nobody plays it");
    let session = memory.session(&image, CopyLayout::Packets).unwrap();
    memory.wait_until_held(&["a.ts"]);
    let WholeImage { mapped_file, length, .. } = image.whole().unwrap();
    let expected =
        json!([{"name": "a.ts", "transport": "udp", "bytes": length, "sessions": 1, "popularity": 2.0}]);
    assert_eq!((&memory.json()["images"], memory.used(), memory.counts().copied), (&expected, length, 1));
    let mut stored = vec![0; length as usize];
    mapped_file.file().read_exact_at(&mut stored, 0).unwrap();
    match &memory.state.lock().entries[0].copy {
        Copy::Resident { region, .. } => assert!(region.bytes() == stored),
        _ => panic!("it is held"),
    }
    drop(session);
    assert_eq!(memory.json()["images"][0]["sessions"], 0);
}

/// Promise: Hot memory holds an image with framing for sessions over TCP, separately from the copy for UDP.
#[test]
fn sessions_over_tcp_play_a_copy_with_framing() {
    let fixture = fixture();
    let (memory, image) = (fixture.memory(2), fixture.image("a.ts"));
    let _udp = memory.session(&image, CopyLayout::Packets).unwrap();
    memory.wait_until_held(&["a.ts"]);
    let _tcp = memory.session(&image, CopyLayout::Frames).unwrap();
    memory.wait_until_held(&["a.ts", "a.ts"]);
    let WholeImage { mapped_file, length, .. } = image.whole().unwrap();
    let mut stored = vec![0; length as usize];
    mapped_file.file().read_exact_at(&mut stored, 0).unwrap();
    let state = memory.state.lock();
    let entry = state.entries.iter().find(|entry| entry.layout == CopyLayout::Frames).unwrap();
    let Copy::Resident { region, .. } = &entry.copy else { panic!("it is held") };
    let mut packets = 0;
    for segment in image.segments() {
        let mut stored = &stored[segment.offset as usize..][..segment.data_length as usize];
        let mut frames = &region.bytes()[(segment.offset + 4 * segment.first_packet) as usize..];
        for _ in 0..segment.packets {
            let length = usize::from(u16::from_be_bytes([frames[2], frames[3]]));
            assert_eq!((frames[0], frames[1]), (b'$', 0));
            assert!(frames[4..4 + length] == stored[..length], "packet {packets}");
            (frames, stored) = (&frames[4 + length..], &stored[length..]);
            packets += 1;
        }
        assert_eq!(stored.len(), 0);
    }
    assert_eq!(region.length() as u64, length + 4 * packets);
}

/// Promise: `--hot-memory` holds complete images within its budget and evicts the least popular first.
#[test]
fn the_least_popular_goes_and_never_one_that_is_played_as_much() {
    let fixture = fixture();
    let memory = fixture.memory(2);
    let images = ["a.ts", "b.ts", "c.ts", "d.ts"].map(|name| fixture.image(name));
    let a = memory.session(&images[0], CopyLayout::Packets).unwrap();
    memory.wait_until_held(&["a.ts"]);
    let b = memory.session(&images[1], CopyLayout::Packets).unwrap();
    memory.wait_until_held(&["a.ts", "b.ts"]);
    // Both are in use: nothing is released, and no part of an image is held.
    let c = memory.session(&images[2], CopyLayout::Packets).unwrap();
    memory.settle();
    assert_eq!(memory.names(), ["a.ts", "b.ts"]);
    // Nobody plays b any more, but its space is not needed if c is gone, too.
    drop((b, c));
    memory.settle();
    assert_eq!(memory.names(), ["a.ts", "b.ts"]);
    // a was requested before b, but is in use.
    let d = memory.session(&images[3], CopyLayout::Packets).unwrap();
    memory.wait_until_held(&["a.ts", "d.ts"]);
    drop((a, d));
    // Now both could be released, and a was requested first.
    let _b = memory.session(&images[1], CopyLayout::Packets).unwrap();
    memory.wait_until_held(&["b.ts", "d.ts"]);
    wait_for("memory", || {
        memory.update();
        memory.used() <= memory.options.budget
    });
}

/// Promise: `--hot-memory` holds complete images within its budget and evicts the least popular first.
#[test]
fn the_budget_holds_while_images_come_and_go() {
    let fixture = fixture();
    let memory = fixture.memory(1);
    let images = ["a.ts", "b.ts"].map(|name| fixture.image(name));
    for round in 0..6 {
        let _session = memory.session(&images[round % 2], CopyLayout::Packets).unwrap();
        let name = ["a.ts", "b.ts"][round % 2];
        wait_for(name, || {
            memory.update();
            assert!(memory.used() <= memory.options.budget, "{} of {}", memory.used(), memory.options.budget);
            memory.names() == [name]
        });
    }
}

/// Promise: `--hot-memory` holds complete images within its budget and evicts the least popular first.
#[test]
fn what_does_not_fit_leaves_the_others_alone() {
    let fixture = fixture();
    let memory = HotMemory::new(HotOptions::of_bytes(1000), Arc::clone(&fixture.playbacks)).unwrap();
    let _session = memory.session(&fixture.image("a.ts"), CopyLayout::Packets).unwrap();
    memory.settle();
    assert_eq!((memory.names().len(), memory.used(), &memory.json()["given_up"]), (0, 0, &Json::Null));
}

/// Promise: The most played images are held in hot memory; images of nearly equal popularity do not
/// alternate.
#[test]
fn the_most_popular_image_is_held() {
    let fixture = fixture();
    let memory = fixture.memory(1);
    let images = ["a.ts", "b.ts"].map(|name| fixture.image(name));
    let sessions = |image: usize, count| {
        (0..count)
            .map(|_| memory.session(&images[image], CopyLayout::Packets).unwrap())
            .collect::<Vec<HotSession>>()
    };
    let mut a = sessions(0, 2);
    memory.wait_until_held(&["a.ts"]);
    // b is as popular, then more so.
    let mut b = sessions(1, 3);
    memory.settle();
    assert_eq!(memory.names(), ["a.ts"]);
    // b is played twice as much, but a was not held for long.
    b.extend(sessions(1, 1));
    memory.settle();
    assert_eq!(memory.names(), ["a.ts"]);
    a.pop();
    assert_eq!(memory.counts().demoted, 0);
    drop(a);
    // Nobody plays a any more.
    memory.wait_until_held(&["b.ts"]);
    assert_eq!(memory.counts().demoted, 0);
}

/// Promise: The most played images are held in hot memory; images of nearly equal popularity do not
/// alternate.
#[test]
fn an_image_that_is_played_much_more_takes_the_place_of_one_that_is_played() {
    let fixture = fixture();
    let memory = fixture.memory_with_stay(1, Duration::ZERO);
    let images = ["a.ts", "b.ts"].map(|name| fixture.image(name));
    let _a = memory.session(&images[0], CopyLayout::Packets).unwrap();
    memory.wait_until_held(&["a.ts"]);
    let _b = [(); 3].map(|()| memory.session(&images[1], CopyLayout::Packets).unwrap());
    memory.wait_until_held(&["b.ts"]);
    assert_eq!(memory.counts().demoted, 1);
    memory.settle();
    assert_eq!(memory.names(), ["b.ts"]);
}

/// Promise: A damaged image is not held in hot memory.
#[test]
fn a_damaged_image_is_not_held() {
    let fixture = fixture();
    let (memory, image) = (fixture.memory(1), fixture.image("a.ts"));
    let path = fixture.store.path_of(&image);
    File::options().write(true).open(path).unwrap().write_all_at(&[0xa5; 64], 500_000).unwrap();
    let _session = memory.session(&image, CopyLayout::Packets).unwrap();
    wait_for("the refusal", || {
        memory.update();
        matches!(memory.state.lock().entries[0].copy, Copy::Failed)
    });
    memory.settle();
    assert_eq!((memory.names().len(), memory.used()), (0, 0));
}

#[test]
fn closed_images_are_released() {
    let fixture = fixture();
    let (memory, image) = (fixture.memory(1), fixture.image("a.ts"));
    let session = memory.session(&image, CopyLayout::Packets).unwrap();
    memory.wait_until_held(&["a.ts"]);
    drop((session, image));
    drop(fixture.store); // which keeps images open for a while
    memory.wait_until_held(&[]);
    wait_for("the memory", || {
        memory.update();
        memory.used() == 0
    });
    assert!(memory.state.lock().entries.is_empty());
}

/// Promise: Default hot memory holds an image only from eight sessions on.
#[test]
fn fewer_than_eight_sessions_do_not_make_an_image_hot_by_themselves() {
    let fixture = fixture();
    let image = fixture.image("a.ts");
    let options = HotOptions { least_sessions: 8, is_automatic: true, ..HotOptions::of_bytes(1 << 30) };
    let memory = HotMemory::new(options, Arc::clone(&fixture.playbacks)).unwrap();
    let seven: Vec<_> = (0..7).map(|_| memory.session(&image, CopyLayout::Packets)).collect();
    memory.update();
    assert!(!memory.state.lock().is_copying() && memory.used() == 0);
    let _eighth = memory.session(&image, CopyLayout::Packets);
    memory.update();
    wait_for("the copy", || memory.names() == ["a.ts"]);
    drop(seven);
}

/// Promise: A copy that completes after hot memory was given up is dropped.
#[test]
fn a_copy_that_is_not_wanted_any_more_is_dropped() {
    let fixture = fixture();
    let image = fixture.image("a.ts");
    let memory = fixture.memory(1);
    let _session = memory.session(&image, CopyLayout::Packets);
    let complete = CompleteImage::of(Arc::clone(&image), CopyLayout::Packets).unwrap();
    let copy = complete.copy();
    memory.finish_copy(&Arc::downgrade(&image), complete, copy);
    assert_eq!(memory.used(), 0, "nothing was being copied");
}
