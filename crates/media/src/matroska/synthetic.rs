//! Generator of small Matroska files for tests: with known or unknown sizes, lacing and block groups.

use super::Id;
use super::id;

/// Matroska file.
#[derive(Clone, Debug)]
pub struct File {
    /// Document type.
    pub document: &'static str,
    /// `TrackEntry` elements.
    pub tracks: Vec<Vec<u8>>,
    /// Blocks in order.
    pub blocks: Vec<BlockShape>,
    /// Blocks per cluster.
    pub blocks_in_cluster: usize,
    /// True for segment and clusters of unknown size, as in live recordings.
    pub unknown_sizes: bool,
    /// True if the tracks follow the clusters, with a `SeekHead` that lists them.
    pub tracks_last: bool,
    /// Nanoseconds per tick.
    pub tick_ns: u64,
}

/// Block.
#[derive(Clone, Debug)]
pub struct BlockShape {
    /// Number of the track.
    pub track: u8,
    /// Presentation time in ticks.
    pub time: u64,
    /// True if a decoder can start here.
    pub key: bool,
    /// Lacing of the frames.
    pub lacing: Lacing,
    /// Lengths of the frames. All bytes of a frame are its number in the track.
    pub frames: Vec<usize>,
    /// True if the block is in a group.
    pub group: bool,
}

/// Lacing of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacing {
    /// Single frame.
    None,
    /// Xiph lacing: sizes as sums of bytes.
    Xiph,
    /// Fixed-size lacing: frames of one size.
    Fixed,
    /// EBML lacing: a size, then differences.
    Ebml,
}

impl Default for File {
    fn default() -> Self {
        let block = |(index, length): (usize, &usize)| BlockShape {
            time: 40 * index as u64,
            key: index == 0,
            frames: vec![*length],
            ..BlockShape::default()
        };
        Self {
            document: "matroska",
            tracks: vec![video(1, "V_VP9", &[], &[])],
            blocks: [10, 20, 30].iter().enumerate().map(block).collect(),
            blocks_in_cluster: 2,
            unknown_sizes: false,
            tracks_last: false,
            tick_ns: 1_000_000,
        }
    }
}

impl Default for BlockShape {
    fn default() -> Self {
        Self { track: 1, time: 0, key: true, lacing: Lacing::None, frames: vec![10], group: false }
    }
}

/// Element with an ID, written including its marker bits, and data.
pub fn element(id: u32, data: &[u8]) -> Vec<u8> {
    [identifier(id), (0x0100_0000_0000_0000 | data.len() as u64).to_be_bytes().to_vec(), data.to_vec()]
        .concat()
}

/// Element with a number.
pub fn number(id: u32, value: u64) -> Vec<u8> {
    element(id, &value.to_be_bytes())
}

/// Video track of 64 by 48 pixels, with further fields.
pub fn video(track: u64, codec: &str, private: &[u8], fields: &[u8]) -> Vec<u8> {
    let size = [number(id::PIXEL_WIDTH.0, 64), number(id::PIXEL_HEIGHT.0, 48)].concat();
    entry(track, 1, codec, private, &[element(id::VIDEO.0, &size), fields.to_vec()].concat())
}

/// Audio track, stereo at 48 kHz with 16 bits, with further fields.
pub fn audio(track: u64, codec: &str, private: &[u8], fields: &[u8]) -> Vec<u8> {
    let rate = element(id::SAMPLING_FREQUENCY.0, &48_000f64.to_be_bytes());
    let sound = [rate, number(id::CHANNELS.0, 2), number(id::BIT_DEPTH.0, 16)].concat();
    entry(track, 2, codec, private, &[element(id::AUDIO.0, &sound), fields.to_vec()].concat())
}

fn entry(track: u64, kind: u64, codec: &str, private: &[u8], fields: &[u8]) -> Vec<u8> {
    let private = if private.is_empty() { Vec::new() } else { element(id::CODEC_PRIVATE.0, private) };
    let parts = [
        number(id::TRACK_NUMBER.0, track),
        number(id::TRACK_TYPE.0, kind),
        element(id::CODEC_ID.0, codec.as_bytes()),
        private,
        fields.to_vec(),
    ];
    element(id::TRACK_ENTRY.0, &parts.concat())
}

/// Configuration of H.264 without parameter sets, as in `CodecPrivate`.
pub fn avc_configuration() -> Vec<u8> {
    vec![1, 77, 0, 30, 0xff, 0xe0, 0]
}

fn identifier(id: u32) -> Vec<u8> {
    id.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect()
}

impl File {
    /// Generates the bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let document = element(id::DOC_TYPE.0, self.document.as_bytes());
        let segment = self.segment();
        [element(id::EBML.0, &document), self.sized(id::SEGMENT, segment)].concat()
    }

    fn sized(&self, id: Id, data: Vec<u8>) -> Vec<u8> {
        if self.unknown_sizes { [identifier(id.0), vec![0xff], data].concat() } else { element(id.0, &data) }
    }

    fn segment(&self) -> Vec<u8> {
        let info = element(id::INFO.0, &number(id::TIMESTAMP_SCALE.0, self.tick_ns));
        let tracks = element(id::TRACKS.0, &self.tracks.concat());
        let (clusters, places) = self.clusters();
        let before =
            if self.tracks_last { seek(&[(id::TRACKS, 0), (id::CUES, 0)]).len() } else { 0 } + info.len();
        let first = before + if self.tracks_last { 0 } else { tracks.len() };
        let cues = self.cues(&places.iter().map(|place| place + first).collect::<Vec<_>>());
        match self.tracks_last {
            false => [info, tracks, clusters, cues].concat(),
            true => {
                let end = before + clusters.len();
                let seek = seek(&[(id::TRACKS, end), (id::CUES, end + tracks.len())]);
                [seek, info, clusters, tracks, cues].concat()
            }
        }
    }

    /// Clusters, and their offsets.
    fn clusters(&self) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut places, mut numbers) = (Vec::new(), Vec::new(), [0u8; 256]);
        for blocks in self.blocks.chunks(self.blocks_in_cluster.max(1)) {
            places.push(bytes.len());
            let time = blocks[0].time;
            let mut data = number(id::TIMESTAMP.0, time);
            for block in blocks {
                data.extend(block.bytes(time, &mut numbers[usize::from(block.track)]));
            }
            bytes.extend(self.sized(id::CLUSTER, data));
        }
        (bytes, places)
    }

    /// Cues, one for each cluster that begins with a key frame.
    fn cues(&self, places: &[usize]) -> Vec<u8> {
        let blocks = self.blocks.chunks(self.blocks_in_cluster.max(1)).map(|blocks| &blocks[0]);
        let cue = |(block, place): (&BlockShape, &usize)| {
            let track = number(id::CUE_TRACK.0, block.track.into());
            let position = number(id::CUE_CLUSTER_POSITION.0, *place as u64);
            let positions = element(id::CUE_TRACK_POSITIONS.0, &[track, position].concat());
            element(id::CUE_POINT.0, &[number(id::CUE_TIME.0, block.time), positions].concat())
        };
        let cues = blocks.zip(places).filter(|(block, _)| block.key).flat_map(cue);
        element(id::CUES.0, &cues.collect::<Vec<u8>>())
    }
}

fn seek(places: &[(Id, usize)]) -> Vec<u8> {
    let entry = |(id, place): &(Id, usize)| {
        let fields = [element(id::SEEK_ID.0, &identifier(id.0)), number(id::SEEK_POSITION.0, *place as u64)];
        element(id::SEEK.0, &fields.concat())
    };
    element(id::SEEK_HEAD.0, &places.iter().flat_map(entry).collect::<Vec<u8>>())
}

impl BlockShape {
    /// Block in a cluster with time `cluster`. `number`: number of its first frame.
    fn bytes(&self, cluster: u64, number: &mut u8) -> Vec<u8> {
        let kind = match self.lacing {
            Lacing::None => 0,
            Lacing::Xiph => 2,
            Lacing::Fixed => 4,
            Lacing::Ebml => 6,
        };
        let key = if self.key && !self.group { 0x80 } else { 0 };
        let [high, low] = (self.time.wrapping_sub(cluster) as i16).to_be_bytes();
        let mut data = vec![0x80 | self.track, high, low, kind | key];
        data.extend(self.lace());
        for length in &self.frames {
            data.extend(vec![*number; *length]);
            *number = number.wrapping_add(1);
        }
        if !self.group {
            return element(id::SIMPLE_BLOCK.0, &data);
        }
        let reference = if self.key { Vec::new() } else { element(id::REFERENCE_BLOCK.0, &[0xff]) };
        element(id::BLOCK_GROUP.0, &[element(id::BLOCK.0, &data), reference].concat())
    }

    /// Number and sizes of laced frames.
    fn lace(&self) -> Vec<u8> {
        let Some((_, sized)) = self.frames.split_last().filter(|_| self.lacing != Lacing::None) else {
            return Vec::new();
        };
        let mut bytes = vec![sized.len() as u8];
        let mut before = None;
        for length in sized {
            match (self.lacing, before.replace(*length as i64)) {
                (Lacing::Xiph, _) => {
                    bytes.extend(vec![255; length / 255]);
                    bytes.push((length % 255) as u8);
                }
                (Lacing::Ebml, None) => bytes.extend((0x4000 | *length as u16).to_be_bytes()),
                (Lacing::Ebml, Some(before)) => {
                    let difference = *length as i64 - before + 0x1fff;
                    bytes.extend((0x4000 | difference as u16).to_be_bytes());
                }
                _ => {}
            }
        }
        bytes
    }
}
