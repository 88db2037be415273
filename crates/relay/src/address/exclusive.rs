//! Resources that only one input or output can use.

use std::path::Path;

use super::{Address, Kind};
use crate::file_identity::FileIdentity;

/// Use of a resource that only one input or output can use.
pub(crate) struct ExclusiveUse {
    pub(crate) resource: String,
    /// Error message for a second use.
    pub(crate) conflict: String,
}

impl Address {
    /// The resource that no other address may use, if there is such a resource.
    pub(crate) fn exclusive_use(&self, is_output: bool) -> Option<ExclusiveUse> {
        let (resource, conflict) = match &self.kind {
            Kind::Standard if is_output => (
                "standard output".to_owned(),
                "standard output (-) is written to twice; only one stream can use it".to_owned(),
            ),
            Kind::Standard => (
                "standard input".to_owned(),
                "standard input (-) is read twice; only one stream can use it".to_owned(),
            ),
            Kind::File { path, .. } if is_output => (
                output_file(path)?,
                format!("{} is written to twice; give each output its own file", path.display()),
            ),
            // Any number of sockets can join a multicast group.
            Kind::Udp(udp) if !is_output && !udp.is_group() => (
                format!("udp://{}:{}", udp.host, udp.port),
                format!("{self} is received twice; only one input gets the datagrams of a port"),
            ),
            Kind::Tcp { host, port, listen: true } => listened_on(format!("tcp://{host}:{port}")),
            Kind::Unix { path, listen: true } => listened_on(format!("unix:{}", path.display())),
            _ => return None,
        };
        Some(ExclusiveUse { resource, conflict })
    }

    /// Returns whether both addresses are the same existing ordinary file.
    pub(crate) fn is_same_file(&self, other: &Address) -> bool {
        let file = |address: &Address| match &address.kind {
            Kind::File { path, .. } if path.exists() => FileIdentity::of(path, |kind| kind.is_file()),
            _ => None,
        };
        file(self).is_some_and(|this| file(other) == Some(this))
    }
}

/// Identity of an ordinary or new file. Devices and FIFOs have none, since many outputs may write to them.
fn output_file(path: &Path) -> Option<String> {
    Some(match FileIdentity::of(path, |kind| kind.is_file())? {
        FileIdentity::Existing(device, inode) => format!("file {device}:{inode}"),
        FileIdentity::New(path) => format!("file {}", path.display()),
    })
}

fn listened_on(address: String) -> (String, String) {
    let conflict = format!("{address} is listened on twice; give each its own address");
    (address, conflict)
}
