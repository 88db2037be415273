//! Files for clients that request one file after the other, from a server or through a proxy: a thread for
//! each client, as in the KStreams paper (figures 6 and 8).

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::io::Errno;
use wirepath_streams::{Framing, Object, StreamBuilder};

use super::function::Buffer;
use super::{Ends, Prepared, handlers};
use crate::relay::task::{PATIENCE, REQUEST, Task};
use crate::sockets::is_readable;
use crate::subject::Method;

/// Bytes requested by one call of `sendfile`.
const CALL: usize = 1 << 20;

/// Server of one client.
struct Server {
    task: Task,
    /// File to send; `None` for the proxy.
    file: Option<PathBuf>,
    /// Bytes of an answer.
    size: u64,
    client: TcpStream,
    /// Connection to the server behind the proxy.
    backend: Option<TcpStream>,
    buffer: Buffer,
}

pub(super) fn prepare(task: &Task, file: Option<&Path>, size: u64, ends: Ends) -> io::Result<Prepared> {
    let mut backends = ends.inputs.into_iter();
    let server = |client| Server {
        task: task.clone(),
        file: file.map(Path::to_owned),
        size,
        client,
        backend: backends.next(),
        buffer: Buffer::new(task),
    };
    // As in servers: otherwise the end of an answer may wait for a delayed acknowledgement, with any method.
    ends.outputs.iter().try_for_each(|client| client.set_nodelay(true))?;
    let servers: Vec<Server> = ends.outputs.into_iter().map(server).collect();
    Ok(Box::new(move || {
        let spawn = |mut server: Server| thread::Builder::new().spawn(move || server.serve());
        let threads = servers.into_iter().map(spawn).collect::<io::Result<Vec<_>>>()?;
        let mut joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the server panicked")))
        });
        joined.try_for_each(|ended| ended)
    }))
}

impl Server {
    /// Answers requests until the client sends no more.
    fn serve(&mut self) -> io::Result<()> {
        let mut request = [0; REQUEST];
        while receive(&mut self.client, &mut request)? {
            if let Some(backend) = &mut self.backend {
                backend.write_all(&request)?;
            }
            match self.task.method {
                Method::Streams => self.answer_by_stream()?,
                Method::Sendfile => self.answer_by_sendfile()?,
                _ => self.answer_by_copy()?,
            }
        }
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        File::open(self.file.as_deref().unwrap_or(Path::new("")))
    }

    fn answer_by_stream(&self) -> io::Result<()> {
        let input = match &self.backend {
            Some(backend) => Object::stream("server", backend.try_clone()?.into())?.up_to(self.size),
            None => Object::extent("file", Arc::new(self.open()?), 0, self.size),
        };
        let output = Object::stream("client", self.client.try_clone()?.into())?;
        let mut builder = StreamBuilder::default().input(input, Framing::Whole).output(output);
        if let Some(handler) = handlers::handler(&self.task) {
            builder = builder.handler(handler);
        }
        builder.build().run().map_err(io::Error::other)
    }

    fn answer_by_sendfile(&self) -> io::Result<()> {
        let (file, mut offset) = (self.open()?, 0);
        while offset < self.size {
            if rustix::fs::sendfile(&self.client, &file, Some(&mut offset), CALL)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    fn answer_by_copy(&mut self) -> io::Result<()> {
        let mut file = if self.backend.is_none() { Some(self.open()?) } else { None };
        let mut left = self.size;
        while left > 0 {
            let room = self.buffer.room();
            let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let room = &mut room[..most];
            let read = match (&mut file, &mut self.backend) {
                (Some(file), _) => file.read(room)?,
                (None, Some(backend)) => backend.read(room)?,
                (None, None) => 0,
            };
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= read as u64;
            let handled = self.buffer.handle(read);
            self.client.write_all(self.buffer.bytes(handled))?;
        }
        Ok(())
    }
}

/// Fills `bytes`; returns false at the end of the connection. Streams leave connections non-blocking.
fn receive(connection: &mut TcpStream, mut bytes: &mut [u8]) -> io::Result<bool> {
    while !bytes.is_empty() {
        match connection.read(bytes) {
            Ok(0) => return Ok(false),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => {
                if !is_readable(&*connection, PATIENCE)? {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
