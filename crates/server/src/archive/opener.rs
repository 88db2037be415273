//! Opens recordings of an archive that have the formats of the first recording of the session.

use std::net::IpAddr;
use std::sync::Arc;

use wirepath_media::image::{Description, PathLimits};

use super::folder::ArchiveFolder;
use super::recordings::{Recording, Recordings};
use crate::images::Image;
use crate::library::FindError;
use crate::played_as::PlayedAs;

/// Most concurrent attempts to open recordings.
const TRIES: usize = 64;

/// Most recordings before a time that are tried: the time may be in any of them, if the recordings after it
/// cannot be played.
const TRIES_BEFORE: usize = 8;

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

/// Formats of the tracks of a recording, with their parameters. Clients know those of the first recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Formats(Vec<(String, Option<String>)>);

/// Search for a recording to play.
pub(super) enum Search {
    Found(Opened),
    /// There is none.
    End,
    /// The recordings up to the one that begins at this time cannot be played.
    NotYet(i64),
}

impl Opener {
    /// The first recording that can be played. Waits for storage.
    pub(super) fn first(&self) -> Result<Search, FindError> {
        let recordings = self.folder.recordings()?;
        Ok(self.search(recordings.all(), &recordings, None))
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
        let mut opened = before.filter_map(|recording| self.open(recording, &recordings, Some(like)));
        opened.next().map_or_else(|| self.after(time_us, like), |opened| Ok(Search::Found(opened)))
    }

    fn search(&self, among: &[Recording], all: &Recordings, like: Option<&Formats>) -> Search {
        let mut tried = 0;
        for recording in among {
            if let Some(opened) = self.open(recording, all, like) {
                return Search::Found(opened);
            }
            tried += 1;
            if tried == TRIES {
                return Search::NotYet(recording.start_us);
            }
        }
        Search::End
    }

    /// Opens a recording, if it can be played.
    fn open(&self, recording: &Recording, all: &Recordings, like: Option<&Formats>) -> Option<Opened> {
        let asset = match self.folder.open(recording, all) {
            Ok(asset) => Arc::new(asset.file),
            Err(FindError::NotFound) => return None, // it is gone, or still written
            Err(error) => {
                self.folder.leave_out(recording, &error.to_string());
                return None;
            }
        };
        let name = self.folder.name_of(recording);
        let image = match self.folder.store().image_for(
            Some(self.client),
            asset,
            &name,
            self.limits,
            PlayedAs::Stored,
        ) {
            Ok(image) => image,
            Err(error) => {
                self.folder.leave_out(recording, &error.to_string());
                return None;
            }
        };
        if like.is_some_and(|like| *like != Formats::of(&image)) {
            self.folder
                .leave_out(recording, "its tracks or their parameters differ from those of the first one");
            return None;
        }
        Some(Opened { image, start_us: recording.start_us })
    }
}

impl Formats {
    pub(super) fn of(image: &Image) -> Formats {
        Formats(match &image.summary().description {
            Description::TransportStream(_) => vec![("MP2T".to_owned(), None)],
            Description::Movie(movie) => {
                movie.tracks.iter().map(|track| (track.map.clone(), track.parameters.clone())).collect()
            }
        })
    }
}
