//! Records dropped in the kernel before they cost a socket.

use std::net::SocketAddrV4;

use aya::Ebpf;
use aya::programs::xdp::XdpLinkId;
use aya::programs::{Xdp, XdpMode};

use crate::error::BpfError;
use crate::maps::{Counters, Counts, InputMap, program};
use crate::program::HandlerObject;

/// Name of the program.
const SELECT: &str = "wp_select";

/// Selection of the datagrams of one input by a handler in drivers of network devices (XDP): those that it drops
/// become no packets. All others come to user space, which asks the handler again. Ends when it is dropped.
pub struct Select {
    input: SocketAddrV4,
    records: InputMap,
    counts: Counters,
    links: Vec<XdpLinkId>,
    /// The program, which is detached with it.
    programs: Ebpf,
}

impl Select {
    /// Has the kernel check the program of an object, and attaches it to these devices.
    ///
    /// # Errors
    /// [`BpfError::Kernel`] if there are no devices, or one whose driver has no XDP or that has a program already;
    /// if the kernel lacks what is needed or refuses the handler, or the right is missing (`CAP_BPF` and
    /// `CAP_NET_ADMIN`).
    pub fn attach(
        object: &HandlerObject,
        input: SocketAddrV4,
        devices: &[String],
    ) -> Result<Select, BpfError> {
        if devices.is_empty() {
            return Err(BpfError::Kernel(format!("no network device has the address {}", input.ip())));
        }
        let mut select = Select::load(object, input)?;
        let program: &mut Xdp = program(&mut select.programs, SELECT)?;
        for device in devices {
            // In the generic mode a train of datagrams is one frame, and a handler would see its first record only.
            let attached = program.attach(device, XdpMode::Driver);
            let failed = |error| BpfError::kernel(&format!("attaching {SELECT} to {device}"), error);
            select.links.push(attached.map_err(failed)?);
        }
        Ok(select)
    }

    /// Has the kernel check the program of an object.
    fn load(object: &HandlerObject, input: SocketAddrV4) -> Result<Select, BpfError> {
        let mut programs = object.load()?;
        let loaded = program::<Xdp>(&mut programs, SELECT)?.load();
        loaded.map_err(|error| BpfError::kernel(&format!("loading the program {SELECT}"), error))?;
        let mut records = InputMap::open(&mut programs)?;
        records.set(Some(input), 0)?;
        let counts = Counters::open(&mut programs)?;
        Ok(Select { input, records, counts, links: Vec::new(), programs })
    }

    /// Replaces the handler by that of another object, with counts of its own. The program is exchanged while it
    /// is attached: a driver that attaches or detaches one may restart its queues and lose datagrams.
    ///
    /// # Errors
    /// [`BpfError::Kernel`] if the kernel refuses the handler, and the handler before it then stays; or if a device
    /// does not take it, and the selection is no longer [attached](Select::is_attached) then.
    pub fn replace(&mut self, object: &HandlerObject) -> Result<(), BpfError> {
        let mut next = Select::load(object, self.input)?;
        let before: &mut Xdp = program(&mut self.programs, SELECT)?;
        let after: &mut Xdp = program(&mut next.programs, SELECT)?;
        for link in self.links.drain(..) {
            let replaced = before.take_link(link).and_then(|link| after.attach_to_link(link));
            let failed = |error| BpfError::kernel(&format!("replacing the program {SELECT}"), error);
            next.links.push(replaced.map_err(failed)?);
        }
        *self = next;
        Ok(())
    }

    /// Returns whether the program is attached to its devices.
    pub fn is_attached(&self) -> bool {
        !self.links.is_empty()
    }

    /// Drops no records until it [resumes](Select::resume). It stays attached.
    pub(crate) fn pause(&mut self) -> Result<(), BpfError> {
        self.records.set(None, 0)
    }

    /// Drops records again.
    pub(crate) fn resume(&mut self) -> Result<(), BpfError> {
        self.records.set(Some(self.input), 0)
    }

    /// Counts so far; zero where they cannot be read.
    pub fn counts(&self) -> Counts {
        self.counts.read()
    }

    /// Ends it; returns its final counts.
    pub(crate) fn end(self) -> Counts {
        let Select { counts, programs, .. } = self;
        // What comes before it is detached counts.
        drop(programs);
        counts.read()
    }
}
