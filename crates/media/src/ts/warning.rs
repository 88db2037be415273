//! Warnings: faults of a file that do not stop playing.

use serde::{Deserialize, Serialize};

/// Most warnings that are kept; a file can be damaged at every packet.
const MAX_WARNINGS: usize = 64;

/// Fault of a file, and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Byte of the file, counted from 0.
    pub offset: u64,
    /// Kind of fault.
    #[serde(flatten)]
    pub kind: WarningKind,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "byte {}: {}", self.offset, self.kind)
    }
}

/// Kinds of warnings. None of them stops playing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WarningKind {
    /// The packets do not go on here; the file is damaged or was cut, and this much of it is not played.
    #[error("{bytes} bytes skipped: no sync byte where a packet should start")]
    Skipped {
        /// Bytes left out.
        bytes: u64,
    },
    /// The last packet is not complete; the file was probably cut while it was written.
    #[error("the last packet ends after {bytes} of 188 bytes and is left out")]
    Truncated {
        /// Bytes of it that are there.
        bytes: u64,
    },
    /// No table says which programme there is; the first clock found is followed.
    #[error("no programme with a clock in the tables: departures follow the PCRs of PID {pid}")]
    Unannounced {
        /// The PID whose PCRs are followed.
        pid: u16,
    },
    /// The clock jumped without notice or with it; time goes on at the rate before.
    #[error("PCR discontinuity: time goes on at the rate before")]
    Discontinuity,
    /// For too long no PCR came; time goes on at the rate before.
    #[error("no PCR for {bytes} bytes: time goes on at the rate before")]
    ClockGap {
        /// Bytes of packets since the last PCR.
        bytes: u64,
    },
    /// There are not two PCRs to tell a rate from.
    #[error("unusable PCRs: 8 Mb/s are assumed")]
    RateAssumed,
    /// The association table names more programmes than are followed.
    #[error("more than {followed} programmes; the others are not listed")]
    TooManyProgrammes {
        /// Number of those that are followed.
        followed: u32,
    },
    /// A track of a movie that is not played.
    #[error("track {track} is left out: {reason}")]
    TrackLeftOut {
        /// Identifier of the track.
        track: u32,
        /// Reason.
        reason: String,
    },
    /// Edits of a movie's edit list that are not applied: all after the first that shows media.
    #[error("track {track}: {edits} edits after the first are not applied")]
    EditsLeftOut {
        /// Identifier of the track.
        track: u32,
        /// Number of edits.
        edits: u32,
    },
    /// A track whose tables are damaged from some sample on, or lead beyond the file.
    #[error("track {track} ends early: {reason}")]
    TrackCut {
        /// Identifier of the track.
        track: u32,
        /// Fault of its tables.
        reason: String,
    },
    /// A sample that is not played, or as far as it is good.
    #[error("a sample of track {track} is damaged: {reason}")]
    SampleDamaged {
        /// Identifier of the track.
        track: u32,
        /// Reason.
        reason: String,
    },
    /// A movie whose samples cannot be found from some byte on.
    #[error("the rest of the file is left out: {reason}")]
    EndsEarly {
        /// Fault of its container.
        reason: String,
    },
    /// The file ends within a fragment: it was cut, or grows.
    #[error("the file ends within a fragment, which is left out")]
    FragmentCut,
    /// The file ends within an element of Matroska: it was cut, or grows.
    #[error("the file ends within an element, which is left out")]
    ElementCut,
}

/// First warnings about a file, and the number of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warnings {
    /// The first ones, in the order in which they were noticed.
    pub first: Vec<Warning>,
    /// Number of those that are not listed.
    pub omitted: u64,
}

impl Warnings {
    /// Adds one.
    pub fn push(&mut self, warning: Warning) {
        if self.first.len() < MAX_WARNINGS {
            self.first.push(warning);
        } else {
            self.omitted += 1;
        }
    }

    /// Adds others, which may come from another part of the work on the same file.
    pub fn append(&mut self, others: Self) {
        others.first.into_iter().for_each(|warning| self.push(warning));
        self.omitted += others.omitted;
    }

    /// Puts them in the order of the file.
    pub fn sort(&mut self) {
        self.first.sort_by_key(|warning| warning.offset);
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}
