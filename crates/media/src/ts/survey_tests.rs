use super::*;
use crate::ts::deframe::{Deframer, Event};
use crate::ts::framing::Framing;
use crate::ts::packet::Pcr;
use crate::ts::synthetic::{Jump, Sample, SampleProgramme, SampleStream};
use proptest::prelude::*;

struct Seen {
    departures: Vec<u64>,
    discontinuities: Vec<u64>,
    starts: Vec<u64>,
    played: Option<Played>,
    warnings: Vec<WarningKind>,
}

fn survey(bytes: &[u8], size: usize) -> Result<Seen, NoClock> {
    let (mut deframer, mut survey) = (Deframer::new(), Survey::new());
    for mut input in bytes.chunks(size) {
        while let Some(event) = deframer.next(&mut input).expect("a transport stream") {
            if let Event::Packets(run) = event {
                survey.push(&run)?;
            }
        }
    }
    while let Some(event) = deframer.finish().expect("a transport stream") {
        if let Event::Packets(run) = event {
            survey.push(&run)?;
        }
    }
    survey.finish()?;
    let (mut departures, mut discontinuities) = (Vec::new(), Vec::new());
    while let Some(stretch) = survey.next_stretch() {
        discontinuities.extend(stretch.discontinuity.then_some(stretch.first));
        departures.extend((stretch.first..stretch.end).map(|packet| stretch.departure(packet)));
    }
    Ok(Seen {
        departures,
        discontinuities,
        starts: std::iter::from_fn(|| survey.next_start()).collect(),
        played: survey.played(),
        warnings: survey.take_warnings().first.into_iter().map(|warning| warning.kind).collect(),
    })
}

fn seen(stream: &SampleStream) -> Seen {
    survey(&stream.bytes, 100_000).expect("it has a clock")
}

/// Promise: Departure times follow the PCR of the played programme across its wrap and discontinuities.
#[test]
fn constant_rate_is_followed_to_the_tick() {
    for framing in Framing::ALL {
        let stream = Sample { framing, ..Sample::default() }.stream();
        let seen = seen(&stream);
        assert_eq!(seen.departures[..], stream.departures[..2000]);
        assert_eq!(seen.starts, stream.starts);
        assert_eq!(seen.played, Some(Played { programme: Some(1), pcr_pid: 0x100, video_pid: Some(0x100) }));
        assert_eq!(seen.warnings, []);
    }
}

#[test]
fn random_access_is_found_without_the_muxers_word() {
    for stream_type in [0x02, 0x1b, 0x24] {
        let mut programme = SampleProgramme::numbered(1);
        programme.streams[0].1 = stream_type;
        let sample = Sample { programmes: vec![programme], marks_random_access: false, ..Sample::default() };
        let stream = sample.stream();
        assert_eq!(seen(&stream).starts, stream.starts, "stream type {stream_type:#x}");
        assert!(stream.starts.len() > 3);
    }
}

/// Promise: Variable rates, several programmes, a PCR on a separate PID and PCR gaps play at the right pace.
#[test]
fn the_clock_may_have_a_pid_of_its_own_and_the_first_programme_none() {
    let silent = SampleProgramme { ticks: false, ..SampleProgramme::numbered(1) };
    let clockless = SampleProgramme { pcr_pid: NULL_PID, ticks: false, ..SampleProgramme::numbered(2) };
    let third = SampleProgramme { pcr_pid: 0x3ff, ..SampleProgramme::numbered(3) };
    let programmes = vec![clockless.clone(), third.clone(), SampleProgramme::numbered(4)];
    let stream = Sample { programmes, ..Sample::default() }.stream();
    let played = Played { programme: Some(3), pcr_pid: 0x3ff, video_pid: Some(0x300) };
    assert_eq!(seen(&stream).played, Some(played));
    assert_eq!(seen(&stream).departures[..], stream.departures[..2000]);

    let programmes = vec![silent, clockless, third];
    let stream = Sample { programmes, packets: 30_000, ..Sample::default() }.stream();
    assert_eq!(seen(&stream).played, Some(played));
}

#[test]
fn without_tables_the_first_clock_is_followed_with_a_warning() {
    let stream = Sample { tables_every: 0, ..Sample::default() }.stream();
    let seen = seen(&stream);
    assert_eq!(seen.departures[..], stream.departures[..2000]);
    assert_eq!(seen.warnings, [WarningKind::Unannounced { pid: 0x100 }]);
}

#[test]
fn without_any_clock_the_error_says_what_was_looked_for() {
    let programme = SampleProgramme { ticks: false, ..SampleProgramme::numbered(5) };
    let stream = Sample { programmes: vec![programme], ..Sample::default() }.stream();
    let error = survey(&stream.bytes, 5000).err().expect("no clock");
    assert_eq!(error, NoClock { offset: 2000 * 188, wanted: "programme 5 on PID 1280".to_owned() });
}

#[test]
fn the_search_for_a_clock_is_bounded() {
    let bytes =
        Sample { programmes: vec![], packets: 2, tables_every: 0, ..Sample::default() }.stream().bytes;
    let mut deframer = Deframer::new();
    let mut survey = Survey::new();
    let many = bytes.repeat(3000);
    let error = std::iter::repeat_with(|| {
        let mut input = &many[..];
        while let Some(Event::Packets(run)) = deframer.next(&mut input).expect("a transport stream") {
            survey.push(&run)?;
        }
        Ok(())
    })
    .take(100)
    .find_map(Result::err);
    let error: NoClock = error.expect("no clock in 64 MiB");
    assert!((64 << 20..66 << 20).contains(&error.offset), "{error}");
}

#[test]
fn a_jump_is_marked_where_it_is_first_seen() {
    for (ticks, flagged) in [(3600 * 27_000_000, false), (Pcr::MODULUS - 27_000_000, false), (90_000, true)] {
        let jumps = vec![Jump { packet: 1000, ticks, flagged }];
        let stream = Sample { jumps, ..Sample::default() }.stream();
        let seen = seen(&stream);
        let at =
            *stream.references.iter().find(|&&packet| packet >= 1000).expect("a reference after the jump");
        assert_eq!(seen.discontinuities, [at]);
        assert_eq!(seen.warnings, [WarningKind::Discontinuity]);
        assert_eq!(seen.departures[..], stream.departures[..2000], "the rate is constant, so time goes on");
    }
}

#[test]
fn a_stream_may_be_followed_by_another_with_other_programmes() {
    let first = Sample::default().stream();
    let other = SampleProgramme { pmt_pid: 0x1fff - 1, ..SampleProgramme::numbered(9) };
    let second = Sample { programmes: vec![other], first_pcr: 5, ..Sample::default() }.stream();
    let seen = survey(&[first.bytes, second.bytes].concat(), 77_777).expect("clocks");
    assert_eq!(seen.departures.len(), 4000);
    assert!(seen.departures.is_sorted());
    assert_eq!(seen.starts.len(), first.starts.len() + second.starts.len());
    assert_eq!(seen.discontinuities.len(), 1);
}

#[test]
fn an_independent_reader_sees_the_same_references() {
    use mpeg2ts_reader::packet::Packet as Other;
    let stream = Sample { pcr_every: 20, ..Sample::default() }.stream();
    let theirs: Vec<_> = stream
        .bytes
        .chunks_exact(PACKET_LENGTH)
        .enumerate()
        .filter_map(|(index, bytes)| {
            let pcr = Other::new(bytes).adaptation_field()?.pcr().ok()?;
            Some((index as u64, u64::from(pcr)))
        })
        .collect();
    assert_eq!(theirs.iter().map(|reference| reference.0).collect::<Vec<_>>(), stream.references);
    let seen = seen(&stream);
    for (packet, ticks) in &theirs {
        let since_first = ticks - theirs[0].1;
        assert_eq!(seen.departures[*packet as usize] - seen.departures[theirs[0].0 as usize], since_first);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn variable_rates_are_met_at_every_reference(
        seed: u64,
        ticks in proptest::collection::vec(500u64..60_000, 1..8),
        pcr_every in 5u64..200,
        near_wrap: bool,
        own_pid: bool,
        programmes in 1u16..4,
        size in 1usize..50_000,
    ) {
        let rates = ticks.iter().enumerate().map(|(index, &ticks)| (index as u64 * 300, ticks)).collect();
        let first_pcr = if near_wrap { Pcr::MODULUS - 9_000_000 } else { seed % Pcr::MODULUS };
        let mut programmes: Vec<_> = (1..=programmes).map(SampleProgramme::numbered).collect();
        if own_pid {
            programmes[0].pcr_pid = 0x1f0;
        }
        let stream = Sample { seed, rates, pcr_every, first_pcr, programmes, ..Sample::default() }.stream();
        let seen = survey(&stream.bytes, size).expect("it has a clock");
        let first = stream.references[0] as usize;
        for &packet in &stream.references {
            let expected = stream.departures[packet as usize] - stream.departures[first];
            prop_assert_eq!(seen.departures[packet as usize] - seen.departures[first], expected);
        }
        prop_assert!(seen.departures.is_sorted());
        prop_assert_eq!(seen.starts, stream.starts);
    }
}
