//! Depacketizers for tests. They follow the specifications, share no code with the packetizers, and refuse
//! everything that a receiver may refuse.

use super::{Format, PcmEncoding, Unit};
use crate::track::Extent;

/// Packet: payload and marker bit.
pub type Packet = (Vec<u8>, bool);

/// Restores the samples of packets without loss: NAL units, or OBUs without size fields, after lengths of
/// four bytes; frames; or for PCM, the audio of each packet. Several frames of MPEG audio or AC-3 in a packet
/// are one sample, since only their own headers divide them.
pub fn depacketize(format: Format, packets: &[Packet]) -> Result<Vec<Vec<u8>>, &'static str> {
    match format {
        Format::H264 => access_units(packets, 1, h264),
        Format::H265 => access_units(packets, 2, h265),
        Format::Aac => aac(packets),
        Format::Opus => pcm(packets, 1),
        Format::MpegAudio => mpeg_audio(packets),
        Format::Ac3 => ac3(packets),
        Format::Av1 => av1(packets),
        Format::Vp8 => frames(packets, vp8),
        Format::Vp9 => frames(packets, vp9),
        Format::Pcm(format) => pcm(packets, format.frame_length()),
    }
}

/// Returns a sample of an asset in memory, with these units, in the form in which [`depacketize`] returns it.
///
/// # Panics
/// If an extent exceeds the asset.
pub fn received(asset: &[u8], format: Format, sample: Extent, units: &[Unit]) -> Vec<u8> {
    let part = |offset: u64, length: u64| &asset[offset as usize..(offset + length) as usize];
    let obu = |obu: &Unit| {
        let header = &obu.header[..if obu.header[0] & 4 == 0 { 1 } else { 2 }];
        let body = part(obu.extent.offset, obu.extent.length);
        [&((header.len() + body.len()) as u32).to_be_bytes()[..], header, body].concat()
    };
    let Extent { offset, length } = sample;
    match format {
        Format::Av1 => units.iter().flat_map(obu).collect(),
        Format::Pcm(format) => {
            let sound = part(offset, length - length % format.frame_length() as u64);
            match format.encoding {
                PcmEncoding::L16Little => sound.chunks(2).flat_map(|number| [number[1], number[0]]).collect(),
                PcmEncoding::L24Little => {
                    sound.chunks(3).flat_map(|number| [number[2], number[1], number[0]]).collect()
                }
                _ => sound.to_vec(),
            }
        }
        _ => part(offset, length).to_vec(),
    }
}

/// NAL units of a payload.
enum Units<'a> {
    Whole(Vec<&'a [u8]>),
    Fragment { start: bool, end: bool, header: Vec<u8>, body: &'a [u8] },
}

fn access_units(
    packets: &[Packet],
    header_length: usize,
    read: fn(&[u8]) -> Result<Units<'_>, &'static str>,
) -> Result<Vec<Vec<u8>>, &'static str> {
    let (mut all, mut current, mut fragmented) = (Vec::new(), Vec::new(), None::<Vec<u8>>);
    let add = |unit: &[u8], current: &mut Vec<u8>| {
        current.extend((unit.len() as u32).to_be_bytes());
        current.extend(unit);
    };
    for (payload, marker) in packets {
        match read(payload)? {
            Units::Whole(_) if fragmented.is_some() => return Err("a NAL unit between fragments"),
            Units::Whole(units) => {
                for unit in units {
                    if unit.len() < header_length {
                        return Err("a NAL unit without header");
                    }
                    add(unit, &mut current);
                }
            }
            Units::Fragment { start: true, end: true, .. } => {
                return Err("a fragment that is a whole NAL unit");
            }
            Units::Fragment { start, end, header, body } => {
                if start == fragmented.is_some() || body.is_empty() {
                    return Err("a fragment out of place");
                }
                let mut unit = fragmented.take().unwrap_or(header);
                unit.extend(body);
                if end { add(&unit, &mut current) } else { fragmented = Some(unit) }
            }
        }
        if *marker {
            all.push(std::mem::take(&mut current));
        }
    }
    if current.is_empty() && fragmented.is_none() { Ok(all) } else { Err("no marker at the end") }
}

/// Reads units after lengths of 16 bits, at least one.
fn sized(mut bytes: &[u8]) -> Result<Units<'_>, &'static str> {
    let mut units = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length));
        let (unit, rest) = rest.split_at_checked(length).ok_or("an aggregate that ends early")?;
        units.push(unit);
        bytes = rest;
    }
    if units.is_empty() || !bytes.is_empty() {
        Err("an aggregate without units")
    } else {
        Ok(Units::Whole(units))
    }
}

fn h264(payload: &[u8]) -> Result<Units<'_>, &'static str> {
    match payload {
        [] => Err("an empty payload"),
        [first, rest @ ..] if first & 31 == 24 => sized(rest),
        [first, fragment, body @ ..] if first & 31 == 28 => Ok(Units::Fragment {
            start: fragment & 0x80 != 0,
            end: fragment & 0x40 != 0,
            header: vec![first & 0xe0 | fragment & 0x1f],
            body,
        }),
        [first, ..] if (1..24).contains(&(first & 31)) => Ok(Units::Whole(vec![payload])),
        _ => Err("a NAL unit type that is not for packetization-mode 1"),
    }
}

fn h265(payload: &[u8]) -> Result<Units<'_>, &'static str> {
    match payload {
        [first, _, rest @ ..] if first >> 1 & 63 == 48 => sized(rest),
        [first, second, fragment, body @ ..] if first >> 1 & 63 == 49 => Ok(Units::Fragment {
            start: fragment & 0x80 != 0,
            end: fragment & 0x40 != 0,
            header: vec![first & 0x81 | (fragment & 0x3f) << 1, *second],
            body,
        }),
        [first, _, ..] if first >> 1 & 63 < 48 => Ok(Units::Whole(vec![payload])),
        _ => Err("a NAL unit type that is not for RTP"),
    }
}

fn aac(packets: &[Packet]) -> Result<Vec<Vec<u8>>, &'static str> {
    let (mut all, mut fragments) = (Vec::new(), Vec::new());
    for (payload, marker) in packets {
        let (bits, rest) = payload.split_first_chunk().ok_or("no AU-headers-length")?;
        let bits = usize::from(u16::from_be_bytes(*bits));
        let (headers, mut data) = rest.split_at_checked(bits.div_ceil(8)).ok_or("AU-headers end early")?;
        let (headers, odd) = headers.as_chunks::<2>();
        if !odd.is_empty() || headers.is_empty() {
            return Err("AU-headers have 16 bits");
        }
        for header in headers {
            let header = u16::from_be_bytes(*header);
            let size = usize::from(header >> 3);
            if header & 7 != 0 {
                return Err("an access unit out of order");
            }
            if size > data.len() || !fragments.is_empty() {
                fragments.extend(data);
                data = &[];
                match fragments.len() {
                    length if length < size && !marker && headers.len() == 1 => {}
                    length if length == size && *marker => all.push(std::mem::take(&mut fragments)),
                    _ => return Err("fragments are not an access unit"),
                }
            } else {
                all.push(data[..size].to_vec());
                data = &data[size..];
            }
        }
        if !data.is_empty() {
            return Err("bytes after the access units");
        }
    }
    if fragments.is_empty() { Ok(all) } else { Err("an access unit without end") }
}

fn mpeg_audio(packets: &[Packet]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for (payload, _) in packets {
        let ([0, 0, high, low], data) = payload.split_first_chunk().ok_or("no header")? else {
            return Err("bits that must be zero");
        };
        match u16::from_be_bytes([*high, *low]) {
            0 => all.push(data.to_vec()),
            offset => match all.last_mut() {
                Some(frame) if frame.len() == usize::from(offset) => frame.extend(data),
                _ => return Err("a fragment out of place"),
            },
        }
    }
    Ok(all)
}

fn ac3(packets: &[Packet]) -> Result<Vec<Vec<u8>>, &'static str> {
    let (mut all, mut left): (Vec<Vec<u8>>, u8) = (Vec::new(), 0);
    for (payload, marker) in packets {
        let ([kind, number], data) = payload.split_first_chunk().ok_or("no header")?;
        match (kind, left) {
            (0, 0) if *number > 0 && *marker => all.push(data.to_vec()),
            (1 | 2, 0) if *number > 1 => {
                all.push(data.to_vec());
                left = number - 1;
            }
            (3, 1..) => {
                all.iter_mut().last().ok_or("a fragment out of place")?.extend(data);
                left -= 1;
            }
            _ => return Err("a frame type out of place"),
        }
        if *marker != (left == 0) {
            return Err("a marker out of place");
        }
    }
    if left == 0 { Ok(all) } else { Err("a frame without end") }
}

/// Restores temporal units: OBUs after lengths of four bytes.
fn av1(packets: &[Packet]) -> Result<Vec<Vec<u8>>, &'static str> {
    let (mut all, mut unit, mut part, mut obus) = (Vec::new(), Vec::new(), None::<Vec<u8>>, Vec::new());
    for (index, (payload, marker)) in packets.iter().enumerate() {
        let (aggregation, rest) = payload.split_first().ok_or("no aggregation header")?;
        let (continues, goes_on) = (aggregation & 0x80 != 0, aggregation & 0x40 != 0);
        let begins = aggregation & 0x08 != 0;
        if continues != part.is_some() || begins && continues || aggregation & 0x07 != 0 {
            return Err("an aggregation header out of place");
        }
        if begins && index > 0 && !packets[index - 1].1 {
            return Err("a sequence that begins within a temporal unit");
        }
        let mut elements = elements(rest, aggregation >> 4 & 3)?;
        if continues {
            let first = elements.first_mut().ok_or("a packet without elements")?;
            *first = [part.take().unwrap_or_default(), std::mem::take(first)].concat();
        }
        let layers = elements.iter().filter(|obu| obu.first().is_some_and(|header| header & 4 != 0));
        let mut layers = layers.filter_map(|obu| obu.get(1)).map(|extension| extension >> 3);
        if layers.next().is_some_and(|first| layers.any(|layer| layer != first)) {
            return Err("OBUs of different layers in a packet");
        }
        part = if goes_on { elements.pop() } else { None };
        obus.extend(elements);
        if *marker && part.is_some() {
            return Err("a temporal unit that ends within an OBU");
        }
        for obu in obus.drain(..) {
            if obu.first().is_none_or(|header| header & 0x82 != 0 || matches!(header >> 3 & 15, 2 | 8)) {
                return Err("an OBU that is not for RTP");
            }
            unit.extend((obu.len() as u32).to_be_bytes());
            unit.extend(obu);
        }
        if *marker {
            all.push(std::mem::take(&mut unit));
        }
    }
    if unit.is_empty() && part.is_none() { Ok(all) } else { Err("no marker at the end") }
}

/// Elements of a packet. If `count` is not 0, it is their number and the last has no length field; otherwise
/// all have one.
fn elements(mut bytes: &[u8], count: u8) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut elements = Vec::new();
    while !bytes.is_empty() {
        if count > 0 && elements.len() + 1 == usize::from(count) {
            elements.push(bytes.to_vec());
            return Ok(elements);
        }
        let digits = bytes.iter().position(|byte| byte & 0x80 == 0).ok_or("a length without end")? + 1;
        let length = bytes[..digits]
            .iter()
            .rev()
            .fold(0usize, |length, digit| length << 7 | usize::from(digit & 0x7f));
        let (element, rest) = bytes[digits..].split_at_checked(length).ok_or("an element that ends early")?;
        elements.push(element.to_vec());
        bytes = rest;
    }
    if count == 0 && !elements.is_empty() { Ok(elements) } else { Err("fewer elements than the header says") }
}

/// Part of a frame in a packet; true if the frame begins there.
type Fragment<'a> = Result<(bool, &'a [u8]), &'static str>;

/// Restores frames from packets whose payload descriptors mark the beginnings of frames.
fn frames(packets: &[Packet], read: fn(&[u8]) -> Fragment<'_>) -> Result<Vec<Vec<u8>>, &'static str> {
    let (mut all, mut frame) = (Vec::new(), None::<Vec<u8>>);
    for (payload, marker) in packets {
        let (start, data) = read(payload)?;
        if start == frame.is_some() || data.is_empty() {
            return Err("a fragment out of place");
        }
        frame.get_or_insert_default().extend(data);
        if *marker {
            all.extend(frame.take());
        }
    }
    if frame.is_none() { Ok(all) } else { Err("a frame without end") }
}

/// Reads a VP8 payload (RFC 7741 section 4.2), without extensions.
fn vp8(payload: &[u8]) -> Fragment<'_> {
    match payload.split_first() {
        Some((descriptor @ (0 | 0x10), data)) => Ok((*descriptor == 0x10, data)),
        _ => Err("a descriptor with extensions or of another partition"),
    }
}

/// Reads a VP9 payload (RFC 9628 section 4.2), without layers and picture ID. Checks that bit P matches the
/// frame.
fn vp9(payload: &[u8]) -> Fragment<'_> {
    let (descriptor, data) = payload.split_first().ok_or("no descriptor")?;
    let start = descriptor & 0x08 != 0;
    let inter = data.first().is_some_and(|first| first & 0x30 != 0x30 && first & 0x0c != 0);
    match descriptor & 0xb3 {
        0 if start && first_profiles(data) && inter != (descriptor & 0x40 != 0) => {
            Err("a wrong bit of prediction")
        }
        0 => Ok((start, data)),
        _ => Err("a descriptor with layers"),
    }
}

/// Returns whether a frame has profile 0, 1 or 2; their first bytes have the same layout.
fn first_profiles(data: &[u8]) -> bool {
    data.first().is_some_and(|first| first & 0x30 != 0x30)
}

/// Restores the audio of each packet, which must consist of whole samples of all channels.
fn pcm(packets: &[Packet], frame: usize) -> Result<Vec<Vec<u8>>, &'static str> {
    if packets.iter().any(|(payload, _)| payload.is_empty() || payload.len() % frame != 0) {
        return Err("a part of a sample");
    }
    Ok(packets.iter().map(|(payload, _)| payload.clone()).collect())
}
