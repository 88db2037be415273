//! Due RTCP of all sessions of a listener: periodic sender reports, and the BYE after the last packet.
//!
//! One task for all: a task with a timer for each session would take more memory than the session's playback.

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

/// Delay of BYE after the last packet: players take BYE for an immediate end, and drop packets not yet read.
const BYE_DELAY: Duration = Duration::from_millis(100);

/// Time until the next attempt at a report if no packet has left yet.
const FIRST_REPORT_RETRY: Duration = Duration::from_millis(100);

/// Reports of many sessions are sent in one wake-up, late by up to a fiftieth of the interval.
const TICKS_PER_INTERVAL: u32 = 50;

/// Number of sessions that are served before other tasks have a turn: it takes some hundred microseconds.
const SESSIONS_PER_TURN: usize = 64;

/// Sessions by the time at which their RTCP is due, and the task that sends it.
pub(super) struct Reports {
    interval: Duration,
    queue: Arc<Queue>,
    task: OnceLock<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    /// By time and number of the session.
    due: Mutex<BTreeMap<(Instant, u64), Weak<SessionInfo>>>,
    /// Notified when the earliest time changes.
    first_changed: Notify,
}

impl Reports {
    /// Reports of sessions at this interval.
    pub(super) fn new(interval: Duration) -> Reports {
        Reports { interval, queue: Arc::default(), task: OnceLock::new() }
    }

    /// Starts sending on this runtime. Each socket of the listener calls it. A session must not: a session
    /// through an HTTP tunnel is on a runtime that ends with the HTTP listener.
    pub(super) fn start(&self) {
        self.task.get_or_init(|| tokio::spawn(run(Arc::clone(&self.queue), self.interval)));
    }

    /// Notes the phase of a session. Its first report is due when it begins to play. The sender to a group
    /// sends its own reports.
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

    /// Ends the reports of a session: no report is sent after this returns.
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
    /// Takes the first session whose RTCP is due by `now`, with its due time.
    fn take(&self, now: Instant) -> Option<(Instant, Weak<SessionInfo>)> {
        let mut waiting = self.due.lock();
        let first = waiting.first_entry().filter(|first| first.key().0 <= now)?;
        Some((first.key().0, first.remove()))
    }

    /// Sends the RTCP of a session, unless its due time has changed. The lock is held meanwhile, so that
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
