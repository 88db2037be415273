//! The end of a round of one stream, and its checks.

use std::time::Instant;

use wirepath_streams::StreamEnd;

use super::Web;
use crate::PATIENCE;
use crate::carrier::Carrier;
use crate::dice::Tally;
use crate::record::Sizes;

/// Kind of the end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything is written, all inputs end, everything is read.
    Clean,
    /// The stream is stopped in its current state.
    Abandoned,
    /// The stream is ended by an error that it cannot survive.
    Fault,
}

impl Web<'_> {
    pub(super) fn end(mut self, ending: Ending) -> Tally {
        // A stream whose last output was detached waits for another output, whatever happened to earlier
        // outputs.
        let may_wait = self.outlets.iter().any(|outlet| outlet.has_left);
        let ending = if ending == Ending::Fault && may_wait { Ending::Abandoned } else { ending };
        self.carrier.start(self.engines, &mut self.dice, &mut self.tally);
        // A stream on a thread of its own cannot be stopped.
        let can_stop = self.carrier.listens();
        let ending = if ending == Ending::Abandoned && !can_stop { Ending::Clean } else { ending };
        match ending {
            Ending::Clean => self.settle_who_is_awaited(),
            Ending::Abandoned => self.carrier.abandon(),
            Ending::Fault => {
                self.call_all();
                self.break_something();
            }
        }
        self.outlets.iter_mut().for_each(|outlet| outlet.sink.is_stalled = false);
        let patience = Instant::now() + PATIENCE;
        while !self.carrier.has_ended() {
            assert!(Instant::now() < patience, "it does not end: {:?}", self.carrier.status());
            while let Ok(parked) = self.parked.try_recv() {
                self.unpark(parked);
            }
            (0..self.outlets.len()).for_each(|place| self.read(place, usize::MAX, 1 << 16));
            self.write_and_close(ending);
            std::thread::yield_now();
        }
        let end = std::mem::replace(&mut self.carrier, Carrier::Nowhere).end();
        self.judge(ending, end)
    }

    /// Writes and closes all feeds. Inputs that are being detached are returned before the first input ends,
    /// and the stream with it.
    fn write_and_close(&mut self, ending: Ending) {
        for feed in &mut self.feeds {
            let has_come = !feed.source.is_awaited() || feed.source.call(&mut self.tally);
            assert!(has_come || ending != Ending::Clean, "feed {} finds nobody", feed.number);
            feed.write(usize::MAX);
        }
        let all_attached = self.feeds.iter().all(|feed| feed.port.is_some());
        if !all_attached && self.feeds[0].pending.is_empty() {
            self.add_record_to(0); // a leaving input waits for a greater tag, or for its turn
        }
        for feed in &mut self.feeds {
            if feed.pending.is_empty() && (feed.number > 0 || all_attached) {
                feed.source.close();
            }
        }
    }

    /// Breaks a part that the stream cannot do without.
    fn break_something(&mut self) {
        if !self.survives_inputs && self.dice.one_in(2) && self.reset_one() {
            return;
        }
        let killed = if self.mirror { self.outlets.len() } else { 1 };
        self.outlets.iter_mut().take(killed).for_each(|outlet| {
            outlet.sink.kill(&mut self.tally);
        });
    }

    fn judge(mut self, ending: Ending, end: StreamEnd) -> Tally {
        if ending == Ending::Clean {
            assert_eq!(end.result, Ok(()));
        }
        self.tally.note(match &end.result {
            Ok(()) => "ending: well",
            Err(wirepath_streams::StreamError::Stopped) => "ending: stopped",
            Err(_) => "ending: by a fault",
        });
        self.parked.try_iter().for_each(drop); // dropped inputs no longer wait for connections
        self.feeds.iter_mut().for_each(|feed| feed.source.check());
        self.verify(&end);
        self.tally.add("bytes in", end.status.bytes_in);
        self.tally.add("bytes out", end.status.bytes_out);
        self.tally.add("bytes in, that nobody looked at", end.status.zero_copy_bytes);
        if matches!(self.sizes, Sizes::Mixed) {
            let bytes = end.status.zero_copy_bytes;
            self.tally.add("bytes in behind their lengths, that nobody looked at", bytes);
        }
        self.tally
    }
}
