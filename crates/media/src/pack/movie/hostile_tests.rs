//! Hostile movies, made to be expensive: the cost of packing them is bounded.

use super::tests::{one_track, packed, packets, plan, playable, samples, shapes, track};
use super::*;
use crate::mp4::synthetic::{SampleShape, SampleTrack, atom, audio, avc_configuration, visual};
use crate::pack::{packer, testing::pack_movie};
use crate::payload::Format;

/// Promise: Samples of empty NAL units, such as runs of zeros, cost few reads, whatever their length.
#[test]
fn empty_units_cost_few_reads() {
    let mut configuration = avc_configuration();
    configuration[12] = 0xfc; // lengths of one byte
    let entry = visual(b"avc1", &[configuration]);
    let zeros = SampleTrack { entry, ..track(Format::H264, shapes(3, 1 << 20, 4800), Vec::new()) };
    let mut file = one_track(zeros).bytes();
    let (movie, found) = samples(&file);
    for sample in &found {
        file[sample.extent.offset as usize..sample.extent.end() as usize].fill(0);
    }
    let mut packer = packer(plan(&file, &movie)).expect("a plan that can be followed");
    let mut reads = 0;
    loop {
        assert!(packer.pop().expect("a good file").is_none(), "nothing is sent");
        match packer.wanted() {
            Wanted::Bytes(wanted) => {
                let bytes = &file[wanted.offset as usize..wanted.end() as usize];
                packer.take(bytes).expect("a good file");
                reads += 1;
            }
            Wanted::Nothing => {}
            Wanted::Growth(_) | Wanted::End => break,
        }
        assert!(packer.held_bytes() < 1 << 16);
    }
    assert!(reads < 300, "{reads}");
}

/// Promise: Parameter sets of megabytes are neither announced nor stored in an image.
#[test]
fn giant_parameter_sets_are_not_announced() {
    let list = |kind: u8, count: usize| {
        let set = [&[0xff, 0xff, kind][..], &vec![1; 65_534]].concat();
        set.repeat(count)
    };
    let avc = [&[1, 66, 0xc0, 30, 0xff, 0xff][..], &list(0x67, 31), &[255], &list(0x68, 255)].concat();
    let array =
        |kind: u8, count: u16| [&[kind][..], &count.to_be_bytes(), &list(kind << 1, count.into())].concat();
    let hevc =
        [&[1, 1][..], &[0; 10], &[93], &[0; 8], &[3, 3], &array(32, 16), &array(33, 16), &array(34, 64)];
    for (format, entry, expected) in [
        (
            Format::H264,
            visual(b"avc1", &[atom(b"avcC", &[avc])]),
            Some("96 packetization-mode=1;profile-level-id=42C01E"),
        ),
        (Format::H265, visual(b"hvc1", &[atom(b"hvcC", &[hevc.concat()])]), None),
    ] {
        let file =
            one_track(SampleTrack { entry, ..track(format, shapes(3, 500, 4800), Vec::new()) }).bytes();
        let playable = playable(&samples(&file).0);
        assert_eq!(playable.formats, [format]);
        assert_eq!(playable.description.tracks[0].parameters.as_deref(), expected);
    }
}

/// Promise: Composition offsets of sound do not move its departures, and no time is later than ten years.
#[test]
fn composition_offsets_do_not_move_departures_of_sound() {
    let offset = |shape: SampleShape, composition_offset| SampleShape { composition_offset, ..shape };
    let frames = shapes(24, 40, 960).into_iter().map(|shape| offset(shape, 480_000)).collect();
    let file = one_track(track(Format::Opus, frames, Vec::new())).bytes();
    let image = packed(&file, &samples(&file).0);
    let departures: Vec<u64> = image.trains.iter().flatten().map(|train| train.departure_us).collect();
    assert_eq!(departures, [0, 200_000, 400_000], "a group in each window");
    let stream = image.header.plan.streams[0];
    let first = packets(&image, &stream)[0].0.timestamp;
    assert_eq!(first.wrapping_sub(stream.timestamp), 480_000);

    let late = shapes(2, 40, 1).into_iter().map(|shape| offset(shape, i32::MAX)).collect();
    let late = SampleTrack { timescale: 1, ..track(Format::Opus, late, Vec::new()) };
    let file = one_track(late).bytes();
    let movie = samples(&file).0;
    assert_eq!(pack_movie(&file, plan(&file, &movie)).err(), Some(Error::Times { track: 1 }));
}

/// Promise: Track descriptions count as packing memory as soon as they are read.
#[test]
fn tables_count_as_memory_of_packing_from_the_first() {
    let entry = audio(b"Opus", &[atom(b"free", &[vec![0; 1 << 16]])]);
    let file =
        one_track(SampleTrack { entry, ..track(Format::Opus, shapes(3, 40, 960), Vec::new()) }).bytes();
    let mut packer = packer(plan(&file, &samples(&file).0)).expect("a plan that can be followed");
    loop {
        let Wanted::Bytes(wanted) = packer.wanted() else { panic!("{:?}", packer.wanted()) };
        let bytes = file[wanted.offset as usize..wanted.end() as usize].to_vec();
        packer.take_owned(bytes).expect("a good file");
        if wanted.length > 1 << 16 {
            break;
        }
    }
    assert!(packer.held_bytes() > 1 << 16);
    assert!(packer.pop().expect("a good file").is_some());
    assert!(packer.held_bytes() > 1 << 16);
}

/// Promise: A `moov` box larger than half of the packing memory is refused before it is read.
#[test]
fn a_giant_moov_box_is_refused() {
    let mut head = atom(b"moov", &[vec![0; 8]]);
    head[..4].copy_from_slice(&(130u32 << 20).to_be_bytes());
    let mut reader = MovieReader::of(&head, 1 << 30).expect("a movie");
    let error = reader.take(head).expect_err("too long").to_string();
    assert!(error.contains("a moov box of more bytes"), "{error}");
}

/// Promise: Packets of sound that wait for the end of their window take little memory, however many there are.
#[test]
fn sound_at_one_time_takes_little_memory() {
    // Composition offsets that alternate make a packet of each frame, and all frames have one decode time.
    let shape = |number: usize| SampleShape {
        length: 20,
        duration: 0,
        composition_offset: (number % 2) as i32 * 1024,
        sync: true,
    };
    let file = one_track(track(Format::Aac, (0..200_000).map(shape).collect(), Vec::new())).bytes();
    let (movie, _) = samples(&file);
    let mut packer = packer(plan(&file, &movie)).expect("a plan that can be followed");
    let mut most = 0;
    loop {
        while packer.pop().expect("a good file").is_some() {}
        match packer.wanted() {
            Wanted::Bytes(wanted) => {
                let bytes = &file[wanted.offset as usize..wanted.end() as usize];
                packer.take(bytes).expect("a good file");
            }
            Wanted::Nothing => {}
            Wanted::Growth(_) | Wanted::End => break,
        }
        most = most.max(packer.held_bytes());
    }
    // 200,000 packets would take more than 30 MB; the tables of the file and the waiting trains take some.
    assert!(most < 14 << 20, "{most} bytes");
}
