use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

fn class(priority: u8, share: u32, rate: Option<Rate>) -> Class {
    Class { name: format!("{priority} {share}"), priority, share, rate }
}

/// Gives the next task a turn, in which it uses its whole allowance.
fn act(scheduler: &mut Scheduler, more: bool, now_us: u64) -> Next {
    let next = scheduler.next(now_us);
    if let Next::Act { task, allowance } = next {
        scheduler.acted(task, allowance, more, now_us);
    }
    next
}

fn tasks(scheduler: &mut Scheduler, classes: &[usize]) {
    for (task, class) in classes.iter().enumerate() {
        scheduler.add(task, *class, None);
        scheduler.ready(task);
    }
}

/// Promise: Scheduling policies are best effort, priority, and fair share with carry-over of unused volume.
///
/// Time and events are inputs, actions are outputs.
#[test]
fn a_scheduler_weighs_classes() {
    let classes = || vec![class(0, 1, None), class(1, 3, None)];
    // Bytes moved by each class in so many turns of one byte, if both classes always have work.
    let moved = |policy, turns| {
        let mut scheduler = Scheduler::new(policy, classes(), 1);
        let mut moved = [0_u32; 2];
        for task in [0, 1] {
            scheduler.add(task, task, None);
            scheduler.ready(task);
        }
        for now_us in 0..turns {
            let Next::Act { task, allowance } = scheduler.next(now_us) else { panic!("both are ready") };
            moved[task] += u32::try_from(allowance).unwrap();
            scheduler.acted(task, allowance, true, now_us);
        }
        moved
    };
    assert_eq!(moved(Policy::BestEffort, 100), [50, 50]);
    assert_eq!(moved(Policy::Priority, 100), [0, 100]);
    for round in [Round::Volume(8), Round::ProcessorTime(8)] {
        assert_eq!(moved(Policy::FairShare { round, carry_percent: 0 }, 32_000), [8_000, 24_000]);
    }

    // In the first round, one byte of the two is left unused. It can be used in the next round completely, or
    // not at all.
    for (carry_percent, expected) in [(100, 3), (0, 2)] {
        let policy = Policy::FairShare { round: Round::Volume(8), carry_percent };
        let mut scheduler = Scheduler::new(policy, classes(), 100);
        (0..2).for_each(|task| scheduler.add(task, task, None));
        scheduler.ready(0);
        assert_eq!(scheduler.next(0), Next::Act { task: 0, allowance: 2 });
        scheduler.acted(0, 1, false, 0);
        scheduler.ready(1);
        for _ in 0..2 {
            assert_eq!(
                scheduler.next(0),
                Next::Act { task: 1, allowance: 6 },
                "alone, in a round after another"
            );
            scheduler.acted(1, 6, true, 0);
        }
        scheduler.ready(0);
        assert_eq!(scheduler.next(0), Next::Act { task: 0, allowance: expected });
    }
}

#[test]
fn best_effort_is_first_come_first_served() {
    let mut scheduler = Scheduler::new(Policy::BestEffort, vec![class(0, 1, None), class(9, 1, None)], 10);
    let classes = [0, 1, 0];
    tasks(&mut scheduler, &classes);
    scheduler.ready(1); // already ready
    let order: Vec<Next> = (0..4).map(|_| act(&mut scheduler, true, 0)).collect();
    assert_eq!(order, [0, 1, 2, 0].map(|task| Next::Act { task, allowance: 10 }));
}

#[test]
fn priority_is_strict_and_in_turn_within_a_class() {
    let mut scheduler = Scheduler::new(Policy::Priority, vec![class(1, 1, None), class(9, 1, None)], 10);
    let classes = [0, 1, 1];
    tasks(&mut scheduler, &classes);
    let first: Vec<Next> = (0..4).map(|_| act(&mut scheduler, true, 0)).collect();
    assert_eq!(first, [1, 2, 1, 2].map(|task| Next::Act { task, allowance: 10 }));
    let rest: Vec<Next> = (0..4).map(|_| act(&mut scheduler, false, 0)).collect();
    assert_eq!(rest[..3], [1, 2, 0].map(|task| Next::Act { task, allowance: 10 }));
    assert_eq!(rest[3], Next::Nothing);
}

/// Promise: Under the deadline policy the task with the earliest deadline runs first.
#[test]
fn the_earliest_deadline_goes_first_and_what_has_none_last() {
    let mut scheduler = Scheduler::new(Policy::Deadline, Vec::new(), 10);
    (0..3).for_each(|task| scheduler.add(task, 0, None));
    scheduler.ready(0);
    scheduler.ready_by(1, 2000);
    scheduler.ready_by(2, 1000);
    let order: Vec<Next> = (0..4).map(|_| act(&mut scheduler, false, 0)).collect();
    assert_eq!(order[..3], [2, 1, 0].map(|task| Next::Act { task, allowance: 10 }));
    assert_eq!(order[3], Next::Nothing);
}

#[test]
fn a_stream_that_was_removed_is_not_told_to_act_and_its_number_can_be_used_again() {
    let mut scheduler = Scheduler::new(Policy::BestEffort, Vec::new(), 10);
    tasks(&mut scheduler, &[0, 0]);
    scheduler.remove(0);
    scheduler.add(0, 0, None);
    assert_eq!(act(&mut scheduler, false, 0), Next::Act { task: 1, allowance: 10 });
    assert_eq!(act(&mut scheduler, false, 0), Next::Nothing);
    scheduler.ready(0);
    assert_eq!(act(&mut scheduler, false, 0), Next::Act { task: 0, allowance: 10 });
}

/// Promise: The rate of a running task can be changed.
#[test]
fn a_rate_is_changed_while_its_stream_waits_or_not() {
    let mut scheduler = Scheduler::new(Policy::BestEffort, Vec::new(), 1000);
    let rate = |per_second, burst| Some(Rate { per_second, burst });
    scheduler.add(0, 0, rate(10, 100));
    scheduler.ready(0);
    assert_eq!(act(&mut scheduler, true, 0), Next::Act { task: 0, allowance: 100 });
    assert_eq!(act(&mut scheduler, true, 0), Next::At(100_000));
    // The new rate does not start with a full bucket: its burst counts as spent, too.
    scheduler.set_rate(0, rate(1000, 50), 0);
    assert_eq!(act(&mut scheduler, true, 0), Next::At(1000));
    assert_eq!(act(&mut scheduler, true, 10_000), Next::Act { task: 0, allowance: 10 });
    assert_eq!(act(&mut scheduler, true, 10_000), Next::At(11_000));
    scheduler.set_rate(0, None, 10_000);
    assert_eq!(act(&mut scheduler, true, 10_000), Next::Act { task: 0, allowance: 1000 });
    scheduler.set_rate(0, rate(10, 100), 10_000);
    assert_eq!(act(&mut scheduler, true, 10_000), Next::Act { task: 0, allowance: 100 });
    scheduler.set_rate(7, None, 10_000); // no such task
    assert_eq!(act(&mut scheduler, true, 10_000), Next::At(110_000));
}

#[test]
fn rates_of_streams_and_classes_hold_back_only_their_own() {
    let slow = Rate { per_second: 1000, burst: 10 };
    let mut scheduler =
        Scheduler::new(Policy::BestEffort, vec![class(0, 1, None), class(0, 1, Some(slow))], 10);
    scheduler.add(0, 0, Some(slow));
    scheduler.add(1, 1, None);
    scheduler.add(2, 1, None);
    scheduler.add(3, 0, None);
    (0..4).for_each(|task| scheduler.ready(task));
    let order: Vec<Next> = (0..4).map(|_| act(&mut scheduler, true, 0)).collect();
    assert_eq!(order, [0, 1, 3, 3].map(|task| Next::Act { task, allowance: 10 }), "2 shares the rate of 1");
    scheduler.remove(3);
    assert_eq!(scheduler.next(0), Next::At(1000), "a unit is left then");
    assert_eq!(act(&mut scheduler, true, 5000), Next::Act { task: 2, allowance: 5 });
    assert_eq!(act(&mut scheduler, true, 5000), Next::Act { task: 0, allowance: 5 });
    assert_eq!(scheduler.next(5000), Next::At(6000));
}

/// Checks that each class got its share within a percent in any 100 rounds. The totals of the classes were
/// recorded every 20 rounds.
fn ensure_shares(shares: &[u32], every_20_rounds: &[Vec<u64>]) -> Result<(), TestCaseError> {
    let sum: u32 = shares.iter().sum();
    for (before, after) in every_20_rounds.iter().zip(&every_20_rounds[5..]) {
        let window: u64 = after.iter().sum::<u64>() - before.iter().sum::<u64>();
        for (class, share) in shares.iter().enumerate() {
            let got = (after[class] - before[class]) as f64 / window as f64;
            let due = f64::from(*share) / f64::from(sum);
            prop_assert!((got - due).abs() <= 0.01, "class {class} got {got}, {due} was due");
        }
    }
    Ok(())
}

proptest! {
    /// Promise: Scheduling policies are best effort, priority, and fair share with carry-over of unused
    /// volume.
    /// Promise: Classes get their shares within 1 % over 100 rounds; no class starves, and overuse is paid
    /// back.
    ///
    /// All classes always have work: in every window of 100 rounds, each class gets its share within 1 %,
    /// even if tasks move fewer or more bytes than allowed.
    #[test]
    fn shares_are_kept_within_a_percent(
        shares in proptest::collection::vec(1u32..20, 2..6),
        streams_per_class in 1usize..4,
        carry_percent in 0u8..=100,
        costs in proptest::collection::vec(1u64..3000, 16),
    ) {
        let round = 200_000 * shares.len() as u64;
        let classes: Vec<Class> = shares.iter().map(|share| class(0, *share, None)).collect();
        let mut scheduler = Scheduler::new(Policy::FairShare { round: Round::Volume(round), carry_percent }, classes, 2000);
        let class_of = |task: usize| task % shares.len();
        tasks(&mut scheduler, &(0..shares.len() * streams_per_class).map(class_of).collect::<Vec<_>>());

        let (mut spent, mut total, mut act) = (vec![0u64; shares.len()], 0, 0);
        let mut at_window = Vec::new();
        while total < 400 * round {
            let Next::Act { task, allowance } = scheduler.next(0) else { panic!("there is work") };
            prop_assert!((1..=2000).contains(&allowance));
            let cost = costs[act % costs.len()];
            act += 1;
            scheduler.acted(task, cost, true, 0);
            spent[class_of(task)] += cost;
            if total / (20 * round) != (total + cost) / (20 * round) {
                at_window.push(spent.clone());
            }
            total += cost;
        }
        ensure_shares(&shares, &at_window)?;
    }

    /// Promise: Classes get their shares within 1 % over 100 rounds; no class starves, and overuse is paid
    /// back.
    ///
    /// The same holds for processor time, although the cost of a turn is known only afterwards: a turn may
    /// take more time than the class has in many rounds, and the cost of a task's turns may vary by a factor
    /// of hundreds.
    #[test]
    fn shares_of_processor_time_are_kept_within_a_percent(
        shares in proptest::collection::vec(1u32..20, 2..6),
        streams_per_class in 1usize..4,
        carry_percent in 0u8..=100,
        costs_ns in proptest::collection::vec(1u64..100_000, 16),
        factors in proptest::collection::vec(1u64..5, 6),
    ) {
        let round_us = 1000;
        let classes: Vec<Class> = shares.iter().map(|share| class(0, *share, None)).collect();
        let policy = Policy::FairShare { round: Round::ProcessorTime(round_us), carry_percent };
        let mut scheduler = Scheduler::new(policy, classes, 2000);
        let class_of = |task: usize| task % shares.len();
        tasks(&mut scheduler, &(0..shares.len() * streams_per_class).map(class_of).collect::<Vec<_>>());

        let (mut used_ns, mut total_ns, round_ns) = (vec![0u64; shares.len()], 0, round_us * 1000);
        let mut at_window = Vec::new();
        for turn in 0.. {
            if total_ns >= 400 * round_ns {
                break;
            }
            let Next::Act { task, allowance } = scheduler.next(0) else { panic!("there is work") };
            prop_assert_eq!(allowance, 2000, "bytes, whatever time is left");
            let class = class_of(task);
            let cost_ns = costs_ns[turn % costs_ns.len()] * factors[class];
            scheduler.acted(task, Cost { shared: cost_ns, rated: allowance }, true, 0);
            used_ns[class] += cost_ns;
            if total_ns / (20 * round_ns) != (total_ns + cost_ns) / (20 * round_ns) {
                at_window.push(used_ns.clone());
            }
            total_ns += cost_ns;
        }
        ensure_shares(&shares, &at_window)?;
    }

    /// Promise: Classes get their shares within 1 % over 100 rounds; no class starves, and overuse is paid
    /// back.
    ///
    /// Holds for any cost of turns: a class that overused its share has its next turn as soon as it has paid
    /// back the overuse, and no later. A class that returns after a rest gets at once at most the amount of a
    /// round, the amount that may be carried, and the rest of a turn.
    #[test]
    fn debts_of_processor_time_are_paid_and_nobody_starves(
        costs_ns in proptest::collection::vec((1u64..2_000_000, 1u64..2_000_000), 1..50),
        rest in 0usize..100,
        carry_percent in 0u8..=100,
    ) {
        let (round_us, targets_ns) = (500, [100_000, 400_000]);
        let policy = Policy::FairShare { round: Round::ProcessorTime(round_us), carry_percent };
        let mut scheduler = Scheduler::new(policy, vec![class(0, 1, None), class(0, 4, None)], 1000);
        (0..2).for_each(|task| scheduler.add(task, task, None));
        let longest_ns = 2_000_000;
        let most_ns = |class: usize| targets_ns[class] * (100 + u64::from(carry_percent)) / 100;
        scheduler.ready(0);
        let cost_of = |turn: usize, task: usize| {
            let (first, second) = costs_ns[turn % costs_ns.len()];
            if task == 0 { first } else { second }
        };
        // Time that each class got since the last turn of the other class, and the cost of the other's last
        // turn.
        let (mut since_ns, mut debt_ns) = ([0u64; 2], [0u64; 2]);
        for turn in 0..400 {
            if turn == rest {
                scheduler.ready(1);
                since_ns = [0; 2];
            }
            let Next::Act { task, .. } = scheduler.next(0) else { panic!("there is work") };
            let cost_ns = cost_of(turn, task);
            scheduler.acted(task, Cost { shared: cost_ns, rated: 1 }, true, 0);
            let other = 1 - task;
            since_ns[task] += cost_ns;
            since_ns[other] = 0;
            debt_ns[task] = cost_ns;
            if turn >= rest {
                let rounds = debt_ns[other].div_ceil(targets_ns[other]) + 1;
                let bound_ns = most_ns(task) + rounds * targets_ns[task] + longest_ns;
                prop_assert!(since_ns[task] <= bound_ns, "{since_ns:?} with {debt_ns:?} at {turn}");
            }
        }
    }

    /// Promise: Scheduling policies are best effort, priority, and fair share with carry-over of unused
    /// volume.
    /// Promise: Classes get their shares within 1 % over 100 rounds; no class starves, and overuse is paid
    /// back.
    ///
    /// No class starves: a class with work has at least one turn in each round. A class that returns after a
    /// rest gets at most the amount of a round and the amount that may be carried.
    #[test]
    fn nobody_starves_and_rest_is_not_saved_up(rest_rounds in 1u64..50, carry_percent in 0u8..=100) {
        let round = 100_000;
        let classes = vec![class(0, 1, None), class(0, 4, None)];
        let mut scheduler = Scheduler::new(Policy::FairShare { round: Round::Volume(round), carry_percent }, classes, 1000);
        scheduler.add(0, 0, None);
        scheduler.add(1, 1, None);
        scheduler.ready(0);
        let mut volume = 0;
        while volume < rest_rounds * round {
            let Next::Act { task: 0, allowance } = scheduler.next(0) else { panic!("only 0 has work") };
            scheduler.acted(0, allowance, true, 0);
            volume += allowance;
        }
        scheduler.ready(1);
        let (mut before_zero, mut zero_acted) = (0, false);
        while !zero_acted {
            let Next::Act { task, allowance } = scheduler.next(0) else { panic!("there is work") };
            scheduler.acted(task, allowance, true, 0);
            zero_acted = task == 0;
            before_zero += if task == 1 { allowance } else { 0 };
        }
        prop_assert!(before_zero <= round * 4 / 5 * (100 + u64::from(carry_percent)) / 100);
    }

    /// Promise: Tasks and classes never exceed their rates, whatever arrives.
    ///
    /// Holds for any input: a task that gets a turn was ready, rates are kept over the whole time, and if no
    /// turn is possible, the time of the next check is in the future.
    #[test]
    fn rates_hold_whatever_happens(
        steps in proptest::collection::vec((0usize..6, 0u64..50_000, 0u64..4000, any::<bool>()), 1..300),
        policy in prop_oneof![
            Just(Policy::BestEffort), Just(Policy::Priority), Just(Policy::Deadline),
            Just(Policy::FairShare { round: Round::Volume(10_000), carry_percent: 50 })
        ],
    ) {
        let rate = Rate { per_second: 100_000, burst: 3000 };
        let mut scheduler = Scheduler::new(policy, vec![class(1, 2, Some(rate)), class(2, 3, None)], 1000);
        (0..6).for_each(|task| scheduler.add(task, task % 2, (task < 3).then_some(rate)));
        let (mut now_us, mut ready, mut spent) = (0u64, [false; 6], [0u64; 6]);
        for (task, pass_us, cost, more) in steps {
            now_us += pass_us;
            scheduler.ready_by(task, now_us + cost);
            ready[task] = true;
            match scheduler.next(now_us) {
                Next::Act { task, allowance } => {
                    prop_assert!(ready[task], "{task} has nothing to do");
                    let cost = cost.min(allowance);
                    scheduler.acted(task, cost, more, now_us);
                    ready[task] = more;
                    spent[task] += cost;
                }
                Next::At(at_us) => prop_assert!(at_us > now_us),
                Next::Nothing => prop_assert!(false, "{task} has something to do"),
            }
            let most = rate.burst + (u128::from(now_us) * u128::from(rate.per_second) / 1_000_000) as u64;
            prop_assert!(spent.iter().take(3).all(|spent| *spent <= most));
            prop_assert!(spent.iter().step_by(2).sum::<u64>() <= most);
        }
    }
}

/// Policy that gives turns to classes in a fixed sequence, whatever the turns cost.
struct Sequence(Vec<usize>, usize);

impl TurnPolicy for Sequence {
    fn next(&mut self, ready: &ReadyClasses<'_>) -> usize {
        assert!(ready.iter().count() > 0, "asked for nothing");
        self.1 += 1;
        self.0[(self.1 - 1) % self.0.len()]
    }

    fn allowance(&self, class: usize) -> u64 {
        10 + class as u64
    }
}

/// Promise: A caller's own scheduling policy orders the tasks of a thread; if it fails, best effort replaces
/// it.
#[test]
fn a_policy_of_another_type_gives_turns_until_it_chooses_a_class_that_is_not_ready() {
    let policy = Policy::custom(|classes| {
        assert_eq!(classes.len(), 2);
        Box::new(Sequence(vec![1, 1, 0, 9], 0))
    });
    let mut scheduler = Scheduler::new(policy, vec![class(0, 1, None), class(0, 1, None)], 1000);
    tasks(&mut scheduler, &[0, 1]);
    let turns: Vec<Next> = (0..3).map(|now_us| act(&mut scheduler, true, now_us)).collect();
    let turn = |task| Next::Act { task, allowance: 10 + task as u64 };
    assert_eq!(turns, [turn(1), turn(1), turn(0)]);
    assert_eq!(scheduler.take_policy_failure(), None);
    assert_eq!(act(&mut scheduler, true, 3), Next::Act { task: 1, allowance: 1000 }, "first come");
    assert_eq!(scheduler.take_policy_failure().unwrap(), "it chose class 9, which is not ready");
    assert_eq!(act(&mut scheduler, true, 4), Next::Act { task: 0, allowance: 1000 });
    assert_eq!(scheduler.take_policy_failure(), None, "it is gone");
}
