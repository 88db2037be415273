//! Senders that run, and the groups that they have.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wirepath_playback::Playbacks;

use super::member::Member;
use super::range::MulticastRange;
use super::sender::GroupSender;
use crate::images::Image;
use crate::plays::Plays;
use crate::rtsp::player::{GroupAddress, OnEvent, OpenError};
use crate::sending::Destination;

/// Groups of a server.
pub(crate) struct MulticastGroups {
    range: MulticastRange,
    playbacks: Arc<Playbacks>,
    plays: Arc<Plays>,
    /// Senders, by the numbers of their groups.
    senders: Mutex<Vec<(u32, Weak<GroupSender>)>>,
}

impl MulticastGroups {
    pub(crate) fn new(
        range: MulticastRange,
        playbacks: Arc<Playbacks>,
        plays: Arc<Plays>,
    ) -> MulticastGroups {
        MulticastGroups { range, playbacks, plays, senders: Mutex::default() }
    }

    /// The first group, whose path is that of all.
    pub(crate) fn first(&self) -> Destination {
        self.range.group(0)
    }

    /// Joins the sender of an image, or makes one that rests until the first member plays.
    pub(crate) fn join(
        &self,
        image: &Arc<Image>,
        on_event: OnEvent,
    ) -> Result<(Member, GroupAddress), OpenError> {
        let sender = self.sender(image)?;
        let address = sender.address();
        Ok((Member::new(sender, on_event, Arc::clone(&self.plays)), address))
    }

    fn sender(&self, image: &Arc<Image>) -> Result<Arc<GroupSender>, OpenError> {
        let mut senders = self.senders.lock();
        // Members of one that is over may stay for long; nothing is sent to their group any more.
        senders.retain(|(_, sender)| sender.upgrade().is_some_and(|sender| !sender.is_over()));
        let running = senders.iter().filter_map(|(_, sender)| sender.upgrade());
        if let Some(sender) = running.into_iter().find(|sender| sender.sends(image)) {
            return Ok(sender);
        }
        let is_free = |number: &u32| !senders.iter().any(|(taken, _)| taken == number);
        let Some(number) = (0..self.range.count()).find(is_free) else {
            return Err(OpenError::AtLimit("all multicast groups of the server are in use".to_owned()));
        };
        let sender = GroupSender::open(&self.range.group(number), image, &self.playbacks);
        let sender = sender.map_err(|error| OpenError::Failed(format!("cannot send to a group: {error}")))?;
        senders.push((number, Arc::downgrade(&sender)));
        Ok(sender)
    }
}
