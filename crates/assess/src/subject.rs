//! Subjects of figures: experiments, transports, data paths and their variants, and parts of the relay
//! experiment.
//!
//! Results name all of these in text; that text is written and read here only.

mod path;
mod relay;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use path::{PathKind, PathVariant, UnknownPath, Variant};
pub use relay::{Method, Part, Program, UnknownPart};

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
}

impl fmt::Display for Experiment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
        })
    }
}
