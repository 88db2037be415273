//! Clients that request one file after the other, and the server behind a proxy.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::net::{RecvFlags, recv};

use super::forwarder;
use super::pattern::Pattern;
use super::task::{PATIENCE, REQUEST};
use crate::error::{Doing, Error};
use crate::sockets;
use crate::test_bed::TestBed;

/// Sequential requests of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requests {
    pub(crate) number: u64,
    /// Bytes of each answer.
    pub(crate) size: u64,
}

/// Answers that a client received.
pub(crate) struct Answers {
    pub(crate) bytes: u64,
    /// Received bytes, if they were kept.
    pub(crate) content: Vec<u8>,
    pub(crate) ended: Instant,
}

/// Client on its own thread. It sends requests once started.
pub(crate) struct Client {
    connection: TcpStream,
}

/// Server of files behind a proxy: a thread for each connection.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    thread: JoinHandle<io::Result<()>>,
}

impl Client {
    pub(crate) fn connect(test_bed: &TestBed, to: SocketAddr) -> Result<Client, Error> {
        test_bed.in_peer_namespace(|_| {
            let connection = sockets::connect(to, None).doing("connecting to what is measured")?;
            connection.set_read_timeout(Some(PATIENCE)).doing("limiting the time of an answer")?;
            Ok(Client { connection })
        })
    }

    /// Sends requests; `keep` the answers or discard them without copying.
    pub(crate) fn start(
        mut self,
        test_bed: &TestBed,
        requests: Requests,
        keep: bool,
    ) -> Result<JoinHandle<io::Result<Answers>>, Error> {
        test_bed.spawn_beside("client", move || {
            let mut answers = Answers { bytes: 0, content: Vec::new(), ended: Instant::now() };
            let mut room = vec![0; 256 << 10];
            for _ in 0..requests.number {
                self.connection.write_all(&[0; REQUEST])?;
                self.take(requests.size, &mut room, keep.then_some(&mut answers.content))?;
                answers.bytes += requests.size;
            }
            answers.ended = Instant::now();
            self.connection.shutdown(Shutdown::Write)?;
            // No data may follow.
            if self.connection.read(&mut room)? > 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "more came than was asked for"));
            }
            Ok(answers)
        })
    }

    fn take(&mut self, size: u64, room: &mut [u8], mut content: Option<&mut Vec<u8>>) -> io::Result<()> {
        let mut left = size;
        while left > 0 {
            let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            // MSG_TRUNC: the kernel discards bytes of a stream without copying (tcp(7)).
            let flags = if content.is_some() { RecvFlags::empty() } else { RecvFlags::TRUNC };
            let (_, read) = recv(&self.connection, &mut room[..most], flags)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            content.iter_mut().for_each(|content| content.extend_from_slice(&room[..read]));
            left -= read as u64;
        }
        Ok(())
    }
}

impl Backend {
    /// Listens, and answers requests on a given number of connections with bytes of the pattern.
    pub(crate) fn start(
        test_bed: &TestBed,
        pattern: &Arc<Pattern>,
        connections: usize,
        size: u64,
    ) -> Result<Backend, Error> {
        let listener = test_bed.in_peer_namespace(|address| {
            forwarder::listener(SocketAddr::new(address, 0)).doing("listening for a proxy")
        })?;
        let address = listener.local_addr().doing("asking for the address")?;
        let pattern = Arc::clone(pattern);
        let thread = test_bed.spawn_beside("backend", move || {
            let serve = |_| {
                let (connection, _) = sockets::accept(&listener, PATIENCE)?;
                connection.set_nonblocking(false)?;
                connection.set_nodelay(true)?;
                let pattern = Arc::clone(&pattern);
                std::thread::Builder::new().spawn(move || answer(connection, &pattern, size))
            };
            let threads = (0..connections).map(serve).collect::<io::Result<Vec<_>>>()?;
            let mut ended = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the server panicked")))
            });
            ended.try_for_each(|ended| ended)
        })?;
        Ok(Backend { address, thread })
    }

    /// Waits for the end of all connections.
    pub(crate) fn finish(self) -> Result<(), Error> {
        sockets::join(self.thread, "the server behind the proxy")
    }
}

/// Answers requests until the end of the connection.
fn answer(mut connection: TcpStream, pattern: &Pattern, size: u64) -> io::Result<()> {
    let mut request = [0; REQUEST];
    loop {
        match connection.read_exact(&mut request) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        let mut sent = 0;
        while sent < size {
            let (mut offset, there) = pattern.piece(sent);
            let most = there.min(usize::try_from(size - sent).unwrap_or(usize::MAX));
            sent += rustix::fs::sendfile(&connection, pattern.file(), Some(&mut offset), most)? as u64;
        }
    }
}
