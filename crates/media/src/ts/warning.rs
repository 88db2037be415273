//! Warnings: faults of a file that do not stop playback.

use serde::{Deserialize, Serialize};

/// Most warnings that are kept, since a file can be damaged at every packet.
const MAX_WARNINGS: usize = 64;

/// Fault of a file, and its offset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Offset in the file, counted from 0.
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

/// Kinds of warnings. None stops playback.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WarningKind {
    /// No packet starts here: the file is damaged or was cut. These bytes are not played.
    #[error("{bytes} bytes skipped: no sync byte where a packet should start")]
    Skipped {
        /// Number of bytes left out.
        bytes: u64,
    },
    /// The last packet is incomplete. The file was probably truncated while it was written.
    #[error("the last packet ends after {bytes} of 188 bytes and is left out")]
    Truncated {
        /// Bytes of the packet that the file contains.
        bytes: u64,
    },
    /// No table announces a programme with a clock: the first clock found is used.
    #[error("no programme with a clock in the tables: departures follow the PCRs of PID {pid}")]
    Unannounced {
        /// PID of the PCRs that are used.
        pid: u16,
    },
    /// The clock jumped, with or without the discontinuity indicator: time continues at the previous rate.
    #[error("PCR discontinuity: time goes on at the rate before")]
    Discontinuity,
    /// No PCR for too long: time continues at the previous rate.
    #[error("no PCR for {bytes} bytes: time goes on at the rate before")]
    ClockGap {
        /// Bytes of packets since the last PCR.
        bytes: u64,
    },
    /// Fewer than two usable PCRs, so that no rate is known.
    #[error("unusable PCRs: 8 Mb/s are assumed")]
    RateAssumed,
    /// The association table names more programmes than are read.
    #[error("more than {followed} programmes; the others are not listed")]
    TooManyProgrammes {
        /// Number of programmes that are read.
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
    /// Edits of a movie's edit list that are not applied: all after the first edit that shows media, unless
    /// they continue it.
    #[error("track {track}: {edits} edits after the first are not applied: their media is left out")]
    EditsLeftOut {
        /// Identifier of the track.
        track: u32,
        /// Number of edits.
        edits: u32,
    },
    /// Edits of a movie's edit list whose rate is not applied.
    #[error(
        "track {track}: the rate of {edits} edits is not applied: their media is played at the normal rate"
    )]
    EditRatesLeftOut {
        /// Identifier of the track.
        track: u32,
        /// Number of edits.
        edits: u32,
    },
    /// A track whose tables are damaged from some sample on, or refer to bytes beyond the end of the file.
    #[error("track {track} ends early: {reason}")]
    TrackCut {
        /// Identifier of the track.
        track: u32,
        /// Fault of the track's tables.
        reason: String,
    },
    /// A sample that is not played, or only up to its damaged part.
    #[error("a sample of track {track} is damaged: {reason}")]
    SampleDamaged {
        /// Identifier of the track.
        track: u32,
        /// Reason.
        reason: String,
    },
    /// A movie whose samples cannot be found from some offset on.
    #[error("the rest of the file is left out: {reason}")]
    EndsEarly {
        /// Fault of the container.
        reason: String,
    },
    /// The file ends within a fragment: it was truncated, or is still being written.
    #[error("the file ends within a fragment, which is left out")]
    FragmentCut,
    /// The file ends within a Matroska element: it was truncated, or is still being written.
    #[error("the file ends within an element, which is left out")]
    ElementCut,
}

/// First warnings about a file, and the number of further ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warnings {
    /// First warnings, in the order in which they were noticed.
    pub first: Vec<Warning>,
    /// Number of warnings that are not listed.
    pub omitted: u64,
}

impl Warnings {
    /// Adds a warning.
    pub fn push(&mut self, warning: Warning) {
        if self.first.len() < MAX_WARNINGS {
            self.first.push(warning);
        } else {
            self.omitted += 1;
        }
    }

    /// Appends warnings of another step of the work on the same file.
    pub fn append(&mut self, others: Self) {
        others.first.into_iter().for_each(|warning| self.push(warning));
        self.omitted += others.omitted;
    }

    /// Sorts the warnings by offset.
    pub fn sort(&mut self) {
        self.first.sort_by_key(|warning| warning.offset);
    }

    /// Returns whether there are no warnings.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}
