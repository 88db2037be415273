//! Movies through the store: packed from MP4 and Matroska files, played, found again, or refused.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use wirepath_engine::{BlockingPool, Priority};
use wirepath_media::matroska::synthetic as matroska;
use wirepath_media::mp4::synthetic::{self, Layout, SampleShape, SampleTrack, audio, visual};
use wirepath_media::payload::Format;
use wirepath_media::payload::depacketize::{Packet, depacketize};
use wirepath_media::rtp::{HEADER_LENGTH, Header, without_padding};
use wirepath_media::ts::synthetic::Sample;
use wirepath_playback::{At, Load, Segment, TrainSource};

use super::*;
use crate::played_as::PlayedAs;

/// Pictures in a second, and frames of sound.
const PICTURES: u32 = 25;
const FRAMES: u32 = 50;

/// Bytes of a picture and of a frame.
const PICTURE: u32 = 12_000;
const FRAME: u32 = 120;

/// Ten seconds of H.264, a random access point in each, and Opus.
fn movie(layout: Layout) -> synthetic::File {
    let track = |handler, entry, each: u32, length| {
        let shape = |number| SampleShape {
            length,
            duration: 48_000 / each,
            composition_offset: 0,
            sync: handler == *b"soun" || number % each == 0,
        };
        let samples = (0..10 * each).map(shape).collect();
        SampleTrack { timescale: 48_000, handler, entry, samples, edits: Vec::new() }
    };
    let video = visual(b"avc1", &[synthetic::avc_configuration()]);
    let tracks =
        vec![track(*b"vide", video, PICTURES, PICTURE), track(*b"soun", audio(b"Opus", &[]), FRAMES, FRAME)];
    synthetic::File { tracks, layout, samples_in_chunk: 7, long: false }
}

/// The bytes of the file, in which each picture is one NAL unit.
fn bytes(movie: &synthetic::File) -> Vec<u8> {
    let mut bytes = movie.bytes();
    // All bytes of a picture are its number.
    let mut at = 0;
    while let Some(rest) = bytes.get(at..at + PICTURE as usize) {
        let first = rest[0];
        if rest.iter().all(|byte| *byte == first) {
            bytes[at..at + 4].copy_from_slice(&(PICTURE - 4).to_be_bytes());
            bytes[at + 4] = 0x61;
            at += PICTURE as usize;
        } else {
            at += 1;
        }
    }
    bytes
}

fn store(folder: &tempfile::TempDir, images: ImagePolicy) -> Arc<Store> {
    let cache = ImageFolder::open(&folder.path().join("cache"), 1 << 30).unwrap();
    let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
    Store::start(cache, StoreOptions { images, ..StoreOptions::new(readers, 1) }).unwrap()
}

fn write(folder: &tempfile::TempDir, bytes: &[u8]) -> Arc<File> {
    let path = folder.path().join("film.mp4");
    fs::write(&path, bytes).unwrap();
    Arc::new(File::open(path).unwrap())
}

/// Waits for a segment; `None` after the last.
fn segment(image: &Image, number: u32) -> Option<Arc<Segment>> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match image.segment(number, None) {
            Load::Ready(segment) => return Some(segment),
            Load::End => return None,
            Load::Failed(reason) => panic!("{reason}"),
            Load::Pending | Load::Busy => {
                assert!(Instant::now() < deadline, "segment {number} does not come");
            }
        }
        std::thread::yield_now();
    }
}

/// Opens the image of a recording that it may follow.
fn follow(store: &Store, path: &Path, follow: Follow) -> Arc<Image> {
    let (asset, client) = (Arc::new(File::open(path).unwrap()), [127, 0, 0, 1].into());
    let limits = store.usual_limits();
    store.image_to_follow(client, asset, "film.mp4", limits, PlayedAs::Stored, follow).unwrap()
}

/// Waits until all that a recorder has written is packed.
fn wait_until_packed(image: &Image) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !TrainSource::is_at_edge(image, u32::MAX) {
        assert!(Instant::now() < deadline, "the recording is not packed");
        std::thread::yield_now();
    }
}

/// All packets, once the image is complete.
fn packets(image: &Image) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for segment in (0..).map_while(|number| segment(image, number)) {
        for departure in &segment.departures {
            let train = departure.train;
            let mut bytes = vec![0; train.length as usize];
            segment.mapped_file.file().read_exact_at(&mut bytes, train.offset).unwrap();
            for (index, packet) in (0..).zip(bytes.chunks(train.packet_size.into())) {
                assert_eq!(packet[..HEADER_LENGTH], train.run.header(index).to_bytes());
                packets.push(packet.to_vec());
            }
        }
    }
    packets
}

/// Packets of a stream.
fn of_stream(packets: &[Vec<u8>], ssrc: u32) -> Vec<Packet> {
    let read = |packet: &Vec<u8>| {
        let header = Header::parse(packet).filter(|header| header.ssrc == ssrc)?;
        Some((without_padding(&header, &packet[HEADER_LENGTH..])?.to_vec(), header.marker))
    };
    packets.iter().filter_map(read).collect()
}

/// Promise: MP4 files, plain and fragmented, are packed with all tracks, and their images are found again.
#[test]
fn a_movie_is_packed_and_found_again() {
    for layout in [Layout::Front, Layout::End, Layout::Fragments] {
        let folder = tempfile::tempdir().unwrap();
        let asset = write(&folder, &bytes(&movie(layout)));
        let first = store(&folder, ImagePolicy::None);
        let image = first.image(Arc::clone(&asset), "film.mp4", first.usual_limits()).unwrap();
        let sent = packets(&image);
        assert_eq!(*image.progress().borrow(), Progress::Complete);
        let [video, sound] = image.plan().streams[..] else { panic!("{:?}", image.plan().streams) };
        let pictures = depacketize(Format::H264, &of_stream(&sent, video.ssrc)).unwrap();
        assert_eq!(pictures.len() as u32, 10 * PICTURES);
        // Each random access point begins with the parameter sets of the configuration.
        let sets = [0, 0, 0, 4, 0x67, 66, 0xc0, 30, 0, 0, 0, 2, 0x68, 0xce];
        for (number, picture) in (0u8..).zip(&pictures) {
            let picture = match u32::from(number) % PICTURES {
                0 => picture.strip_prefix(&sets).expect("parameter sets"),
                _ => picture,
            };
            assert!(picture.len() == PICTURE as usize && picture[5..].iter().all(|byte| *byte == number));
        }
        let frames = depacketize(Format::Opus, &of_stream(&sent, sound.ssrc)).unwrap();
        let expected: Vec<Vec<u8>> =
            (0..10 * FRAMES).map(|number| vec![number as u8; FRAME as usize]).collect();
        assert_eq!(frames, expected);
        let summary = image.summary();
        assert_eq!(summary.duration_us, Some(10_000_000));
        assert_eq!(summary.description.movie().map(|movie| movie.tracks.len()), Some(2));

        let again = store(&folder, ImagePolicy::None);
        let found = again.image(asset, "film.mp4", again.usual_limits()).unwrap();
        assert_eq!((found.plan(), again.counts().found, again.counts().packed), (image.plan(), 1, 0));
        assert!(packets(&found) == sent);
    }
}

/// Promise: Sessions of a recording share one image, which grows with it and is the image of the finished file.
#[test]
fn a_recording_has_one_image() {
    let folder = tempfile::tempdir().unwrap();
    let whole = bytes(&movie(Layout::Fragments));
    let (begun, rest) = whole.split_at(whole.len() / 3);
    let mut recorder = File::create(folder.path().join("film.mp4")).unwrap();
    recorder.write_all(begun).unwrap();
    let store = store(&folder, ImagePolicy::None);
    let path = folder.path().join("film.mp4");
    let open = || follow(&store, &path, Follow::Growing);
    let image = open();
    assert_eq!((image.duration_us(), segment(&image, 0).is_some()), (None, true));
    let half = rest.len() / 2;
    for rest in [&rest[..half], &rest[half..]] {
        recorder.write_all(rest).unwrap();
        assert!(Arc::ptr_eq(&image, &open()), "the recording has another image");
    }
    let index =
        synthetic::atom(b"mfra", &[synthetic::atom(b"mfro", &[vec![0; 4], 24_u32.to_be_bytes().to_vec()])]);
    recorder.write_all(&index).unwrap();
    let sent = packets(&image);
    let ssrc = image.plan().streams[0].ssrc;
    let pictures = depacketize(Format::H264, &of_stream(&sent, ssrc)).unwrap();
    assert_eq!(pictures.len() as u32, 10 * PICTURES);
    assert_eq!(*image.progress().borrow(), Progress::Complete);
    assert_eq!(image.duration_us(), Some(10_000_000));
    assert!(Arc::ptr_eq(&image, &open()));
    assert_eq!((store.counts().packed, store.counts().failed), (1, 0));
    drop(image);

    let again = self::store(&folder, ImagePolicy::None);
    let asset = Arc::new(File::open(folder.path().join("film.mp4")).unwrap());
    let found = again.image(asset, "film.mp4", again.usual_limits()).unwrap();
    assert!(packets(&found) == sent);
    assert_eq!((again.counts().found, again.counts().packed), (1, 0));
}

/// Promise: Channels, which do not follow recordings, never get an image that grows.
#[test]
fn a_growing_image_is_for_those_that_follow() {
    let folder = tempfile::tempdir().unwrap();
    let whole = bytes(&movie(Layout::Fragments));
    let path = folder.path().join("film.mp4");
    fs::write(&path, &whole[..whole.len() / 3]).unwrap();
    let store = store(&folder, ImagePolicy::None);
    let asset = || Arc::new(File::open(&path).unwrap());
    let growing = follow(&store, &path, Follow::Growing);
    let other = store.image(asset(), "film.mp4", store.usual_limits()).unwrap();
    assert!(!Arc::ptr_eq(&growing, &other));
    let sent = of_stream(&packets(&other), other.plan().streams[0].ssrc);
    let pictures = depacketize(Format::H264, &sent).unwrap().len();
    // All that the file has, also the pictures that are stored before their sound.
    assert!((60..100).contains(&pictures), "{pictures} pictures");
    assert_eq!(*other.progress().borrow(), Progress::Complete);
    assert!(matches!(*growing.progress().borrow(), Progress::Growing { .. }));
    assert!(Arc::ptr_eq(&growing, &follow(&store, &path, Follow::Recent)), "the recording has another image");
    let again = store.image(asset(), "film.mp4", store.usual_limits()).unwrap();
    assert!(Arc::ptr_eq(&other, &again));
}

/// Promise: A recording whose recorder has begun another file is finished half a second and a fragment after its last
/// change.
#[test]
fn a_recording_with_a_successor_is_finished_soon() {
    let folder = tempfile::tempdir().unwrap();
    let whole = bytes(&movie(Layout::Fragments));
    let path = folder.path().join("film.mp4");
    fs::write(&path, &whole[..whole.len() / 3]).unwrap();
    let store = store(&folder, ImagePolicy::None);
    let image = follow(&store, &path, Follow::Growing);
    wait_until_packed(&image);
    assert!(image.may_be_continued());
    let noted = Instant::now();
    image.note_successor();
    assert!(!packets(&image).is_empty());
    assert_eq!(*image.progress().borrow(), Progress::Complete);
    // The last fragments are as long as seven pictures.
    assert!(noted.elapsed() < Duration::from_secs(5), "{:?}", noted.elapsed());
}

/// Promise: Archives follow recordings that were just finished, too, since the next one may be begun.
#[test]
fn a_recording_that_was_just_finished_may_be_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mp4");
    let mut recording = bytes(&movie(Layout::Fragments));
    recording.extend(b"\0\0\0\x18mfra\0\0\0\x10mfro\0\0\0\0\0\0\0\x18");
    fs::write(&path, &recording).unwrap();
    let store = store(&folder, ImagePolicy::None);
    let is_recording =
        |follow| store.is_recording(&File::open(&path).unwrap(), PlayedAs::Stored, follow).unwrap();
    assert!(!is_recording(Follow::Growing) && is_recording(Follow::Recent));
    let image = follow(&store, &path, Follow::Recent);
    assert!(!packets(&image).is_empty(), "it is complete at once");
    assert!(!image.grows_with_recording() && image.may_be_continued());
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    File::open(&path).unwrap().set_modified(hour_ago).unwrap();
    assert!(!is_recording(Follow::Recent));
    assert!(!follow(&store, &path, Follow::Recent).may_be_continued());
}

/// Promise: A transport stream that was just changed is followed for archives only; others get an index of it.
#[test]
fn transport_streams_are_followed_for_archives() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder, ImagePolicy::None);
    let stream = Sample { packets: 20_000, ..Sample::default() }.stream();
    let [copied, recorded] = ["copied.ts", "recorded.ts"].map(|name| folder.path().join(name));
    fs::write(&copied, &stream.bytes).unwrap();
    let image = follow(&store, &copied, Follow::Growing);
    assert!(image.duration_us().is_some());
    assert!(segment(&image, 0).is_some() && image.is_sent_from_asset() && !image.may_be_continued());

    let (begun, rest) = stream.bytes.split_at(stream.bytes.len() / 2);
    fs::write(&recorded, begun).unwrap();
    let image = follow(&store, &recorded, Follow::Recent);
    wait_until_packed(&image);
    assert!(image.grows_with_recording() && image.duration_us().is_none());
    let parts = image.segment_count();
    File::options().append(true).open(&recorded).unwrap().write_all(rest).unwrap();
    assert!(segment(&image, parts as u32).is_some(), "it has grown");
    image.note_successor();
    let payloads =
        packets(&image).iter().flat_map(|packet| packet[HEADER_LENGTH..].to_vec()).collect::<Vec<u8>>();
    assert!(payloads == stream.payload, "other bytes");
}

/// Promise: Sessions of a recording that is rewritten get nothing of the new recording; the next request does.
#[test]
fn a_recording_that_is_written_anew_has_another_image() {
    let folder = tempfile::tempdir().unwrap();
    let whole = bytes(&movie(Layout::Fragments));
    let path = folder.path().join("film.mp4");
    fs::write(&path, &whole[..whole.len() / 3]).unwrap();
    let store = store(&folder, ImagePolicy::None);
    let open = || follow(&store, &path, Follow::Growing);
    let image = open();
    wait_until_packed(&image);
    let pictures = |image: &Image| {
        let sent = of_stream(&packets(image), image.plan().streams[0].ssrc);
        depacketize(Format::H264, &sent).unwrap()
    };
    // Longer than before, so that only its fragments show that it is another recording.
    let mut anew = movie(Layout::Fragments);
    anew.samples_in_chunk = 5;
    File::options().write(true).open(&path).unwrap().write_all(&bytes(&anew)).unwrap();
    let before = pictures(&image);
    // Sound is stored half as far as the pictures.
    assert!((30..60).contains(&before.len()), "{} pictures", before.len());
    for (number, picture) in (0u8..).zip(&before) {
        assert!(picture.ends_with(&[number; 8]), "picture {number} is of the other recording");
    }
    let other = open();
    assert!(!Arc::ptr_eq(&image, &other));
    assert!(segment(&other, 0).is_some());
}

/// Promise: A recording that is written anew before its first fragment has another image, too.
#[test]
fn a_recording_without_a_fragment_may_be_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let whole = bytes(&movie(Layout::Fragments));
    let path = folder.path().join("film.mp4");
    let begin = whole.windows(4).position(|kind| kind == b"moof").unwrap() - 4;
    fs::write(&path, &whole[..begin]).unwrap();
    let store = store(&folder, ImagePolicy::None);
    let open = || follow(&store, &path, Follow::Growing);
    let image = open();
    wait_until_packed(&image);
    let mut anew = movie(Layout::Fragments);
    anew.tracks[0].timescale = 24_000;
    File::options().write(true).open(&path).unwrap().write_all(&bytes(&anew)).unwrap();
    assert_eq!(packets(&image).len(), 0, "packets by the tables of another recording");
    let other = open();
    assert!(!Arc::ptr_eq(&image, &other));
    assert!(segment(&other, 0).is_some());
}

/// Promise: Matroska and WebM files are packed with all tracks, and their images are found again.
#[test]
fn a_movie_in_matroska_is_packed_and_found_again() {
    use matroska::{BlockShape, File, audio, video};
    let blocks = (0..500).map(|time| BlockShape {
        track: if time % 2 == 0 { 1 } else { 2 },
        time: 20 * time,
        key: time % 50 < 2,
        frames: vec![if time % 2 == 0 { 12_000 } else { 120 }],
        ..BlockShape::default()
    });
    let tracks = vec![video(1, "V_VP9", &[], &[]), audio(2, "A_OPUS", &[], &[])];
    let file = File { document: "webm", tracks, blocks: blocks.collect(), ..File::default() };
    let folder = tempfile::tempdir().unwrap();
    let asset = write(&folder, &file.bytes());
    let first = store(&folder, ImagePolicy::None);
    let image = first.image(Arc::clone(&asset), "film.mp4", first.usual_limits()).unwrap();
    let sent = packets(&image);
    let [video, sound] = image.plan().streams[..] else { panic!("{:?}", image.plan().streams) };
    for (format, ssrc, length) in [(Format::Vp9, video.ssrc, 12_000), (Format::Opus, sound.ssrc, 120)] {
        let expected: Vec<Vec<u8>> = (0..250).map(|number: u32| vec![number as u8; length]).collect();
        assert!(depacketize(format, &of_stream(&sent, ssrc)).unwrap() == expected, "{format:?}");
    }
    let SeekResult::At(cursor) = image.locate(4_700_000) else { panic!("no place") };
    let At::Packet { train, .. } = cursor.at else { panic!("{cursor:?}") };
    let segment = segment(&image, cursor.segment).unwrap();
    assert_eq!(segment.departures[train as usize].at_us, 4_000_000);

    let again = store(&folder, ImagePolicy::None);
    let found = again.image(asset, "film.mp4", again.usual_limits()).unwrap();
    assert_eq!((found.plan(), again.counts().found, again.counts().packed), (image.plan(), 1, 0));
}

/// Promise: Seeks in a movie go to random access points of its video, for all tracks.
#[test]
fn seeks_lead_to_random_access_points() {
    let folder = tempfile::tempdir().unwrap();
    let asset = write(&folder, &bytes(&movie(Layout::End)));
    let store = store(&folder, ImagePolicy::None);
    let image = store.image(asset, "film.mp4", store.usual_limits()).unwrap();
    packets(&image);
    let SeekResult::At(cursor) = image.locate(4_700_000) else { panic!("no place") };
    let At::Packet { train, packet: 0, skip: 0 } = cursor.at else { panic!("{cursor:?}") };
    let segment = segment(&image, cursor.segment).unwrap();
    let departures = &segment.departures[train as usize..];
    let first = |stream| departures.iter().find(|departure| departure.train.run.stream == stream);
    let at_us = |stream| first(stream).map(|departure| departure.at_us);
    assert_eq!((at_us(0), at_us(1)), (Some(4_000_000), Some(4_000_000)));
    // The group of sound departs with the picture, and is stored before it.
    assert_eq!(departures[0].train.run.stream, 1);
}

/// Promise: An MP4 file without a playable track is refused with the reason for each of its tracks.
#[test]
fn a_movie_without_a_playable_track_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut unplayable = movie(Layout::Front);
    unplayable.tracks.remove(0);
    unplayable.tracks[0].entry = audio(b"enca", &[]);
    let store = store(&folder, ImagePolicy::None);
    for (bytes, expected) in [
        (unplayable.bytes(), "; track 1 is left out: its samples are encrypted"),
        (movie(Layout::Front).bytes()[..300].to_vec(), "the file ends within it"),
        (movie(Layout::End).bytes()[..10_000].to_vec(), "no moov box in this MP4 file"),
    ] {
        let asset = write(&folder, &bytes);
        match store.image(asset, "film.mp4", store.usual_limits()) {
            Err(StoreError::NotPlayable(reason)) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{other:?}", other = other.map(|_| "an image")),
        }
    }
}

/// Counts the warnings of a thread.
#[derive(Clone, Default)]
struct WarningCount(Arc<AtomicUsize>);

impl tracing::Subscriber for WarningCount {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Promise: However many parts of a movie are left out, the log has one line about them.
#[test]
fn a_movie_played_in_part_is_one_line_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut partial = movie(Layout::Front);
    for _ in 0..10 {
        partial.tracks.push(SampleTrack {
            timescale: 48_000,
            handler: *b"soun",
            entry: audio(b"enca", &[]),
            samples: Vec::new(),
            edits: Vec::new(),
        });
    }
    let asset = write(&folder, &bytes(&partial));
    let store = store(&folder, ImagePolicy::None);
    let count = WarningCount::default();
    let image = tracing::subscriber::with_default(count.clone(), || {
        store.image(asset, "film.mp4", store.usual_limits()).unwrap()
    });
    assert_eq!((image.summary().warnings(), count.0.load(Relaxed)), (10, 1));

    let count = WarningCount::default();
    tracing::subscriber::with_default(count.clone(), || {
        image.summary().warn("film.mp4", 10);
        assert_eq!(count.0.load(Relaxed), 0, "nothing new");
        image.summary().warn("film.mp4", 7);
    });
    assert_eq!(count.0.load(Relaxed), 1, "faults found while packing");
}

/// Promise: The lookup of an open image does not read its asset.
#[test]
fn an_open_image_is_found_without_reading_its_asset() {
    let folder = tempfile::tempdir().unwrap();
    let asset = write(&folder, &bytes(&movie(Layout::Front)));
    let store = store(&folder, ImagePolicy::None);
    let image = store.image(asset, "film.mp4", store.usual_limits()).unwrap();
    packets(&image);
    let unreadable = File::options().append(true).open(folder.path().join("film.mp4")).unwrap();
    let found = store.image(Arc::new(unreadable), "film.mp4", store.usual_limits()).unwrap();
    assert!(Arc::ptr_eq(&image, &found));
    assert_eq!(image.duration_us(), Some(10_000_000));
}
