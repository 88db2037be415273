//! Several inputs to one output and one input to several outputs by `read` and `write`: a block of each in
//! turn, as in the paper's applications. Calls block, since there is no other work.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};

use rustix::net::{RecvFlags, recv};

use super::function::Buffer;
use super::{Ends, Prepared};
use crate::relay::task::{Shape, Task};

pub(super) fn prepare(task: &Task, ends: Ends) -> io::Result<Prepared> {
    let Ends { inputs, mut outputs, .. } = ends;
    let shape = task.shape.clone();
    let mut buffer = Buffer::new(task);
    Ok(Box::new(move || {
        match shape {
            Shape::Merge => merge(&inputs, &mut outputs[0], &mut buffer)?,
            Shape::Mirror => mirror(&inputs[0], &mut outputs, &mut buffer)?,
            _ => spread(&inputs[0], &mut outputs, &mut buffer, shape == Shape::Random)?,
        }
        outputs.iter().try_for_each(|output| output.shutdown(Shutdown::Write))
    }))
}

/// Copies a block from each input in turn, until the first input ends.
fn merge(inputs: &[TcpStream], output: &mut TcpStream, buffer: &mut Buffer) -> io::Result<()> {
    loop {
        for input in inputs {
            let read = receive_block(input, buffer)?;
            if read == 0 {
                return Ok(());
            }
            let handled = buffer.handle(read);
            output.write_all(buffer.bytes(handled))?;
        }
    }
}

/// Sends whole blocks to the outputs, in turn or at random.
fn spread(
    input: &TcpStream,
    outputs: &mut [TcpStream],
    buffer: &mut Buffer,
    at_random: bool,
) -> io::Result<()> {
    let mut random = 1;
    for turn in 0.. {
        let read = receive_block(input, buffer)?;
        if read == 0 {
            break;
        }
        let handled = buffer.handle(read);
        let place = if at_random { next(&mut random) as usize } else { turn };
        let place = place % outputs.len();
        outputs[place].write_all(buffer.bytes(handled))?;
    }
    Ok(())
}

/// Sends each block to all outputs.
fn mirror(input: &TcpStream, outputs: &mut [TcpStream], buffer: &mut Buffer) -> io::Result<()> {
    loop {
        let read = rustix::io::read(input, buffer.room())?;
        if read == 0 {
            return Ok(());
        }
        let handled = buffer.handle(read);
        let handled = buffer.bytes(handled);
        outputs.iter_mut().try_for_each(|output| output.write_all(handled))?;
    }
}

/// Receives a whole block in one call; less only at the end.
fn receive_block(input: &TcpStream, buffer: &mut Buffer) -> io::Result<usize> {
    Ok(recv(input, buffer.room(), RecvFlags::WAITALL)?.1)
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
