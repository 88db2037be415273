//! Mirrors of UDP datagrams in the kernel.

use std::net::SocketAddrV4;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData};
use aya::programs::{SchedClassifier, TcAttachType};

use crate::error::BpfError;
use crate::maps::{Counters, Counts, InputMap, array, attach, program, table};
use crate::program::HandlerObject;

/// Most receivers (`WIREPATH_RECEIVERS`).
pub(crate) const MOST_RECEIVERS: usize = 256;

/// Kinds of devices whose frames begin with an Ethernet header (`ARPHRD_ETHER`, `ARPHRD_LOOPBACK`).
const ETHERNET: [&str; 2] = ["1", "772"];

/// Names of the programs.
const LEARN: &str = "wp_learn";
const MIRROR: &str = "wp_mirror";

/// Places in `wp_left`.
const LEFT: u32 = 0;
const SENT_ON: u32 = 1;

/// Number in place of that of the records sent on: the kernel does not wait (`WIREPATH_AT_ONCE`).
const AT_ONCE: u64 = u64::MAX;

/// `struct wirepath_receiver`, `struct wirepath_destination`.
type ReceiverRow = [u8; 40];
type Destination = [u8; 8];

/// Receiver of a mirror: the socket that user space sends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Address of that socket.
    pub source: SocketAddrV4,
    /// Address of its peer.
    pub destination: SocketAddrV4,
}

/// Mirror of the datagrams of one input to its receivers, in the kernel. Ends when it is dropped.
///
/// The route to a receiver is learned from a datagram that user space sends to it, and learned again every five
/// seconds. Until it is known for all receivers, records are left to user space, and for as long as user space
/// has not sent those on, the next ones too ([`Mirror::set_sent_on`]): none overtakes another.
pub struct Mirror {
    left: Array<MapData, u64>,
    counts: Counters,
    /// The programs, which are detached with it.
    programs: Ebpf,
}

impl Mirror {
    /// Has the kernel check the programs of an object, and attaches them to all devices with Ethernet headers.
    ///
    /// # Errors
    /// [`BpfError::Kernel`] if there are no or too many receivers, or two with one address, if the kernel lacks
    /// what is needed or refuses the handler, or the right is missing (`CAP_BPF` and `CAP_NET_ADMIN`).
    pub fn attach(
        object: &HandlerObject,
        input: SocketAddrV4,
        receivers: &[Receiver],
    ) -> Result<Mirror, BpfError> {
        if receivers.is_empty() || receivers.len() > MOST_RECEIVERS {
            let why =
                format!("{} receivers: a mirror in the kernel has 1 to {MOST_RECEIVERS}", receivers.len());
            return Err(BpfError::Kernel(why));
        }
        let mut programs = object.load()?;
        // Maps are closed once they are taken out, unless loaded programs have them.
        for name in [LEARN, MIRROR] {
            let loaded = program::<SchedClassifier>(&mut programs, name)?.load();
            loaded.map_err(|error| BpfError::kernel(&format!("loading the program {name}"), error))?;
        }
        describe(&mut programs, input, receivers)?;
        let mut left: Array<_, u64> = array(&mut programs, "wp_left")?;
        // Datagrams may wait in the socket already: user space has to say that they are gone.
        left.set(LEFT, 1, 0).map_err(|error| BpfError::kernel("writing the map wp_left", error))?;
        let counts = Counters::open(&mut programs)?;
        attach_to_all(&mut programs, LEARN, TcAttachType::Egress)?;
        attach_to_all(&mut programs, MIRROR, TcAttachType::Ingress)?;
        Ok(Mirror { left, counts, programs })
    }

    /// Counts so far; zero where they cannot be read.
    pub fn counts(&self) -> Counts {
        self.counts.read()
    }

    /// Ends it; returns its final counts.
    pub(crate) fn end(self) -> Counts {
        let Mirror { counts, programs, .. } = self;
        // What comes before they are detached counts.
        drop(programs);
        counts.read()
    }

    /// Number of records left to user space so far, if there are some that it is not known to have sent on.
    pub fn left(&self) -> Option<u64> {
        let read = |place| self.left.get(&place, 0).ok();
        read(LEFT).filter(|left| read(SENT_ON) != Some(*left))
    }

    /// Lets the kernel take over whatever waits in user space: records may overtake others.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take_over(&mut self) -> Result<(), BpfError> {
        self.set_sent_on(AT_ONCE)
    }

    /// Says that of the records left to user space these were sent on, or lost: none of them waits anywhere.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_sent_on(&mut self, records: u64) -> Result<(), BpfError> {
        let set = self.left.set(SENT_ON, records, 0);
        set.map_err(|error| BpfError::kernel("writing the map wp_left", error))
    }
}

/// Writes the addresses of the input and of the receivers.
fn describe(programs: &mut Ebpf, input: SocketAddrV4, receivers: &[Receiver]) -> Result<(), BpfError> {
    let mut places: HashMap<_, Destination, u32> = table(programs, "wp_places")?;
    let mut rows: Array<_, ReceiverRow> = array(programs, "wp_receivers")?;
    let doing = "writing the receivers";
    for (receiver, place) in receivers.iter().zip(0..) {
        rows.set(place, receiver_row(receiver), 0).map_err(|error| BpfError::kernel(doing, error))?;
        let key = destination(receiver.destination);
        if places.get(&key, 0).is_ok() {
            return Err(BpfError::Kernel(format!("two receivers are {}", receiver.destination)));
        }
        places.insert(key, place, 0).map_err(|error| BpfError::kernel(doing, error))?;
    }
    InputMap::open(programs)?.set(Some(input), receivers.len())
}

/// Attaches a program to all devices with Ethernet headers.
fn attach_to_all(programs: &mut Ebpf, name: &str, place: TcAttachType) -> Result<(), BpfError> {
    let program: &mut SchedClassifier = program(programs, name)?;
    for device in devices().map_err(|error| BpfError::kernel("listing network devices", error))? {
        attach(program, name, &device, place)?;
    }
    Ok(())
}

/// Network devices of this namespace whose frames begin with an Ethernet header.
fn devices() -> std::io::Result<Vec<String>> {
    // Unlike /sys/class/net, it is of the namespace of the thread that reads it.
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let has_ethernet = |name: &&str| {
        let kind = std::fs::read_to_string(format!("/sys/class/net/{name}/type"));
        kind.map_or(true, |kind| ETHERNET.contains(&kind.trim()))
    };
    Ok(names.filter(has_ethernet).map(str::to_owned).collect())
}

fn receiver_row(receiver: &Receiver) -> ReceiverRow {
    let mut row = [0; 40];
    row[8..12].copy_from_slice(&receiver.source.ip().octets());
    row[12..16].copy_from_slice(&receiver.destination.ip().octets());
    row[16..18].copy_from_slice(&receiver.source.port().to_be_bytes());
    row[18..20].copy_from_slice(&receiver.destination.port().to_be_bytes());
    row
}

fn destination(address: SocketAddrV4) -> Destination {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&address.ip().octets());
    key[4..6].copy_from_slice(&address.port().to_be_bytes());
    key
}
