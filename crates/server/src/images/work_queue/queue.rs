//! Waiting work, and the choice of the work with the next turn.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Due, URGENT, Work};

/// Most works that have begun; others wait for their first turn. Each holds some memory and disk space.
pub(super) const MOST_BEGUN: usize = 2048;

/// Number of these that are reserved for urgent work.
pub(super) const KEPT_FOR_URGENT: usize = 256;

/// Most works that wait for their first turn; others are refused.
const MOST_WAITING: usize = 4096;

/// Lateness of the urgent thread from which other threads do urgent work, too: a few turns. They take the
/// work that is needed last, since their own turns may take long.
pub(super) const LATE: Duration = Duration::from_millis(20);

/// Urgency of a thread's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    All,
    /// Work that a playback waits for, or needs soon.
    Urgent,
    /// Other work, since a thread of low priority may be stopped for long in the middle of a turn. Urgent
    /// work only while the urgent thread is late.
    Rest,
}

/// State of the urgent thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UrgentState {
    /// It is about to check the work, or there is no urgent thread.
    Looks,
    /// It has a turn. The work has been due since this time, or the turn has lasted since then.
    Works { since: Instant },
    /// It waits for a notification, or until a time.
    Waits { until: Option<Instant> },
    /// It waits until other threads end their turns, since there is no room for the urgent work.
    WaitsForRoom,
}

pub(super) struct Queue<W> {
    /// Work without a turn yet, ordered by need, and work that has begun.
    pub(super) new: VecDeque<W>,
    pub(super) begun: Vec<W>,
    /// Number of works that have begun, waiting or in a turn.
    pub(super) begun_count: usize,
    /// Most bytes that works may hold before no other may begin.
    pub(super) budget: u64,
    /// Bytes that works hold, as of the ends of their last turns.
    pub(super) held: u64,
    pub(super) urgent: UrgentState,
    pub(super) ended: bool,
}

/// Waiting work from the view of a thread.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Index of the first new work for the thread and of the earliest begun one, with their times.
    new: Option<(usize, Instant)>,
    begun: Option<(usize, Instant)>,
    /// True if there is other work.
    pub(super) has_others: bool,
    /// Earliest time at which a playback needs other work.
    pub(super) others_needed_at: Option<Instant>,
}

impl<W: Work> Queue<W> {
    pub(super) fn new(budget: u64) -> Queue<W> {
        let (new, begun, urgent) = (VecDeque::new(), Vec::new(), UrgentState::Looks);
        Queue { new, begun, begun_count: 0, budget, held: 0, urgent, ended: false }
    }

    /// Number of works that wait for a turn, or have one.
    pub(super) fn works(&self) -> usize {
        self.new.len() + self.begun_count
    }

    pub(super) fn has_room(&self) -> bool {
        self.held < self.budget
    }

    /// Adds new work, or work that left the queue between its turns; returns new work if there is no room.
    pub(super) fn push(&mut self, work: W) -> Result<(), W> {
        if work.has_begun() {
            // Not behind new work, which may not begin while memory is short.
            self.held += work.held_bytes();
            self.begun_count += 1;
            self.begun.push(work);
            return Ok(());
        }
        if self.new.len() >= MOST_WAITING {
            return Err(work);
        }
        self.new.push_back(work);
        Ok(())
    }

    /// Takes the work with the next turn on a thread.
    pub(super) fn next(&mut self, urgency: Urgency, now: Instant) -> Result<W, Survey> {
        if urgency == Urgency::Rest
            && self.is_urgent_thread_late(now)
            && let Some(work) = self.take_urgent_needed_last(now)
        {
            return Ok(work);
        }
        let survey = self.survey(urgency, now);
        let work = self.take(urgency, &survey, now).ok_or(survey)?;
        if urgency == Urgency::Urgent {
            self.urgent = UrgentState::Works { since: work.due().overdue_since(now) };
        }
        Ok(work)
    }

    /// Returns whether the urgent thread has to be notified, because it does not know of work with this time,
    /// or waits for the end of a turn.
    pub(super) fn concerns_urgent_thread(&self, due: Option<Due>) -> bool {
        match (self.urgent, due) {
            (UrgentState::WaitsForRoom, _) => true,
            (UrgentState::Waits { until }, Some(Due::Playback(at))) => {
                until.is_none_or(|until| at < until + URGENT)
            }
            _ => false,
        }
    }

    /// Returns whether the urgent thread is stuck in one turn, or has more work than it can do. With cold
    /// files it waits for the disk, and a disk may not respond for long.
    fn is_urgent_thread_late(&self, now: Instant) -> bool {
        matches!(self.urgent, UrgentState::Works { since } if since + LATE <= now)
    }

    /// Surveys the waiting work. Only the urgent thread has to check all new work, which is ordered.
    fn survey(&self, urgency: Urgency, now: Instant) -> Survey {
        let mut survey = Survey::default();
        for (index, due) in self.new.iter().map(W::due).enumerate() {
            if !urgency.has(due, now) {
                survey.note_other(due);
            } else if survey.new.is_none() {
                survey.new = Some((index, due.at()));
            }
            if survey.new.is_some() && urgency != Urgency::Urgent {
                break;
            }
        }
        for (index, due) in self.begun.iter().map(W::due).enumerate() {
            if !urgency.has(due, now) {
                survey.note_other(due);
            } else if survey.begun.is_none_or(|(_, at)| due.at() < at) {
                survey.begun = Some((index, due.at()));
            }
        }
        survey
    }

    fn take(&mut self, urgency: Urgency, survey: &Survey, now: Instant) -> Option<W> {
        let Survey { new, begun, .. } = *survey;
        if !self.has_room() && self.begun_count > 0 {
            return new.or(begun).and_then(|_| self.take_largest(urgency, now));
        }
        match (new.filter(|_| self.begun_count < urgency.most_begun()), begun) {
            (Some((_, new_at)), Some((index, begun_at))) if begun_at < new_at => {
                Some(self.begun.swap_remove(index))
            }
            (None, Some((index, _))) => Some(self.begun.swap_remove(index)),
            (Some((index, _)), _) => {
                self.begun_count += 1;
                self.new.remove(index)
            }
            (None, None) => None,
        }
    }

    /// Takes the urgent work that is needed last, if there is room for it.
    fn take_urgent_needed_last(&mut self, now: Instant) -> Option<W> {
        let last = |works: &mut dyn Iterator<Item = &W>| {
            let urgent = works.map(W::due).enumerate().filter(|(_, due)| Urgency::Urgent.has(*due, now));
            urgent.map(|(index, due)| (index, due.at())).max_by_key(|(_, at)| *at)
        };
        let survey = Survey {
            new: last(&mut self.new.iter()),
            begun: last(&mut self.begun.iter()),
            ..Survey::default()
        };
        match (survey.new, survey.begun) {
            (Some((_, new_at)), Some((_, begun_at))) if begun_at > new_at => {
                self.take(Urgency::Urgent, &Survey { new: None, ..survey }, now)
            }
            (Some(_), _) => self.take(Urgency::Urgent, &Survey { begun: None, ..survey }, now),
            (None, _) => self.take(Urgency::Urgent, &survey, now),
        }
    }

    /// Takes the waiting begun work of this urgency that holds the most memory. If no urgent work has begun,
    /// urgent work needs the memory of other work, which then continues at the urgent thread's priority.
    /// Ordinary threads never take urgent work for this reason.
    fn take_largest(&mut self, urgency: Urgency, now: Instant) -> Option<W> {
        let works = || self.begun.iter().enumerate();
        let held = |(_, work): &(usize, &W)| work.held_bytes();
        let own = works().filter(|(_, work)| urgency.has(work.due(), now)).max_by_key(held);
        let any = || works().max_by_key(held).filter(|_| urgency == Urgency::Urgent);
        let (index, _) = own.or_else(any)?;
        Some(self.begun.swap_remove(index))
    }
}

impl Survey {
    /// Returns whether there is work for the thread, which may lack room.
    pub(super) fn has_own(&self) -> bool {
        self.new.is_some() || self.begun.is_some()
    }

    fn note_other(&mut self, due: Due) {
        self.has_others = true;
        if let Due::Playback(at) = due {
            self.others_needed_at = Some(self.others_needed_at.map_or(at, |first| first.min(at)));
        }
    }
}

impl Due {
    fn at(self) -> Instant {
        match self {
            Due::Playback(at) | Due::Nobody(at) => at,
        }
    }

    fn is_urgent(self, now: Instant) -> bool {
        matches!(self, Due::Playback(at) if at <= now + URGENT)
    }

    /// Time since which a playback has waited, or now.
    fn overdue_since(self, now: Instant) -> Instant {
        match self {
            Due::Playback(at) => at.min(now),
            Due::Nobody(_) => now,
        }
    }
}

impl Urgency {
    fn has(self, due: Due, now: Instant) -> bool {
        match self {
            Urgency::All => true,
            Urgency::Urgent => due.is_urgent(now),
            Urgency::Rest => !due.is_urgent(now),
        }
    }

    /// Most works that may have begun before a thread begins another.
    fn most_begun(self) -> usize {
        match self {
            Urgency::All | Urgency::Urgent => MOST_BEGUN,
            Urgency::Rest => MOST_BEGUN - KEPT_FOR_URGENT,
        }
    }
}
