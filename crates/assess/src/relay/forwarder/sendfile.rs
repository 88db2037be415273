//! A file to many connections by `sendfile` and nothing else: the lower bound of sending a file. One thread,
//! epoll with edges.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::path::Path;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::{Ends, Prepared};

/// Bytes asked of one call: as much as a call of the stream service.
const CALL: usize = 1 << 20;

pub(super) fn prepare(path: &Path, ends: Ends) -> io::Result<Prepared> {
    let file = File::open(path)?;
    let outputs = ends.outputs;
    outputs.iter().try_for_each(|output| output.set_nonblocking(true))?;
    Ok(Box::new(move || run(&file, &outputs)))
}

fn run(file: &File, outputs: &[TcpStream]) -> io::Result<()> {
    let length = file.metadata()?.len();
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let flags = EventFlags::OUT | EventFlags::ET;
    for (index, output) in outputs.iter().enumerate() {
        epoll::add(&epoll, output, EventData::new_u64(index as u64), flags)?;
    }
    let mut offsets = vec![0; outputs.len()];
    let mut left = outputs.len();
    let mut events = [const { MaybeUninit::<Event>::uninit() }; 64];
    while left > 0 {
        let ready = match epoll::wait(&epoll, &mut events[..], None) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        for event in ready.iter() {
            let index = event.data.u64() as usize;
            if offsets[index] < length && send(file, &mut offsets[index], length, &outputs[index])? {
                outputs[index].shutdown(Shutdown::Write)?;
                left -= 1;
            }
        }
    }
    Ok(())
}

/// Sends until the connection takes no more; answers whether that was all.
fn send(file: &File, offset: &mut u64, length: u64, output: &TcpStream) -> io::Result<bool> {
    while *offset < length {
        match rustix::fs::sendfile(output, file, Some(offset), CALL) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(true)
}
