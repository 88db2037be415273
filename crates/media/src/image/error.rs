//! Errors of wire images.

/// Error of a wire image, not of its asset: packing the asset again repairs it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another kind of file, or an image that was not finished.
    #[error("not a wire image: it does not begin with \"WIREPATH\"")]
    NotAnImage,
    /// Image written by another version of Wirepath.
    #[error("wire image of version {found}; this program reads version {}", super::VERSION)]
    Version {
        /// Version of the image.
        found: u32,
    },
    /// Part with a wrong length.
    #[error("{part} of the wire image has {found} bytes: expected {expected}")]
    Length {
        /// Part of the image.
        part: Part,
        /// Expected length in bytes, from other parts of the file.
        expected: u64,
        /// Actual length in bytes.
        found: u64,
    },
    /// Part with a wrong checksum: damaged on the disk or while it was written.
    #[error(
        "{part} of the wire image is damaged: its checksum is {computed:#010x} and should be {stored:#010x}"
    )]
    Checksum {
        /// Part of the image.
        part: Part,
        /// Checksum in the file.
        stored: u32,
        /// Checksum of the bytes.
        computed: u32,
    },
    /// Field that contradicts other fields.
    #[error("{part} of the wire image, byte {offset}: {field} is {found}, but {rule}")]
    Field {
        /// Part of the image.
        part: Part,
        /// Offset of the field, or of the record that contains it, in the part.
        offset: u64,
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        found: u64,
        /// Rule for its value.
        rule: &'static str,
    },
    /// Packet whose RTP header differs from the one generated from its train's record.
    #[error(
        "a segment of the wire image, byte {offset}: the RTP header of this packet is not that of its train"
    )]
    PacketHeader {
        /// Offset of the packet in the segment.
        offset: u64,
    },
    /// Packet whose padding is not that of its train's record.
    #[error("a segment of the wire image, byte {offset}: the padding is not that in the record of the train")]
    Padding {
        /// Offset of the packet or the train in the segment.
        offset: u64,
    },
    /// Description that is not valid JSON, or has other fields.
    #[error("the description in the wire image cannot be read: {reason}")]
    Description {
        /// Error of the JSON parser.
        reason: String,
    },
}

/// Part of a wire image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// First page.
    Header,
    /// Packets and records of a segment.
    Segment,
    /// Table at the end.
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
