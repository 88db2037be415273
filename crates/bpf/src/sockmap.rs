//! Records of a TCP connection handled in the kernel.

use std::os::fd::AsFd;

use aya::Ebpf;
use aya::maps::{MapData, SockMap};
use aya::programs::SkSkb;

use crate::error::BpfError;
use crate::maps::{array, map, program};
use crate::program::HandlerObject;

/// Programs that find records, and judge them.
const PROGRAMS: [&str; 2] = ["parser", "verdict"];

/// Places of the sockets, and of the bound, in their maps (`tests/netns/sockmap.bpf.c`).
const INPUT: u32 = 0;
const OUTPUT: u32 = 1;
const BOUND: u32 = 0;

/// Sockmap that sends records of one TCP connection to another if the handler passes them. For measurements:
/// streams of TCP have no handler in the kernel (docs/decisions/0022-handlers-in-the-kernel.md). Ends when it is
/// dropped.
pub struct Sockmap {
    sockets: SockMap<MapData>,
    /// The programs, which are detached with it.
    _programs: Ebpf,
}

impl Sockmap {
    /// Has the kernel check the programs of an object, and attaches them to a map of sockets. Once `bound` bytes
    /// wait for the output, records are left to user space.
    ///
    /// # Errors
    /// [`BpfError::Kernel`] if the object has no such programs, if the kernel lacks what is needed or refuses the
    /// programs, or if the right is missing (`CAP_BPF` and `CAP_NET_ADMIN`).
    pub fn load(object: &HandlerObject, bound: u64) -> Result<Sockmap, BpfError> {
        let mut programs = object.load()?;
        let opened = SockMap::try_from(map(&mut programs, "sockets")?);
        let sockets: SockMap<MapData> =
            opened.map_err(|error| BpfError::kernel("opening the map sockets", error))?;
        let mut numbers = array::<u64>(&mut programs, "numbers")?;
        numbers.set(BOUND, bound, 0).map_err(|error| BpfError::kernel("writing the bound", error))?;
        for name in PROGRAMS {
            let program: &mut SkSkb = program(&mut programs, name)?;
            let attached = program.load().and_then(|()| program.attach(sockets.fd()));
            attached.map_err(|error| BpfError::kernel(&format!("loading the program {name}"), error))?;
        }
        Ok(Sockmap { sockets, _programs: programs })
    }

    /// Has the kernel send records from one connection to the other from now on.
    ///
    /// # Errors
    /// [`BpfError::Kernel`] if it does not take the sockets, which must be connected.
    pub fn connect(&mut self, input: impl AsFd, output: impl AsFd) -> Result<(), BpfError> {
        for (place, socket) in [(OUTPUT, output.as_fd()), (INPUT, input.as_fd())] {
            let set = self.sockets.set(place, &socket, 0);
            set.map_err(|error| BpfError::kernel("adding a socket to the sockmap", error))?;
        }
        Ok(())
    }
}
