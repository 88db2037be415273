//! Subjects of figures: experiments, transports, data paths and their variants, and parts of the relay
//! experiment.
//!
//! Results name all of these in text; that text is written and read here only.

mod handling;
mod path;
mod relay;

use std::fmt;

use serde::{Deserialize, Serialize};
use wirepath_datapath::{BlockPath, DataPath};

pub use handling::{HandlerKind, OrderKind};
pub use path::{PathKind, PathVariant, Variant};
pub use relay::{Method, Part, Program};
pub use wirepath_datapath::calibration::Transport;

/// An experiment; its name is that of the sub-command that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// RTP packets over UDP (figures 4a, 4b and 5 of the assessment papers).
    Stream,
    /// Bytes of a file, as UDP datagrams and over TCP (figures 3a and 3b).
    Download,
    /// Sends that copy against sends that lend their pages.
    Loan,
    /// The machine: kernel entry and copies.
    Host,
    /// Profiles of paths.
    Profile,
    /// Kernel calls and copies, counted.
    Count,
    /// The stream service beside loops and other programs.
    Relay,
}

impl Experiment {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Experiment::Stream => "stream",
            Experiment::Download => "download",
            Experiment::Loan => "loan",
            Experiment::Host => "host",
            Experiment::Profile => "profile",
            Experiment::Count => "count",
            Experiment::Relay => "relay",
        }
    }

    /// The plain path that the papers measure others by.
    pub const fn baseline(self) -> Option<PathKind> {
        match self {
            Experiment::Stream => Some(PathKind::Stream(DataPath::ReadWritev)),
            Experiment::Download => Some(PathKind::Block(BlockPath::ReadWrite)),
            _ => None,
        }
    }
}

impl fmt::Display for Experiment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
