//! Element IDs (RFC 9559 section 5).

/// Element ID, including the bits for its length.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id(pub u32);

/// Declares element IDs with their names.
macro_rules! ids {
    ($($name:ident = $value:literal),* $(,)?) => {
        $(pub(super) const $name: Id = Id($value);)*

        const NAMES: &[(Id, &str)] = &[$(($name, stringify!($name))),*];
    };
}

ids! {
    EBML = 0x1a45_dfa3,
    DOC_TYPE = 0x4282,
    SEGMENT = 0x1853_8067,
    SEEK_HEAD = 0x114d_9b74,
    SEEK = 0x4dbb,
    SEEK_ID = 0x53ab,
    SEEK_POSITION = 0x53ac,
    INFO = 0x1549_a966,
    TIMESTAMP_SCALE = 0x2a_d7b1,
    DURATION = 0x4489,
    TRACKS = 0x1654_ae6b,
    TRACK_ENTRY = 0xae,
    TRACK_NUMBER = 0xd7,
    TRACK_TYPE = 0x83,
    DEFAULT_DURATION = 0x23_e383,
    LANGUAGE = 0x22_b59c,
    LANGUAGE_BCP47 = 0x22_b59d,
    CODEC_ID = 0x86,
    CODEC_PRIVATE = 0x63a2,
    CODEC_DELAY = 0x56aa,
    VIDEO = 0xe0,
    PIXEL_WIDTH = 0xb0,
    PIXEL_HEIGHT = 0xba,
    AUDIO = 0xe1,
    SAMPLING_FREQUENCY = 0xb5,
    CHANNELS = 0x9f,
    BIT_DEPTH = 0x6264,
    CONTENT_ENCODINGS = 0x6d80,
    CONTENT_ENCODING = 0x6240,
    CONTENT_ENCODING_TYPE = 0x5033,
    CONTENT_ENCRYPTION = 0x5035,
    CLUSTER = 0x1f43_b675,
    TIMESTAMP = 0xe7,
    SIMPLE_BLOCK = 0xa3,
    BLOCK_GROUP = 0xa0,
    BLOCK = 0xa1,
    BLOCK_DURATION = 0x9b,
    REFERENCE_BLOCK = 0xfb,
    CUES = 0x1c53_bb6b,
    CUE_POINT = 0xbb,
    CUE_TIME = 0xb3,
    CUE_TRACK_POSITIONS = 0xb7,
    CUE_TRACK = 0xf7,
    CUE_CLUSTER_POSITION = 0xf1,
    CHAPTERS = 0x1043_a770,
    TAGS = 0x1254_c367,
    ATTACHMENTS = 0x1941_a469,
}

/// Child elements of a segment. Each of them ends a cluster of unknown size (section 4.5).
pub(super) const IN_SEGMENT: [Id; 8] = [SEEK_HEAD, INFO, TRACKS, CLUSTER, CUES, CHAPTERS, TAGS, ATTACHMENTS];

impl std::fmt::Display for Id {
    /// Writes the name in the specification, or the number.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some((_, name)) = NAMES.iter().find(|(id, _)| id == self) else {
            return write!(formatter, "{:#x}", self.0);
        };
        for word in name.split('_') {
            let (first, rest) = word.split_at(1);
            match word {
                "EBML" | "ID" | "BCP47" => formatter.write_str(word)?,
                _ => write!(formatter, "{first}{}", rest.to_ascii_lowercase())?,
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{self}")
    }
}
