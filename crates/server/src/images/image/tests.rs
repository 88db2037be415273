use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use wirepath_engine::{BlockingPool, Context, Engine, EngineOptions, Placement, Priority, Task};
use wirepath_media::image::{Identity, Recipe, StreamPlan};
use wirepath_playback::{Load, TrainSource};

use super::*;
use crate::images::page_memory::PageMemory;
use crate::images::progress::{Failure, SeekResult};
use crate::images::segment::Files;
use crate::images::work_queue::Due;

const ENTRY: SegmentEntry = SegmentEntry {
    offset: 4096,
    data_length: 1328,
    records: 1,
    first_packet: 0,
    packets: 1,
    first_departure_us: 500,
    crc: 1,
    asset_offset: None,
};

/// An image in a file of zeros, with a record of reported damage.
fn image() -> (Arc<Image>, Receiver<Damage>) {
    let plan = Plan {
        identity: Identity { size: 1, mtime_ns: 2, inode: 3, device: 4 },
        recipe: Recipe::transport_stream(7, 20_000),
        streams: StreamPlan::transport_stream(5, 6, 7).into(),
    };
    let pool = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
    let readers = Readers { pool, memory: PageMemory::new(None) };
    let (damages, damaged) = channel();
    let image = Image::new(
        "a.ts",
        "a.wpi".into(),
        plan,
        Summary::default(),
        readers,
        Arc::default(),
        move |_, damage| {
            let _ = damages.send(damage); // a test may not care
        },
    );
    assert!(image.begin(0, files()));
    (image, damaged)
}

fn failure(reason: &str) -> Failure {
    Failure { reason: reason.into(), public: reason.into(), is_asset: true }
}

fn files() -> Files {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 16).unwrap();
    Files { stored: Arc::new(MappedFile::new(file, 1 << 16).unwrap()), asset: None }
}

fn wait_for(image: &Image, what: impl Fn(&Load) -> bool) -> Load {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let load = image.segment(0, None);
        if what(&load) {
            return load;
        }
        assert!(Instant::now() < deadline, "{load:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_segment_that_cannot_be_read_for_lack_of_something_is_no_damage() {
    let (image, damaged) = image();
    // An offset that `pread` refuses (EINVAL) simulates too little memory (ENOMEM).
    assert!(image.grow(0, &[SegmentEntry { offset: 1 << 63, ..ENTRY }], &[], false));
    let Load::Failed(reason) = wait_for(&image, |load| !matches!(load, Load::Pending)) else { panic!() };
    assert!(reason.contains("cannot be read") && reason.contains("a.wpi"), "{reason}");
    assert!(damaged.try_recv().is_err());
    assert!(!image.has_failed());
    // Later it is tried again.
    wait_for(&image, |load| matches!(load, Load::Pending));
}

/// Promise: If reading its segment panics, a playback ends instead of waiting.
#[test]
fn a_segment_that_is_read_with_a_panic_is_not_waited_for() {
    let (image, damaged) = image();
    // A segment there ends beyond the largest offset.
    assert!(image.grow(0, &[SegmentEntry { offset: u64::MAX, ..ENTRY }], &[], false));
    let Load::Failed(reason) = wait_for(&image, |load| !matches!(load, Load::Pending)) else { panic!() };
    assert!(reason.contains("a.wpi"), "{reason}");
    assert!(damaged.try_recv().is_err());
}

#[test]
fn what_belongs_to_an_older_generation_changes_nothing() {
    let (image, damaged) = image();
    assert!(image.grow(0, &[ENTRY], &[], false));
    assert!(matches!(image.segment(0, None), Load::Pending));
    let damage = damaged.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!((damage.generation, image.generation()), (1, 1));
    assert!(!image.grow(0, &[ENTRY], &[], true));
    assert!(!image.begin(0, files()));
    assert!(!image.end(0, Ok(Summary::default())));
    assert!(!image.end(0, Err(failure("too late"))));
    assert_eq!(*image.progress().borrow(), Progress::Growing { until_us: 0 });
    assert_eq!(image.contents().unwrap(), Contents::default());
    assert!(image.begin(1, files()));
    assert!(image.grow(1, &[ENTRY], &[], true));
}

#[test]
fn a_failed_image_lets_go_of_its_file_and_is_never_located_in() {
    let (image, _damaged) = image();
    assert_eq!(image.locate(100), SeekResult::NotYet);
    assert!(image.grow(0, &[ENTRY], &[], true));
    assert!(matches!(image.locate(100), SeekResult::At { .. }));
    assert!(image.end(0, Err(failure("no clock"))));
    assert_eq!(image.locate(100), SeekResult::NotYet);
    assert!(matches!(image.locate(0), SeekResult::At { .. }));
    assert_eq!(image.contents().unwrap(), Contents::default());
    assert!(matches!(image.segment(0, None), Load::Failed(_)));
}

/// Records which of its wakers were woken.
struct Woken(Sender<u64>);

impl Task for Woken {
    fn start(&mut self, _context: &mut Context<'_>) {}

    fn wake(&mut self, token: u64, _context: &mut Context<'_>) {
        self.0.send(token).unwrap();
    }

    fn end(self: Box<Self>, _pool: &BlockingPool) {}
}

/// Promise: A playback that waits for a segment is woken when the segment's state changes, and polls only
/// then.
#[test]
fn a_waiting_playback_is_woken_when_the_segment_changes() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (sender, woken) = channel();
    let task = engine.spawn(Box::new(Woken(sender)), Placement::default());
    let [first, second, third] = [1, 2, 3].map(|token| task.waker(token));
    let woken = || woken.recv_timeout(Duration::from_secs(20)).unwrap();
    let is_pending = |load| matches!(load, Load::Pending);
    let (image, _damaged) = image();

    assert!(is_pending(image.segment(0, Some(&first))));
    assert!(is_pending(image.segment(1, Some(&second))));
    assert!(is_pending(image.segment(1, Some(&third))));
    image.forget(&third);
    // An offset that cannot be read.
    assert!(image.grow(0, &[SegmentEntry { offset: 1 << 63, ..ENTRY }], &[], false));
    assert_eq!(woken(), 1, "the image has grown");
    assert!(is_pending(image.segment(0, Some(&first))));
    assert_eq!(woken(), 1, "the segment could not be read");
    assert!(matches!(image.segment(0, Some(&first)), Load::Failed(_)));
    assert!(is_pending(image.segment(7, Some(&first))));
    assert!(is_pending(image.segment(9, Some(&first))));
    assert!(image.end(0, Ok(Summary::default())));
    let mut at_the_end = [woken(), woken()];
    at_the_end.sort_unstable();
    assert_eq!(at_the_end, [1, 2], "the image is complete, and each playback waits for one segment");
    assert!(matches!(image.segment(1, Some(&second)), Load::End));
}

/// Promise: A recording is played from now on, also one without pictures.
#[test]
fn without_pictures_every_packet_is_a_random_access_point() {
    let (image, _damaged) = image();
    assert_eq!(image.last_start_us(u64::MAX), 0, "nothing is packed");
    let entry = |first_departure_us| SegmentEntry { first_departure_us, ..ENTRY };
    assert!(image.grow(0, &[0, 2_000_000, 4_000_000].map(entry), &[], false));
    assert_eq!([3_000_000, u64::MAX].map(|at_us| image.last_start_us(at_us)), [3_000_000, 4_000_000]);
}

/// Promise: Packing is urgent if a session waits or will soon wait for it, not for a DESCRIBE or a pause.
///
/// The first turn is another matter: see `Job`.
#[test]
fn packing_is_due_for_playing_sessions() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (sender, _woken) = channel();
    let task = engine.spawn(Box::new(Woken(sender)), Placement::default());
    let waker = task.waker(1);
    let (image, _damaged) = image();
    let (asked, far) = (Instant::now(), Duration::from_secs(3600));
    let due = |now| image.packing_due(asked, now);
    assert_eq!(due(asked + far), Due::Nobody(asked), "nothing but a DESCRIBE");
    let entry =
        |seconds: u64| SegmentEntry { first_departure_us: seconds * 1_000_000, offset: 1 << 63, ..ENTRY };
    assert!(image.grow(0, &[0, 2, 4, 6, 10].map(entry), &[], false));
    assert!(matches!(due(asked + far), Due::Nobody(_)), "packed, but not played");
    let begun = Instant::now();
    image.segment(0, Some(&waker));
    image.segment(1, None); // in advance
    let seconds = Duration::from_secs;
    let Due::Playback(at) = due(begun + seconds(1)) else { panic!("a playback has begun") };
    assert!(at >= begun + seconds(9) && at < begun + seconds(15), "10 s were packed");
    assert!(matches!(due(begun + far), Due::Nobody(_)), "it has been paused, or has ended");
    image.segment(4, Some(&waker));
    assert!(matches!(due(Instant::now()), Due::Playback(at) if at <= Instant::now()), "at the last segment");
    image.segment(5, Some(&waker));
    assert_eq!(due(begun + far), Due::Playback(asked), "one waits");
}

/// Promise: When the session that needs packing first leaves, packing is due when the next session needs it.
#[test]
fn packing_is_due_for_later_playbacks_when_the_first_has_left() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (sender, _woken) = channel();
    let task = engine.spawn(Box::new(Woken(sender)), Placement::default());
    let waker = task.waker(1);
    let (image, _damaged) = image();
    let entry =
        |seconds: u64| SegmentEntry { first_departure_us: seconds * 1_000_000, offset: 1 << 63, ..ENTRY };
    assert!(image.grow(0, &[0, 6, 8, 10].map(entry), &[], false));
    let begun = Instant::now();
    image.segment(1, Some(&waker));
    image.segment(0, Some(&waker)); // another, four seconds behind
    let noted = Instant::now();
    let seconds = Duration::from_secs;
    let needed = |now| match image.packing_due(begun, now) {
        Due::Playback(at) => at,
        Due::Nobody(_) => panic!("nobody plays"),
    };
    let is_in = |at, after| at + seconds(1) > begun + seconds(after) && at < noted + seconds(after);
    assert!(is_in(needed(begun), 4));
    assert!(is_in(needed(begun + seconds(2)), 4));
    assert!(is_in(needed(noted + seconds(4)), 10), "the first has not come to the next segment");
    assert!(matches!(image.packing_due(begun, noted + seconds(8)), Due::Nobody(_)), "nor has the other");
}

/// Promise: Packing is urgent while a session waits for a seek.
#[test]
fn packing_is_due_for_seeking_sessions() {
    let (image, _damaged) = image();
    let asked = Instant::now();
    let seek = image.wait_for_seek();
    assert_eq!(image.packing_due(asked, asked), Due::Playback(asked));
    drop(seek);
    assert_eq!(image.packing_due(asked, asked), Due::Nobody(asked));
}
