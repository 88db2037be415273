//! The lending rule of a stream, and the count that must not grow under each rule.

use wirepath_streams::{Lending, LendingSwitch, StreamStatus};

use crate::carrier::Carrier;
use crate::dice::{Dice, Tally};

pub(crate) struct Lender {
    switch: LendingSwitch,
    rule: Lending,
    /// The count that must not grow under the rule, when it was set.
    count: u64,
}

impl Lender {
    /// A switch with any rule; in half of the cases, with the one that lends.
    pub(crate) fn any(dice: &mut Dice, tally: &mut Tally) -> Lender {
        let rule = if dice.one_in(2) { Lending::Always } else { any_rule(dice) };
        note(rule, tally);
        Lender { switch: LendingSwitch::new(rule), rule, count: 0 }
    }

    /// The switch, for the builder of the stream.
    pub(crate) fn switch(&self) -> LendingSwitch {
        self.switch.clone()
    }

    /// Sets another rule between two turns of the stream.
    pub(crate) fn change(&mut self, carrier: &mut Carrier, dice: &mut Dice, tally: &mut Tally) {
        let (switch, before, rule) = (self.switch(), self.rule, any_rule(dice));
        let counts = carrier.ask(move |stream| {
            switch.set(rule);
            let status = stream.status();
            [before, rule].map(|rule| count(rule, &switch, &status))
        });
        let Some([until_now, from_now]) = counts else { return };
        self.check_count(until_now);
        (self.rule, self.count) = (rule, from_now);
        note(rule, tally);
        tally.note("operation: change the lending rule");
    }

    /// Checks the counts at the end of the stream.
    pub(crate) fn check(&self, status: &StreamStatus, tally: &mut Tally) {
        self.check_count(count(self.rule, &self.switch, status));
        let (lent, copied) = (self.switch.lent_bytes(), self.switch.copied_bytes());
        assert!(lent <= status.zero_copy_bytes, "{lent} bytes were lent: {status:?}");
        assert!(copied + status.zero_copy_bytes <= status.bytes_in, "{copied} bytes were copied: {status:?}");
        tally.add("bytes in, lent by the rule", lent);
        tally.add("bytes in, copied by the rule", copied);
    }

    fn check_count(&self, count: u64) {
        assert_eq!(count, self.count, "bytes moved against the rule {}", self.rule);
    }
}

fn any_rule(dice: &mut Dice) -> Lending {
    Lending::ALL[dice.below(Lending::ALL.len())]
}

/// Bytes that are not counted under this rule: copied by the rule, of files without a copy, or of anything
/// without a copy.
fn count(rule: Lending, switch: &LendingSwitch, status: &StreamStatus) -> u64 {
    match rule {
        Lending::Always => switch.copied_bytes(),
        Lending::Safe => switch.lent_bytes(),
        Lending::Never => status.zero_copy_bytes,
    }
}

fn note(rule: Lending, tally: &mut Tally) {
    tally.note(match rule {
        Lending::Always => "rule: lend always",
        Lending::Safe => "rule: lend what nobody writes",
        Lending::Never => "rule: lend never",
    });
}
