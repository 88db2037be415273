//! The rule by which streams lend the kernel pages that somebody else may write, and its switch.
//!
//! A page of a file that waits in a socket or a pipe is the file's own: what is written to the file before it
//! leaves is sent. The papers switched their loan by `sysctl`; one switch here is shared by many streams, and
//! changes while they run.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lending {
    /// Pages of files are sent without a copy: what is written to a file before they leave is sent.
    #[default]
    Always,
    /// Bytes of files are copied, as they are when they are read. Bytes of connections and pipes, which nobody
    /// can write, move without a copy.
    Safe,
    /// All bytes are copied.
    Never,
}

impl Lending {
    /// All rules.
    pub const ALL: [Lending; 3] = [Lending::Always, Lending::Safe, Lending::Never];

    /// Its name, as for `--lend`.
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

/// Error of a name that no rule has.
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

/// The rule of many streams, to be changed at any time from any thread, and what came of it.
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

    /// Sets the rule of bytes that are read from now on.
    pub fn set(&self, rule: Lending) {
        self.0.rule.store(rule as u8, Relaxed);
    }

    /// The rule.
    pub fn rule(&self) -> Lending {
        Lending::ALL[usize::from(self.0.rule.load(Relaxed))]
    }

    /// Bytes of files that left without a copy.
    pub fn lent_bytes(&self) -> u64 {
        self.0.lent.load(Relaxed)
    }

    /// Bytes that were copied because of the rule, and would have moved without a copy.
    pub fn copied_bytes(&self) -> u64 {
        self.0.copied.load(Relaxed)
    }

    pub(crate) fn add_lent(&self, bytes: u64) {
        self.0.lent.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn add_copied(&self, bytes: u64) {
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
