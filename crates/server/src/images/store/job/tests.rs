use std::fs;
use std::time::{Duration, Instant};

use wirepath_engine::{BlockingPool, Priority};
use wirepath_media::image::{PathLimits, StreamPlan};
use wirepath_media::ts::synthetic::Sample;
use wirepath_playback::{Load, TrainSource};

use super::*;
use crate::images::error::identity;
use crate::images::follow::Follow;
use crate::images::image_folder::ImageFolder;
use crate::images::progress::{Failure, Progress};
use crate::images::store::Request;

struct Fixture {
    _folder: tempfile::TempDir,
    store: Arc<Store>,
    asset: Arc<File>,
}

/// A sample of several segments, and a store whose cache is empty.
fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.ts");
    fs::write(&path, &Sample { packets: 20_000, ..Sample::default() }.stream().bytes).unwrap();
    let cache = ImageFolder::open(&folder.path().join("cache"), 1 << 30).unwrap();
    let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
    let store = Store::new(cache, readers, 1).unwrap();
    Fixture { _folder: folder, store, asset: Arc::new(File::open(path).unwrap()) }
}

impl Fixture {
    /// A job that no queue has.
    fn job(&self) -> Job {
        let (recipe, identity) =
            (self.store.usual_limits().transport_stream(), identity(&self.asset).unwrap());
        let key = Key::of(identity, recipe);
        let request = Request {
            client: None,
            asset: Arc::clone(&self.asset),
            name: "clip.ts",
            key,
            identity,
            follow: Follow::Nothing,
        };
        let plan = image::Plan { identity, recipe, streams: StreamPlan::transport_stream(1, 2, 3).into() };
        let image = self.store.new_image(&request, plan, Summary::default(), Layout::Image);
        assert!(image.want_packed(0));
        let goal = Goal::new(Arc::downgrade(&self.store), key, image, 0);
        let (asset, layout) = (request.asset, Layout::Image);
        Job { goal, asset, layout, _permit: None, begun: None, last_turn: Instant::now(), place: None }
    }
}

/// Waits until an image has failed.
fn failure(image: &Image) -> Failure {
    let deadline = Instant::now() + Duration::from_secs(20);
    let progress = image.progress();
    loop {
        if let Progress::Failed(failure) = &*progress.borrow() {
            return failure.clone();
        }
        assert!(Instant::now() < deadline, "{:?}", *progress.borrow());
        std::thread::yield_now();
    }
}

/// Promise: From DESCRIBE on, the beginning of an asset is packed at normal priority.
#[test]
fn the_first_turn_is_urgent_and_no_other_before_a_playback() {
    let fixture = fixture();
    let job = fixture.job();
    let image = Arc::clone(&job.goal.image); // somebody has it
    let Due::Playback(at) = job.due() else { panic!("{:?}", job.due()) };
    assert_eq!(at, job.last_turn + FIRST_TURN, "behind sessions that wait already");
    let job = job.turn().unwrap();
    assert!(matches!(job.due(), Due::Nobody(_)), "{:?}", job.due());
    assert!(!image.has_failed());
}

/// Promise: If packing an asset panics, its sessions end with an error instead of waiting.
#[test]
fn an_image_whose_packing_panics_fails() {
    let fixture = fixture();
    // No recipe has packets of length 0: dividing by it panics.
    let limits = PathLimits { payload: 0, ..fixture.store.usual_limits() };
    let image = fixture.store.image(Arc::clone(&fixture.asset), "clip.ts", limits).unwrap();
    let failed = failure(&image);
    assert!(failed.reason.contains("packing panicked") && !failed.is_asset, "{failed:?}");
    assert!(failed.public.contains("see the server's log"), "{failed:?}");
    assert!(matches!(image.segment(0, None), Load::Failed(_)));
    let again = fixture.store.image(Arc::clone(&fixture.asset), "clip.ts", limits);
    assert!(matches!(again, Err(StoreError::Panicked)), "for a moment it is not tried again");
    assert!(image.want_packed(1), "no packer is taken to be busy with it");
}

#[test]
fn an_image_whose_packing_panics_after_some_turns_fails() {
    let fixture = fixture();
    let job = fixture.job();
    let image = Arc::clone(&job.goal.image);
    let job = job.turn().unwrap();
    let panicked = wirepath_engine::catch_panic(|| {
        let _job = job;
        panic!("on purpose");
    });
    assert!(panicked.is_err());
    assert!(failure(&image).reason.contains("packing panicked"));
}

#[test]
fn an_image_fails_that_is_not_complete_when_its_store_ends() {
    let fixture = fixture();
    let job = fixture.job();
    let image = Arc::clone(&job.goal.image);
    let Fixture { store, .. } = fixture;
    let left = Arc::downgrade(&store);
    drop(store);
    // Another thread may be working on it.
    let deadline = Instant::now() + Duration::from_secs(20);
    while left.strong_count() > 0 {
        assert!(Instant::now() < deadline, "the store does not end");
        std::thread::yield_now();
    }
    assert!(job.turn().is_none());
    assert_eq!(&*failure(&image).reason, "packing was stopped");
}
