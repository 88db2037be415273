//! Test bed for thousands of clients of a server on this machine.
//!
//! ```text
//!   namespace of the server                          namespace of the clients
//!   10.81.0.1/24 near ---------- veth ---------- far 10.81.0.2/24
//!   10.78.0.0/16 via 10.81.0.2        for TCP        10.78.0.0/16 local: sessions that are not judged
//!   10.78.0.0/16 via 10.80.0.2        for UDP: dev sink, dropped
//!   10.79.0.0/16 via 10.81.0.2                       10.79.0.0/16 local: sessions that are judged
//! ```
//!
//! So media of sessions that are not judged cost the server the same as up to a network card, and there is no
//! cost of receiving them. They have one next hop, as from a server whose clients are behind a router: with a
//! neighbour entry for each client, the kernel's neighbour table (1,024 entries by default, `gc_thresh3`)
//! costs a fifth of the server's time from some thousand clients on.
//!
//! Each end of the veth pair receives on its own processors (RPS, since Linux 6.3). Otherwise the server's
//! processor would receive for the clients, and process the acknowledgements that they send. A server on all
//! processors has no processor of its own: its end then receives wherever a packet was sent.

use std::net::{IpAddr, Ipv4Addr};

use super::device::{Counted, Device, udp_sends_without_room};
use super::namespace::{Namespace, ip};
use super::pair::Pair;
use super::processors::Processors;
use super::{FAR, NEAR, on_a_thread};
use crate::error::{Doing, Error};

/// MTU of all devices.
const MTU: u32 = 1500;

/// Networks of the sessions that are not judged, and of the judged sessions: /16 each.
const DROPPED: [u8; 2] = [10, 78];
const JUDGED: [u8; 2] = [10, 79];

/// Next hop of dropped packets.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 80, 0, 2);

/// Limit of clients: each session that is not judged has its own address.
pub(crate) const MOST_CLIENTS: usize = 65_000;

/// Number of addresses of judged sessions, which may share addresses.
const JUDGED_ADDRESSES: u32 = 1_000;

/// Networks of a server and of its clients.
pub(crate) struct ClientBed {
    pair: Pair,
    sink: Device,
    processors: Processors,
}

/// Bytes and packets sent by the server's devices.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// To the device that drops.
    pub(crate) dropped: Counted,
    /// To the clients' namespace.
    pub(crate) carried: Counted,
    /// Sends without room in socket buffers or queues, and packets dropped by devices.
    pub(crate) unsent: u64,
}

/// Creates a test bed on a new thread, which is pinned to processors other than the server's, and calls `act`
/// there. `on_all` tells that the server may use all processors. The test bed is removed when `act` returns.
///
/// # Errors
/// [`Error::Input`] without the privileges for namespaces; errors of `act`.
pub(crate) fn with_client_bed<T: Send>(
    cpu: Option<u32>,
    on_all: bool,
    act: impl FnOnce(&ClientBed) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    on_a_thread(|| {
        let processors = Processors::of_thread(cpu)?;
        processors.pin_to_others()?;
        act(&ClientBed::set(processors, on_all)?)
    })
}

impl ClientBed {
    fn set(processors: Processors, on_all: bool) -> Result<ClientBed, Error> {
        let here = Namespace::unshare()?.ok_or_else(|| {
            Error::Input(
                "clients need network namespaces, which take root with CAP_SYS_ADMIN and CAP_NET_ADMIN: run it with \
                 sudo (in a container: --privileged)"
                    .to_owned(),
            )
        })?;
        // RTCP reports come from addresses whose UDP is routed to the sink.
        for devices in ["all", "default"] {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/{devices}/rp_filter"), "0")
                .doing("turning the filter of reverse paths off")?;
        }
        // So that a server can listen on the port of a server that has just ended. Kernels before 4.20 have
        // this setting for the host only.
        match std::fs::write("/proc/sys/net/ipv4/tcp_max_tw_buckets", "0") {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            written => written.doing("keeping ended connections out of the namespace")?,
        }
        ip("link set lo up")?;
        if !on_all {
            processors.receive_on_measuring()?;
        }
        let far = here.create()?;
        far.run_in(&here, || processors.receive_on_others())?;
        let pair = Pair::between(here, far, MTU)?;
        let sink = Device::that_drops(MTU, true)?;
        let [dropped, judged] = [DROPPED, JUDGED].map(|[high, low]| format!("{high}.{low}.0.0/16"));
        for network in [&dropped, &judged] {
            ip(&format!("route add {network} via {FAR}"))?;
            pair.at_far(|| ip(&format!("route add local {network} dev lo")))?;
        }
        ip(&format!("route add {dropped} via {ROUTER} dev sink onlink table 100"))?;
        ip("rule add ipproto udp lookup 100")?;
        Ok(ClientBed { pair, sink, processors })
    }

    /// Address of the server.
    pub(crate) fn server_address(&self) -> IpAddr {
        NEAR.into()
    }

    /// Calls `act` in the server's namespace, on the server's processor or (`all`) on every processor.
    /// Processes that `act` starts stay there.
    pub(crate) fn at_server<T>(&self, all: bool, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        if all { self.processors.pin_to_all() } else { self.processors.pin_to_measuring() }?;
        let result = act();
        self.processors.pin_to_others()?;
        result
    }

    /// Calls `act` in the namespace of the clients.
    pub(crate) fn at_clients<T>(&self, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.pair.at_far(act)
    }

    /// Processor of the server.
    pub(crate) fn processor(&self) -> u32 {
        self.processors.measuring()
    }

    /// Processors for the load client, at least one.
    pub(crate) fn client_processors(&self) -> usize {
        self.processors.others().max(1)
    }

    /// All processors.
    pub(crate) fn all_processors(&self) -> usize {
        self.processors.number()
    }

    /// Bytes and packets sent so far. May be called in any namespace.
    pub(crate) fn traffic(&self) -> Result<Traffic, Error> {
        self.pair.at_near(|device| {
            Ok(Traffic {
                dropped: self.sink.counted()?,
                carried: device.sent()?,
                unsent: device.unsent()? + self.sink.unsent()? + udp_sends_without_room()?,
            })
        })
    }
}

/// Addresses for `sessions` sessions that are not judged, and addresses for judged sessions.
pub(crate) fn client_addresses(sessions: usize) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let addresses = |[high, low]: [u8; 2], number: u32| {
        let first = Ipv4Addr::new(high, low, 1, 0).to_bits();
        (first..first + number).map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))).collect()
    };
    (addresses(DROPPED, sessions.clamp(2, MOST_CLIENTS) as u32), addresses(JUDGED, JUDGED_ADDRESSES))
}

impl Traffic {
    /// Difference to `earlier`.
    pub(crate) fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            dropped: self.dropped.since(earlier.dropped),
            carried: self.carried.since(earlier.carried),
            unsent: self.unsent.saturating_sub(earlier.unsent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_addresses_of_their_networks() {
        let (dropped, judged) = client_addresses(MOST_CLIENTS + 1);
        assert_eq!(dropped.len(), MOST_CLIENTS);
        assert_eq!(dropped[0].to_string(), "10.78.1.0");
        assert_eq!(dropped[MOST_CLIENTS - 1].to_string(), "10.78.254.231");
        assert!(judged.iter().all(|address| address.to_string().starts_with("10.79.")));
        assert_eq!(client_addresses(1).0.len(), 2, "several addresses share sockets");
    }
}
