//! Sender of an asset or a channel to a group.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use wirepath_net::DescriptorPermit;
use wirepath_playback::{PlayError, PlaybackEvent, Playbacks, Position, Progress, StreamProgress};

use super::media::{GroupMedia, GroupSource};
use crate::rtsp::player::{GroupAddress, OnEvent, Reply, TrackSource};
use crate::sending::{BYE_DELAY, Destination, End, Output, OutputSource};
use crate::waiting_play::WaitingPlay;

/// Longest time for which packets leave ahead of their departure; members cannot change it.
const MOST_BURST_US: u64 = 20_000;

/// Sender to a group. It plays while any member plays: an asset from where it rested to its end, a channel or a
/// recording that grows from now on.
pub(super) struct GroupSender {
    media: Box<dyn GroupMedia>,
    source: Arc<dyn GroupSource>,
    /// Start that waits for its place.
    waiting: WaitingPlay,
    this: Weak<GroupSender>,
    address: GroupAddress,
    output: Arc<Output>,
    state: Mutex<State>,
    runtime: Handle,
    reports: JoinHandle<()>,
    /// Permission for the descriptors of the output.
    descriptors: Option<DescriptorPermit>,
}

#[derive(Default)]
struct State {
    /// Members that are in the group, by their numbers.
    members: HashMap<u64, MemberState>,
    last_number: u64,
    /// Number of the last start; a pause of all members voids a start that waits.
    last_start: u64,
    is_over: bool,
}

struct MemberState {
    on_event: OnEvent,
    is_playing: bool,
    /// Start that its last PLAY requested; none if the sender was playing.
    start: Option<u64>,
}

impl GroupSender {
    /// Opens a sender that rests. Must be called on a tokio runtime.
    pub(super) fn open(
        group: &Destination,
        media: Box<dyn GroupMedia>,
        playbacks: &Playbacks,
        descriptors: DescriptorPermit,
    ) -> io::Result<Arc<GroupSender>> {
        let mut made = None;
        let output = Output::open(group, media.image().plan(), playbacks, MOST_BURST_US, |streams| {
            let source = media.source(streams, playbacks.engine().pool());
            made = Some(Arc::clone(&source));
            source as Arc<dyn OutputSource>
        })?;
        let (output, source) = (Arc::new(output), made.ok_or(io::ErrorKind::InvalidInput)?);
        let address = GroupAddress {
            address: group.address.ip(),
            port: group.address.port(),
            ttl: group.group_ttl().unwrap_or(1),
        };
        Ok(Arc::new_cyclic(|this: &Weak<GroupSender>| {
            let reports = tokio::spawn(report(Arc::clone(&output), Weak::clone(this)));
            GroupSender {
                media,
                source,
                waiting: WaitingPlay::default(),
                this: Weak::clone(this),
                address,
                output,
                state: Mutex::default(),
                runtime: Handle::current(),
                reports,
                descriptors: Some(descriptors),
            }
        }))
    }

    /// Returns whether it sends these media and has not reached their end.
    pub(super) fn sends(&self, media: &dyn GroupMedia) -> bool {
        self.media.identity() == media.identity() && !self.is_over()
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.lock().is_over
    }

    pub(super) fn address(&self) -> GroupAddress {
        self.address
    }

    pub(super) fn media(&self) -> &dyn GroupMedia {
        &*self.media
    }

    /// Adds a member, and returns its number.
    pub(super) fn enter(&self, on_event: OnEvent) -> u64 {
        let mut state = self.state.lock();
        state.last_number += 1;
        let number = state.last_number;
        state.members.insert(number, MemberState { on_event, is_playing: false, start: None });
        number
    }

    pub(super) fn leave(&self, number: u64) {
        self.stop(number, Box::new(|_| {}));
        self.state.lock().members.remove(&number);
    }

    /// Starts sending if it rests. A later member plays from the sender's position.
    pub(super) fn play(&self, number: u64, reply: Reply<Position>) {
        let mut state = self.state.lock();
        if state.is_over {
            drop(state);
            return reply(Err(PlayError::Source("the sender has ended".into())));
        }
        let start = (!state.is_playing()).then_some(state.last_start + 1);
        state.last_start = start.unwrap_or(state.last_start);
        if let Some(member) = state.members.get_mut(&number) {
            (member.is_playing, member.start) = (true, start);
        }
        // The lock orders this before or after a PAUSE of another member.
        match start {
            None => reply(Ok(Position { at_us: self.output.progress().position_us, streams: Vec::new() })),
            Some(start) => self.begin(start, reply),
        }
    }

    /// Begins to send. Must be called on a tokio runtime.
    fn begin(&self, start_number: u64, reply: Reply<Position>) {
        let Some(start) = Arc::clone(&self.source).wait_for_start() else {
            return self.output.play(None, reply);
        };
        let (output, sender) = (Arc::clone(&self.output), Weak::clone(&self.this));
        self.waiting.start_at(start, move |place| match place {
            Ok(place) => output.play(Some(place), reply),
            Err(error) => {
                if let Some(sender) = sender.upgrade().filter(|_| error != PlayError::Superseded) {
                    sender.fail_to_begin(start_number, &error);
                }
                reply(Err(error));
            }
        });
    }

    /// There is nothing to send: unless the start is void, all members rest, and those that joined it are told.
    fn fail_to_begin(&self, start: u64, error: &PlayError) {
        let mut state = self.state.lock();
        if state.last_start != start {
            return;
        }
        for member in state.members.values_mut().filter(|member| member.is_playing) {
            member.is_playing = false;
            if member.start != Some(start) {
                (member.on_event)(PlaybackEvent::Failed(error.clone()));
            }
        }
    }

    /// Rests if no other member plays, when the access units that have begun are complete.
    pub(super) fn pause(&self, number: u64, reply: Reply<u64>) {
        self.rest(number, reply, Output::pause);
    }

    /// Rests at once if no other member plays.
    pub(super) fn stop(&self, number: u64, reply: Reply<u64>) {
        self.rest(number, reply, Output::stop);
    }

    /// Takes a member from those that play; has the output rest if it was the last.
    fn rest(&self, number: u64, reply: Reply<u64>, rest: fn(&Output, Reply<u64>)) {
        let mut state = self.state.lock();
        let was_playing = state.is_playing();
        if let Some(member) = state.members.get_mut(&number) {
            member.is_playing = false;
        }
        match was_playing && !state.is_playing() {
            true => {
                state.last_start += 1;
                self.waiting.cancel();
                rest(&self.output, reply);
            }
            false => reply(Ok(self.output.progress().position_us)),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        self.output.progress()
    }

    pub(super) fn track_progress(&self, track: u8) -> StreamProgress {
        self.output.stream_progress(track)
    }

    pub(super) fn source(&self, track: u8) -> TrackSource {
        let (ssrc, clock_hz) = self.output.source(track);
        TrackSource { ssrc, clock_hz }
    }

    pub(super) fn reason(&self) -> &str {
        self.output.reason()
    }

    /// Takes no more members.
    fn close(&self) {
        self.state.lock().is_over = true;
    }

    /// Tells the playing members how sending ended.
    fn end(&self, end: &End) {
        let mut state = self.state.lock();
        for member in state.members.values_mut().filter(|member| member.is_playing) {
            member.is_playing = false;
            (member.on_event)(match end {
                Ok(()) => PlaybackEvent::Finished,
                Err(error) => PlaybackEvent::Failed(PlayError::Source(error.as_str().into())),
            });
        }
    }
}

impl State {
    fn is_playing(&self) -> bool {
        self.members.values().any(|member| member.is_playing)
    }
}

/// The last member has left and the sender has paused: BYE follows the last packet.
impl Drop for GroupSender {
    fn drop(&mut self) {
        self.reports.abort();
        self.output.stop(|_| {}); // a PAUSE of the last member may still wait for the end of a picture
        let (output, descriptors) = (Arc::clone(&self.output), self.descriptors.take());
        self.runtime.spawn(async move {
            tokio::time::sleep(BYE_DELAY).await;
            output.send_bye();
            drop((output, descriptors));
        });
    }
}

/// Sends reports until the sender has ended, then BYE.
async fn report(output: Arc<Output>, sender: Weak<GroupSender>) {
    let end = output.report().await;
    sender.upgrade().inspect(|sender| sender.close());
    tokio::time::sleep(BYE_DELAY).await;
    output.send_bye();
    if let Some(sender) = sender.upgrade() {
        sender.end(&end);
    }
}
