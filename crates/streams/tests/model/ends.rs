//! The far ends of a stream's inputs and outputs: writers that stop or reset, ends that connect late or
//! never, readers that are slow, stop, reset or run out of space.

mod line;
mod listener;
mod range;
mod sink;
mod source;

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};
use wirepath_streams::Object;

use crate::dice::{Dice, Tally};
use line::Ends;
use listener::Listener;

pub(crate) use sink::Sink;
pub(crate) use source::Source;

/// One of this many ports is a listener at first.
const COMES_LATER: usize = 6;

/// Two ends of a connection or pipe, to write to and to read from; sometimes one end listens for the other.
pub(crate) fn link(dice: &mut Dice, tally: &mut Tally) -> (Object, Object) {
    if dice.one_in(COMES_LATER) {
        let (mut listener, awaited) = Listener::any("link", dice, tally);
        let comes = stream("link", listener.call().expect("somebody listens").into());
        tally.note("object: a link of which one end waits for the other");
        return if dice.one_in(2) { (awaited, comes) } else { (comes, awaited) };
    }
    let Ends { from, into, .. } = Ends::any(dice, tally);
    (stream("link", from), stream("link", into))
}

fn memory_file() -> File {
    memfd_create("model", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap().into()
}

fn stream(name: &str, descriptor: OwnedFd) -> Object {
    Object::stream(name, descriptor).unwrap()
}
