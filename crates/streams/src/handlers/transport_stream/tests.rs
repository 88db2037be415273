use super::*;
use crate::HandlerId;
use crate::chain::Chain;
use crate::handler::Handler;
use crate::record::Run;
use wirepath_media::ts::synthetic::{Sample, SampleProgramme};

/// A multiplex of three programmes.
fn multiplex() -> Vec<u8> {
    let programmes = (1..=3).map(SampleProgramme::numbered).collect();
    Sample { packets: 20_000, programmes, ..Sample::default() }.stream().payload
}

fn packets(bytes: &[u8]) -> Vec<Packet<'_>> {
    bytes.as_chunks::<PACKET_LENGTH>().0.iter().map(|packet| Packet::new(packet).unwrap()).collect()
}

/// Packets that a filter keeps of a stream, in datagrams of seven packets.
fn filtered(filter: TransportStreamFilter, input: &[u8]) -> Vec<u8> {
    let mut chain = Chain::default();
    chain.push(HandlerId(0), Handler::Select(Box::new(filter)));
    let run = Run {
        bytes: Bytes::copy_from_slice(input),
        record_bytes: 7 * PACKET_LENGTH,
        begins: true,
        ends: true,
    };
    let mut output = Vec::new();
    chain.apply(run, &mut output).unwrap();
    output.iter().flat_map(|run| run.bytes.to_vec()).collect()
}

#[test]
fn pids_are_kept_in_order_and_nothing_else() {
    let input = multiplex();
    let programme = SampleProgramme::numbered(2);
    let pids: Vec<u16> = programme.streams.iter().map(|(pid, _, _)| *pid).collect();
    let output = filtered(TransportStreamFilter::pids(pids.clone()), &input);
    let expected: Vec<u8> = packets(&input)
        .into_iter()
        .filter(|packet| pids.contains(&packet.pid()))
        .flat_map(|packet| packet.bytes().to_vec())
        .collect();
    assert!(!expected.is_empty() && output == expected);
}

/// Promise: A programme of a multiplex becomes a separate transport stream; a missing programme is reported.
#[test]
fn a_programme_comes_out_as_a_stream_of_its_own() {
    let input = multiplex();
    let programme = SampleProgramme::numbered(2);
    let output = filtered(TransportStreamFilter::programme(2), &input);
    let mut survey = Psi::new();
    for packet in packets(&output) {
        if survey.reads(packet.pid()) {
            survey.push(packet);
        }
    }
    let found: Vec<u16> = survey.programmes().map(|programme| programme.number).collect();
    assert_eq!(found, [2]);
    let tables: Vec<Packet<'_>> =
        packets(&output).into_iter().filter(|packet| packet.pid() == ASSOCIATION).collect();
    assert!(tables.len() > 1);
    for (index, table) in tables.iter().enumerate() {
        assert_eq!(usize::from(table.continuity()), index % 16);
    }
    // From the first map on, no packet of the programme is missing, and no other packet is present.
    let of_programme = |packet: &Packet<'_>| {
        packet.pid() == programme.pmt_pid || programme.streams.iter().any(|(pid, _, _)| *pid == packet.pid())
    };
    let all = packets(&input);
    let first = all.iter().position(|packet| packet.pid() == programme.pmt_pid).unwrap();
    let expected: Vec<&[u8]> =
        all[first..].iter().filter(|packet| of_programme(packet)).map(|packet| &packet.bytes()[..]).collect();
    let output = packets(&output);
    let kept: Vec<&[u8]> = output
        .iter()
        .filter(|packet| packet.pid() != ASSOCIATION)
        .map(|packet| &packet.bytes()[..])
        .collect();
    assert!(kept == expected, "{} packets kept, {} expected", kept.len(), expected.len());
}

#[test]
fn what_is_no_transport_stream_is_an_error_that_says_so() {
    let select = |bytes: &[u8]| {
        let mut parts = Vec::new();
        let mut frame = Frame::new(bytes.len(), &mut parts, &[]);
        TransportStreamFilter::pids([1]).select(Piece::whole(bytes), &mut frame).unwrap_err().to_string()
    };
    assert!(select(&[0x47; 100]).contains("100 bytes"));
    let mut packets = [0x47; 2 * PACKET_LENGTH];
    packets[PACKET_LENGTH] = 0;
    assert_eq!(select(&packets), "packet 1 of a record has no sync byte");
}

/// Promise: A programme of a multiplex becomes a separate transport stream; a missing programme is reported.
#[test]
fn a_programme_that_is_not_there_is_reported() {
    let input = multiplex();
    let report = |mut filter: TransportStreamFilter| {
        for packet in input.as_chunks::<PACKET_LENGTH>().0 {
            filter.read_table(Packet::new(packet).unwrap());
        }
        filter.report()
    };
    let found = |number| report(TransportStreamFilter::programme(number)).contains(&("found", 1));
    assert!(found(2) && !found(7));
    assert_eq!(report(TransportStreamFilter::pids([5])).len(), 2, "PIDs are of no programme");
}

/// Promise: A programme is extracted from a multiplex; if it is missing, the error lists the others.
#[test]
fn a_stream_that_never_had_the_programme_ends_with_an_error_that_names_those_it_has() {
    let end = |mut filter: TransportStreamFilter, input: &[u8]| {
        for packet in input.as_chunks::<PACKET_LENGTH>().0 {
            filter.read_table(Packet::new(packet).unwrap());
        }
        filter.end().map_err(|error| error.to_string())
    };
    let of = TransportStreamFilter::programme;
    let missing = |there: &str| Err(format!("programme 7 is not in the transport stream, which has {there}"));
    assert_eq!(end(of(2), &multiplex()), Ok(()));
    assert_eq!(end(of(7), &multiplex()), missing("programmes 1, 2, 3"));
    let one = Sample { packets: 1000, ..Sample::default() }.stream().payload;
    assert_eq!(end(of(7), &one), missing("programme 1"));
    let many = Sample {
        packets: 1000,
        programmes: (8..=25).map(SampleProgramme::numbered).collect(),
        ..Sample::default()
    };
    let named: Vec<String> = (8..24).map(|number| number.to_string()).collect();
    let named = format!("programmes {} and 2 more", named.join(", "));
    assert_eq!(end(of(7), &many.stream().payload), missing(&named));
    assert_eq!(end(of(7), &[]), missing("no table of programmes"));
    assert_eq!(end(TransportStreamFilter::pids([7]), &[]), Ok(()));
}
