//! Load balancing. Pure: the inputs are loads and random numbers, the output is an order of backends.

use std::str::FromStr;

/// Load balancing algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Round robin.
    #[default]
    RoundRobin,
    /// Backend with the fewest connections; round robin among equals.
    LeastConnections,
    /// Random backend.
    Random,
}

/// Load of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// True if the health checks of the backend succeed.
    pub(super) up: bool,
    pub(super) open: usize,
}

/// Load balancer.
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
            other => Err(format!("unknown balance \"{other}\": expected roundrobin, leastconn or random")),
        }
    }
}

impl Balancer {
    pub(super) fn new(balance: Balance) -> Balancer {
        Balancer { balance, turn: 0 }
    }

    /// Order in which a connection tries the backends: first all that are up, then all that are down, since
    /// these may have recovered. `below` draws a random number below its argument.
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
        panic!("no random number is needed")
    }

    /// Promise: Connections are balanced in turn, by fewest connections or at random; failed backends are
    /// tried last.
    #[test]
    fn round_robin_rotates() {
        let mut balancer = Balancer::new(Balance::RoundRobin);
        let orders = [(); 4].map(|()| balancer.order(&loads(&[9, 0, 5]), never));
        assert_eq!(orders, [vec![0, 1, 2], vec![1, 2, 0], vec![2, 0, 1], vec![0, 1, 2]]);
    }

    /// Promise: Connections are balanced in turn, by fewest connections or at random; failed backends are
    /// tried last.
    #[test]
    fn backends_that_are_down_come_last() {
        let mut balancer = Balancer::new(Balance::RoundRobin);
        let mut loads = loads(&[0, 0, 0]);
        loads[1].up = false;
        let orders: Vec<Vec<usize>> = (0..4).map(|_| balancer.order(&loads, never)).collect();
        assert_eq!(orders, [[0, 2, 1], [2, 0, 1], [0, 2, 1], [2, 0, 1]]);
        loads.iter_mut().for_each(|load| load.up = false);
        assert_eq!(balancer.order(&loads, never).len(), 3, "all are tried when none is up");
    }

    #[test]
    fn the_fewest_connections_come_first_and_equals_rotate() {
        let mut balancer = Balancer::new(Balance::LeastConnections);
        assert_eq!(balancer.order(&loads(&[2, 1, 3]), never), [1, 0, 2]);
        let mut first = [0; 3];
        for _ in 0..9 {
            first[balancer.order(&loads(&[1, 1, 1]), never)[0]] += 1;
        }
        assert_eq!(first, [3, 3, 3]);
    }

    /// Promise: Connections are balanced in turn, by fewest connections or at random; failed backends are
    /// tried last.
    #[test]
    fn random_gives_every_order_of_those_that_are_up() {
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
            // Undoes the rotation, so that only the random numbers decide.
            balancer.turn = 0;
            seen.insert(order);
        }
        assert_eq!(seen.len(), 6);
    }

    #[test]
    fn without_backends_the_order_is_empty() {
        assert!(Balancer::new(Balance::Random).order(&[], never).is_empty());
    }
}
