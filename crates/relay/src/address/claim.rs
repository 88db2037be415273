//! What only one input or output can have, to find two that want it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Address, Kind};
use crate::identity::Identity;

/// What only one can have.
pub(crate) struct Claim {
    /// By which two of the same are told.
    pub(crate) what: String,
    /// What is wrong if two have it.
    pub(crate) wrong: String,
}

impl Address {
    /// What of it only one input or output can have.
    pub(crate) fn claim(&self, is_output: bool) -> Option<Claim> {
        let (what, wrong) = match &self.kind {
            Kind::Standard if is_output => (
                "standard output".to_owned(),
                "standard output (-) is written to twice; one stream can have it".to_owned(),
            ),
            Kind::Standard => (
                "standard input".to_owned(),
                "standard input (-) is read twice; one stream can have it".to_owned(),
            ),
            Kind::File { path, .. } if is_output => (
                file_to_write(path)?,
                format!("{} is written to twice; give each output a file of its own", path.display()),
            ),
            // Whoever joins a group gets it whoever else has joined.
            Kind::Udp(udp) if !is_output && !udp.is_group() => (
                format!("udp://{}:{}", udp.host, udp.port),
                format!("{self} is received from twice; one input gets what comes there"),
            ),
            Kind::Tcp { host, port, listen: true } => waited_for(format!("tcp://{host}:{port}")),
            Kind::Unix { path, listen: true } => waited_for(format!("unix:{}", path.display())),
            _ => return None,
        };
        Some(Claim { what, wrong })
    }

    /// Whether both are one ordinary file, by whatever names.
    pub(crate) fn is_same_file(&self, other: &Address) -> bool {
        let file = |address: &Address| match &address.kind {
            Kind::File { path, .. } => std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file),
            _ => None,
        };
        file(self).zip(file(other)).is_some_and(|(one, two)| (one.dev(), one.ino()) == (two.dev(), two.ino()))
    }
}

/// A file by whatever name, if it is an ordinary one or is to be made: of a device or a FIFO each may have a part.
fn file_to_write(path: &Path) -> Option<String> {
    Some(match Identity::of(path, |kind| kind.is_file())? {
        Identity::There(device, inode) => format!("file {device}:{inode}"),
        Identity::ToBeMade(path) => format!("file {}", path.display()),
    })
}

fn waited_for(place: String) -> (String, String) {
    let wrong = format!("connections are waited for at {place} twice; give each an address of its own");
    (place, wrong)
}
