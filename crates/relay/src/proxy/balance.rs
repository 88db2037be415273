//! Which backend a connection goes to. Pure: loads and chance come in, an order comes out.

use std::str::FromStr;

/// How connections are spread over backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The one with the fewest open connections; of equals, each in turn.
    LeastConnections,
    /// Any.
    Random,
}

/// What is known of a backend when one is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Whether it is thought to be there.
    pub(super) up: bool,
    /// Connections it has.
    pub(super) open: usize,
}

/// Chooses.
#[derive(Debug)]
pub(super) struct Balancer {
    balance: Balance,
    turn: usize,
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Balance, String> {
        match text {
            "roundrobin" => Ok(Balance::RoundRobin),
            "leastconn" => Ok(Balance::LeastConnections),
            "random" => Ok(Balance::Random),
            other => Err(format!("{other} is no balance; there are roundrobin, leastconn and random")),
        }
    }
}

impl Balancer {
    pub(super) fn new(balance: Balance) -> Balancer {
        Balancer { balance, turn: 0 }
    }

    /// All backends in the order in which a connection is to try them: those that are up as the balance says, then those that are
    /// down, which may have come back. `below` draws a number less than its argument.
    pub(super) fn order(&mut self, loads: &[Load], mut below: impl FnMut(usize) -> usize) -> Vec<usize> {
        let is_up = |place: &usize| loads[*place].up;
        let (mut up, mut down): (Vec<usize>, Vec<usize>) = (0..loads.len()).partition(is_up);
        for group in [&mut up, &mut down] {
            if !group.is_empty() {
                let turn = self.turn % group.len();
                group.rotate_left(turn);
            }
            match self.balance {
                Balance::RoundRobin => {}
                Balance::LeastConnections => group.sort_by_key(|place| loads[*place].open),
                Balance::Random => {
                    (1..group.len()).rev().for_each(|last| group.swap(last, below(last + 1)));
                }
            }
        }
        self.turn = self.turn.wrapping_add(1);
        up.append(&mut down);
        up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(open: &[usize]) -> Vec<Load> {
        open.iter().map(|open| Load { up: true, open: *open }).collect()
    }

    fn never(_: usize) -> usize {
        panic!("no chance is needed")
    }

    /// Promise: Connections are balanced in turn, by fewest connections or at random; down backends come
    /// last.
    #[test]
    fn each_has_its_turn_and_the_others_follow() {
        let mut balancer = Balancer::new(Balance::RoundRobin);
        let orders = [(); 4].map(|()| balancer.order(&loads(&[9, 0, 5]), never));
        assert_eq!(orders, [vec![0, 1, 2], vec![1, 2, 0], vec![2, 0, 1], vec![0, 1, 2]]);
    }

    /// Promise: Connections are balanced in turn, by fewest connections or at random; down backends come
    /// last.
    #[test]
    fn who_is_down_comes_last_and_the_others_share_evenly() {
        let mut balancer = Balancer::new(Balance::RoundRobin);
        let mut loads = loads(&[0, 0, 0]);
        loads[1].up = false;
        let orders: Vec<Vec<usize>> = (0..4).map(|_| balancer.order(&loads, never)).collect();
        assert_eq!(orders, [[0, 2, 1], [2, 0, 1], [0, 2, 1], [2, 0, 1]]);
        loads.iter_mut().for_each(|load| load.up = false);
        assert_eq!(balancer.order(&loads, never).len(), 3, "who is down is tried when nobody is up");
    }

    #[test]
    fn the_fewest_connections_go_first_and_equals_take_turns() {
        let mut balancer = Balancer::new(Balance::LeastConnections);
        assert_eq!(balancer.order(&loads(&[2, 1, 3]), never), [1, 0, 2]);
        let mut first = [0; 3];
        for _ in 0..9 {
            first[balancer.order(&loads(&[1, 1, 1]), never)[0]] += 1;
        }
        assert_eq!(first, [3, 3, 3]);
    }

    /// Promise: Connections are balanced in turn, by fewest connections or at random; down backends come
    /// last.
    #[test]
    fn chance_gives_every_order_of_those_that_are_up() {
        let mut balancer = Balancer::new(Balance::Random);
        let mut loads = loads(&[0, 0, 0, 0]);
        loads[3].up = false;
        let mut seen = std::collections::BTreeSet::new();
        for draws in 0..6 {
            let mut rest = draws;
            let below = |bound| {
                let drawn = rest % bound;
                rest /= bound;
                drawn
            };
            let order = balancer.order(&loads, below);
            assert_eq!(order[3], 3);
            // The turn goes round as well: undone here, so that only chance is looked at.
            balancer.turn = 0;
            seen.insert(order);
        }
        assert_eq!(seen.len(), 6);
    }

    #[test]
    fn no_backend_is_no_order() {
        assert!(Balancer::new(Balance::Random).order(&[], never).is_empty());
    }
}
