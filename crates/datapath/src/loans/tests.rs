//! The numbers of loans, without a kernel.

use std::os::fd::AsFd;

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

/// A socket whose error queue is empty.
fn socket() -> std::net::UdpSocket {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap()
}

#[test]
fn loans_that_are_all_copied_are_pointless_for_a_while() {
    let mut loans = with_loans(0);
    let socket = socket();
    lend(&mut loans, false); // what was before does not count
    for _ in 0..TRIALS {
        assert!(!loans.are_pointless(socket.as_fd()));
        lend(&mut loans, true);
    }
    assert!(loans.are_pointless(socket.as_fd()));
    for _ in 0..2 {
        (1..ASK_AGAIN).for_each(|_| loans.copied());
        assert!(loans.are_pointless(socket.as_fd()));
        loans.copied();
        assert!(!loans.are_pointless(socket.as_fd()), "it is not asked again");
        lend(&mut loans, true);
        assert!(loans.are_pointless(socket.as_fd()), "one copy confirms what is known");
    }
    lend(&mut loans, false);
    assert!(!loans.are_pointless(socket.as_fd()), "one loan that is none shows another route");
}

#[test]
fn what_others_know_of_a_route_counts_until_a_socket_knows_better() {
    let (socket, route) = (socket(), Arc::<LoanRoute>::default());
    let of_route = || Loans::<()>::new(8, |()| ()).with_route(Some(Arc::clone(&route)));
    let [mut first, mut second, mut third] = [(); 3].map(|()| of_route());
    lend(&mut third, false);
    (0..TRIALS).for_each(|_| lend(&mut first, true));
    assert!(first.are_pointless(socket.as_fd()) && second.are_pointless(socket.as_fd()));
    assert!(!third.are_pointless(socket.as_fd()), "its own loans were not copied");
    (0..ASK_AGAIN / 2).for_each(|_| second.copied());
    assert!(second.are_pointless(socket.as_fd()));
    (0..ASK_AGAIN / 2).for_each(|_| first.copied());
    assert!(first.are_pointless(socket.as_fd()), "it asks for itself after its own copies");
    assert!(!second.are_pointless(socket.as_fd()), "of all together, the route is asked again");
    lend(&mut second, false);
    assert!(
        !of_route().are_pointless(socket.as_fd()),
        "one that knows nothing is told what was copied before"
    );
}

#[test]
fn late_notices_stop_loans_when_three_are_heard() {
    let (socket, mut loans) = (socket(), with_loans(0));
    for _ in 0..28 {
        assert!(!loans.are_pointless(socket.as_fd()));
        loans.lent(None);
    }
    loans.take_back(returned(0, 1, true));
    assert!(!loans.are_pointless(socket.as_fd()), "two are not enough");
    loans.take_back(returned(2, 2, true));
    assert!(loans.are_pointless(socket.as_fd()));
}

#[test]
fn a_test_is_listened_for_until_it_is_answered() {
    let (socket, mut loans) = (socket(), with_loans(0));
    (0..TRIALS).for_each(|_| lend(&mut loans, true));
    (0..ASK_AGAIN).for_each(|_| loans.copied());
    assert!(!loans.are_pointless(socket.as_fd()));
    loans.lent(None);
    let mut read_after = Vec::new();
    for copies in 1..ASK_AGAIN {
        assert!(loans.are_pointless(socket.as_fd()));
        loans.copied();
        if loans.is_reading_due() {
            read_after.push(copies);
        }
    }
    assert_eq!(read_after, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
    loans.take_back(returned(loans.next - 1, loans.next - 1, false));
    assert!(!loans.are_pointless(socket.as_fd()));
}

#[test]
fn a_test_of_a_route_that_nobody_answers_is_repeated_by_other_sockets() {
    let (socket, route) = (socket(), Arc::<LoanRoute>::default());
    let of_route = || Loans::<()>::new(8, |()| ()).with_route(Some(Arc::clone(&route)));
    let [mut first, mut second, mut third] = [(); 3].map(|()| of_route());
    (0..TRIALS).for_each(|_| lend(&mut first, true));
    (0..ASK_AGAIN).for_each(|_| second.copied());
    for tester in [&mut second, &mut third] {
        assert!(!tester.are_pointless(socket.as_fd()));
        tester.lent(None);
        assert!(tester.are_pointless(socket.as_fd()), "its test is not answered");
    }
    drop(second);
    assert!(!of_route().are_pointless(socket.as_fd()), "no test is answered");
    third.take_back(returned(0, 0, true));
    assert!(of_route().are_pointless(socket.as_fd()), "the test was copied");
}

#[test]
fn a_merged_notification_counts_once_for_a_route() {
    let route = Arc::<LoanRoute>::default();
    let mut loans = Loans::<()>::new(8, |()| ()).with_route(Some(Arc::clone(&route)));
    for first in [0, 3, 6] {
        assert!(!route.copies());
        (0..3).for_each(|_| loans.lent(None));
        loans.take_back(returned(first, first + 2, true));
    }
    assert!(route.copies());
}

#[test]
fn loans_by_rings_are_judged_without_the_route() {
    let (socket, route) = (socket(), Arc::<LoanRoute>::default());
    (0..TRIALS).for_each(|_| route.returned(true));
    let mut loans = Loans::<()>::new(8, |()| ()).with_route(Some(route));
    assert!(loans.are_pointless(socket.as_fd()));
    loans.lent_by_ring(0);
    assert!(!loans.are_pointless_by_ring(TRIALS - 1));
    assert!(loans.are_pointless_by_ring(TRIALS));
    (0..ASK_AGAIN).for_each(|_| loans.copied());
    assert!(!loans.are_pointless_by_ring(TRIALS), "it is not asked again");
}

#[test]
fn loans_by_rings_and_others_are_judged_apart() {
    let (socket, mut loans) = (socket(), with_loans(0));
    (0..TRIALS).for_each(|_| loans.lent_by_ring(0));
    assert!(loans.are_pointless_by_ring(TRIALS));
    assert!(!loans.are_pointless(socket.as_fd()), "what a ring lent says nothing about other loans");
    (0..TRIALS).for_each(|_| lend(&mut loans, true));
    assert!(loans.are_pointless(socket.as_fd()) && !loans.are_pointless_by_ring(0));
    (0..ASK_AGAIN).for_each(|_| loans.copied());
    loans.lent_by_ring(0);
    assert!(!loans.are_pointless(socket.as_fd()), "a loan by a ring is no test of others");
    assert!(loans.are_pointless_by_ring(TRIALS), "it was tested");
    (0..ASK_AGAIN).for_each(|_| loans.copied());
    lend(&mut loans, false);
    assert!(!loans.are_pointless(socket.as_fd()), "its test was not copied");
    assert!(!loans.are_pointless_by_ring(TRIALS), "another loan is no test of a ring");
}

#[test]
fn notices_are_read_after_few_loans_and_then_after_more() {
    let (socket, mut loans) = (socket(), with_loans(0));
    let mut read_after = Vec::new();
    for number in 1..=128 {
        loans.lent(None);
        let before = loans.unread;
        loans.lend(socket.as_fd(), || Err::<((), _), _>(Errno::AGAIN.into())).unwrap_err();
        if loans.unread < before {
            read_after.push(number);
        }
    }
    assert_eq!(read_after, [1, 3, 7, 15, 31, 63, 95, 127]);
    assert!((1..=128).all(|loans| {
        read_after.iter().filter(|number| **number <= loans).count() as u64 <= most_readings(loans)
    }));
}
