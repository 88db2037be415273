//! Faults of an image.

/// Fault of an image, not of its asset: packing again makes a good one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another kind of file, or an image that was never finished.
    #[error("not a wire image: it does not begin with \"WIREPATH\"")]
    NotAnImage,
    /// Another version of Wirepath wrote it.
    #[error("wire image of version {found}; this program reads version {}", super::VERSION)]
    Version {
        /// Version in the file.
        found: u32,
    },
    /// A part is shorter or longer than it should be.
    #[error("{part} of the wire image has {found} bytes: expected {expected}")]
    Length {
        /// The part.
        part: Part,
        /// Length in bytes by the rest of the file.
        expected: u64,
        /// Length in bytes.
        found: u64,
    },
    /// A part was damaged on the disk or while it was written.
    #[error(
        "{part} of the wire image is damaged: its checksum is {computed:#010x} and should be {stored:#010x}"
    )]
    Checksum {
        /// The part.
        part: Part,
        /// The checksum in the file.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A field contradicts the others.
    #[error("{part} of the wire image, byte {offset}: {field} is {found}, but {rule}")]
    Field {
        /// The part.
        part: Part,
        /// Offset in the part of the field, or of the record with it.
        offset: u64,
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// Rule for its value.
        rule: &'static str,
    },
    /// The RTP header of a packet is not the one that its train's record makes.
    #[error(
        "a segment of the wire image, byte {offset}: the RTP header of this packet is not that of its train"
    )]
    PacketHeader {
        /// Offset of the packet in the segment.
        offset: u64,
    },
    /// The description is not the JSON that it should be.
    #[error("the description in the wire image cannot be read: {reason}")]
    Description {
        /// Error of the JSON reader.
        reason: String,
    },
}

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first page.
    Header,
    /// Packets and records of a segment.
    Segment,
    /// The table at the end.
    Table,
}

impl std::fmt::Display for Part {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Header => "the header",
            Self::Segment => "a segment",
            Self::Table => "the table",
        })
    }
}
