//! Listening ports: the first connection is accepted, later ones are rejected.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::net::sockopt;
use tempfile::TempDir;
use wirepath_streams::Object;

use super::line::{Came, Kind, Line};
use crate::dice::{Dice, Tally};

/// Bytes sent on connections that are not accepted.
const NONSENSE: [u8; 100] = [0xff; 100];

#[derive(Debug)]
pub(super) struct Listener {
    place: Place,
    /// Connections made after the first.
    strangers: Vec<Line>,
}

#[derive(Debug)]
enum Place {
    Tcp(SocketAddr),
    /// Path in a folder of its own.
    Unix(TempDir),
}

impl Listener {
    /// A listener of any kind, with the listening object.
    pub(super) fn any(name: &str, dice: &mut Dice, tally: &mut Tally) -> (Listener, Object) {
        let (place, object) = if dice.one_in(2) {
            tally.note("object: a TCP socket that listens");
            let listener = TcpListener::bind((own_address(), 0)).unwrap();
            let place = Place::Tcp(listener.local_addr().unwrap());
            (place, Object::listening(name, listener.into(), None))
        } else {
            tally.note("object: a Unix socket that listens");
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("listener");
            let listener = UnixListener::bind(&path).unwrap();
            (Place::Unix(folder), Object::listening(name, listener.into(), Some(path)))
        };
        (Listener { place, strangers: Vec::new() }, object.unwrap())
    }

    /// Connects; None if the port does not listen.
    pub(super) fn call(&mut self) -> Option<Line> {
        let called = match &self.place {
            Place::Tcp(address) => TcpStream::connect(address).map(|line| {
                line.set_nodelay(true).unwrap();
                hear_of_lost_ones(&line);
                Line::new(Kind::Tcp, line.into())
            }),
            Place::Unix(folder) => UnixStream::connect(folder.path().join("listener"))
                .map(|line| Line::new(Kind::Unix, line.into())),
        };
        match called {
            Ok(line) => Some(line),
            // Closed, and for a Unix socket the name removed; a connection that was under way then is reset.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionRefused | ErrorKind::NotFound | ErrorKind::ConnectionReset
                ) =>
            {
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Connects after another connection, and sends some bytes.
    pub(super) fn call_in_vain(&mut self, tally: &mut Tally) {
        if let Some(mut stranger) = self.call() {
            tally.note("operation: stand in a queue in vain");
            // The connection may have been reset already.
            let _: Option<usize> = stranger.write(&NONSENSE);
            self.strangers.push(stranger);
        } else {
            tally.note("operation: connect where nobody listens any more");
        }
    }

    /// Checks that connections that were not accepted receive no byte and reach the end.
    pub(super) fn check(&mut self) {
        for mut stranger in self.strangers.drain(..) {
            loop {
                match stranger.read(&mut [0]) {
                    Came::Bytes(_) => panic!("who came in vain got something"),
                    Came::Nothing => stranger.wait("who came in vain"),
                    Came::End | Came::Reset => break,
                }
            }
        }
    }
}

/// Enables keep-alive, so that a connection that the other side does not know ends soon. Linux leaves such a
/// connection behind if the last packet of its handshake meets a socket that is just being closed
/// (`__inet_inherit_port`, counted in `ListenDrops`): the client counts as connected, and learns nothing
/// until it sends something.
fn hear_of_lost_ones(line: &TcpStream) {
    sockopt::set_socket_keepalive(line, true).unwrap();
    sockopt::set_tcp_keepidle(line, Duration::from_secs(1)).unwrap();
}

/// An address that no other listener has, so that no client reaches a listener that reuses the port of an
/// earlier one.
fn own_address() -> Ipv4Addr {
    static DOORS: AtomicU32 = AtomicU32::new(0);
    let own = DOORS.fetch_add(1, Ordering::Relaxed) % (1 << 22);
    Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 64, 0, 1)) + own)
}
