//! Opens recordings of an archive that have the formats of the newest one, which those of a session keep.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirepath_media::image::PathLimits;

use super::folder::ArchiveFolder;
use super::formats::Formats;
use super::recordings::{Recording, Recordings};
use crate::images::{Image, StoreError};
use crate::library::FindError;
use crate::played_as::PlayedAs;

/// Most concurrent attempts to open recordings.
const TRIES: usize = 64;

/// Most recordings before a time that are tried: the time may be in any of them, if the recordings after it
/// cannot be played.
const TRIES_BEFORE: usize = 8;

/// Longest search for the first recording that can be played, in one request. Recordings that cannot be
/// played are remembered, so that the next request goes further.
const FIRST_LIMIT: Duration = Duration::from_secs(5);

/// Interval and number of further attempts to open a recording that cannot be opened at present.
pub(super) const RETRY: Duration = Duration::from_millis(500);
pub(super) const RETRIES: u32 = 20;

/// Most recordings that are examined from the end of an archive.
pub(super) const EXAMINED: usize = 16;

/// Reason why a recording is left out.
const OTHER_FORMATS: &str = "its tracks or their parameters differ from those of the newest recording";

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
    /// The recording that begins at this time cannot be opened at present.
    Later(i64, OpenFailure),
}

/// First recording of an archive.
pub(super) enum First {
    Found(Opened),
    /// No recording can be played.
    None,
    /// The only recordings that may be played are being written.
    Growing,
    /// None was found in a request's time.
    NotYet,
    /// The recording cannot be opened at present.
    Later(OpenFailure),
}

/// Reason why a recording cannot be opened at present. It passes, or is of the storage.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenFailure {
    #[error(transparent)]
    Find(FindError),
    #[error(transparent)]
    Store(StoreError),
}

impl OpenFailure {
    /// Returns whether reading failed, which other recordings may be spared.
    fn is_of_reading(&self) -> bool {
        matches!(self, OpenFailure::Find(FindError::Io(_)) | OpenFailure::Store(StoreError::Io(..)))
    }
}

/// Result of opening a recording.
enum Attempt {
    Opened(Opened),
    /// It is gone, or cannot be played with the others.
    LeftOut,
    /// It is being written.
    Growing,
    Later(OpenFailure),
}

impl Opener {
    /// The first recording that can be played and has the formats of the newest one. Recordings that cannot
    /// be read at present are passed over if a later one can be. Waits for storage.
    pub(super) fn first(&self) -> Result<First, FindError> {
        let recordings = self.folder.recordings()?;
        let (begun, mut is_growing, mut failure) = (Instant::now(), false, None);
        let like = self.newest_formats(&recordings);
        for recording in recordings.all() {
            let attempt = match &like {
                // Examined before it is opened, which would prepare it.
                Some(like) if self.differs(recording, &recordings, like) => Attempt::LeftOut,
                like => self.open(recording, &recordings, like.as_deref()),
            };
            match attempt {
                Attempt::Opened(opened) => return Ok(First::Found(opened)),
                Attempt::LeftOut => {}
                Attempt::Growing => is_growing = true,
                Attempt::Later(error) if error.is_of_reading() => {
                    self.folder.note_failure(recording, &error);
                    failure.get_or_insert(error);
                }
                Attempt::Later(error) => return Ok(First::Later(error)),
            }
            if begun.elapsed() >= FIRST_LIMIT {
                return Ok(First::NotYet);
            }
        }
        Ok(match failure {
            Some(failure) => First::Later(failure),
            None if is_growing => First::Growing,
            None => First::None,
        })
    }

    /// Formats of the newest recording that can be played, if one of the last can be.
    fn newest_formats(&self, recordings: &Recordings) -> Option<Arc<Formats>> {
        let newest = recordings.all().iter().rev().take(EXAMINED);
        newest.filter_map(|recording| self.folder.formats(recording, recordings).ok().flatten()).next()
    }

    /// Returns whether a recording is known to have other formats, and leaves it out then.
    fn differs(&self, recording: &Recording, recordings: &Recordings, like: &Formats) -> bool {
        let formats = self.folder.formats(recording, recordings).ok().flatten();
        let differs = formats.is_some_and(|formats| *formats != *like);
        if differs {
            self.folder.leave_out(recording, OTHER_FORMATS);
        }
        differs
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
                Attempt::Later(error) => return Ok(Search::Later(recording.start_us, error)),
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
                Attempt::Later(error) => return Search::Later(recording.start_us, error),
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
        let asset = match self.folder.open(recording, all) {
            Ok(Some(asset)) => asset,
            Ok(None) => return Attempt::Growing,
            Err(FindError::NotFound) => return Attempt::LeftOut, // it is gone
            Err(error @ FindError::Forbidden) => {
                self.folder.leave_out(recording, &error.to_string());
                return Attempt::LeftOut;
            }
            Err(error @ (FindError::Exhausted | FindError::Io(_))) => {
                return Attempt::Later(OpenFailure::Find(error));
            }
        };
        let identity = asset.version.identity;
        if self.folder.is_given_up(recording, identity) {
            return Attempt::LeftOut;
        }
        let name = self.folder.name_of(recording);
        let image = match self.folder.store().image_for(
            Some(self.client),
            Arc::new(asset.file),
            &name,
            self.limits,
            PlayedAs::Stored,
        ) {
            Ok(image) => image,
            Err(StoreError::NotPlayable(why)) => {
                self.folder.give_up(recording, identity, &why);
                return Attempt::LeftOut;
            }
            Err(error) => return Attempt::Later(OpenFailure::Store(error)),
        };
        if like.is_some_and(|like| *like != Formats::of(&image.summary().description)) {
            self.folder.leave_out(recording, OTHER_FORMATS);
            return Attempt::LeftOut;
        }
        self.folder.take_in(recording);
        Attempt::Opened(Opened { image, start_us: recording.start_us })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::SystemTime;

    use wirepath_engine::{BlockingPool, Priority};
    use wirepath_media::ts::synthetic::Sample;

    use super::super::{ArchiveOptions, NamePattern, TimeZone};
    use super::*;
    use crate::images::{ImageFolder, Progress, Store};
    use crate::library::Library;

    /// Promise: A recording that cannot be opened at present, as while the cache is full, is tried again, not
    /// left out.
    #[test]
    fn failures_that_pass_leave_no_recording_out() {
        let home = tempfile::tempdir().unwrap();
        let media = home.path().join("media");
        fs::create_dir_all(media.join("cam")).unwrap();
        let recording = media.join("cam/2026-11-23T10-00-00.ts");
        fs::write(&recording, Sample::default().stream().bytes).unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        File::open(&recording).unwrap().set_modified(hour_ago).unwrap();
        let cache = ImageFolder::open(&home.path().join("cache"), 1).unwrap();
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let pattern = NamePattern::parse(NamePattern::USUAL, TimeZone::Utc).unwrap();
        let options = ArchiveOptions { path: "cam".to_owned(), pattern };
        let store = Store::new(cache, readers, 1).unwrap();
        let limits = store.usual_limits();
        let folder = ArchiveFolder::new(options, Arc::new(Library::open(&[media]).unwrap()), store).unwrap();
        let opener = Opener { folder: Arc::clone(&folder), client: [127, 0, 0, 1].into(), limits };
        let First::Found(opened) = opener.first().unwrap() else { panic!("it is not opened") };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !matches!(*opened.image.progress().borrow(), Progress::Failed(_)) {
            assert!(Instant::now() < deadline, "an image has no room in the cache");
            std::thread::sleep(Duration::from_millis(5));
        }
        let like = Formats::of(&opened.image.summary().description);
        assert!(matches!(opener.first(), Ok(First::Later(OpenFailure::Store(StoreError::Folder(_))))));
        assert!(matches!(opener.after(0, &like), Ok(Search::Later(..))));
        assert_eq!(folder.json()["left_out"].as_array().map(Vec::len), Some(0));
        // A recording that is at fault itself is left out.
        fs::write(&recording, "no transport stream").unwrap();
        File::open(&recording).unwrap().set_modified(hour_ago).unwrap();
        assert!(matches!(opener.first(), Ok(First::None)));
        assert_eq!(folder.json()["left_out"].as_array().map(Vec::len), Some(1));
    }
}
