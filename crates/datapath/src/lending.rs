//! Rule by which a program lends pages to the kernel, and a switch for the rule.
//!
//! A page of a file that waits in a socket or a pipe is the page of the page cache itself: a write to the
//! file before the page leaves changes the bytes that are sent. The papers switched their loan by `sysctl`;
//! here one switch is shared by many streams, playbacks and connections, and can change while they run.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Rule of lending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lending {
    /// Pages of files are sent without a copy: a write to a file before the pages leave changes the bytes
    /// that are sent.
    #[default]
    Always,
    /// Bytes of files are copied when they are read. Bytes of connections and pipes, which no process can
    /// write, move without a copy.
    Safe,
    /// All bytes are copied, for each output: also long trains of datagrams for many outputs, which the other
    /// rules copy once for all outputs.
    Never,
}

impl Lending {
    /// All rules.
    pub const ALL: [Lending; 3] = [Lending::Always, Lending::Safe, Lending::Never];

    /// Name of the rule, as for `--lend`.
    pub fn name(self) -> &'static str {
        match self {
            Lending::Always => "always",
            Lending::Safe => "safe",
            Lending::Never => "never",
        }
    }
}

impl fmt::Display for Lending {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Error of an unknown name of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid rule {0:?}: expected always, safe or never")]
pub struct LendingError(String);

impl FromStr for Lending {
    type Err = LendingError;

    fn from_str(text: &str) -> Result<Lending, LendingError> {
        let rule = Lending::ALL.into_iter().find(|rule| rule.name() == text);
        rule.ok_or_else(|| LendingError(text.to_owned()))
    }
}

/// Rule shared by many senders, which any thread may change at any time, and counts of its effect.
#[derive(Clone, Debug, Default)]
pub struct LendingSwitch(Arc<State>);

#[derive(Debug, Default)]
struct State {
    rule: AtomicU8,
    lent: AtomicU64,
    copied: AtomicU64,
}

impl LendingSwitch {
    /// A switch with this rule.
    pub fn new(rule: Lending) -> LendingSwitch {
        let switch = LendingSwitch::default();
        switch.set(rule);
        switch
    }

    /// Sets the rule for bytes that are read from now on.
    pub fn set(&self, rule: Lending) {
        self.0.rule.store(rule as u8, Relaxed);
    }

    /// Current rule.
    #[inline]
    pub fn rule(&self) -> Lending {
        Lending::ALL[usize::from(self.0.rule.load(Relaxed))]
    }

    /// Bytes of files that left without a copy.
    pub fn lent_bytes(&self) -> u64 {
        self.0.lent.load(Relaxed)
    }

    /// Bytes that were copied only because of the rule and would have moved without a copy otherwise.
    pub fn copied_bytes(&self) -> u64 {
        self.0.copied.load(Relaxed)
    }

    /// Counts bytes of files that left without a copy.
    pub fn add_lent(&self, bytes: u64) {
        self.0.lent.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes that were copied only because of the rule.
    pub fn add_copied(&self, bytes: u64) {
        self.0.copied.fetch_add(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_has_the_rule_that_was_set() {
        let switch = LendingSwitch::default();
        assert_eq!(switch.rule(), Lending::Always);
        let shared = switch.clone();
        for rule in Lending::ALL {
            switch.set(rule);
            assert_eq!((shared.rule(), rule.name().parse()), (rule, Ok(rule)));
        }
        assert!("sometimes".parse::<Lending>().is_err());
    }
}
