//! What a group is sent.

use std::sync::Arc;

use crate::channels::LiveChannel;
use crate::images::Image;

/// Media of a group.
pub(crate) enum GroupMedia {
    /// An asset, from its beginning to its end.
    Asset(Arc<Image>),
    /// A channel, from its current position.
    Channel(Arc<LiveChannel>),
}

impl GroupMedia {
    /// Image with the tracks and the packet size of all that is sent.
    pub(super) fn image(&self) -> &Arc<Image> {
        match self {
            GroupMedia::Asset(image) => image,
            GroupMedia::Channel(channel) => channel.first(),
        }
    }

    /// Name, under which plays are counted.
    pub(super) fn name(&self) -> &str {
        match self {
            GroupMedia::Asset(image) => image.name(),
            GroupMedia::Channel(channel) => channel.name(),
        }
    }

    /// Name of the single asset that is sent, if it is one.
    pub(super) fn asset(&self) -> Option<&str> {
        match self {
            GroupMedia::Asset(image) => Some(image.name()),
            GroupMedia::Channel(_) => None,
        }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self, GroupMedia::Channel(_))
    }

    /// Duration in microseconds, if there is an end and it is known.
    pub(super) fn duration_us(&self) -> Option<u64> {
        match self {
            GroupMedia::Asset(image) => image.duration_us(),
            GroupMedia::Channel(_) => None,
        }
    }

    /// Number of tracks.
    pub(super) fn tracks(&self) -> u8 {
        self.image().plan().streams.len() as u8 // 16 at most
    }
}

impl PartialEq for GroupMedia {
    fn eq(&self, other: &GroupMedia) -> bool {
        match (self, other) {
            (GroupMedia::Asset(image), GroupMedia::Asset(other)) => Arc::ptr_eq(image, other),
            (GroupMedia::Channel(channel), GroupMedia::Channel(other)) => Arc::ptr_eq(channel, other),
            _ => false,
        }
    }
}
