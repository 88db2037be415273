//! The sender's end of the control connection.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use super::protocol::{Answer, QUESTION_LENGTH, Report, Request};
use crate::error::Error;
use crate::result::Transport;
use crate::sockets;

/// Timeout for answers of the receiver.
const PATIENCE: Duration = Duration::from_secs(10);

/// Receiver, as seen by the sender.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Address of the control port.
    pub address: SocketAddr,
}

impl Remote {
    /// Opens a UDP socket connected to the receiver for one run of datagrams of at most `packet` bytes, and
    /// the account of the run.
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

    /// Opens a TCP connection to the receiver for one run, and the account of the run.
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

    /// MTU of the route to the receiver in bytes, as known to the kernel.
    ///
    /// # Errors
    /// [`Error::SinkStopped`] if there is no route.
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
            // Error of a read after its timeout.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
            _ => error.to_string(),
        };
        Error::SinkStopped { sink: self.address.to_string(), why }
    }
}

/// Account of one run: sent bytes, and reports of the receiver.
#[derive(Debug)]
pub struct Account {
    remote: Remote,
    control: TcpStream,
    port: u16,
    window: u64,
    reported: u64,
    /// Number of reports read.
    reports: u64,
}

impl Account {
    /// Bytes that may be in flight.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Number of the receiver's reports read, each by one call.
    pub(crate) fn reports(&self) -> u64 {
        self.reports
    }

    /// Lowers the window, because pages are lent: each header and payload is then charged to the receiver's
    /// buffer as whole pages, three for most packets. The window does not fall below the
    /// amount after which the receiver reports.
    pub(crate) fn expect_lent_pages(&mut self) {
        self.window = (self.window / 4).max(1);
    }

    /// Waits until more may be sent after `sent` bytes in total. Makes one kernel call per quarter of the
    /// window, and no call while there is room.
    ///
    /// # Errors
    /// [`Error::SinkStopped`] if the receiver makes no progress, or sent data is lost.
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

    /// Requests the last report, after `sent` bytes in total.
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
