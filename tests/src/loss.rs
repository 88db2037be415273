//! Causes of packet loss: the server, the link, or an overloaded receiver.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};

use crate::namespace::Namespace;
use crate::require;
use crate::trial::Skip;

/// Counts of each side, in RTP packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// Packets that there are to send.
    pub expected: u64,
    /// Sent, by the server's account.
    pub sent: u64,
    /// Not taken by the network, by the server's account.
    pub lost: u64,
    /// Times that the server was a quarter of a second late and moved a timetable.
    pub slips: u64,
    /// Packets that the receiver's sockets had no room for.
    pub dropped: u64,
    /// Packets that the receiver read.
    pub read: u64,
    /// Gaps in the sequence numbers of what it read.
    pub gaps: u64,
}

impl Account {
    /// Ensures that nothing was lost. Skips the test if this machine was overloaded: the server stalled, or
    /// the receiver was behind.
    pub fn ensure_whole(&self) -> Result<()> {
        let Self { expected, sent, lost, slips, dropped, read, gaps } = *self;
        if read == expected && gaps == 0 {
            return Ok(());
        }
        require!(slips == 0, "the machine is overloaded: the server stood still {slips} times; {self:?}");
        ensure!(lost == 0, "the network did not take {lost} packets of {expected}; {self:?}");
        ensure!(sent == expected, "the server sent {sent} packets of {expected}; {self:?}");
        ensure!(read + dropped >= sent, "packets vanished between server and receiver; {self:?}");
        require!(dropped == 0, "the machine is overloaded: the receiver had no room for {dropped} packets");
        ensure!(gaps == 0 && read == expected, "{gaps} gaps; {self:?}");
        Ok(())
    }
}

/// Datagrams that the UDP sockets now open in a namespace had no room for, of their own or of all sockets
/// together. Linux 6.18 has drops that are counted for each socket only, and not in `/proc/net/snmp`.
pub fn dropped_in(namespace: &Namespace) -> Result<u64> {
    let table = namespace.enter(|| {
        std::fs::read_to_string("/proc/thread-self/net/udp").context("reading the table of UDP sockets")
    })?;
    let (names, sockets) = table.split_once('\n').context("an empty table")?;
    ensure!(names.trim_end().ends_with("drops"), "no drops in the table of UDP sockets: {names}");
    let drops = |line: &str| line.split_whitespace().last().and_then(|drops| drops.parse::<u64>().ok());
    sockets.lines().map(|line| drops(line).with_context(|| format!("`{line}` ends with no number"))).sum()
}

/// Stall of the machine, or of the receiver, after which a client with the receive buffer that it has by default may
/// lack packets.
const STALL: Duration = Duration::from_millis(150);

/// Attempts at a test before the machine is called too slow for it.
const ATTEMPTS: usize = 3;

/// Runs a test of other people's clients over UDP, which lose packets where the machine stands still longer than their
/// receive buffers last. Runs it again if it failed while that happened, and skips it after the third time.
pub fn unless_overloaded(test: impl Fn() -> Result<()>) -> Result<()> {
    let mut overload = String::new();
    for _ in 0..ATTEMPTS {
        match watch(&test)? {
            (Err(error), Some(seen)) if !error.is::<Skip>() => overload = format!("{seen}; {error:#}"),
            (result, _) => return result,
        }
    }
    Err(Skip(format!("the machine is overloaded: {overload}")).into())
}

/// Runs a test. Returns its result, and what overload was seen meanwhile.
pub fn watch(test: impl Fn() -> Result<()>) -> Result<(Result<()>, Option<String>)> {
    let dropped_before = dropped_by_all()?;
    let (longest, result) = std::thread::scope(|scope| {
        let (stop, stopped) = channel::<()>();
        let watcher = scope.spawn(move || {
            let (mut longest, pause) = (Duration::ZERO, Duration::from_millis(10));
            let mut since = Instant::now();
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                longest = longest.max(since.elapsed().saturating_sub(pause));
                since = Instant::now();
            }
            longest
        });
        let result = test();
        drop(stop);
        let longest = watcher.join().map_err(|_| Error::msg("the thread that looks for stalls panicked"));
        (longest, result)
    });
    let (longest, dropped) = (longest?, dropped_by_all()?.saturating_sub(dropped_before));
    let is_overloaded = longest > STALL || dropped > 0;
    let seen = format!(
        "a thread waited {} ms for a processor, {dropped} datagrams had no room",
        longest.as_millis()
    );
    Ok((result, is_overloaded.then_some(seen)))
}

/// Datagrams that UDP sockets of this thread's network namespace had no room for, by `/proc/net/snmp`.
fn dropped_by_all() -> Result<u64> {
    let text =
        std::fs::read_to_string("/proc/thread-self/net/snmp").context("reading the counters of UDP")?;
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = lines.next().zip(lines.next()).context("no counters of UDP")?;
    let at = names.split_whitespace().position(|name| name == "RcvbufErrors").context("no RcvbufErrors")?;
    let value = values.split_whitespace().nth(at).context("no value of RcvbufErrors")?;
    value.parse().with_context(|| format!("RcvbufErrors is {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    const WHOLE: Account =
        Account { expected: 100, sent: 100, lost: 0, slips: 0, dropped: 0, read: 100, gaps: 0 };

    fn skips(account: Account) -> bool {
        account.ensure_whole().is_err_and(|error| error.is::<Skip>())
    }

    fn fails(account: Account) -> bool {
        account.ensure_whole().is_err_and(|error| !error.is::<Skip>())
    }

    /// Promise: With 500 sessions of 4 Mb/s the server loses no packet.
    #[test]
    fn only_what_the_server_or_the_link_lost_fails() {
        assert!(WHOLE.ensure_whole().is_ok());
        assert!(Account { slips: 1, ..WHOLE }.ensure_whole().is_ok(), "late is not lost");
        assert!(fails(Account { sent: 98, lost: 2, read: 98, gaps: 1, ..WHOLE }));
        assert!(fails(Account { sent: 98, read: 98, gaps: 1, ..WHOLE }), "it never sent two");
        assert!(fails(Account { read: 98, gaps: 1, ..WHOLE }), "two vanished on the link");
        assert!(fails(Account { read: 97, dropped: 2, gaps: 1, ..WHOLE }), "and here one");
        assert!(fails(Account { gaps: 1, ..WHOLE }), "in another order");
    }

    #[test]
    fn an_overloaded_machine_skips() {
        assert!(skips(Account { read: 98, dropped: 2, gaps: 1, ..WHOLE }));
        assert!(skips(Account { sent: 90, read: 90, slips: 3, ..WHOLE }));
    }

    #[test]
    fn a_test_that_fails_without_overload_fails_at_once() {
        let attempts = std::cell::Cell::new(0);
        let failed = unless_overloaded(|| {
            attempts.set(attempts.get() + 1);
            anyhow::bail!("a wrong byte")
        });
        // A machine that stands still at this very moment makes it run again.
        assert!(failed.is_err() && (1..=ATTEMPTS).contains(&attempts.get()));
        assert!(unless_overloaded(|| Ok(())).is_ok());
    }

    /// A test that fails while datagrams are dropped runs three times and is skipped then.
    #[test]
    fn a_test_that_fails_on_an_overloaded_machine_runs_again() {
        let attempts = std::cell::Cell::new(0);
        let result = unless_overloaded(|| {
            attempts.set(attempts.get() + 1);
            let receiver = UdpSocket::bind("127.0.0.1:0")?;
            socket2::SockRef::from(&receiver).set_recv_buffer_size(1)?;
            let sender = UdpSocket::bind("127.0.0.1:0")?;
            for _ in 0..100 {
                sender.send_to(&[0; 1328], receiver.local_addr()?)?;
            }
            anyhow::bail!("a lost packet")
        });
        assert!(result.is_err_and(|error| error.is::<Skip>()) && attempts.get() == ATTEMPTS);
    }

    /// A socket that nobody reads, with room for little.
    #[test]
    fn what_a_full_socket_drops_is_counted() {
        let namespace = match Namespace::new() {
            Ok(namespace) => namespace,
            Err(error) if error.is::<Skip>() => return println!("{error}"),
            Err(error) => panic!("{error:#}"),
        };
        let filled = namespace.enter(|| {
            let receiver = UdpSocket::bind("127.0.0.1:0")?;
            socket2::SockRef::from(&receiver).set_recv_buffer_size(1)?;
            receiver.set_nonblocking(true)?;
            let sender = UdpSocket::bind("127.0.0.1:0")?;
            for _ in 0..100 {
                sender.send_to(&[0; 1328], receiver.local_addr()?)?;
            }
            Ok(receiver)
        });
        let receiver = filled.unwrap();
        let read = std::iter::from_fn(|| receiver.recv(&mut [0; 2000]).ok()).count() as u64;
        let dropped = dropped_in(&namespace).unwrap();
        assert!(read < 100 && read + dropped == 100, "{read} read, {dropped} dropped");
        assert!(skips(Account { read, dropped, gaps: 1, ..WHOLE }));
    }
}
