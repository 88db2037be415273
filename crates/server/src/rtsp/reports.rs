//! RTCP of all sessions of a listener that falls due: sender reports at intervals, and the BYE behind the last packet.
//!
//! One task for all: a task for each session, with its timer, would take more memory than the session's playback.

use super::rtcp_path::LowerTransport;
use super::session_info::{RtcpState, SessionInfo};
use super::session_state::Phase;
use super::ticks;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep_until};

/// Between the last packet and BYE: players take BYE for the end at once, and drop packets not yet read.
const BYE_DELAY: Duration = Duration::from_millis(100);

/// Time until the next attempt at a report when no packet has left yet.
const FIRST_REPORT_RETRY: Duration = Duration::from_millis(100);

/// Reports of many sessions are sent in one wake-up, up to a fiftieth of the interval late.
const TICKS_PER_INTERVAL: u32 = 50;

/// Sessions that are served before other tasks have a turn: some hundred microseconds.
const SESSIONS_PER_TURN: usize = 64;

/// Sessions by the time when their RTCP is due, and the task that sends it.
pub(super) struct Reports {
    interval: Duration,
    queue: Arc<Queue>,
    task: OnceLock<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    /// By the time, and the number of the session.
    due: Mutex<BTreeMap<(Instant, u64), Weak<SessionInfo>>>,
    /// Notified when the first time is another.
    first_changed: Notify,
}

impl Reports {
    /// Reports of sessions at this interval.
    pub(super) fn new(interval: Duration) -> Reports {
        Reports { interval, queue: Arc::default(), task: OnceLock::new() }
    }

    /// Begins to send, on this runtime; called by each socket that the listener has. Not by a session: one that came through
    /// an HTTP tunnel is on a runtime that ends with the HTTP listener.
    pub(super) fn start(&self) {
        self.task.get_or_init(|| tokio::spawn(run(Arc::clone(&self.queue), self.interval)));
    }

    /// Notes the phase of a session: its first report is due when it begins to play. To a group its sender reports.
    pub(super) fn note_phase(&self, session: &Arc<SessionInfo>, phase: Phase) {
        let mut state = session.rtcp.lock();
        state.phase = phase;
        let due = match phase {
            _ if session.transport() == LowerTransport::Multicast => return,
            Phase::Ready => None,
            Phase::Playing { .. } => Some(Instant::now()),
            Phase::Ended { .. } => Some(Instant::now() + BYE_DELAY),
        };
        self.queue.reschedule(session, &mut state, due);
    }

    /// Ends the reports of a session: when this returns, none is sent any more.
    pub(super) fn remove(&self, session: &Arc<SessionInfo>) {
        self.queue.reschedule(session, &mut session.rtcp.lock(), None);
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.task.get().into_iter().for_each(JoinHandle::abort);
    }
}

/// Sends what is due, until the task is aborted.
async fn run(queue: Arc<Queue>, interval: Duration) {
    loop {
        let first = queue.due.lock().first_key_value().map(|((due, _), _)| *due);
        tokio::select! {
            () = queue.first_changed.notified() => {}
            () = sleep_until(first.unwrap_or_else(Instant::now)), if first.is_some() => {
                let (now, mut served) = (Instant::now(), 0);
                while let Some((due, session)) = queue.take(now) {
                    queue.serve(&session, due, interval);
                    served += 1;
                    if served % SESSIONS_PER_TURN == 0 {
                        yield_now().await;
                    }
                }
            }
        }
    }
}

impl Queue {
    /// Takes the first session whose RTCP is due by `now`, with the time when it was.
    fn take(&self, now: Instant) -> Option<(Instant, Weak<SessionInfo>)> {
        let mut waiting = self.due.lock();
        let first = waiting.first_entry().filter(|first| first.key().0 <= now)?;
        Some((first.key().0, first.remove()))
    }

    /// Sends the RTCP of a session, unless it is due at another time by now. The lock is held meanwhile, so that
    /// nothing follows a BYE.
    fn serve(&self, session: &Weak<SessionInfo>, due: Instant, interval: Duration) {
        let Some(session) = session.upgrade() else { return };
        let mut state = session.rtcp.lock();
        if state.due != Some(due) {
            return;
        }
        let next = match state.phase {
            Phase::Ready => None,
            Phase::Playing { .. } => {
                let wait = if session.send_reports() { interval } else { FIRST_REPORT_RETRY.min(interval) };
                Some(ticks::after(Instant::now() + wait, interval / TICKS_PER_INTERVAL))
            }
            Phase::Ended { .. } => {
                session.send_bye();
                None
            }
        };
        self.reschedule(&session, &mut state, next);
    }

    fn reschedule(&self, session: &Arc<SessionInfo>, state: &mut RtcpState, due: Option<Instant>) {
        let before = std::mem::replace(&mut state.due, due);
        let mut waiting = self.due.lock();
        if let Some(before) = before {
            waiting.remove(&(before, session.number));
        }
        let Some(due) = due else { return };
        let is_first = waiting.first_key_value().is_none_or(|((first, _), _)| due < *first);
        waiting.insert((due, session.number), Arc::downgrade(session));
        if is_first {
            self.first_changed.notify_one();
        }
    }
}
