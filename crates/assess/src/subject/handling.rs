//! Handlers, and orders of inputs, of relay cases.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Handler, or the same function in a loop. Changing all bytes in place is the field `touch` of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HandlerKind {
    /// Reads all bytes.
    Read,
    /// Reads the first bytes of each record.
    Peek,
    /// Drops the first bytes of each record.
    Select,
    /// Changes all bytes, and prepends some bytes to each record.
    Grow,
    /// Reads all bytes of whole records, which arrive in slices.
    Slices,
    /// Reads all bytes of whole records, which are copied into one buffer.
    Gathered,
}

/// Order in which inputs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderKind {
    /// One record of each input in turn.
    RoundRobin,
    /// One record of a random input.
    Random,
    /// Records in order of arrival.
    Arrival,
    /// Record with the smallest tag; the tag is in the record.
    Tag,
}

impl HandlerKind {
    /// Name.
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

    /// Name.
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
