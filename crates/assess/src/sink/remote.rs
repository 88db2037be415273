//! The sender's end of the control connection.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use super::protocol::{Answer, QUESTION_LENGTH, Report, Request};
use crate::error::Error;
use crate::result::Transport;
use crate::sockets;

/// Timeout for answers of a receiver.
const PATIENCE: Duration = Duration::from_secs(10);

/// A receiver.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Its control port.
    pub address: SocketAddr,
}

impl Remote {
    /// A UDP socket connected to it for one run of datagrams of at most `packet` bytes, and the account of
    /// that run.
    ///
    /// # Errors
    /// [`Error::SinkStopped`].
    pub fn udp(&self, packet: u16) -> Result<(UdpSocket, Account), Error> {
        let connect = || {
            let control = self.connect()?;
            let socket = UdpSocket::bind((control.local_addr()?.ip(), 0))?;
            let port = socket.local_addr()?.port();
            let account = self.ask(control, Request { transport: Transport::Udp, packet, port })?;
            socket.connect((self.address.ip(), account.port))?;
            Ok((socket, account))
        };
        connect().map_err(|error| self.stopped(&error))
    }

    /// A TCP connection to it for one run, and the account of that run.
    ///
    /// # Errors
    /// [`Error::SinkStopped`].
    pub fn tcp(&self) -> Result<(TcpStream, Account), Error> {
        let connect = || {
            let request = Request { transport: Transport::Tcp, packet: 0, port: 0 };
            let account = self.ask(self.connect()?, request)?;
            let data = SocketAddr::new(self.address.ip(), account.port);
            Ok((sockets::connect(data, Some(PATIENCE))?, account))
        };
        connect().map_err(|error| self.stopped(&error))
    }

    /// MTU of the way to it in bytes, as far as the kernel knows.
    ///
    /// # Errors
    /// [`Error::SinkStopped`] if there is no way.
    pub fn path_mtu(&self) -> Result<u32, Error> {
        let ask = || {
            let any: IpAddr = match self.address {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(self.address)?;
            wirepath_datapath::path_mtu(&socket)
        };
        ask().map_err(|error| self.stopped(&error))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let control = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        control.set_read_timeout(Some(PATIENCE))?;
        control.set_write_timeout(Some(PATIENCE))?;
        control.set_nodelay(true)?;
        Ok(control)
    }

    fn ask(&self, mut control: TcpStream, request: Request) -> io::Result<Account> {
        control.write_all(&request.write())?;
        let mut bytes = [0; Answer::LENGTH];
        control.read_exact(&mut bytes)?;
        let Answer { port, window } = Answer::read(&bytes).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "invalid answer: not a `wirepath assess sink` of this version",
            )
        })?;
        Ok(Account { remote: self.clone(), control, port, window, reported: 0, reports: 0 })
    }

    fn stopped(&self, error: &io::Error) -> Error {
        let why = match error.kind() {
            // What a read says whose time is up.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
            _ => error.to_string(),
        };
        Error::SinkStopped { sink: self.address.to_string(), why }
    }
}

/// Account of one run: what was sent, and what the receiver reported.
#[derive(Debug)]
pub struct Account {
    remote: Remote,
    control: TcpStream,
    port: u16,
    window: u64,
    reported: u64,
    /// Reports that were read.
    reports: u64,
}

impl Account {
    /// Bytes that may be under way.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Reports of the receiver that were read: a call each.
    pub(crate) fn reports(&self) -> u64 {
        self.reports
    }

    /// Lowers the window, because pages are lent: each header and payload is then charged to the receiver's
    /// buffer as whole pages, three for most packets. Not below what comes before the receiver reports.
    pub(crate) fn expect_lent_pages(&mut self) {
        self.window = (self.window / 4).max(1);
    }

    /// Waits until there is room for more after `sent` bytes in all. One call to the kernel for each quarter
    /// of the window; none while there is room.
    ///
    /// # Errors
    /// [`Error::SinkStopped`] if the receiver does not get on, or what was sent is lost.
    #[inline]
    pub fn pace(&mut self, sent: u64) -> Result<(), Error> {
        while sent.saturating_sub(self.reported) > self.window {
            self.reported = self
                .report()
                .map_err(|error| match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Faulty(format!(
                        "{} bytes were sent to {}, and it reports {} and no more: the rest was lost",
                        sent, self.remote.address, self.reported
                    )),
                    _ => self.remote.stopped(&error),
                })?
                .bytes;
        }
        Ok(())
    }

    /// Last report on all the `sent` bytes.
    ///
    /// # Errors
    /// [`Error::SinkStopped`].
    pub fn settle(mut self, sent: u64) -> Result<Report, Error> {
        let mut settle = || {
            let question: [u8; QUESTION_LENGTH] = sent.to_be_bytes();
            self.control.write_all(&question)?;
            loop {
                let report = self.report()?;
                if report.last {
                    return Ok(report);
                }
            }
        };
        settle().map_err(|error| self.remote.stopped(&error))
    }

    fn report(&mut self) -> io::Result<Report> {
        let mut bytes = [0; Report::LENGTH];
        self.control.read_exact(&mut bytes)?;
        self.reports += 1;
        Ok(Report::read(&bytes))
    }
}
