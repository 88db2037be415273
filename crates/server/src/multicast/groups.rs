//! Running senders and their groups.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wirepath_net::{DescriptorBudget, Exceeded, counted_address};
use wirepath_playback::Playbacks;

use super::media::GroupMedia;
use super::member::Member;
use super::range::MulticastRange;
use super::sender::GroupSender;
use crate::plays::Plays;
use crate::rtsp::player::{Joined, OnEvent, OpenError};
use crate::sending::Destination;

/// Share of the groups that may be in use at the requests of one address, at least one group.
const SHARE_PER_ADDRESS: u32 = 4;

/// Descriptors for a stream: its socket, a second socket on which its errors are reported, and the RTCP
/// socket.
const DESCRIPTORS_PER_STREAM: usize = 3;

/// Groups of a server.
pub(crate) struct MulticastGroups {
    range: MulticastRange,
    playbacks: Arc<Playbacks>,
    plays: Arc<Plays>,
    descriptors: Arc<DescriptorBudget>,
    senders: Mutex<Vec<Running>>,
}

/// Sender that runs.
struct Running {
    /// Number of its group.
    group: u32,
    /// Address, or network, of the client that requested it first.
    asked_by: IpAddr,
    sender: Weak<GroupSender>,
}

impl MulticastGroups {
    pub(crate) fn new(
        range: MulticastRange,
        playbacks: Arc<Playbacks>,
        plays: Arc<Plays>,
        descriptors: Arc<DescriptorBudget>,
    ) -> MulticastGroups {
        MulticastGroups { range, playbacks, plays, descriptors, senders: Mutex::default() }
    }

    /// The first group; the packet limits of its path apply to all groups.
    pub(crate) fn first(&self) -> Destination {
        self.range.group(0)
    }

    /// Adds a client to the sender of these media, or makes a sender that rests until the first member plays.
    pub(crate) fn join(
        &self,
        media: Box<dyn GroupMedia>,
        address: IpAddr,
        on_event: OnEvent,
    ) -> Result<Joined, OpenError> {
        let sender = self.sender(media, counted_address(address))?;
        let group = sender.address();
        let playback = Box::new(Member::new(sender, on_event, Arc::clone(&self.plays)));
        Ok(Joined { playback, group })
    }

    fn sender(&self, media: Box<dyn GroupMedia>, asked_by: IpAddr) -> Result<Arc<GroupSender>, OpenError> {
        let mut senders = self.senders.lock();
        // Members may stay long after their sender has ended; nothing is sent to its group any more.
        senders.retain(|running| running.sender.upgrade().is_some_and(|sender| !sender.is_over()));
        let running = senders.iter().filter_map(|running| running.sender.upgrade());
        if let Some(sender) = running.into_iter().find(|sender| sender.sends(&*media)) {
            return Ok(sender);
        }
        let is_free = |number: &u32| !senders.iter().any(|running| running.group == *number);
        let Some(group) = (0..self.range.count()).find(is_free) else {
            return Err(OpenError::AtLimit("all multicast groups of the server are in use".to_owned()));
        };
        let asked_for = senders.iter().filter(|running| running.asked_by == asked_by).count();
        if asked_for >= self.range.count().div_ceil(SHARE_PER_ADDRESS) as usize {
            let why = "your address has as many multicast groups as it may: a quarter of the server's";
            return Err(OpenError::AtLimit(why.to_owned()));
        }
        let descriptors = DESCRIPTORS_PER_STREAM * usize::from(media.tracks());
        let permit = self.descriptors.admit(asked_by, descriptors).map_err(|exceeded| match exceeded {
            Exceeded::Address => OpenError::AtLimit("descriptor limit reached for your address".to_owned()),
            _ => OpenError::Exhausted("too many open files to send to another multicast group".to_owned()),
        })?;
        let sender = GroupSender::open(&self.range.group(group), media, &self.playbacks, permit);
        let sender = sender.map_err(|error| OpenError::Failed(format!("cannot send to a group: {error}")))?;
        senders.push(Running { group, asked_by, sender: Arc::downgrade(&sender) });
        Ok(sender)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, Instant};

    use wirepath_datapath::DataPath;
    use wirepath_media::ts::synthetic::Sample;
    use wirepath_playback::Burst;

    use super::super::media::AssetMedia;
    use super::*;
    use crate::core::{CoreOptions, MediaCore};
    use crate::images::{HotMemorySize, Image, ImagePolicy};

    /// Promise: Sockets of multicast groups are within the budget of descriptors, until the sender has left with BYE.
    #[tokio::test(flavor = "current_thread")]
    async fn sockets_of_groups_are_within_the_budget() {
        let home = tempfile::tempdir().unwrap();
        let core = MediaCore::start(&CoreOptions {
            cache: home.path().join("cache"),
            cache_bytes: 1 << 30,
            images: ImagePolicy::None,
            image_bytes_per_second: 0,
            packing_memory_bytes: None,
            packings_per_address: 1,
            keeps_popularity: false,
            hot_memory: HotMemorySize::Off,
            sends_stored_headers: false,
            threads: 1,
            path: Some(DataPath::Sendmmsg),
            calibration: home.path().join("calibration.json"),
            burst: Burst::Fixed(0),
        });
        let core = core.unwrap();
        let image = |name: &str| {
            let path = home.path().join(name);
            fs::write(&path, Sample { packets: 2000, ..Sample::default() }.stream().bytes).unwrap();
            let asset = Arc::new(File::open(path).unwrap());
            core.store.image(asset, name, core.store.usual_limits()).unwrap()
        };
        let (first, second) = (image("first.ts"), image("second.ts"));
        let range = "239.255.78.1-239.255.78.8:5004?interface=127.0.0.1".parse().unwrap();
        let budget = DescriptorBudget::of_clients(DESCRIPTORS_PER_STREAM);
        let groups = MulticastGroups::new(range, core.playbacks, core.plays, budget);
        let client = IpAddr::from([127, 0, 0, 1]);
        let join = |image: &Arc<Image>| {
            groups.join(Box::new(AssetMedia(Arc::clone(image))), client, Box::new(|_| ()))
        };
        let members = (join(&first).unwrap(), join(&first).unwrap());
        assert!(matches!(join(&second), Err(OpenError::Exhausted(_))));
        drop(members);
        let end = Instant::now() + Duration::from_secs(10);
        while join(&second).is_err() {
            assert!(Instant::now() < end, "its descriptors are still taken");
            tokio::task::yield_now().await;
        }
    }
}
