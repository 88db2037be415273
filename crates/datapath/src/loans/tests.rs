//! The numbers of loans, without a kernel.

use super::*;

fn with_loans(count: u32) -> Loans<()> {
    let mut loans = Loans::new(8, |()| ());
    (0..count).for_each(|_| loans.lent(Some(())));
    loans
}

fn returned(first: u32, last: u32, copied: bool) -> Returned {
    Returned { first, last, copied }
}

#[test]
fn room_is_free_again_in_order() {
    let mut loans = with_loans(4);
    loans.take_back(returned(1, 2, false));
    assert_eq!((loans.counts.outstanding, loans.kept.len()), (2, 4));
    loans.take_back(returned(0, 0, true));
    assert_eq!((loans.counts.outstanding, loans.kept.len(), loans.counts.copied_by_kernel), (1, 1, 1));
    loans.take_back(returned(3, 3, false));
    assert_eq!((loans.counts.outstanding, loans.kept.len(), loans.next), (0, 0, 4));
}

#[test]
fn numbers_that_failed_sends_used_up_are_passed_over() {
    let mut loans = with_loans(2);
    loans.take_back(returned(1, 3, false)); // loan 1, and two failures that merged with it
    assert_eq!((loans.counts.outstanding, loans.next), (1, 4));
    loans.take_back(returned(4, 4, false)); // one more failure, nothing of ours
    assert_eq!((loans.counts.outstanding, loans.next), (1, 5));
    loans.lent(Some(()));
    loans.take_back(returned(5, 5, false));
    loans.take_back(returned(0, 0, false));
    assert_eq!((loans.counts.outstanding, loans.kept.len()), (0, 0));
}

#[test]
fn numbers_wrap() {
    let mut loans = Loans::new(8, |()| ());
    loans.next = u32::MAX;
    loans.lent(Some(()));
    loans.lent(Some(()));
    assert_eq!(loans.next, 1);
    loans.take_back(returned(u32::MAX, 0, false));
    assert_eq!((loans.counts.outstanding, loans.kept.len(), loans.next), (0, 0, 1));
}

/// Lends once and has it back.
fn lend(loans: &mut Loans<()>, copied: bool) {
    loans.lent(None);
    let number = loans.next - 1;
    loans.take_back(returned(number, number, copied));
}

#[test]
fn loans_that_are_all_copied_are_pointless_for_a_while() {
    let mut loans = with_loans(0);
    lend(&mut loans, false); // what was before does not count
    for _ in 0..TRIALS {
        assert!(!loans.are_pointless(0));
        lend(&mut loans, true);
    }
    assert!(loans.are_pointless(0));
    for _ in 0..2 {
        (1..ASK_AGAIN).for_each(|_| loans.copied());
        assert!(loans.are_pointless(0));
        loans.copied();
        assert!(!loans.are_pointless(0), "it is not asked again");
        lend(&mut loans, true);
        assert!(loans.are_pointless(0), "one copy confirms what is known");
    }
    lend(&mut loans, false);
    assert!(!loans.are_pointless(0), "one loan that is none shows another route");
}
