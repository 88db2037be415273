//! Generator of small MP4 files for tests: with tables or fragments, and the `moov` box at the beginning or
//! the end.

/// MP4 file.
#[derive(Clone, Debug)]
pub struct File {
    /// Tracks of the file.
    pub tracks: Vec<SampleTrack>,
    /// Place of the tables.
    pub layout: Layout,
    /// Samples per chunk or fragment.
    pub samples_in_chunk: usize,
    /// True for tables with 64-bit offsets and an `mdat` box with a 64-bit size.
    pub long: bool,
}

/// Place of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `moov` before `mdat`.
    Front,
    /// `moov` after `mdat`.
    End,
    /// An `mdat` for each chunk, `moov` last.
    SeveralMdat,
    /// A fragment for each chunk.
    Fragments,
    /// `moov` with the first fragment, `mdat`; more fragments may follow.
    FrontOfFragments,
}

/// Track of a file.
#[derive(Clone, Debug)]
pub struct SampleTrack {
    /// Ticks per second.
    pub timescale: u32,
    /// Handler: `vide` or `soun`.
    pub handler: [u8; 4],
    /// Sample description.
    pub entry: Vec<u8>,
    /// Samples of the track.
    pub samples: Vec<SampleShape>,
    /// Edits: duration in the movie's timescale of 1000, and media time.
    pub edits: Vec<(u32, i32)>,
}

/// Sample, whose bytes are all its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleShape {
    /// Length in bytes.
    pub length: u32,
    /// Duration in units of the track's timescale.
    pub duration: u32,
    /// Composition offset.
    pub composition_offset: i32,
    /// True if a decoder can start here.
    pub sync: bool,
}

impl Default for File {
    fn default() -> Self {
        let sample = |length| SampleShape { length, duration: 40, composition_offset: 0, sync: length == 10 };
        let track = SampleTrack {
            timescale: 1000,
            handler: *b"vide",
            entry: visual(b"avc1", &[avc_configuration()]),
            samples: [10, 20, 30].map(sample).to_vec(),
            edits: Vec::new(),
        };
        Self { tracks: vec![track], layout: Layout::Front, samples_in_chunk: 2, long: false }
    }
}

/// Box with these parts.
pub fn atom(kind: &[u8; 4], parts: &[Vec<u8>]) -> Vec<u8> {
    let body = parts.concat();
    [&(body.len() as u32 + 8).to_be_bytes(), kind.as_slice(), &body].concat()
}

/// Full box of version 0 with these parts.
pub fn full(kind: &[u8; 4], flags: u32, parts: &[Vec<u8>]) -> Vec<u8> {
    atom(kind, &[vec![words(&[flags])], parts.to_vec()].concat())
}

/// Encodes numbers of 32 bits.
pub fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// Sample description of video of 64 by 48 pixels.
pub fn visual(kind: &[u8; 4], boxes: &[Vec<u8>]) -> Vec<u8> {
    let mut fields = vec![0; 78];
    fields[7] = 1;
    fields[24..28].copy_from_slice(&[0, 64, 0, 48]);
    atom(kind, &[vec![fields], boxes.to_vec()].concat())
}

/// Sample description of stereo audio at 48 kHz.
pub fn audio(kind: &[u8; 4], boxes: &[Vec<u8>]) -> Vec<u8> {
    let mut fields = vec![0; 28];
    fields[7] = 1;
    fields[16..20].copy_from_slice(&[0, 2, 0, 16]);
    fields[24..26].copy_from_slice(&48_000u16.to_be_bytes());
    atom(kind, &[vec![fields], boxes.to_vec()].concat())
}

/// Configuration of H.264: Constrained Baseline 3.0, NAL units after lengths of four bytes.
pub fn avc_configuration() -> Vec<u8> {
    let sets = [0xe1, 0, 4, 0x67, 66, 0xc0, 30, 1, 0, 2, 0x68, 0xce];
    atom(b"avcC", &[vec![1, 66, 0xc0, 30, 0xff], sets.to_vec()])
}

/// `esds` box with this object type and decoder specific information.
pub fn elementary_stream(object_type: u8, specific: &[u8]) -> Vec<u8> {
    let info = [&[5, specific.len() as u8], specific].concat();
    let decoder = [&[object_type, 0x15][..], &[0; 11], &info].concat();
    let decoder = [&[4, decoder.len() as u8][..], &decoder].concat();
    let stream = [&[0, 1, 0][..], &decoder].concat();
    full(b"esds", 0, &[[&[3, stream.len() as u8][..], &stream].concat()])
}

impl File {
    /// Generates the bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let head = atom(b"ftyp", &[b"isom".to_vec(), words(&[512])]);
        match self.layout {
            Layout::Fragments => self.fragmented(head),
            Layout::Front | Layout::FrontOfFragments => {
                // The length of the tables does not depend on the offsets in them.
                let length = self.movie(&self.places(0, 0)).len() as u64;
                let places = self.places(head.len() as u64 + length, 0);
                [head, self.movie(&places), self.media()].concat()
            }
            Layout::End => {
                let places = self.places(head.len() as u64, 0);
                [head, self.media(), self.movie(&places)].concat()
            }
            Layout::SeveralMdat => {
                let places = self.places(head.len() as u64, 8);
                let media = self.chunks().map(|(_, samples)| atom(b"mdat", &[contents(&samples)]));
                [head, media.collect::<Vec<_>>().concat(), self.movie(&places)].concat()
            }
        }
    }

    /// Chunks of all tracks in the order of the file: index of the track, and numbers and shapes of samples.
    fn chunks(&self) -> impl Iterator<Item = (usize, Vec<(u8, SampleShape)>)> + '_ {
        let each = self.samples_in_chunk.max(1);
        let most = self.tracks.iter().map(|track| track.samples.len().div_ceil(each)).max().unwrap_or(0);
        (0..most).flat_map(move |chunk| {
            self.tracks.iter().enumerate().filter_map(move |(index, track)| {
                let numbered = track.samples.iter().enumerate().map(|(number, shape)| (number as u8, *shape));
                let samples: Vec<_> = numbered.skip(chunk * each).take(each).collect();
                (!samples.is_empty()).then_some((index, samples))
            })
        })
    }

    fn media(&self) -> Vec<u8> {
        let contents: Vec<u8> = self.chunks().flat_map(|(_, samples)| contents(&samples)).collect();
        if !self.long {
            return atom(b"mdat", &[contents]);
        }
        [words(&[1]), b"mdat".to_vec(), (contents.len() as u64 + 16).to_be_bytes().to_vec(), contents]
            .concat()
    }

    /// Offsets of the chunks of each track. The media begins at `start`, and each chunk after `gap` bytes.
    fn places(&self, start: u64, gap: u64) -> Vec<Vec<u64>> {
        let mut at = start
            + if gap > 0 {
                0
            } else if self.long {
                16
            } else {
                8
            };
        let mut places = vec![Vec::new(); self.tracks.len()];
        for (track, samples) in self.chunks() {
            places[track].push(at + gap);
            at += gap + samples.iter().map(|(_, shape)| u64::from(shape.length)).sum::<u64>();
        }
        places
    }

    fn movie(&self, places: &[Vec<u64>]) -> Vec<u8> {
        let header = full(b"mvhd", 0, &[words(&[0, 0, 1000, 0]), vec![0; 80]]);
        let tracks = self.tracks.iter().enumerate();
        let tracks = tracks.map(|(index, track)| track.bytes(index as u32 + 1, self, places.get(index)));
        let mut parts: Vec<Vec<u8>> = [header].into_iter().chain(tracks).collect();
        if matches!(self.layout, Layout::Fragments | Layout::FrontOfFragments) {
            let defaults = (1..=self.tracks.len() as u32)
                .map(|id| full(b"trex", 0, &[words(&[id, 1, 0, 0, 0])]))
                .collect::<Vec<_>>();
            parts.push(atom(b"mvex", &defaults));
        }
        atom(b"moov", &parts)
    }

    fn fragmented(&self, head: Vec<u8>) -> Vec<u8> {
        let mut bytes = [head, self.movie(&[])].concat();
        let mut times = vec![0u64; self.tracks.len()];
        for (number, (track, samples)) in (0u32..).zip(self.chunks()) {
            let fragment = |offset| fragment(number, track as u32 + 1, times[track] as u32, &samples, offset);
            let offset = fragment(0).len() as u32 + 8;
            bytes.extend([fragment(offset), atom(b"mdat", &[contents(&samples)])].concat());
            times[track] += samples.iter().map(|(_, shape)| u64::from(shape.duration)).sum::<u64>();
        }
        bytes
    }
}

/// Bytes of samples, each filled with its number.
fn contents(samples: &[(u8, SampleShape)]) -> Vec<u8> {
    samples.iter().flat_map(|(number, shape)| vec![*number; shape.length as usize]).collect()
}

fn fragment(number: u32, track: u32, time: u32, samples: &[(u8, SampleShape)], offset: u32) -> Vec<u8> {
    let entries = samples.iter().map(|(_, shape)| {
        let flags = if shape.sync { 0 } else { 0x1_0000 };
        words(&[shape.duration, shape.length, flags, shape.composition_offset as u32])
    });
    let entries = entries.collect::<Vec<_>>().concat();
    let run = full(b"trun", 0xf01, &[words(&[samples.len() as u32, offset]), entries]);
    let header = full(b"tfhd", 0x2_0000, &[words(&[track])]);
    let traf = atom(b"traf", &[header, full(b"tfdt", 0, &[words(&[time])]), run]);
    atom(b"moof", &[full(b"mfhd", 0, &[words(&[number])]), traf])
}

impl SampleTrack {
    fn bytes(&self, id: u32, file: &File, places: Option<&Vec<u64>>) -> Vec<u8> {
        let header = full(b"tkhd", 3, &[words(&[0, 0, id, 0, 0]), vec![0; 60]]);
        let mut media = words(&[0, 0, self.timescale, 0]);
        media.extend([0x15, 0xc7, 0, 0]); // English
        let handler = full(b"hdlr", 0, &[words(&[0]), self.handler.to_vec(), vec![0; 13]]);
        let info = atom(b"minf", &[self.table(file, places)]);
        let media = atom(b"mdia", &[full(b"mdhd", 0, &[media]), handler, info]);
        let edits =
            self.edits.iter().flat_map(|(duration, time)| words(&[*duration, *time as u32, 0x1_0000]));
        let edits = full(b"elst", 0, &[words(&[self.edits.len() as u32]), edits.collect()]);
        let edits = if self.edits.is_empty() { Vec::new() } else { atom(b"edts", &[edits]) };
        atom(b"trak", &[header, edits, media])
    }

    fn table(&self, file: &File, places: Option<&Vec<u64>>) -> Vec<u8> {
        let samples = if places.is_some() { self.samples.as_slice() } else { &[] };
        let places = places.map_or(&[][..], Vec::as_slice);
        let each =
            |of: &dyn Fn(&SampleShape) -> Vec<u32>| words(&samples.iter().flat_map(of).collect::<Vec<u32>>());
        let count = |count: usize| words(&[count as u32]);
        let sync: Vec<u32> = (1..).zip(samples).filter(|(_, shape)| shape.sync).map(|(at, _)| at).collect();
        let chunk = file.samples_in_chunk.max(1) as u32;
        let offsets = match file.long {
            true => places.iter().flat_map(|place| place.to_be_bytes()).collect(),
            false => places.iter().flat_map(|place| (*place as u32).to_be_bytes()).collect(),
        };
        let composed = |shape: &SampleShape| vec![1, shape.composition_offset as u32];
        let mut parts = vec![
            full(b"stsd", 0, &[words(&[1]), self.entry.clone()]),
            full(b"stts", 0, &[count(samples.len()), each(&|shape| vec![1, shape.duration])]),
            full(b"stsc", 0, &[words(&[1, 1, chunk, 1])]),
            full(b"stsz", 0, &[words(&[0]), count(samples.len()), each(&|shape| vec![shape.length])]),
            full(if file.long { b"co64" } else { b"stco" }, 0, &[count(places.len()), offsets]),
        ];
        if samples.iter().any(|shape| shape.composition_offset != 0) {
            parts.push(full(b"ctts", 0, &[count(samples.len()), each(&composed)]));
        }
        if samples.iter().any(|shape| !shape.sync) {
            parts.push(full(b"stss", 0, &[count(sync.len()), words(&sync)]));
        }
        atom(b"stbl", &parts)
    }
}
