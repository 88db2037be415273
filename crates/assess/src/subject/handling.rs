//! Handlers, and orders of inputs: what a case does with bytes on their way.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A handler, or the same function in a loop. Changing all bytes in place is a case's `touch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HandlerKind {
    /// Reads all bytes.
    Read,
    /// Reads the first bytes of each record.
    Peek,
    /// Leaves out the first bytes of each record.
    Select,
    /// Changes all bytes, and puts some in front of each record.
    Grow,
    /// Reads all bytes of whole records, which come in slices.
    Slices,
    /// Reads all bytes of whole records, which are copied together.
    Gathered,
}

/// An order in which inputs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderKind {
    /// A record of each in turn.
    RoundRobin,
    /// A record of one at random.
    Random,
    /// Records as they arrive.
    Arrival,
    /// The record with the least tag, which is in the record.
    Tag,
}

impl HandlerKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            HandlerKind::Read => "read",
            HandlerKind::Peek => "peek",
            HandlerKind::Select => "select",
            HandlerKind::Grow => "grow",
            HandlerKind::Slices => "slices",
            HandlerKind::Gathered => "gathered",
        }
    }
}

impl OrderKind {
    /// All orders.
    pub const ALL: [OrderKind; 4] =
        [OrderKind::RoundRobin, OrderKind::Random, OrderKind::Arrival, OrderKind::Tag];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            OrderKind::RoundRobin => "round-robin",
            OrderKind::Random => "random",
            OrderKind::Arrival => "arrival",
            OrderKind::Tag => "tag",
        }
    }
}

impl fmt::Display for HandlerKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for OrderKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
