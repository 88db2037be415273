//! Comparison of received with sent bytes: each byte arrives once, in order.

use std::collections::HashMap;

use super::pattern::{KEY, Pattern, start_of};
use super::records::{RECORD, Records};
use super::source::Volume;
use super::task::{HEADER, LEFT_OUT, MASK};
use crate::result::{HandlerKind, OrderKind, Part, RelayCase};

/// Compares the data of a case's sinks, in order, with the sent data.
///
/// # Errors
/// Description of the difference.
pub(crate) fn check(
    case: &RelayCase,
    pattern: &Pattern,
    volume: Volume,
    contents: &[Vec<u8>],
) -> Result<(), String> {
    let sent =
        |connection: usize| handled(case, pattern.bytes(start_of(connection), volume.bytes_each as usize));
    match case.part {
        Part::SocketToFile => in_order(contents, sent),
        Part::FileToSocket | Part::Mirror | Part::UdpMirror => in_order(contents, |_| sent(0)),
        Part::SocketToSocket | Part::Crowd => {
            let streams = (0..volume.busy).map(sent).collect::<Vec<_>>();
            in_any_order(contents, &streams)
        }
        Part::Merge => {
            let inputs: Vec<Vec<u8>> = (0..volume.busy).map(sent).collect();
            let record = handled(case, vec![0; block(case)]).len();
            in_order(contents, |_| merged(&inputs, record))
        }
        Part::Stripe => {
            let all = sent(0);
            in_order(contents, |place| every(&all, block(case), place, contents.len()))
        }
        Part::Random => at_random(contents, &sent(0), block(case)),
        Part::Files | Part::FileProxy => {
            let answer = handled(case, pattern.bytes(0, block(case)));
            in_order(contents, |_| answer.repeat(volume.bytes_each as usize / answer.len()))
        }
        Part::KernelTcp | Part::KernelUdp | Part::KernelMirror => {
            let records = Records::new(pattern, case.passed.unwrap_or(100));
            in_order(contents, |_| records.expected(volume.bytes_each / RECORD as u64))
        }
        Part::Orders => {
            let Some(tagged) = case.tagged() else { return Err("records without tags".to_owned()) };
            let in_order = !matches!(case.order, Some(OrderKind::Random | OrderKind::Arrival));
            tagged.check(pattern, volume.bytes_each, &contents.concat(), in_order)
        }
    }
}

fn block(case: &RelayCase) -> usize {
    case.block.unwrap_or(1) as usize
}

/// Bytes as the handler of the case delivers them.
fn handled(case: &RelayCase, mut bytes: Vec<u8>) -> Vec<u8> {
    if case.touch || case.handler == Some(HandlerKind::Grow) {
        bytes.iter_mut().for_each(|byte| *byte ^= MASK);
    }
    let records = || bytes.chunks(block(case));
    match case.handler {
        Some(HandlerKind::Grow) => records().flat_map(|record| [&HEADER[..], record].concat()).collect(),
        Some(HandlerKind::Select) => records().flat_map(|record| &record[LEFT_OUT..]).copied().collect(),
        _ => bytes,
    }
}

/// Checks that each sink has its own data.
fn in_order(contents: &[Vec<u8>], expected: impl Fn(usize) -> Vec<u8>) -> Result<(), String> {
    for (place, content) in contents.iter().enumerate() {
        same(content, &expected(place)).map_err(|wrong| format!("sink {place}: {wrong}"))?;
    }
    Ok(())
}

/// Checks that each stream is at one sink, in any order, and that other sinks have nothing.
fn in_any_order(contents: &[Vec<u8>], streams: &[Vec<u8>]) -> Result<(), String> {
    let mut missing: HashMap<&[u8], &Vec<u8>> = streams.iter().map(|stream| (key(stream), stream)).collect();
    for (place, content) in contents.iter().enumerate().filter(|(_, content)| !content.is_empty()) {
        let unknown = || format!("sink {place}: an unknown stream, or one that arrived twice");
        let stream = missing.remove(key(content)).ok_or_else(unknown)?;
        same(content, stream).map_err(|wrong| format!("sink {place}: {wrong}"))?;
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("{} streams did not arrive", missing.len())) }
}

/// Checks that each record is at one sink, and that the records of a sink are in the order in which they were
/// sent.
fn at_random(contents: &[Vec<u8>], all: &[u8], block: usize) -> Result<(), String> {
    let mut missing: HashMap<&[u8], usize> =
        all.chunks(block).enumerate().map(|(number, record)| (key(record), number)).collect();
    for (place, content) in contents.iter().enumerate() {
        let mut last = None;
        for record in content.chunks(block) {
            let unknown = || format!("sink {place}: an unknown record, or one that arrived twice");
            let number = missing.remove(key(record)).ok_or_else(unknown)?;
            let sent = all.chunks(block).nth(number).unwrap_or_default();
            same(record, sent).map_err(|wrong| format!("sink {place}, record {number}: {wrong}"))?;
            if last.is_some_and(|last| last > number) {
                return Err(format!("sink {place}: record {number} arrived after a later one"));
            }
            last = Some(number);
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("{} records did not arrive", missing.len())) }
}

fn key(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(KEY)]
}

fn same(came: &[u8], sent: &[u8]) -> Result<(), String> {
    if came.len() != sent.len() {
        return Err(format!("received {} of {} bytes", came.len(), sent.len()));
    }
    let differs = came.iter().zip(sent).position(|(one, other)| one != other);
    differs.map_or(Ok(()), |at| Err(format!("byte {at} is {:#04x}, expected {:#04x}", came[at], sent[at])))
}

/// Blocks of all inputs, merged in turns.
fn merged(inputs: &[Vec<u8>], block: usize) -> Vec<u8> {
    let most = inputs.iter().map(|input| input.len().div_ceil(block)).max().unwrap_or(0);
    let rounds = (0..most).flat_map(|round| inputs.iter().map(move |input| (input, round * block)));
    rounds
        .flat_map(|(input, from)| &input[from.min(input.len())..(from + block).min(input.len())])
        .copied()
        .collect()
}

/// Blocks number `place`, `place + places` and so on.
fn every(bytes: &[u8], block: usize, place: usize, places: usize) -> Vec<u8> {
    bytes.chunks(block).skip(place).step_by(places).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::cases::cases;

    /// Correct contents of the sinks of a part.
    fn right(part: Part, pattern: &Pattern, links: usize) -> (RelayCase, Volume, Vec<Vec<u8>>) {
        let case = cases(part).into_iter().find(|case| case.links as usize == links).unwrap();
        let sources = if matches!(part, Part::Stripe | Part::Random | Part::Mirror) { 1 } else { links };
        let bytes_each = case.block.unwrap_or(100) * 8;
        let volume = Volume { connections: sources, busy: sources, first: 0, bytes_each, ends: true };
        let sent: Vec<Vec<u8>> =
            (0..sources).map(|source| pattern.bytes(start_of(source), bytes_each as usize)).collect();
        let block = block(&case);
        let contents = match part {
            Part::Merge => vec![merged(&sent, block)],
            Part::Stripe | Part::Random => {
                (0..links).map(|place| every(&sent[0], block, place, links)).collect()
            }
            Part::Mirror => vec![sent[0].clone(); links],
            _ => sent,
        };
        (case, volume, contents)
    }

    /// Promise: Verification finds a wrong, lost, repeated, misdirected or reordered byte.
    #[test]
    fn what_is_right_passes_and_a_wrong_lost_or_doubled_byte_is_found() {
        let pattern = Pattern::new().unwrap();
        for part in
            [Part::SocketToSocket, Part::SocketToFile, Part::Merge, Part::Stripe, Part::Random, Part::Mirror]
        {
            let links = if matches!(part, Part::Stripe | Part::Random | Part::Mirror) { 4 } else { 16 };
            let (case, volume, contents) = right(part, &pattern, links);
            let of = |change: fn(&mut Vec<Vec<u8>>)| {
                let mut changed = contents.clone();
                change(&mut changed);
                check(&case, &pattern, volume, &changed)
            };
            assert_eq!(of(|_| {}), Ok(()), "{part}");
            let wrong: [fn(&mut Vec<Vec<u8>>); 4] = [
                |contents| contents[0][77] ^= 1,
                |contents| assert!(contents[0].pop().is_some()),
                |contents| contents[0].push(0),
                |contents| {
                    let first = contents[0].clone();
                    contents[0].extend(first);
                },
            ];
            for (number, change) in wrong.into_iter().enumerate() {
                assert!(of(change).is_err(), "{part}: change {number}");
            }
        }
    }

    #[test]
    fn proxies_may_pair_connections_as_they_like_and_sinks_of_files_may_not() {
        let pattern = Pattern::new().unwrap();
        for (part, is_right) in [(Part::SocketToSocket, true), (Part::SocketToFile, false)] {
            let (case, volume, mut contents) = right(part, &pattern, 16);
            contents.swap(0, 9);
            assert_eq!(check(&case, &pattern, volume, &contents).is_ok(), is_right, "{part}");
        }
    }

    /// Promise: Verification finds a wrong, lost, repeated, misdirected or reordered byte.
    #[test]
    fn records_at_random_are_in_order_at_each_sink() {
        let pattern = Pattern::new().unwrap();
        let (case, volume, mut contents) = right(Part::Random, &pattern, 4);
        let block = block(&case);
        contents[1].rotate_left(block);
        let wrong = check(&case, &pattern, volume, &contents).unwrap_err();
        assert!(wrong.contains("arrived after a later one"), "{wrong}");
    }

    #[test]
    fn what_is_touched_must_be() {
        let pattern = Pattern::new().unwrap();
        let (mut case, volume, contents) = right(Part::Mirror, &pattern, 4);
        case.touch = true;
        assert!(check(&case, &pattern, volume, &contents).is_err());
    }
}
