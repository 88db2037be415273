//! Listens, and accepts connections until drained.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::runtime_threads::RuntimeThreads;

/// Delay before the next attempt if `accept` failed for lack of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// Backlog of the listening socket.
const BACKLOG: i32 = 4096;

/// Wildcard address: `::`, or 0.0.0.0 without IPv6.
pub fn any_address() -> IpAddr {
    match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// Returns whether ports like this one need root or `CAP_NET_BIND_SERVICE`, by the default of
/// `net.ipv4.ip_unprivileged_port_start` (ip(7)).
pub fn is_privileged(port: u16) -> bool {
    (1..1024).contains(&port)
}

/// Adds the cause to an error of binding a port: a missing privilege, or another process.
pub fn explain_bind_error(port: u16, error: io::Error) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::PermissionDenied if is_privileged(port) => {
            "ports below 1024 need root or CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrInUse => "another process uses this port",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}: {why}"))
}

/// Listens on an address; `::` includes IPv4. Must be called on a tokio runtime.
///
/// # Errors
/// The address cannot be bound; see [`explain_bind_error`].
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::from_std(listening_socket(address)?.into())
}

/// Listening socket that does not block.
///
/// # Errors
/// As of [`bind`].
pub(crate) fn listening_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    // Two sockets that reuse an address can both be bound; the second one cannot listen.
    let listening = socket.bind(&address.into()).and_then(|()| socket.listen(BACKLOG));
    listening.map_err(|error| explain_bind_error(address.port(), error))?;
    Ok(socket)
}

/// Addresses of a client's connection. With TLS they are those of the encrypted connection.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// Address of this machine that the client connected to.
    pub local: SocketAddr,
    /// Address of the client.
    pub peer: SocketAddr,
    /// True with TLS.
    pub is_secure: bool,
}

impl Addresses {
    /// Addresses of a connection from this peer.
    ///
    /// # Errors
    /// Errors of `getsockname`.
    pub fn of(stream: &TcpStream, peer: SocketAddr, is_secure: bool) -> io::Result<Addresses> {
        Ok(Addresses { local: stream.local_addr()?, peer, is_secure })
    }
}

/// Source of connections; closed on drop.
pub trait Listen {
    /// Connection, with its addresses.
    type Connection;

    /// Waits for a connection; cancelling the wait loses no connection.
    ///
    /// # Errors
    /// `ConnectionAborted` if this connection failed; other errors if no connection can be accepted.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Connection>> + Send;
}

impl Listen for TcpListener {
    type Connection = (TcpStream, SocketAddr);

    /// Accepts a connection, and disables Nagle's algorithm.
    async fn accept(&self) -> io::Result<Self::Connection> {
        let (stream, peer) = TcpListener::accept(self).await?;
        stream.set_nodelay(true).map_err(|error| io::Error::new(io::ErrorKind::ConnectionAborted, error))?;
        Ok((stream, peer))
    }
}

/// Accepts connections until `drain` becomes true or its sender is dropped; then stops accepting, and returns
/// when the last task has ended. `admit` returns the task that serves a connection, or `None` for a refused
/// connection; tasks run on the `threads`, or on this runtime. Dropping the future requests the end of all
/// tasks; tasks on `threads` end soon after.
///
/// `name` is the name of the listener in the log. Must run on a tokio runtime.
pub async fn serve<L: Listen, T: Future<Output = ()> + Send + 'static>(
    name: &str,
    listener: L,
    mut drain: watch::Receiver<bool>,
    threads: Option<&RuntimeThreads>,
    mut admit: impl FnMut(L::Connection) -> Option<T>,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            () = drained(&mut drain) => break,
            Some(ended) = tasks.join_next() => report(name, ended),
            accepted = listener.accept() => match accepted {
                Ok(connection) => {
                    match (admit(connection), threads) {
                        (Some(task), Some(threads)) => drop(tasks.spawn_on(task, threads.next())),
                        (Some(task), None) => drop(tasks.spawn(task)),
                        (None, _) => {}
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(listener = name, %error, "accept failed; retrying");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while let Some(ended) = tasks.join_next().await {
        report(name, ended);
    }
}

/// Waits until `drain` is true, or its sender is dropped.
pub(crate) async fn drained(drain: &mut watch::Receiver<bool>) {
    // The reference that `wait_for` returns must not be held across an await.
    drop(drain.wait_for(|&drain| drain).await);
}

fn report(listener: &str, ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(listener, %error, "connection task failed");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// Returns its entries in order, then waits forever.
    struct Queue(Mutex<VecDeque<io::Result<u32>>>);

    impl Listen for Queue {
        type Connection = u32;

        async fn accept(&self) -> io::Result<u32> {
            let next = self.0.lock().expect("nobody panics").pop_front();
            match next {
                Some(next) => next,
                None => std::future::pending().await,
            }
        }
    }

    fn run<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(future)
    }

    /// Failed or refused connections do not stop others; tasks that have begun end before the listener does.
    #[test]
    fn connections_are_taken_until_drained() {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        let broken = || Err(io::ErrorKind::ConnectionAborted.into());
        let scarce = || Err(io::Error::from_raw_os_error(24));
        let queue = Queue(Mutex::new([Ok(1), broken(), Ok(2), scarce(), Ok(3)].into()));
        let (drain, draining) = watch::channel(false);
        let mut seen = Vec::new();
        run(serve("test", queue, draining.clone(), None, |number| {
            seen.push(number);
            if number == 3 {
                drain.send_replace(true);
            }
            let mut draining = draining.clone();
            (number != 2).then_some(async move {
                _ = draining.wait_for(|&drain| drain).await;
                tokio::task::yield_now().await;
                ENDED.fetch_add(1, Relaxed);
            })
        }));
        assert_eq!((seen, ENDED.load(Relaxed)), (vec![1, 2, 3], 2));
    }

    /// A task that panics does not end the listener.
    #[test]
    fn a_task_that_panics_leaves_the_listener_open() {
        let queue = Queue(Mutex::new([Ok(1), Ok(2)].into()));
        let (drain, draining) = watch::channel(false);
        let drain = std::sync::Arc::new(drain);
        run(serve("test", queue, draining, None, |number| {
            let drain = std::sync::Arc::clone(&drain);
            Some(async move {
                assert_ne!(number, 1, "this one is to panic");
                drain.send_replace(true);
            })
        }));
        assert!(*drain.borrow());
    }
}
