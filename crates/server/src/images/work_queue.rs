//! Threads that do long work in turns, so that what is long keeps nobody waiting who only wants a beginning.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use wirepath_engine::{BlockingPool, Priority};

/// Work that has begun and is not done; more has to wait for its first turn. Each holds some memory, and room
/// on the disk.
const BEGUN: usize = 32;

/// Work that may wait for its first turn; more is refused.
const WAITING: usize = 1024;

/// First turns in a row before one of the others gets one: they are short, and somebody plays what the others
/// make.
const FIRST_IN_A_ROW: usize = 8;

/// Something that is done in turns.
pub(super) trait Work: Send + 'static {
    /// Does some of it. The first turn should be the shortest.
    fn turn(&mut self) -> Turn;
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// There is more to do.
    More,
    /// It is done.
    Done,
}

/// The threads and what waits for them. They end when this is dropped, with what waits.
pub(super) struct WorkQueue<W: Work> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    queue: Mutex<Queue<W>>,
    changed: Condvar,
}

struct Queue<W> {
    /// Work without a turn yet, and work that had some.
    new: VecDeque<W>,
    begun: VecDeque<W>,
    /// Number of works that have begun, whether they wait or have their turn.
    begun_count: usize,
    firsts_in_a_row: usize,
    ended: bool,
}

impl<W: Work> WorkQueue<W> {
    /// Starts `threads` threads (at least one) called `name` and a number, which are after everything else.
    ///
    /// # Errors
    /// An error of starting a thread.
    pub(super) fn start(name: &str, threads: usize) -> io::Result<WorkQueue<W>> {
        let queue = Queue {
            new: VecDeque::new(),
            begun: VecDeque::new(),
            begun_count: 0,
            firsts_in_a_row: 0,
            ended: false,
        };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new() });
        let pool = BlockingPool::start(name, threads, Priority::Background)?;
        for _ in 0..threads.max(1) {
            let shared = Arc::clone(&shared);
            let submitted = pool.submit(move || shared.run());
            debug_assert!(submitted, "nothing else is in that queue");
        }
        Ok(WorkQueue { shared })
    }

    /// Has work done, the first turn before any turns of what has begun already; answers whether there was
    /// room for it.
    #[must_use]
    pub(super) fn submit(&self, work: W) -> bool {
        let mut queue = self.shared.queue.lock();
        if queue.new.len() >= WAITING {
            return false;
        }
        queue.new.push_back(work);
        drop(queue);
        self.shared.changed.notify_one();
        true
    }
}

impl<W: Work> Drop for WorkQueue<W> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.ended = true;
        let waiting = (std::mem::take(&mut queue.new), std::mem::take(&mut queue.begun));
        drop(queue);
        self.shared.changed.notify_all();
        drop(waiting); // outside the lock: files are closed
    }
}

impl<W: Work> Shared<W> {
    fn run(&self) {
        while let Some(mut work) = self.next() {
            // Work that panics is a bug of ours, but not a reason to stop doing the rest.
            let turn = catch_unwind(AssertUnwindSafe(|| work.turn())).unwrap_or_else(|_| {
                tracing::error!("work panicked; what it was to do is not done");
                Turn::Done
            });
            let mut queue = self.queue.lock();
            match turn {
                Turn::More if !queue.ended => queue.begun.push_back(work),
                _ => {
                    queue.begun_count -= 1;
                    drop(queue);
                    drop(work);
                }
            }
            self.changed.notify_one();
        }
    }

    /// Waits for the work that has the next turn; none when the queue has ended.
    fn next(&self) -> Option<W> {
        let mut queue = self.queue.lock();
        while !queue.ended {
            if let Some(work) = queue.next() {
                return Some(work);
            }
            self.changed.wait(&mut queue);
        }
        None
    }
}

impl<W> Queue<W> {
    fn next(&mut self) -> Option<W> {
        let turn_of_new = self.firsts_in_a_row < FIRST_IN_A_ROW || self.begun.is_empty();
        if self.begun_count < BEGUN
            && turn_of_new
            && let Some(work) = self.new.pop_front()
        {
            self.begun_count += 1;
            self.firsts_in_a_row += 1;
            return Some(work);
        }
        self.firsts_in_a_row = 0;
        self.begun.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    /// Work of some turns; each is told, then waits for leave.
    struct Told {
        name: usize,
        turns: usize,
        tell: Sender<usize>,
        leave: Arc<Mutex<Receiver<()>>>,
    }

    impl Work for Told {
        fn turn(&mut self) -> Turn {
            self.tell.send(self.name).unwrap();
            self.leave.lock().recv().unwrap();
            self.turns -= 1;
            if self.turns == 0 { Turn::Done } else { Turn::More }
        }
    }

    struct Fixture {
        turns: WorkQueue<Told>,
        tell: Sender<usize>,
        told: Receiver<usize>,
        give_leave: Sender<()>,
        leave: Arc<Mutex<Receiver<()>>>,
    }

    fn fixture() -> Fixture {
        let ((tell, told), (give_leave, leave)) = (channel(), channel());
        let turns = WorkQueue::start("turn", 1).unwrap();
        Fixture { turns, tell, told, give_leave, leave: Arc::new(Mutex::new(leave)) }
    }

    impl Fixture {
        fn submit(&self, name: usize, turns: usize) {
            let (tell, leave) = (self.tell.clone(), Arc::clone(&self.leave));
            assert!(self.turns.submit(Told { name, turns, tell, leave }));
        }

        /// Number of the work that has a turn now.
        fn whose(&self) -> usize {
            self.told.recv_timeout(Duration::from_secs(20)).unwrap()
        }

        /// The next to have turns, after the one that has it now.
        fn order(&self, length: usize) -> Vec<usize> {
            (0..length)
                .map(|_| {
                    self.give_leave.send(()).unwrap();
                    self.whose()
                })
                .collect()
        }
    }

    /// Promise: A long asset that is being packed delays no other: assets are packed in turns.
    #[test]
    fn what_is_new_goes_first_and_the_rest_takes_turns() {
        let fixture = fixture();
        fixture.submit(0, 5);
        assert_eq!(fixture.whose(), 0);
        fixture.submit(1, 2);
        fixture.submit(2, 3);
        assert_eq!(fixture.order(3), [1, 2, 0]);
        fixture.submit(3, 1);
        assert_eq!(fixture.order(6), [3, 1, 2, 0, 2, 0]);
    }

    #[test]
    fn what_has_begun_goes_on_though_new_work_keeps_coming() {
        let fixture = fixture();
        fixture.submit(0, 2);
        assert_eq!(fixture.whose(), 0);
        (1..=20).for_each(|name| fixture.submit(name, 1));
        let order = fixture.order(FIRST_IN_A_ROW);
        assert!(order.contains(&0), "{order:?}");
    }

    #[test]
    fn only_so_much_has_begun_at_a_time() {
        let fixture = fixture();
        (0..BEGUN + 2).for_each(|name| fixture.submit(name, 3));
        let mut order = vec![fixture.whose()];
        order.extend(fixture.order(3 * (BEGUN + 2) - 1));
        let mut begun = std::collections::HashMap::new();
        for name in order {
            *begun.entry(name).or_insert(0) += 1;
            assert!(begun.values().filter(|turns| **turns < 3).count() <= BEGUN);
        }
        assert_eq!(begun.len(), BEGUN + 2, "all have had theirs");
    }

    #[test]
    fn work_that_panics_ends_nothing_else() {
        struct Bug(Sender<()>, bool);
        impl Work for Bug {
            fn turn(&mut self) -> Turn {
                assert!(!self.1, "on purpose");
                self.0.send(()).unwrap();
                Turn::Done
            }
        }
        let (tell, told) = channel();
        let turns = WorkQueue::start("turn", 1).unwrap();
        assert!(turns.submit(Bug(tell.clone(), true)) && turns.submit(Bug(tell, false)));
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
