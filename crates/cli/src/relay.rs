//! `wirepath relay`: the stream service.

mod cache;
mod report;
mod wires;

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgGroup, Args};

use cache::Caching;
use wires::Wires;

/// Arguments of `wirepath relay`.
#[derive(Args)]
#[command(group = ArgGroup::new("what to do").args(["inputs", "cache"]).required(true))]
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
  wirepath relay --cache /var/cache/films --origin http://storage:8080 --listen :80

Several inputs are merged (--order), several outputs mirrored unless --pattern says otherwise. Bytes that nobody has to \
look at are not copied.

With --cache, clients are answered over HTTP from what is kept, and from the origin what is not: what is fetched goes to the \
cache and to all who want it at the same time, once. When it listens, one line goes to standard output: \
ready http=http://HOST:PORT/. The log goes to standard error; RUST_LOG sets its level (default: info). SIGTERM or SIGINT \
drains for at most 10 s; a second one ends at once.

Exit code: 0 if all inputs came to their end and all was delivered, 1 if something failed, 128 and the signal's number \
if it was stopped. Of a cache: 0 if it was drained, 3 if not all answers had ended then.")]
pub(crate) struct Relay {
    #[command(flatten)]
    wires: Wires,

    #[command(flatten)]
    caching: Caching,

    #[command(flatten)]
    listening: Listening,
}

/// Where clients come in.
#[derive(Args)]
struct Listening {
    /// Where clients connect: HOST:PORT or :PORT; may be given more than once
    #[arg(long = "listen", value_name = "ADDRESS", requires = "cache")]
    addresses: Vec<String>,
}

impl Relay {
    /// Relays until there is nothing more to relay, something fails or a signal comes.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Relay { wires, caching, listening } = self;
        match caching.is_asked_for() {
            true => caching.run(&listening.addresses, wires.json.as_deref()),
            false => wires.run(),
        }
    }
}
