//! Test bed: two namespaces and a link.
//!
//! ```text
//!   client                                     server
//!   10.77.0.2/24 veth ----- RTSP (TCP) ----- veth 10.77.0.1/24
//!   10.78.0.0/16 local                       10.78.0.0/16 via 10.77.0.2   for TCP
//!   10.79.0.0/16 local                       10.79.0.0/16 via 10.77.0.2   for the session that is judged
//!                                            10.78.0.0/16 via 10.80.0.2   for UDP: dev sink, dropped
//!                                            10.80.0.0/16 via 10.80.0.2   for the bare loops: the same
//! ```
//!
//! `sink` is an ifb device to which nothing is redirected: it drops, and takes UDP segments and checksums as
//! a network card with those offloads does, at no cost of its own. All that it drops leaves for one next hop, as
//! from a server whose clients are behind a router; a neighbour for each client would be measured, too.

use std::path::{Path, PathBuf};

use anyhow::Result;
use wirepath_tests::namespace::{Link, Namespace};

/// The two namespaces.
pub(crate) struct TestBed {
    link: Link,
}

impl TestBed {
    pub(crate) fn new() -> Result<Self> {
        let link = Link::new()?;
        link.client.ip("route add local 10.78.0.0/15 dev lo")?;
        for line in [
            "route add 10.78.0.0/15 via 10.77.0.2",
            "link add sink type ifb",
            "link set sink up",
            "address add 10.80.0.1/30 dev sink",
            "route add 10.80.0.0/16 via 10.80.0.2 dev sink",
            "route add 10.78.0.0/16 via 10.80.0.2 dev sink table 100",
            "rule add ipproto udp lookup 100",
        ] {
            link.server.ip(line)?;
        }
        Ok(Self { link })
    }

    pub(crate) fn client(&self) -> &Namespace {
        &self.link.client
    }

    pub(crate) fn server(&self) -> &Namespace {
        &self.link.server
    }

    /// Packets that the sink has dropped.
    pub(crate) fn dropped(&self) -> Result<u64> {
        let text = self.link.server.ip("-json -statistics link show dev sink")?;
        let json: serde_json::Value = serde_json::from_str(&text)?;
        let statistics = &json[0]["stats64"];
        // An ifb counts what it drops as received: it exists to receive what others redirect.
        let number = |side: &str, name: &str| statistics[side][name].as_u64().unwrap_or(0);
        Ok(number("rx", "dropped") + number("tx", "dropped") + number("tx", "packets"))
    }
}

/// A file below the target folder for what is generated once.
pub(crate) fn scratch(name: &str) -> Result<PathBuf> {
    let profile = wirepath_tests::process::profile_folder()?;
    let folder = profile.parent().unwrap_or(Path::new(".")).join("bench");
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(name))
}
