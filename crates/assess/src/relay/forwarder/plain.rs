//! Plain program: a thread for each link, which reads into its single buffer, processes the data, and writes,
//! blocking in each call. The user-level programs of the KStreams paper are of this kind.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use super::function::Buffer;
use super::{Ends, Prepared};
use crate::relay::task::{Shape, Task};

/// Work of a thread.
type Work = Box<dyn FnOnce() -> io::Result<()> + Send>;

pub(super) fn prepare(task: &Task, ends: Ends) -> io::Result<Prepared> {
    let Ends { inputs, outputs, .. } = ends;
    let mut works: Vec<Work> = Vec::new();
    match &task.shape {
        Shape::FileToSocket(path) => {
            for output in outputs {
                works.push(link(task, File::open(path)?, output, end));
            }
        }
        Shape::SocketToFile(paths) => {
            for (input, path) in inputs.into_iter().zip(paths) {
                works.push(link(task, input, File::options().write(true).open(path)?, |_| Ok(())));
            }
        }
        _ => {
            for (input, output) in inputs.into_iter().zip(outputs) {
                works.push(link(task, input, output, end));
            }
        }
    }
    let spawn = |work: Work| thread::Builder::new().spawn(work);
    Ok(Box::new(move || {
        let threads = works.into_iter().map(spawn).collect::<io::Result<Vec<_>>>()?;
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the plain program panicked")))
        });
        joined.collect()
    }))
}

/// Runs a link from its input to its output.
fn link<R: Read + Send + 'static, W: Write + Send + 'static>(
    task: &Task,
    mut from: R,
    mut to: W,
    end: fn(&W) -> io::Result<()>,
) -> Work {
    let mut buffer = Buffer::new(task);
    Box::new(move || {
        loop {
            let read = from.read(buffer.room())?;
            if read == 0 {
                return end(&to);
            }
            let range = buffer.handle(read);
            to.write_all(buffer.bytes(range))?;
        }
    })
}

fn end(output: &TcpStream) -> io::Result<()> {
    output.shutdown(Shutdown::Write)
}
