//! What is wrong with an image.

/// An image that cannot be used. The file is at fault, not the asset: packing it again makes a good one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file does not start like an image; it is something else, or was never finished.
    #[error("not a wire image: it does not begin with \"WIREPATH\"")]
    NotAnImage,
    /// Another version of Wirepath wrote it.
    #[error("wire image of version {found}; this program reads version {}", super::VERSION)]
    Version {
        /// The version it says it has.
        found: u32,
    },
    /// A part is shorter or longer than it should be.
    #[error("{part} of the wire image has {found} bytes: expected {expected}")]
    Length {
        /// The part.
        part: Part,
        /// Its length in bytes as the rest of the file has it.
        expected: u64,
        /// Bytes there are.
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
        /// Byte of the part at which the field, or the record with it, starts.
        offset: u64,
        /// The field.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it should hold.
        rule: &'static str,
    },
    /// The RTP header of a packet is not the one that its train's record makes.
    #[error(
        "a segment of the wire image, byte {offset}: the RTP header of this packet is not that of its train"
    )]
    PacketHeader {
        /// Byte of the segment at which the packet starts.
        offset: u64,
    },
    /// The description is not the JSON that it should be.
    #[error("the description in the wire image cannot be read: {reason}")]
    Description {
        /// What the JSON reader says.
        reason: String,
    },
}

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first page.
    Header,
    /// The packets and records of a segment; which one is known to the caller.
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
