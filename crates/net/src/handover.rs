//! Handover of listening sockets from a running server to its successor, over a Unix socket.
//!
//! The successor connects, and receives one message: `GREETING` with the names of the listeners, and their
//! descriptors (`SCM_RIGHTS`), followed by the descriptor of the Unix socket itself. When it is ready to
//! accept it writes `READY`; then the old server stops accepting. If it closes the connection instead,
//! nothing changes. The socket objects stay the same throughout, so no connection in their queues is lost,
//! and the path always has a listener.

use std::fs;
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{geteuid, umask};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use wirepath_sys::socket;

use crate::handed_sockets::{HandedSockets, NAMES};

/// First word of the message: its kind and version.
const GREETING: &str = "wirepath-handover-1";

/// Byte that the successor sends when it is ready to accept.
const READY: u8 = b'R';

/// Longest message.
const MESSAGE_LIMIT: usize = 128;

/// Maximum number of descriptors in a message: the listeners and the Unix socket.
const DESCRIPTORS: usize = NAMES.len() + 1;

/// Time limit of the running server's message.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Time limit for a new server to get ready; it may read many files first. Other servers wait meanwhile.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// Delay before the next attempt if `accept` failed for lack of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens for successors at a path, for this user only. Must be called before the process has threads, since
/// the umask is per process.
///
/// # Errors
/// `AddrInUse` if a server listens there; else errors of socket calls. A socket left behind by a server is
/// replaced.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match UnixStream::connect(path) {
        Ok(_) => return Err(ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            if fs::symlink_metadata(path)?.file_type().is_socket() {
                fs::remove_file(path)?;
            }
        }
        Err(_) => {} // `bind` reports the error
    }
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    bound
}

/// Sockets of a running server, which keeps running until [`Takeover::complete`].
#[derive(Debug)]
pub struct Takeover {
    server: UnixStream,
    listener: UnixListener,
}

/// Receives the sockets of the server that listens at a path.
///
/// # Errors
/// Errors of socket calls; `PermissionDenied` if another user's server answers; `InvalidData` for another
/// message.
pub fn receive(path: &Path) -> io::Result<(HandedSockets, Takeover)> {
    let server = UnixStream::connect(path)?;
    ensure_same_user(server.as_fd())?;
    server.set_read_timeout(Some(ANSWER_LIMIT))?;
    let (message, descriptors) = receive_message(&server)?;
    let mut words = message.split(' ');
    let names: Vec<&str> = match words.next() {
        Some(GREETING) => words.collect(),
        _ => return Err(invalid("the running server speaks another version of the handover")),
    };
    let mut descriptors = descriptors.into_iter();
    let mut sockets = HandedSockets::default();
    for name in names {
        let descriptor = descriptors.next().ok_or_else(|| invalid("a socket is missing"))?;
        sockets.add(name, descriptor)?;
    }
    let listener = descriptors.next().ok_or_else(|| invalid("the handover socket is missing"))?;
    let listener = UnixListener::from(listener);
    listener.local_addr()?;
    Ok((sockets, Takeover { server, listener }))
}

impl Takeover {
    /// Listener for the next successor.
    ///
    /// # Errors
    /// Too many open files.
    pub fn next_listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }

    /// Makes the old server stop accepting.
    ///
    /// # Errors
    /// The write failed: the old server has ended.
    pub fn complete(mut self) -> io::Result<()> {
        self.server.write_all(&[READY])
    }
}

fn receive_message(server: &UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut text = [0; MESSAGE_LIMIT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(server, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = descriptors.flatten().collect();
    if received.bytes == 0 {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the running server refused, see its log"));
    }
    let text = std::str::from_utf8(&text[..received.bytes]).map_err(|_| invalid("not a handover"))?;
    Ok((text.to_owned(), descriptors))
}

/// Offer of the sockets to successors.
#[derive(Debug)]
pub struct Offer {
    listener: UnixListener,
    sockets: Vec<(&'static str, OwnedFd)>,
    ready_limit: Duration,
}

impl Offer {
    /// Offers the sockets to processes that connect to `listener`.
    pub fn new(listener: UnixListener, sockets: Vec<(&'static str, OwnedFd)>) -> Offer {
        Offer { listener, sockets, ready_limit: READY_LIMIT }
    }

    /// Passes the sockets to successors, after `prepare`, until one is ready; returns the successor's
    /// process, or `None` if it is in another PID namespace. Each successor has two minutes to get ready; the
    /// next one waits. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// Failure to listen.
    pub async fn accept<F: Future<Output = ()>>(self, prepare: impl Fn() -> F) -> io::Result<Option<u32>> {
        let Offer { listener, sockets, ready_limit } = self;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "accept failed on the handover socket; retrying");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            match hand_over(stream, (listener.as_fd(), &sockets), ready_limit, &prepare).await {
                Ok(Successor::Ready(process)) => return Ok(process),
                Ok(Successor::Gone) => {
                    tracing::info!(
                        "no handover: the new server closed the connection before it was ready; continuing to serve"
                    );
                }
                Err(error) => tracing::warn!(%error, "handover failed; continuing to serve"),
            }
        }
    }
}

/// End of an offer.
enum Successor {
    /// The successor accepts connections; its process, if it is visible to this process.
    Ready(Option<u32>),
    /// The successor closed the connection.
    Gone,
}

/// Passes the sockets to a successor, and waits until it is ready, up to the limit.
async fn hand_over<F: Future<Output = ()>>(
    mut stream: tokio::net::UnixStream,
    (listener, sockets): (BorrowedFd<'_>, &[(&'static str, OwnedFd)]),
    ready_limit: Duration,
    prepare: impl Fn() -> F,
) -> io::Result<Successor> {
    let process = ensure_same_user(stream.as_fd())?;
    prepare().await;
    let names = sockets.iter().map(|(name, _)| *name);
    let text = [GREETING].into_iter().chain(names).collect::<Vec<_>>().join(" ");
    let descriptors: Vec<BorrowedFd<'_>> =
        sockets.iter().map(|(_, socket)| socket.as_fd()).chain([listener]).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(invalid("too many sockets for a message"));
    }
    // The empty buffer of a new connection has room for the message.
    sendmsg(&stream, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    tracing::info!(process, "listening sockets offered to a new server");
    let too_late = |_| io::Error::new(ErrorKind::TimedOut, "the new server was not ready in time");
    match timeout(ready_limit, stream.read_u8()).await.map_err(too_late)? {
        Ok(READY) => Ok(Successor::Ready(process)),
        Ok(_) => Err(invalid("invalid message from the new server: expected that it is ready")),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            Ok(Successor::Gone)
        }
        Err(error) => Err(error),
    }
}

/// Refuses a peer of a user other than this user and root; returns the peer's process, if it is visible to
/// this process.
fn ensure_same_user(peer: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let socket::Peer { process, user } = socket::peer(peer)?;
    if user != geteuid().as_raw() && user != 0 {
        let why = format!("the process at the other end is of user {user}, not of this one or root");
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(process)
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn run<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    /// A successor that gives up changes nothing; the next successor gets the same sockets, and the path
    /// stays.
    #[test]
    fn the_first_that_is_ready_has_the_sockets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("handover");
        let listener = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        let http = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = http.local_addr().unwrap();
        let offer = Offer::new(listener, vec![("http", http.into())]);
        run(async {
            let offering = tokio::spawn(offer.accept(|| async {}));
            let successors = tokio::task::spawn_blocking(move || {
                drop(receive(&path).unwrap());
                let (sockets, takeover) = receive(&path).unwrap();
                assert_eq!(sockets.addresses().unwrap(), [("http", address)]);
                let next = takeover.listener.local_addr().unwrap();
                assert_eq!(next.as_pathname(), Some(path.as_path()));
                takeover.complete().unwrap();
            });
            successors.await.unwrap();
            assert_eq!(offering.await.unwrap().unwrap(), Some(std::process::id()));
        });
    }

    /// Promise: A new server that does not get ready within two minutes leaves the handover to the next.
    #[test]
    fn a_successor_that_is_never_ready_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("handover");
        let offer = Offer::new(listen(&path).unwrap(), Vec::new());
        let offer = Offer { ready_limit: Duration::from_millis(50), ..offer };
        run(async {
            let offering = tokio::spawn(offer.accept(|| async {}));
            let successors = tokio::task::spawn_blocking(move || {
                let (_, hanging) = receive(&path).unwrap();
                receive(&path).unwrap().1.complete().unwrap();
                hanging
            });
            let hanging = successors.await.unwrap();
            assert_eq!(offering.await.unwrap().unwrap(), Some(std::process::id()));
            assert!(hanging.complete().is_err(), "its connection is closed");
        });
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("handover");
        drop(listen(&path).unwrap());
        assert!(path.exists());
        listen(&path).unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert!(listen(&file).is_err());
        assert_eq!(fs::read(file).unwrap(), b"kept");
    }
}
