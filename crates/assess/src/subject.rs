//! Subjects of figures: experiments, transports, data paths and their variants, and parts of the relay
//! experiment.
//!
//! Results contain their names as text; only this module formats and parses these names.

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

/// Experiment; its name is that of the sub-command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// RTP packets over UDP (figures 4a, 4b and 5 of the assessment papers), and in a TCP connection (table 2).
    Stream,
    /// Bytes of a file, as UDP datagrams and over TCP (figures 3a and 3b).
    Download,
    /// Sends that copy, compared with sends that lend their pages.
    Loan,
    /// Machine: kernel entry and copies.
    Host,
    /// Profiles of paths.
    Profile,
    /// Counts of kernel calls and copies.
    Count,
    /// Stream service, compared with loops and other programs.
    Relay,
}

impl Experiment {
    /// Name.
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

    /// Plain path, to which the papers compare other paths.
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
