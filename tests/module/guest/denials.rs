//! Calls and runs that a security module denies: a BPF program of the LSM hook `socket_sendmsg`, which reads the cookie
//! of the caller's socket.

use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::io::Errno;
use rustix::net::sockopt::socket_cookie;
use wirepath_module_tests::content::Content;
use wirepath_module_tests::model::Outcome;
use wirepath_sys::module::State;
use wirepath_tests::bpf::{self, Denial};
use wirepath_tests::trials;

use crate::bench::{Bench, From};
use crate::bytes::LENGTH;
use crate::files::Folder;
use crate::frames::{calls, left_as_lists, list};
use crate::runs::{Pace, start_by};
use crate::settings::settings;
use crate::wire::{IPV4, Wire};

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_denied_socket_sends_nothing]
}

/// Promise: A socket that a security module denies sends no packet by any call or run; other sockets do.
fn a_denied_socket_sends_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut denial = Denial::attach(&bpf::program("denial", folder.path())?)?;
    let content = Content::new(settings().seed, LENGTH);
    let file = Folder::ext4()?.file("plain", &content)?;
    let source = From::File(file.as_raw_fd(), &content);
    let mut bench = Bench::new()?;
    let [mut wire, mut other] = [Wire::new(IPV4, true)?, Wire::new(IPV4, true)?];
    denial.deny(socket_cookie(&wire.sender)?)?;
    let plain = wire.sender.send(&[7; 1300]).err().and_then(|error| Errno::from_io_error(&error));
    ensure!(plain == Some(Errno::PERM), "send() answered {plain:?}");

    for call in calls() {
        let asked = denial.denied()?;
        bench.request(&call, &source, &wire)?;
        let answer = bench.send();
        ensure!(answer == Err(Errno::PERM), "{call:?} answered {answer:?}");
        ensure!(denial.denied()? > asked, "{call:?}: the program was not asked");
        wire.compare(std::iter::empty()).with_context(|| format!("{call:?}"))?;
        bench.check(&call, &source, &mut other).with_context(|| format!("{call:?} of another socket"))?;
        if call == list() {
            left_as_lists(&bench)?;
        }
    }

    // A run loses what is denied, and comes to its end.
    let packets = Outcome::of(&list(), source.end()).packets.len() as u64;
    bench.request(&list(), &source, &wire)?;
    let run = start_by(&mut bench, &Pace::Rate(100_000_000), 0, None);
    let run = run.map_err(|errno| anyhow::anyhow!("starting answered {errno:?}"))?;
    let status = run.wait().context("waiting")?;
    ensure!(status.state == State::Ended(Ok(())), "{status:?}");
    ensure!([status.counts.packets, status.counts.lost_packets] == [0, packets], "{status:?}");
    wire.compare(std::iter::empty()).context("the run")?;

    denial.deny(0)?;
    for call in calls() {
        bench.check(&call, &source, &mut wire).with_context(|| format!("{call:?} without a denial"))?;
    }
    Ok(())
}
