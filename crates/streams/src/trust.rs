//! Trust in the peers of outputs. The trust decides which handlers are in force.

use std::fmt;

/// Trust in the peer of an output, from 0 to 100. An output starts with full trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trust(u8);

impl Trust {
    /// Full trust, 100.
    pub const FULL: Trust = Trust(100);

    /// Trust from 0 to 100; None if the value is larger.
    pub fn new(trust: u8) -> Option<Trust> {
        (trust <= Trust::FULL.0).then_some(Trust(trust))
    }

    /// Value from 0 to 100.
    pub fn value(self) -> u8 {
        self.0
    }
}

impl Default for Trust {
    fn default() -> Trust {
        Trust::FULL
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
