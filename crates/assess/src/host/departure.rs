//! Departure times (`SO_TXTIME`): tests whether a queueing discipline of this kernel honours them, on the
//! loopback device of a temporary network namespace.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use wirepath_sys::arrivals;
use wirepath_sys::departure::{self, DepartureClock};
use wirepath_sys::device::{self, DeviceName};
use wirepath_sys::namespace::leave_network;
use wirepath_sys::socket::set_segment;

use crate::programs;

/// Queueing discipline that may honour departure times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// `fq`.
    Fq,
    /// `etf`, which releases packets a fixed time before their departure time, and drops late packets.
    Etf,
    /// `pfifo`, which ignores departure times.
    Pfifo,
}

/// Reason why departure times cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DepartureError {
    /// The test failed to run.
    #[error("{0}")]
    Untried(String),
    /// Packets left before their time.
    #[error("packets left {} ms before their time", .0.as_millis())]
    Early(Duration),
    /// Packets did not arrive.
    #[error("packets were lost")]
    Lost,
}

impl From<io::Error> for DepartureError {
    fn from(error: io::Error) -> DepartureError {
        let text = match error.kind() {
            io::ErrorKind::PermissionDenied => "a network namespace takes root".to_owned(),
            _ => super::read::printable(&error.to_string()),
        };
        DepartureError::Untried(text)
    }
}

/// Lead of `etf`: time before its departure time at which a packet is released. With this lead, no packet is
/// dropped on a busy machine.
const ETF_AHEAD: Duration = Duration::from_millis(100);

/// Time from sending to the first departure, longer than a thread waits for a busy processor; and time
/// between departures.
const FIRST: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);

/// Trains, packets per train, and bytes per packet.
const TRAINS: u32 = 3;
const PACKETS: u32 = 3;
const PACKET: u16 = 200;

/// Largest difference of two clocks that are read one after the other.
const CLOCKS: Duration = Duration::from_millis(5);

/// Timeout for packets after the last departure.
const PATIENCE: Duration = Duration::from_secs(5);

impl Discipline {
    /// Arguments of `tc`.
    fn words(self) -> String {
        match self {
            Discipline::Fq => "fq".to_owned(),
            Discipline::Etf => format!("etf clockid CLOCK_TAI delta {}", ETF_AHEAD.as_nanos()),
            Discipline::Pfifo => "pfifo".to_owned(),
        }
    }

    /// Time before its departure time at which a packet may leave.
    fn ahead(self) -> Duration {
        if self == Discipline::Etf { ETF_AHEAD } else { Duration::ZERO }
    }

    fn clock(self) -> DepartureClock {
        if self == Discipline::Etf { DepartureClock::Tai } else { DepartureClock::Monotonic }
    }
}

/// Sends trains with departure times through a queueing discipline, and returns the largest lateness of their
/// packets. Needs root, and takes about a second.
///
/// # Errors
/// See [`DepartureError`].
pub fn try_departure_times(discipline: Discipline) -> Result<Duration, DepartureError> {
    let tried = std::thread::spawn(move || {
        leave_network()?;
        let receiver = UdpSocket::bind("0.0.0.0:0")?; // the loopback device has no address while it is down
        device::set_up(receiver.as_fd(), &DeviceName::new(c"lo"))?;
        tc(&format!("qdisc replace dev lo root {}", discipline.words()))?;
        exchange(discipline, &receiver)
    });
    tried.join().unwrap_or_else(|_| Err(DepartureError::Untried("the trial panicked".to_owned())))
}

/// Sends trains over the loopback device, and checks the arrival times of their packets.
fn exchange(discipline: Discipline, receiver: &UdpSocket) -> Result<Duration, DepartureError> {
    arrivals::enable_timestamps(receiver.as_fd())?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(("127.0.0.1", receiver.local_addr()?.port()))?;
    set_segment(sender.as_fd(), PACKET)?;
    departure::enable(sender.as_fd(), discipline.clock())?;
    let (now, began) = (discipline.clock().now(), since_1970());
    for train in 0..TRAINS {
        let mut bytes = [0; PACKET as usize * PACKETS as usize];
        bytes.chunks_mut(PACKET.into()).for_each(|packet| packet[0] = train as u8);
        departure::send_at(sender.as_fd(), &bytes, now + FIRST + STEP * train)?;
    }
    let mut latest = Duration::ZERO;
    for _ in 0..TRAINS * PACKETS {
        let mut packet = [0; PACKET as usize];
        receiver.peek(&mut packet).map_err(|_| DepartureError::Lost)?;
        let arrival = arrivals::receive(receiver.as_fd(), &mut packet)?;
        let arrived = arrival.since_1970.unwrap_or_else(since_1970);
        let due = began + FIRST + STEP * u32::from(packet[0]) - discipline.ahead();
        if arrived + CLOCKS < due {
            return Err(DepartureError::Early(due - arrived));
        }
        latest = latest.max(arrived.saturating_sub(due));
    }
    Ok(latest)
}

fn since_1970() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Runs `tc` in the network namespace of the calling thread; fails if `tc` fails.
fn tc(arguments: &str) -> Result<(), DepartureError> {
    let Some(file) = programs::find("tc") else {
        return Err(DepartureError::Untried("tc is not installed: install the package iproute2".to_owned()));
    };
    let output = Command::new(file).args(arguments.split_whitespace()).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let line = text.lines().next().unwrap_or("tc failed").trim();
            Err(DepartureError::Untried(super::read::printable(line)))
        }
        Err(error) => Err(DepartureError::Untried(format!("tc: {error}"))),
    }
}
