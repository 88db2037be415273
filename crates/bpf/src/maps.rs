//! Maps and programs of an object that the kernel has loaded.

use std::net::SocketAddrV4;
use std::ops::AddAssign;

use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray};
use aya::programs::{Program, ProgramError, SchedClassifier, TcAttachType, tc};
use aya::{Ebpf, Pod};

use crate::error::BpfError;

/// Places of the counts (`enum wirepath_count`).
const PASSED: u32 = 0;
const DROPPED: u32 = 1;
const SENT: u32 = 2;
const UNSENT: u32 = 3;

/// `struct wirepath_input`.
type Input = [u8; 12];

/// Counts of a handler in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that were mirrored.
    pub passed: u64,
    /// Records that the handler dropped.
    pub dropped: u64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that a device did not take.
    pub unsent: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.dropped += other.dropped;
        self.sent += other.sent;
        self.unsent += other.unsent;
    }
}

/// The map of the counts.
pub(crate) struct Counters(PerCpuArray<MapData, u64>);

impl Counters {
    pub(crate) fn open(programs: &mut Ebpf) -> Result<Counters, BpfError> {
        let opened = PerCpuArray::try_from(map(programs, "wp_counts")?);
        opened.map(Counters).map_err(|error| BpfError::kernel("opening the map wp_counts", error))
    }

    /// Counts so far, of all processors; zero where they cannot be read.
    pub(crate) fn read(&self) -> Counts {
        let sum = |place| self.0.get(&place, 0).map(|counts| counts.iter().sum()).unwrap_or_default();
        Counts { passed: sum(PASSED), dropped: sum(DROPPED), sent: sum(SENT), unsent: sum(UNSENT) }
    }
}

pub(crate) fn map(programs: &mut Ebpf, name: &str) -> Result<Map, BpfError> {
    programs.take_map(name).ok_or_else(|| BpfError::Kernel(format!("the object has no map {name}")))
}

pub(crate) fn array<V: Pod>(programs: &mut Ebpf, name: &str) -> Result<Array<MapData, V>, BpfError> {
    let opened: Result<_, MapError> = Array::try_from(map(programs, name)?);
    opened.map_err(|error| BpfError::kernel(&format!("opening the map {name}"), error))
}

pub(crate) fn table<K: Pod, V: Pod>(
    programs: &mut Ebpf,
    name: &str,
) -> Result<HashMap<MapData, K, V>, BpfError> {
    let opened: Result<_, MapError> = HashMap::try_from(map(programs, name)?);
    opened.map_err(|error| BpfError::kernel(&format!("opening the map {name}"), error))
}

/// The map that says which datagrams are records.
pub(crate) struct InputMap(Array<MapData, Input>);

impl InputMap {
    pub(crate) fn open(programs: &mut Ebpf) -> Result<InputMap, BpfError> {
        array(programs, "wp_input").map(InputMap)
    }

    /// Writes the input, and the number of receivers. Without an input no datagram is a record.
    pub(crate) fn set(&mut self, input: Option<SocketAddrV4>, receivers: usize) -> Result<(), BpfError> {
        let mut row: Input = [0; 12];
        if let Some(input) = input {
            row[..4].copy_from_slice(&input.ip().octets());
            row[4..6].copy_from_slice(&input.port().to_be_bytes());
        }
        row[8..].copy_from_slice(&(receivers as u32).to_ne_bytes());
        self.0.set(0, row, 0).map_err(|error| BpfError::kernel("writing the input", error))
    }
}

/// A program of the object.
pub(crate) fn program<'a, P>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut P, BpfError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let program = programs.program_mut(name);
    let program = program.ok_or_else(|| {
        BpfError::Kernel(format!("the object has no program {name}: build it again (make bpf)"))
    })?;
    program.try_into().map_err(|error| BpfError::kernel(&format!("the program {name}"), error))
}

/// Attaches a program of traffic control to a device.
pub(crate) fn attach(
    program: &mut SchedClassifier,
    name: &str,
    device: &str,
    place: TcAttachType,
) -> Result<(), BpfError> {
    let attached = program.attach(device, place).or_else(|_| {
        // Before Linux 6.6 programs are attached to a queueing discipline, which may be there already.
        drop(tc::qdisc_add_clsact(device));
        program.attach(device, place)
    });
    attached.map(drop).map_err(|error| BpfError::kernel(&format!("attaching {name} to {device}"), error))
}
