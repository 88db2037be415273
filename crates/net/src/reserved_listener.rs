//! TCP listener that can accept even if the process has too many open files, so that a client gets a refusal
//! and does not wait.

use std::fs::File;
use std::io;
use std::net::SocketAddr;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};

use crate::descriptors::is_out_of_descriptors;
use crate::listener::Listen;

/// TCP listener with a reserved descriptor.
#[derive(Debug)]
pub struct ReservedListener {
    listener: TcpListener,
    reserve: Mutex<Option<File>>,
}

impl ReservedListener {
    /// Reserves a descriptor for this listener.
    pub fn new(listener: TcpListener) -> Self {
        let reserved = Self { listener, reserve: Mutex::default() };
        reserved.fill();
        reserved
    }

    /// Refills the reserve. Without a free descriptor it stays empty until the next connection.
    fn fill(&self) {
        let mut reserve = self.reserve.lock();
        if reserve.is_none() {
            *reserve = File::open("/dev/null").ok();
        }
    }
}

impl Listen for ReservedListener {
    type Connection = (TcpStream, SocketAddr);

    /// Accepts a connection. If this takes the last descriptor, the caller should close it soon.
    async fn accept(&self) -> io::Result<Self::Connection> {
        self.fill();
        match Listen::accept(&self.listener).await {
            Err(error) if is_out_of_descriptors(&error) && self.reserve.lock().take().is_some() => {
                Listen::accept(&self.listener).await
            }
            accepted => accepted,
        }
    }
}
