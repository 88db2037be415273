//! TCP peer that acknowledges what a device drops.

use std::fmt;

use aya::Ebpf;
use aya::maps::{MapData, PerCpuArray};
use aya::programs::{SchedClassifier, TcAttachType};

use crate::error::BpfError;
use crate::maps::{attach, map, program};

/// Object of `kernel/bpf/embedded/tcp_sink.bpf.c`: `make -C kernel/bpf embedded`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../kernel/bpf/embedded/tcp_sink.bpf.o");

/// Name of the program, and of its map.
const PROGRAM: &str = "wp_acknowledge";
const ACKNOWLEDGED: &str = "wp_acknowledged";

/// Places in the map (`enum count`).
const BYTES: u32 = 0;
const SEGMENTS: u32 = 1;
const CONNECTIONS: u32 = 2;
const ENDS: u32 = 3;

/// Acknowledgement of all TCP over IPv4 that leaves by a device: in place of peers, for measurements of senders. It
/// takes every connection to addresses behind the device, and ends when the sender ends it. No payload is read or
/// kept, so lent pages return as from a network card. Ends when it is dropped.
///
/// The device needs a rule of nftables, [`TcpSink::RULE`] at its ingress, and must have no other peers.
pub struct TcpSink {
    acknowledged: PerCpuArray<MapData, u64>,
    /// The program, which is detached with it.
    _programs: Ebpf,
}

/// Counts of acknowledged segments so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Bytes of payload, those sent again included.
    pub bytes: u64,
    /// Segments as the sender gave them to the device, which are not cut to the MTU.
    pub segments: u64,
    /// Segments that open a connection (SYN).
    pub connections: u64,
    /// Segments that end a connection (FIN).
    pub ends: u64,
}

impl TcpSink {
    /// Rule that drops segments, of which the kernel then makes resets (Linux 5.11): those that the program marks.
    pub const RULE: &str = "tcp flags & ack == 0 reject with tcp reset";

    /// Has the kernel check the program, and attaches it to a device.
    ///
    /// # Errors
    /// [`BpfError::Kernel`] if the kernel lacks what is needed, or the right is missing (`CAP_BPF` and
    /// `CAP_NET_ADMIN`).
    pub fn attach(device: &str) -> Result<TcpSink, BpfError> {
        let loaded = Ebpf::load(OBJECT);
        let mut programs = loaded.map_err(|error| BpfError::kernel("loading the object", error))?;
        let classifier: &mut SchedClassifier = program(&mut programs, PROGRAM)?;
        let loaded = classifier.load();
        loaded.map_err(|error| BpfError::kernel(&format!("loading the program {PROGRAM}"), error))?;
        attach(classifier, PROGRAM, device, TcAttachType::Egress)?;
        let acknowledged = PerCpuArray::try_from(map(&mut programs, ACKNOWLEDGED)?);
        let acknowledged = acknowledged
            .map_err(|error| BpfError::kernel(&format!("opening the map {ACKNOWLEDGED}"), error))?;
        Ok(TcpSink { acknowledged, _programs: programs })
    }

    /// Counts so far, of all processors.
    ///
    /// # Errors
    /// The kernel's.
    pub fn acknowledged(&self) -> Result<Acknowledged, BpfError> {
        let sum = |place| {
            let counts = self.acknowledged.get(&place, 0);
            let counts = counts
                .map_err(|error| BpfError::kernel(&format!("reading the map {ACKNOWLEDGED}"), error))?;
            Ok(counts.iter().sum())
        };
        Ok(Acknowledged {
            bytes: sum(BYTES)?,
            segments: sum(SEGMENTS)?,
            connections: sum(CONNECTIONS)?,
            ends: sum(ENDS)?,
        })
    }
}

impl fmt::Debug for TcpSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TcpSink").finish_non_exhaustive()
    }
}

impl Acknowledged {
    /// Difference to `earlier`.
    #[must_use]
    pub fn since(self, earlier: Acknowledged) -> Acknowledged {
        Acknowledged {
            bytes: self.bytes - earlier.bytes,
            segments: self.segments - earlier.segments,
            connections: self.connections - earlier.connections,
            ends: self.ends - earlier.ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use object::{Object, ObjectSection};

    use super::*;

    /// Version of clang that made the stored object: others make other instructions.
    const CLANG: &str = "clang version 14.";

    /// Sections that decide what the program does.
    const SECTIONS: [&str; 3] = ["classifier", ".maps", "license"];

    fn sections(object: &[u8]) -> Vec<Vec<u8>> {
        let file = object::File::parse(object).unwrap();
        let data = |name| file.section_by_name(name).unwrap().data().unwrap().to_owned();
        SECTIONS.map(data).into()
    }

    /// Promise: The stored object of the program that acknowledges TCP is that of its source.
    #[test]
    fn the_stored_object_is_that_of_its_source() {
        let version = Command::new("clang").arg("--version").output();
        let has = |of: &[u8]| String::from_utf8_lossy(of).contains(CLANG);
        if !version.is_ok_and(|told| has(&told.stdout))
            || !Path::new("/usr/include/bpf/bpf_helpers.h").exists()
        {
            println!("skipped: it takes {CLANG} and libbpf-dev");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/bpf/embedded/tcp_sink.bpf.c");
        let built = folder.path().join("tcp_sink.bpf.o");
        let made = Command::new("clang")
            .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3"])
            .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(&built)
            .status();
        assert!(made.unwrap().success());
        let is_same = sections(&std::fs::read(built).unwrap()) == sections(OBJECT);
        assert!(is_same, "the source was changed: make -C kernel/bpf embedded");
    }
}
