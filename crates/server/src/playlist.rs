//! Playlists: their files, and the assets in them one after another. [`sending`](crate::sending) sends them, and
//! [`channels`](crate::channels) serves them.

mod list;
mod unplayable;
mod walker;

pub use list::{Entry, ListForm, Playlist, PlaylistError};
pub(crate) use unplayable::{Fault, UnplayableEntries};
pub(crate) use walker::{PlaylistWalker, RETRY, WalkOptions, formats, open_asset, wait_until};
