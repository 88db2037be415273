//! Opens recordings of an archive that have the formats of the newest one, which those of a session keep.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirepath_media::image::PathLimits;

use super::first_search::FirstSearch;
use super::folder::{ArchiveFolder, RecordingFile};
use super::recordings::{Recording, Recordings};
use crate::formats::Formats;
use crate::images::{Follow, Image, StoreError};
use crate::library::FindError;

/// Most recordings that are tried in one search after a time.
const TRIES: usize = 64;

/// Most recordings before a time that are tried: the time may be in any of them, if the recordings after it
/// cannot be played.
const TRIES_BEFORE: usize = 8;

/// Longest search for the first recording that can be played, in one request, and longest wait for the search
/// of another request. The next request continues where the search ended.
const FIRST_LIMIT: Duration = Duration::from_secs(5);

/// Interval and number of further attempts to open a recording that cannot be opened at present.
pub(super) const RETRY: Duration = Duration::from_millis(500);
pub(super) const RETRIES: u32 = 20;

/// Most recordings that are examined from the end of an archive.
pub(super) const EXAMINED: usize = 16;

/// Opens recordings for a client.
#[derive(Clone)]
pub(super) struct Opener {
    pub(super) folder: Arc<ArchiveFolder>,
    pub(super) client: IpAddr,
    pub(super) limits: PathLimits,
}

/// Recording that can be played.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) image: Arc<Image>,
    /// Time of its beginning, in microseconds since 1970.
    pub(super) start_us: i64,
}

/// Search for a recording to play.
pub(super) enum Search {
    Found(Opened),
    /// There is none.
    End,
    /// The recordings up to the one that begins at this time cannot be played.
    NotYet(i64),
    /// This recording cannot be opened at present.
    Later(Recording, OpenFailure),
}

/// First recording of an archive.
pub(super) enum First {
    Found(Opened),
    /// No recording can be played.
    None,
    /// The only recordings that may be played are being written, and cannot be followed.
    Growing,
    /// None was found in a request's time; the search continues with the next request.
    NotYet,
    /// The recording cannot be opened at present.
    Later(OpenFailure),
}

/// Transient or storage error.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenFailure {
    #[error(transparent)]
    Find(FindError),
    #[error(transparent)]
    Store(StoreError),
}

impl OpenFailure {
    /// Returns whether reading failed. Other recordings may still be readable.
    fn is_read_error(&self) -> bool {
        matches!(self, OpenFailure::Find(FindError::Io(_)) | OpenFailure::Store(StoreError::Io(..)))
    }
}

/// Result of opening a recording.
enum Attempt {
    Opened(Opened),
    /// It is gone, or cannot be played with the others.
    LeftOut,
    /// It is being written, and cannot be followed.
    Growing,
    Later(OpenFailure),
}

impl Opener {
    /// The first recording that can be played and has the formats of the newest one. Recordings that cannot
    /// be read at present are passed over if a later one can be. Continues the search of earlier requests, one
    /// request at a time. Waits for storage.
    pub(super) fn first(&self) -> Result<First, FindError> {
        let begun = Instant::now();
        let recordings = self.folder.recordings()?;
        let like = self.newest_formats(&recordings);
        let Some(mut shared) = self.folder.first_search(FIRST_LIMIT) else { return Ok(First::NotYet) };
        let mut search = shared.clone();
        search.resume(&recordings, like.as_ref(), Instant::now());
        let first = self.continue_first(&mut search, &recordings, begun);
        if self.has_usual_limits() {
            // Images for narrower paths may be larger than the cache, those for others not.
            *shared = search;
        }
        Ok(first)
    }

    /// Continues a search for the first recording, for a request that began at this time. Tries at least one
    /// recording. Waits for storage.
    fn continue_first(&self, search: &mut FirstSearch, recordings: &Recordings, begun: Instant) -> First {
        let (mut is_growing, mut failure) = (false, None);
        let like = search.like();
        for recording in recordings.since(search.next_us()) {
            let attempt = match &like {
                // Examined before it is opened, which would prepare it.
                Some(like) if self.differs(recording, recordings, like) => Attempt::LeftOut,
                like => self.open(recording, recordings, like.as_deref()),
            };
            match attempt {
                Attempt::Opened(opened) => {
                    search.note_found(recording.start_us);
                    return First::Found(opened);
                }
                Attempt::LeftOut => search.pass(recording.start_us),
                Attempt::Growing => {
                    is_growing = true;
                    search.pass_over(recording.start_us, Instant::now());
                }
                Attempt::Later(error) if error.is_read_error() => {
                    self.folder.note_failure(recording, &error);
                    failure.get_or_insert(error);
                    search.pass_over(recording.start_us, Instant::now());
                }
                Attempt::Later(error) => return First::Later(error),
            }
            if begun.elapsed() >= FIRST_LIMIT {
                return First::NotYet;
            }
        }
        let were_passed_over = search.end();
        match failure {
            Some(failure) => First::Later(failure),
            None if is_growing => First::Growing,
            None if were_passed_over => First::NotYet, // by an earlier request
            None => First::None,
        }
    }

    /// Returns whether the packets are as large as those of most clients.
    fn has_usual_limits(&self) -> bool {
        self.limits == self.folder.store().usual_limits()
    }

    /// Formats of the newest recording that can be played, if one of the last can be.
    fn newest_formats(&self, recordings: &Recordings) -> Option<Arc<Formats>> {
        let newest = recordings.all().iter().rev().take(EXAMINED);
        newest.filter_map(|recording| self.folder.formats(recording, recordings).ok().flatten()).next()
    }

    /// Returns whether a recording is known to have other formats, and leaves it out then.
    fn differs(&self, recording: &Recording, recordings: &Recordings, like: &Formats) -> bool {
        let formats = self.folder.formats(recording, recordings).ok().flatten();
        formats.is_some_and(|formats| self.leaves_out(recording, &formats, like))
    }

    /// Leaves a recording out if its formats differ from these. Returns whether they do.
    fn leaves_out(&self, recording: &Recording, formats: &Formats, like: &Formats) -> bool {
        let difference = like.difference(formats);
        if let Some(why) = &difference {
            let why = format!("{why}; an archive plays recordings that can follow the newest one");
            self.folder.leave_out(recording, &why);
        }
        difference.is_some()
    }

    /// The first recording after a time that can be played like the others. Waits for storage.
    pub(super) fn after(&self, time_us: i64, like: &Formats) -> Result<Search, FindError> {
        let recordings = self.folder.recordings()?;
        let behind = recordings.between(time_us.saturating_add(1), i64::MAX);
        let is_behind = |recording: &&Recording| recording.start_us > time_us;
        let skipped = behind.iter().take_while(|recording| !is_behind(recording)).count();
        Ok(self.search(&behind[skipped..], &recordings, Some(like)))
    }

    /// The last recording that begins before a time and may contain it, or the first one after it that can be
    /// played. Waits for storage.
    pub(super) fn at(&self, time_us: i64, like: &Formats) -> Result<Search, FindError> {
        let recordings = self.folder.recordings()?;
        let before = recordings.up_to(time_us).iter().rev().take(TRIES_BEFORE);
        for recording in before {
            match self.open(recording, &recordings, Some(like)) {
                Attempt::Opened(opened) => return Ok(Search::Found(opened)),
                Attempt::LeftOut | Attempt::Growing => {}
                Attempt::Later(error) => return Ok(Search::Later(recording.clone(), error)),
            }
        }
        self.after(time_us, like)
    }

    fn search(&self, among: &[Recording], all: &Recordings, like: Option<&Formats>) -> Search {
        let mut tried = 0;
        for recording in among {
            match self.open(recording, all, like) {
                Attempt::Opened(opened) => return Search::Found(opened),
                Attempt::LeftOut | Attempt::Growing => {}
                Attempt::Later(error) => return Search::Later(recording.clone(), error),
            }
            tried += 1;
            if tried == TRIES {
                return Search::NotYet(recording.start_us);
            }
        }
        Search::End
    }

    /// Opens a recording, if it can be played. Only a recording that is at fault itself is left out.
    fn open(&self, recording: &Recording, all: &Recordings, like: Option<&Formats>) -> Attempt {
        let RecordingFile { asset, is_live } = match self.folder.open(recording, all) {
            Ok(Some(file)) => file,
            Ok(None) => return Attempt::Growing,
            Err(FindError::NotFound) => return Attempt::LeftOut, // it is gone
            Err(error @ FindError::Forbidden) => {
                self.folder.leave_out(recording, &error.to_string());
                return Attempt::LeftOut;
            }
            Err(error @ (FindError::Exhausted | FindError::Unread | FindError::Io(_))) => {
                return Attempt::Later(OpenFailure::Find(error));
            }
        };
        let identity = asset.version.identity;
        if self.folder.is_unplayable(recording, identity) {
            return Attempt::LeftOut;
        }
        let name = self.folder.name_of(recording);
        let image = match self.folder.store().image_to_follow(
            self.client,
            Arc::new(asset.file),
            &name,
            self.limits,
            self.folder.form(),
            if is_live { Follow::Recent } else { Follow::Growing },
        ) {
            Ok(image) => image,
            Err(StoreError::NotPlayable(why)) => {
                self.folder.mark_unplayable(recording, identity, &why);
                return Attempt::LeftOut;
            }
            // A transport stream that is not written any more has an index, which takes less room.
            Err(error) if error.exceeds_cache() && is_live => return Attempt::Growing,
            Err(error) if error.exceeds_cache() => {
                match self.has_usual_limits() {
                    true => self.folder.mark_unplayable(recording, identity, &error.public()),
                    false => self.folder.leave_out(recording, &error.public()),
                }
                return Attempt::LeftOut;
            }
            Err(error) => return Attempt::Later(OpenFailure::Store(error)),
        };
        let formats = Formats::of(&image.summary().description);
        if like.is_some_and(|like| self.leaves_out(recording, &formats, like)) {
            return Attempt::LeftOut;
        }
        self.folder.note_played(recording);
        Attempt::Opened(Opened { image, start_us: recording.start_us })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::SystemTime;

    use tempfile::TempDir;
    use wirepath_engine::{BlockingPool, Priority};
    use wirepath_media::ts::synthetic::Sample;

    use super::super::folder::Length;
    use super::super::{ArchiveOptions, NamePattern, TimeZone};
    use super::*;
    use crate::images::{ImageFolder, Progress, Store};
    use crate::library::Library;

    /// Budget of the cache.
    const BUDGET: u64 = 1 << 20;

    /// Archive `cam` in a folder, recorded an hour ago.
    struct TestBed {
        home: TempDir,
        folder: Arc<ArchiveFolder>,
        opener: Opener,
    }

    impl TestBed {
        fn new(recordings: &[(&str, &[u8])], cache: impl FnOnce(&Path) -> ImageFolder) -> TestBed {
            let home = tempfile::tempdir().unwrap();
            let media = home.path().join("media");
            fs::create_dir_all(media.join("cam")).unwrap();
            let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
            let pattern = NamePattern::parse(NamePattern::USUAL, TimeZone::Utc).unwrap();
            let options = ArchiveOptions { path: "cam".to_owned(), pattern };
            let store = Store::new(cache(&home.path().join("cache")), readers, 1).unwrap();
            let limits = store.usual_limits();
            let library = Library::open(&[media]).unwrap();
            let folder = ArchiveFolder::new(options, &library, store).unwrap();
            let opener = Opener { folder: Arc::clone(&folder), client: [127, 0, 0, 1].into(), limits };
            let bed = TestBed { home, folder, opener };
            recordings.iter().for_each(|(name, bytes)| bed.write(name, bytes));
            bed
        }

        /// Writes a recording in place.
        fn write(&self, name: &str, bytes: &[u8]) {
            let recording = self.home.path().join("media/cam").join(name);
            fs::write(&recording, bytes).unwrap();
            let hour_ago = SystemTime::now() - Duration::from_secs(3600);
            File::open(&recording).unwrap().set_modified(hour_ago).unwrap();
        }

        /// Start of the first recording in seconds after ten o'clock.
        fn first_s(&self) -> i64 {
            let First::Found(opened) = self.opener.first().unwrap() else { panic!("it is not opened") };
            opened.start_us / 1_000_000 - 1_795_428_000
        }

        fn left_out(&self) -> usize {
            self.folder.json()["left_out"].as_array().unwrap().len()
        }
    }

    fn usual_cache(path: &Path) -> ImageFolder {
        ImageFolder::open(path, BUDGET).unwrap()
    }

    /// Waits until the image of a recording cannot be packed.
    fn wait_for_failure(opened: &Opened) {
        let mut progress = opened.image.progress();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let failed = progress.wait_for(|progress| matches!(progress, Progress::Failed(_)));
        let failed = async { tokio::time::timeout(Duration::from_secs(20), failed).await.map(drop) };
        runtime.block_on(failed).expect("an image has room in the cache");
    }

    /// Promise: A recording that cannot be opened at present, as while the cache is full, is tried again, not
    /// left out.
    #[test]
    fn failures_that_pass_leave_no_recording_out() {
        let mut in_use = None;
        let cache = |path: &Path| {
            let cache = usual_cache(path);
            in_use = Some(cache.begin("1-2-7x20000", BUDGET).unwrap());
            cache
        };
        let name = "2026-11-23T10-00-00.ts";
        let bed = TestBed::new(&[(name, &Sample::default().stream().bytes)], cache);
        let First::Found(opened) = bed.opener.first().unwrap() else { panic!("it is not opened") };
        wait_for_failure(&opened);
        let like = Formats::of(&opened.image.summary().description);
        assert!(matches!(bed.opener.first(), Ok(First::Later(OpenFailure::Store(StoreError::Folder(_))))));
        assert!(matches!(bed.opener.after(0, &like), Ok(Search::Later(..))));
        assert_eq!(bed.left_out(), 0);
        // The file tells its duration, though it cannot be packed.
        let recordings = bed.folder.recordings().unwrap();
        let length = bed.folder.length(&recordings.all()[0], &recordings);
        assert!(matches!(length, Ok(Length::Known(_))), "{length:?}");
        // A recording that is at fault itself is left out.
        bed.write(name, b"no transport stream");
        assert!(matches!(bed.opener.first(), Ok(First::None)));
        assert_eq!(bed.left_out(), 1);
        drop(in_use);
    }

    /// Promise: A recording whose wire image is larger than the whole cache is left out.
    #[test]
    fn recordings_that_never_fit_the_cache_are_left_out() {
        let cache = |path: &Path| ImageFolder::open(path, 1).unwrap();
        let name = "2026-11-23T10-00-00.ts";
        let bed = TestBed::new(&[(name, &Sample::default().stream().bytes)], cache);
        let First::Found(opened) = bed.opener.first().unwrap() else { panic!("it is not opened") };
        wait_for_failure(&opened);
        assert!(matches!(bed.opener.first(), Ok(First::None)));
        let left_out = bed.folder.json()["left_out"].to_string();
        assert!(left_out.contains("raise --cache-size"), "{left_out}");
    }

    /// Promise: Requests continue the search for the first recording; after it was found, a changed folder is searched again.
    #[test]
    fn the_search_for_the_first_recording_continues() {
        let (good, bad) = (Sample::default().stream().bytes, b"no transport stream".as_slice());
        let names = ["2026-11-23T10-00-00.ts", "2026-11-23T10-00-10.ts", "2026-11-23T10-00-20.ts"];
        let bed = TestBed::new(&[(names[0], bad), (names[1], bad), (names[2], &good)], usual_cache);
        // Requests whose time is over examine one recording each.
        let recordings = bed.folder.recordings().unwrap();
        let over = Instant::now().checked_sub(FIRST_LIMIT).unwrap();
        let mut search = FirstSearch::default();
        search.resume(&recordings, None, Instant::now());
        for _ in 0..2 {
            assert!(matches!(bed.opener.continue_first(&mut search, &recordings, over), First::NotYet));
        }
        assert!(matches!(bed.opener.continue_first(&mut search, &recordings, over), First::Found(_)));

        assert_eq!(bed.first_s(), 20);
        bed.write(names[0], &good);
        assert_eq!(bed.first_s(), 20, "recordings before the first one are opened again");
        bed.write("2026-11-23T10-00-30.ts", &good);
        assert_eq!(bed.first_s(), 0, "the folder has changed");
        let _search = bed.folder.first_search(Duration::ZERO).unwrap();
        assert!(bed.folder.first_search(Duration::ZERO).is_none(), "two searches at a time");
    }
}
