//! Records dropped in the kernel before they cost a socket.

use std::net::SocketAddrV4;

use aya::Ebpf;
use aya::programs::{Xdp, XdpMode};

use crate::error::BpfError;
use crate::maps::{Counters, Counts, program, set_input};
use crate::program::HandlerObject;

/// Name of the program.
const SELECT: &str = "wp_select";

/// Selection of the datagrams of one input by a handler in drivers of network devices (XDP): those that it drops
/// become no packets. All others come to user space, which asks the handler again. Ends when it is dropped.
pub struct Select {
    counts: Counters,
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
        let mut programs = object.load()?;
        let select: &mut Xdp = program(&mut programs, SELECT)?;
        let loaded = select.load();
        loaded.map_err(|error| BpfError::kernel(&format!("loading the program {SELECT}"), error))?;
        set_input(&mut programs, input, 0)?;
        let counts = Counters::open(&mut programs)?;
        let select: &mut Xdp = program(&mut programs, SELECT)?;
        for device in devices {
            // In the generic mode a train of datagrams is one frame, and a handler would see its first record only.
            let attached = select.attach(device, XdpMode::Driver);
            attached.map_err(|error| BpfError::kernel(&format!("attaching {SELECT} to {device}"), error))?;
        }
        Ok(Select { counts, programs })
    }

    /// Counts so far; zero where they cannot be read.
    pub fn counts(&self) -> Counts {
        self.counts.read()
    }

    /// Ends it; returns its final counts.
    pub(crate) fn end(self) -> Counts {
        let Select { counts, programs } = self;
        // What comes before it is detached counts.
        drop(programs);
        counts.read()
    }
}
