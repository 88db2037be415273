//! `wirepath relay`: the stream service.

mod report;
mod wires;

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgGroup, Args};

use wires::Wires;

/// Arguments of `wirepath relay`.
#[derive(Args)]
#[command(group = ArgGroup::new("what to do").args(["inputs"]).required(true))]
#[command(after_help = "\
Addresses:
  tcp://HOST:PORT           connect             tcp://[HOST]:PORT?listen  wait for a connection
  udp://@[GROUP]:PORT       receive             udp://HOST:PORT           send
  unix:PATH[?listen]        a Unix socket       -                         standard input or output
  file:PATH                 a file; to write one that exists, add ?append or ?overwrite
For UDP add ?iface=NAME&ttl=HOPS for multicast, ?packet=BYTES for the size of datagrams that are made of a stream.

Examples:
  wirepath relay --in udp://@239.1.1.1:5000?iface=eth0 --out udp://10.0.0.2:5000 --out udp://10.0.0.3:5000
  wirepath relay --in tcp://camera:9000 --out tcp://:9001?listen --out file:record.ts
  wirepath relay --in file:multiplex.ts --framing ts --handler ts:programme=2 --out file:one.ts

Several inputs are merged (--order), several outputs mirrored unless --pattern says otherwise. Bytes that nobody has to \
look at are not copied.

Exit code: 0 if all inputs came to their end and all was delivered (peers over TCP have acknowledged it), 1 if something failed, 128 and the signal's number \
if it was stopped.")]
pub(crate) struct Relay {
    #[command(flatten)]
    wires: Wires,
}

impl Relay {
    /// Relays until there is nothing more to relay, something fails or a signal comes.
    pub(crate) fn run(self) -> Result<ExitCode> {
        self.wires.run()
    }
}
