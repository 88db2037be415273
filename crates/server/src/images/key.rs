//! Keys of images, and their names in the folder.

use wirepath_media::image::{Identity, Layout, PayloadRecipe, Recipe};

/// End of the name of an index.
const INDEX: &str = ".index";

/// Letters between the limit of payloads and the frames in a packet: of a movie, and of a transport stream.
const TRACKS: char = 'b';
const DEMUXED: char = 'd';

/// Key of an image; one version of a file always has the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) recipe: Recipe,
}

impl Key {
    pub(super) fn of(identity: Identity, recipe: Recipe) -> Key {
        Key { device: identity.device, inode: identity.inode, recipe }
    }

    /// Name of the image in the cache.
    pub(super) fn name(&self) -> String {
        let (device, inode, burst_us) = (self.device, self.inode, self.recipe.burst_us);
        match self.recipe.payload {
            PayloadRecipe::TransportStream { ts_per_packet } => {
                format!("{device:x}-{inode:x}-{ts_per_packet}x{burst_us}")
            }
            PayloadRecipe::Tracks { limit, frames, demuxed } => {
                let unit = if demuxed { DEMUXED } else { TRACKS };
                format!("{device:x}-{inode:x}-{limit}{unit}{frames}x{burst_us}")
            }
        }
    }

    /// Name of the index in the cache.
    pub(super) fn index_name(&self) -> String {
        self.name() + INDEX
    }

    /// Name of the file of this layout.
    pub(super) fn name_of(&self, layout: Layout) -> String {
        match layout {
            Layout::Image => self.name(),
            Layout::Index => self.index_name(),
        }
    }

    /// Returns whether `name` is a name of this form.
    pub(super) fn is_name(name: &str) -> bool {
        let name = name.strip_suffix(INDEX).unwrap_or(name);
        let numbers = || {
            let (device, rest) = name.split_once('-')?;
            let (inode, recipe) = rest.split_once('-')?;
            let (payload, burst_us) = recipe.split_once('x')?;
            let tracks = [(TRACKS, false), (DEMUXED, true)];
            let tracks = tracks.map(|(unit, demuxed)| Some((payload.split_once(unit)?, demuxed)));
            let payload = match tracks.into_iter().flatten().next() {
                Some(((limit, frames), demuxed)) => {
                    let (limit, frames) = (limit.parse().ok()?, frames.parse().ok()?);
                    PayloadRecipe::Tracks { limit, frames, demuxed }
                }
                None => PayloadRecipe::TransportStream { ts_per_packet: payload.parse().ok()? },
            };
            let recipe = Recipe { payload, burst_us: burst_us.parse().ok()? };
            let hex = |digits| u64::from_str_radix(digits, 16).ok();
            Some(Key { device: hex(device)?, inode: hex(inode)?, recipe })
        };
        // A number could be written in other ways (`+7`, `07`); only our form is accepted.
        numbers().is_some_and(|key| key.name() == name)
    }
}
