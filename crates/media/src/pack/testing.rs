//! Packs into memory and reads back, for the tests of packing and of the image format.

use super::*;
use crate::image::{
    Error as ImageError, Header, Identity, Layout, PAGE, Recipe, StreamPlan, Summary, Table, TrainRecord,
    Writer, WrittenSegment, copy_payload,
};
use crate::rtp::HEADER_LENGTH;

/// Plan for an asset of `size` bytes, with seven transport packets in each RTP packet.
pub(crate) fn plan(size: usize) -> Plan {
    Plan {
        identity: Identity { size: size as u64, mtime_ns: 1_700_000_000_123_456_789, inode: 42, device: 66 },
        recipe: Recipe::transport_stream(7, 20_000),
        streams: StreamPlan::transport_stream(0xdead_beef, 65_500, u32::MAX - 1000).into(),
    }
}

/// Packs an asset into an image, in pieces of `piece` bytes.
pub(crate) fn pack(asset: &[u8], plan: Plan, piece: usize) -> Result<(Vec<u8>, Summary), Error> {
    pack_as(Layout::Image, asset, plan, piece)
}

/// Packs an asset into an image or an index, in pieces of `piece` bytes.
pub(crate) fn pack_as(
    layout: Layout,
    asset: &[u8],
    plan: Plan,
    piece: usize,
) -> Result<(Vec<u8>, Summary), Error> {
    let mut packer = Packer::new(plan).expect("a plan that can be followed");
    let (mut file, mut writer) = (vec![0; PAGE as usize], Writer::new(plan, layout));
    let mut write = |packer: &mut Packer| {
        while let Some(segment) = packer.pop() {
            let WrittenSegment { bytes, entry } =
                writer.add(&segment, copy_payload(asset)).expect("copying does not fail");
            file.resize(entry.offset as usize, 0);
            file.extend(bytes);
        }
    };
    for bytes in asset.chunks(piece) {
        packer.push(bytes)?;
        write(&mut packer);
    }
    let end = packer.finish()?;
    write(&mut packer);
    let summary = writer.finish(end);
    file.resize(summary.header.table.offset as usize, 0);
    file.extend(&summary.table_bytes);
    file[..PAGE as usize].copy_from_slice(&summary.header.encode());
    Ok((file, summary))
}

/// Packs a movie that is in memory into an image.
pub(crate) fn pack_movie(asset: &[u8], plan: Plan) -> Result<(Vec<u8>, Summary), Error> {
    let packer = packer(plan).expect("a plan that can be followed");
    pack_growing(asset, plan, packer, &[]).map(|(file, summary, _)| (file, summary))
}

/// Packs an asset that is in memory into an image. Of one that grows, the packer finds these lengths, one after the
/// other, and then all of it. Returns the number of bytes that the packer read, too.
pub(crate) fn pack_growing(
    asset: &[u8],
    plan: Plan,
    mut packer: Box<dyn Pack>,
    lengths: &[usize],
) -> Result<(Vec<u8>, Summary, u64), Error> {
    let (mut lengths, mut read) = (lengths.iter(), 0);
    let mut known = usize::try_from(plan.identity.size).expect("it is in memory");
    let (mut file, mut writer) = (vec![0; PAGE as usize], Writer::new(plan, Layout::Image));
    let mut end = None;
    loop {
        while let Some(segment) = packer.pop()? {
            let WrittenSegment { bytes, entry } =
                writer.add(&segment, copy_payload(&asset[..known])).expect("copying does not fail");
            file.resize(entry.offset as usize, 0);
            file.extend(bytes);
        }
        match packer.wanted() {
            _ if end.is_some() => break,
            Wanted::Bytes(wanted) => {
                read += wanted.length;
                packer.take(&asset[..known][wanted.offset as usize..wanted.end() as usize])?;
            }
            Wanted::Nothing => {}
            Wanted::Growth(_) if known == asset.len() => packer.end_growth(),
            Wanted::Growth(_) => {
                known = lengths.next().map_or(asset.len(), |length| known.max(*length));
                packer.grow(known as u64);
            }
            Wanted::End => end = Some(packer.finish()?),
        }
    }
    writer.set_identity(Identity { size: known as u64, ..plan.identity });
    let summary = writer.finish(end.expect("it has ended"));
    file.resize(summary.header.table.offset as usize, 0);
    file.extend(&summary.table_bytes);
    file[..PAGE as usize].copy_from_slice(&summary.header.encode());
    Ok((file, summary, read))
}

/// Image that was read back.
pub(crate) struct Read {
    pub(crate) header: Header,
    pub(crate) table: Table,
    /// Trains of each segment.
    pub(crate) trains: Vec<Vec<TrainRecord>>,
    /// Every packet, header included.
    pub(crate) packets: Vec<Vec<u8>>,
}

impl Read {
    /// Payloads of all packets, concatenated.
    pub(crate) fn payload(&self) -> Vec<u8> {
        self.packets.iter().flat_map(|packet| &packet[HEADER_LENGTH..]).copied().collect()
    }

    /// All trains, without their places in segments.
    pub(crate) fn trains_without_places(&self) -> Vec<TrainRecord> {
        self.trains.iter().flatten().map(|train| TrainRecord { offset: 0, ..*train }).collect()
    }

    /// Departures of the random access points, in microseconds.
    pub(crate) fn starts_us(&self) -> Vec<u64> {
        self.table.starts.iter().map(|start| start.departure_us).collect()
    }
}

/// Reads an image, and compares its RTP headers with those generated from its trains.
pub(crate) fn read(file: &[u8]) -> Result<Read, ImageError> {
    read_with(file, &[])
}

/// Reads an image or the index of `asset`; packets of an index are made as a sender makes them.
pub(crate) fn read_with(file: &[u8], asset: &[u8]) -> Result<Read, ImageError> {
    let header = Header::decode(&file[..file.len().min(PAGE as usize)], file.len() as u64)?;
    let table = Table::decode(&file[header.table.offset as usize..], &header)?;
    let (mut trains, mut packets) = (Vec::new(), Vec::new());
    for (index, entry) in table.segments.iter().enumerate() {
        let bytes = &file[entry.offset as usize..][..entry.length() as usize];
        let records = entry.trains(&header.plan, table.until_us(index, &header), bytes)?;
        let mut payload = entry.asset_offset.map(|offset| &asset[offset as usize..]);
        for train in &records {
            let run = train.run(&header.plan);
            if let Some(payload) = &mut payload {
                let size = header.plan.recipe.payload_length();
                let length = train.length as usize - train.packets() as usize * HEADER_LENGTH;
                let (taken, rest) = payload.split_at(length);
                for (number, packet) in (0..).zip(taken.chunks(size)) {
                    packets.push([&run.header(number).to_bytes()[..], packet].concat());
                }
                *payload = rest;
                continue;
            }
            let data = &bytes[train.offset as usize..][..train.length as usize];
            for (number, packet) in (0..).zip(data.chunks(usize::from(train.packet_size))) {
                assert_eq!(packet[..HEADER_LENGTH], run.header(number).to_bytes());
                packets.push(packet.to_vec());
            }
        }
        trains.push(records);
    }
    Ok(Read { header, table, trains, packets })
}
