use super::queue::{KEPT_FOR_URGENT, LATE, MOST_BEGUN};
use super::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A budget that these tests never use up.
const ROOM: u64 = 1 << 40;

/// Time after which work needs another turn.
const MINUTE: Duration = Duration::from_secs(60);

/// Work of several turns; each turn is reported, then waits for permission.
struct Told {
    name: usize,
    turns: usize,
    needed_at: Instant,
    /// Bytes that it holds after its first turn.
    holds: u64,
    has_begun: bool,
    tell: Sender<usize>,
    leave: Arc<Mutex<Receiver<()>>>,
}

impl Work for Told {
    fn turn(mut self) -> Option<Told> {
        self.tell.send(self.name).unwrap();
        self.leave.lock().recv().unwrap();
        self.turns -= 1;
        self.has_begun = true;
        self.needed_at += MINUTE;
        (self.turns > 0).then_some(self)
    }

    fn due(&self) -> Due {
        Due::Nobody(self.needed_at)
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn held_bytes(&self) -> u64 {
        if self.has_begun { self.holds } else { 0 }
    }
}

struct Fixture {
    turns: WorkQueue<Told>,
    tell: Sender<usize>,
    told: Receiver<usize>,
    give_leave: Sender<()>,
    leave: Arc<Mutex<Receiver<()>>>,
    begun: Instant,
}

fn fixture() -> Fixture {
    fixture_within(ROOM)
}

fn fixture_within(budget: u64) -> Fixture {
    let ((tell, told), (give_leave, leave)) = (channel(), channel());
    let turns = WorkQueue::start("turn", 1, UrgentThread::None, budget).unwrap();
    let begun = Instant::now();
    Fixture { turns, tell, told, give_leave, leave: Arc::new(Mutex::new(leave)), begun }
}

impl Fixture {
    /// Submits work whose first turn is needed in a number of seconds.
    fn submit(&self, name: usize, turns: usize, seconds: u64) {
        self.submit_holding(0, name, turns, seconds);
    }

    fn submit_holding(&self, holds: u64, name: usize, turns: usize, seconds: u64) {
        let (tell, leave) = (self.tell.clone(), Arc::clone(&self.leave));
        let needed_at = self.begun + Duration::from_secs(seconds);
        assert!(
            self.turns.submit(Told { name, turns, needed_at, holds, has_begun: false, tell, leave }).is_ok()
        );
    }

    /// Number of the work that has a turn now.
    fn whose(&self) -> usize {
        self.told.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    /// The works with the next turns, after the current one.
    fn order(&self, length: usize) -> Vec<usize> {
        (0..length)
            .map(|_| {
                self.give_leave.send(()).unwrap();
                self.whose()
            })
            .collect()
    }
}

/// Promise: Assets are packed in turns, so a long asset does not delay others.
#[test]
fn what_is_needed_first_goes_first() {
    let fixture = fixture();
    fixture.submit(0, 5, 0);
    assert_eq!(fixture.whose(), 0);
    fixture.submit(1, 2, 1);
    fixture.submit(2, 3, 2);
    assert_eq!(fixture.order(3), [1, 2, 0]);
    fixture.submit(3, 1, 3);
    assert_eq!(fixture.order(6), [3, 1, 2, 0, 2, 0]);
}

/// Work that left the queue between its turns, as that of a recording, returns with the memory that it holds.
#[test]
fn work_that_returns_counts_with_its_memory() {
    let fixture = fixture();
    let (tell, leave) = (fixture.tell.clone(), Arc::clone(&fixture.leave));
    let needed_at = fixture.begun;
    let work = Told { name: 0, turns: 1, needed_at, holds: 7, has_begun: true, tell, leave };
    assert!(fixture.turns.submit(work).is_ok());
    assert_eq!(fixture.whose(), 0);
    assert_eq!(fixture.turns.backlog().held_bytes, 7);
    fixture.submit(1, 1, 1);
    assert_eq!(fixture.order(1), [1]);
    assert_eq!(fixture.turns.backlog(), Backlog { works: 1, held_bytes: 0 });
}

/// Promise: Packing of a recording goes on while other packing holds all memory.
#[test]
fn work_that_returns_does_not_wait_as_new_work() {
    let fixture = fixture_within(10);
    fixture.submit_holding(10, 0, 3, 0);
    assert_eq!(fixture.whose(), 0);
    fixture.submit(1, 1, 0);
    let (tell, leave) = (fixture.tell.clone(), Arc::clone(&fixture.leave));
    let needed_at = fixture.begun;
    let work = Told { name: 2, turns: 1, needed_at, holds: 20, has_begun: true, tell, leave };
    assert!(fixture.turns.submit(work).is_ok());
    assert_eq!(fixture.order(4), [2, 0, 0, 1]);
}

/// Promise: All packing shares one memory budget; packing beyond it waits and does not fail.
#[test]
fn work_beyond_the_budget_waits_until_memory_is_given_back() {
    let fixture = fixture_within(10);
    fixture.submit_holding(4, 0, 2, 0);
    assert_eq!(fixture.whose(), 0);
    fixture.submit_holding(6, 1, 3, 1);
    fixture.submit_holding(1, 2, 1, 2);
    assert_eq!(fixture.order(1), [1], "4 bytes are held");
    // 10 bytes are held: the work of 6 bytes continues to its end, although other work is needed earlier.
    assert_eq!(fixture.order(2), [1, 1]);
    assert_eq!(fixture.turns.backlog(), Backlog { works: 3, held_bytes: 10 });
    assert_eq!(fixture.order(2), [2, 0]);
}

/// Work of one turn, or of two where it holds something, whose urgency can change.
struct Watched {
    name: &'static str,
    is_urgent: Arc<AtomicBool>,
    /// Time at which a playback needs it, if it is not urgent.
    needed_at: Arc<Mutex<Option<Instant>>>,
    tell: Sender<(&'static str, i32)>,
    /// The first turn waits for this.
    leave: Option<Receiver<()>>,
    /// Bytes that it holds after its first turn.
    holds: u64,
    has_begun: bool,
}

impl Work for Watched {
    fn turn(mut self) -> Option<Watched> {
        let nice = rustix::process::getpriority_process(None).unwrap(); // of this thread
        self.tell.send((self.name, nice)).unwrap();
        self.leave.take().map(|leave| leave.recv());
        let is_done = self.holds == 0 || std::mem::replace(&mut self.has_begun, true);
        (!is_done).then_some(self)
    }

    fn due(&self) -> Due {
        match (self.is_urgent.load(Relaxed), *self.needed_at.lock()) {
            (true, _) => Due::Playback(Instant::now()),
            (false, Some(at)) => Due::Playback(at),
            (false, None) => Due::Nobody(Instant::now() - 10 * URGENT),
        }
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn held_bytes(&self) -> u64 {
        if self.has_begun { self.holds } else { 0 }
    }
}

/// A queue of watched work with one thread of each kind.
struct Watch {
    queue: WorkQueue<Watched>,
    tell: Sender<(&'static str, i32)>,
    told: Receiver<(&'static str, i32)>,
    /// Nice values of the two threads.
    usual: i32,
    low: i32,
}

fn watch(budget: u64) -> Watch {
    let (tell, told) = channel();
    let usual = rustix::process::getpriority_process(None).unwrap();
    let queue = WorkQueue::start("turn", 1, UrgentThread::One, budget).unwrap();
    Watch { queue, tell, told, usual, low: (usual + 10).min(19) }
}

impl Watch {
    fn work(&self, name: &'static str, is_urgent: bool, holds: u64) -> Watched {
        let (is_urgent, tell) = (Arc::new(AtomicBool::new(is_urgent)), self.tell.clone());
        Watched { name, is_urgent, needed_at: Arc::default(), tell, leave: None, holds, has_begun: false }
    }

    fn submit(&self, work: Watched) {
        assert!(self.queue.submit(work).is_ok());
    }

    /// Submits work whose first turn waits for a message.
    fn submit_held(&self, work: Watched) -> Sender<()> {
        let (leave, leaves) = channel();
        self.submit(Watched { leave: Some(leaves), ..work });
        leave
    }

    fn next(&self) -> (&'static str, i32) {
        self.told.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    /// Waits until the urgent thread is idle before it is notified.
    fn wait_for_urgent_thread(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.queue.shared.queue.lock().urgent != (UrgentState::Waits { until: None }) {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    }
}

/// Promise: Packing that a session waits for has its own thread of normal priority and does not wait for
/// other packing.
#[test]
fn what_is_needed_soon_has_a_thread_of_its_own() {
    let watch = watch(ROOM);
    let leave = watch.submit_held(watch.work("background", false, 0));
    assert_eq!(watch.next(), ("background", watch.low));
    watch.submit(watch.work("later", false, 0));
    watch.submit(watch.work("waiting", true, 0));
    assert_eq!(watch.next(), ("waiting", watch.usual), "the turn of the other thread has not ended");
    leave.send(()).unwrap();
    assert_eq!(watch.next(), ("later", watch.low), "its time is over, but nobody waits for it");
}

/// Promise: When a session begins to wait for packing, the packing continues at normal priority.
#[test]
fn work_that_becomes_urgent_while_it_waits_gets_the_urgent_thread() {
    let watch = watch(ROOM);
    watch.wait_for_urgent_thread();
    let leave = watch.submit_held(watch.work("background", false, 0));
    assert_eq!(watch.next(), ("background", watch.low));
    let work = watch.work("played", false, 0);
    let is_urgent = Arc::clone(&work.is_urgent);
    watch.submit(work);
    is_urgent.store(true, Relaxed);
    watch.queue.urgency_signal().notify();
    assert_eq!(watch.next(), ("played", watch.usual));
    leave.send(()).unwrap();
}

/// Promise: Packing that a session will need soon continues at normal priority in time.
#[test]
fn work_that_becomes_urgent_as_time_goes_by_gets_the_urgent_thread() {
    let watch = watch(ROOM);
    watch.wait_for_urgent_thread();
    let work = watch.work("played", false, 1);
    let needed_at = Arc::clone(&work.needed_at);
    let leave = watch.submit_held(work);
    assert_eq!(watch.next(), ("played", watch.low));
    let leave_other = watch.submit_held(watch.work("other", false, 0));
    *needed_at.lock() = Some(Instant::now() + URGENT + Duration::from_millis(100));
    leave.send(()).unwrap();
    let mut turns = [watch.next(), watch.next()];
    turns.sort_unstable();
    assert_eq!(turns, [("other", watch.low), ("played", watch.usual)]);
    leave_other.send(()).unwrap();
}

/// Promise: If the disk does not answer for one asset, packing of others that sessions wait for continues.
#[test]
fn other_threads_do_urgent_work_while_a_turn_holds_the_urgent_thread() {
    let watch = watch(ROOM);
    let leave = watch.submit_held(watch.work("hangs", true, 0));
    assert_eq!(watch.next(), ("hangs", watch.usual));
    watch.submit(watch.work("waiting", true, 0));
    assert_eq!(watch.next(), ("waiting", watch.low));
    leave.send(()).unwrap();
}

#[test]
fn urgent_work_is_left_to_the_urgent_thread_until_that_is_late() {
    let (now, watch) = (Instant::now(), watch(ROOM));
    let next = |urgent| {
        let new = [watch.work("rest", false, 0), watch.work("urgent", true, 0)].into();
        let mut queue = Queue { new, urgent, ..Queue::new(ROOM) };
        queue.next(Urgency::Rest, now).ok().map(|work| work.name)
    };
    let works = |time| UrgentState::Works { since: now - time };
    assert_eq!(next(works(LATE / 2)), Some("rest"));
    assert_eq!(next(works(LATE)), Some("urgent"));
    assert_eq!(next(UrgentState::Waits { until: None }), Some("rest"));
    let mut queue = Queue { begun: vec![watch.work("late", false, 0)], ..Queue::new(ROOM) };
    *queue.begun[0].needed_at.lock() = Some(now - LATE);
    queue.begun_count = 1;
    assert!(queue.next(Urgency::Urgent, now).is_ok());
    assert_eq!(queue.urgent, works(LATE), "there is more to do than one thread can");
}

/// Promise: Where sessions wait for more than one thread can pack, the longest wait is that thread's, and others help.
#[test]
fn other_threads_take_the_urgent_work_that_is_needed_last() {
    let (now, watch) = (Instant::now(), watch(ROOM));
    let needed = |name, ms| {
        let work = watch.work(name, false, 0);
        *work.needed_at.lock() = Some(now + Duration::from_millis(ms));
        work
    };
    let begun = |name, ms| Watched { has_begun: true, ..needed(name, ms) };
    let next = |new: Vec<Watched>, begun: Vec<Watched>, urgency| {
        let (new, begun_count, urgent) = (new.into(), begun.len(), UrgentState::Works { since: now - LATE });
        let mut queue = Queue { new, begun, begun_count, urgent, ..Queue::new(ROOM) };
        queue.next(urgency, now).ok().map(|work| work.name)
    };
    let new = || vec![needed("first", 1), needed("third", 3), needed("far", 60_000)];
    let begun = || vec![begun("second", 2), begun("fourth", 4)];
    assert_eq!(next(new(), begun(), Urgency::Urgent), Some("first"));
    assert_eq!(next(new(), begun(), Urgency::Rest), Some("fourth"));
    assert_eq!(next(new(), Vec::new(), Urgency::Rest), Some("third"));
    assert_eq!(next(Vec::new(), begun(), Urgency::Rest), Some("fourth"));
    assert_eq!(next(vec![needed("far", 60_000)], Vec::new(), Urgency::Rest), Some("far"));
}

#[test]
fn turns_of_other_work_do_not_wake_the_urgent_thread() {
    let watch = watch(ROOM);
    let leave = watch.submit_held(watch.work("urgent", true, 0));
    assert_eq!(watch.next(), ("urgent", watch.usual));
    watch.submit(watch.work("rest", false, 1));
    assert_eq!([watch.next(), watch.next()], [("rest", watch.low); 2]);
    assert!(!watch.queue.shared.urgent.is_notified(), "after submitting work, and after its first turn");
    leave.send(()).unwrap();
}

#[test]
fn the_urgent_thread_is_notified_of_work_that_it_does_not_wait_for_already() {
    let now = Instant::now();
    let concerns = |urgent, due| Queue::<Watched> { urgent, ..Queue::new(ROOM) }.concerns_urgent_thread(due);
    let playback = |seconds| Some(Due::Playback(now + URGENT + Duration::from_secs(seconds)));
    for (until, due, expected) in [
        (None, None, false),
        (None, Some(Due::Nobody(now)), false),
        (None, playback(3600), true),
        (Some(5), playback(4), true),
        (Some(5), playback(5), false),
    ] {
        let until = until.map(|seconds| now + Duration::from_secs(seconds));
        assert_eq!(concerns(UrgentState::Waits { until }, due), expected, "{until:?} {due:?}");
    }
    assert!(concerns(UrgentState::WaitsForRoom, None));
    assert!(!concerns(UrgentState::Works { since: now }, playback(0)), "it looks after its turn");
}

/// Promise: Packing that a session waits for does not wait for memory behind other packing.
#[test]
fn beyond_the_budget_urgent_work_stays_on_its_thread_and_gets_memory() {
    let now = Instant::now();
    let watch = watch(ROOM);
    let begun = |name, is_urgent, holds| Watched { has_begun: true, ..watch.work(name, is_urgent, holds) };
    let next = |works: Vec<Watched>, new: Vec<Watched>, urgency| {
        let (new, begun_count) = (new.into(), works.len());
        let mut queue = Queue { new, begun: works, begun_count, held: 10, ..Queue::new(10) };
        queue.next(urgency, now).ok().map(|work| work.name)
    };
    let both = || vec![begun("rest", false, 3), begun("urgent", true, 6), begun("more", false, 4)];
    assert_eq!(next(both(), Vec::new(), Urgency::Rest), Some("more"), "the urgent one holds more");
    assert_eq!(next(both(), Vec::new(), Urgency::Urgent), Some("urgent"));
    let new = || vec![watch.work("new", true, 1), watch.work("new rest", false, 1)];
    let rest = || vec![begun("rest", false, 3), begun("more", false, 7)];
    assert_eq!(next(rest(), new(), Urgency::Urgent), Some("more"), "to give its memory back");
    assert_eq!(next(vec![begun("urgent", true, 10)], new(), Urgency::Rest), None);
}

/// Promise: Packing that a session waits for starts, however much other packing runs.
#[test]
fn some_of_what_may_begin_is_kept_for_urgent_work() {
    let now = Instant::now();
    let watch = watch(ROOM);
    let next = |begun_count, urgency| {
        let new = [watch.work("rest", false, 0), watch.work("urgent", true, 0)].into();
        let mut queue = Queue { new, begun_count, ..Queue::new(ROOM) };
        queue.next(urgency, now).ok().map(|work| work.name)
    };
    let most = MOST_BEGUN - KEPT_FOR_URGENT;
    assert_eq!(next(most - 1, Urgency::Rest), Some("rest"));
    assert_eq!(next(most, Urgency::Rest), None);
    assert_eq!(next(most, Urgency::Urgent), Some("urgent"));
    assert_eq!(next(MOST_BEGUN, Urgency::Urgent), None);
}

#[test]
fn only_so_much_has_begun_at_a_time() {
    let fixture = fixture();
    (0..MOST_BEGUN + 2).for_each(|name| fixture.submit(name, 3, name as u64 % 7));
    let mut order = vec![fixture.whose()];
    order.extend(fixture.order(3 * (MOST_BEGUN + 2) - 1));
    let mut begun = std::collections::HashMap::new();
    for name in order {
        *begun.entry(name).or_insert(0) += 1;
        assert!(begun.values().filter(|turns| **turns < 3).count() <= MOST_BEGUN);
    }
    assert_eq!(begun.len(), MOST_BEGUN + 2, "all have had theirs");
}

#[test]
fn work_that_panics_ends_nothing_else() {
    struct Bug(Sender<()>, bool);
    impl Work for Bug {
        fn turn(self) -> Option<Bug> {
            assert!(!self.1, "on purpose");
            self.0.send(()).unwrap();
            None
        }

        fn due(&self) -> Due {
            Due::Nobody(Instant::now())
        }

        fn has_begun(&self) -> bool {
            false
        }

        fn held_bytes(&self) -> u64 {
            0
        }
    }
    let (tell, told) = channel();
    let turns = WorkQueue::start("turn", 1, UrgentThread::None, ROOM).unwrap();
    assert!(turns.submit(Bug(tell.clone(), true)).is_ok() && turns.submit(Bug(tell, false)).is_ok());
    told.recv_timeout(Duration::from_secs(20)).unwrap();
}
