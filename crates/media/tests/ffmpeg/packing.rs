//! Packs whole files into images, and restores the samples of each track from the packets of its stream.

use std::convert::Infallible;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_media::image::{Header, Identity, Layout, PAGE, PathLimits, Plan, Table, Writer, copy_payload};
use wirepath_media::pack::{PlayableMovie, Wanted, packer};
use wirepath_media::payload::depacketize::{Packet, depacketize};
use wirepath_media::rtp;
use wirepath_media::track::{Codec, Sample};
use wirepath_testkit::trials;

use super::clips::clip;
use super::samples::read;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        b_frames_come_back_from_an_image => || comes_back("b-frames.mp4", 2),
        faststart_comes_back_from_an_image => || comes_back("faststart.mp4", 2),
        fragments_come_back_from_an_image => || comes_back("fragments.mp4", 2),
        fragments_for_each_track_come_back_from_an_image => || comes_back("fragment-for-each-track.mp4", 2),
        negative_offsets_come_back_from_an_image => || comes_back("negative-offsets.mp4", 1),
        from_the_middle_comes_back_from_an_image => || comes_back("from-the-middle.mp4", 1),
        delayed_comes_back_from_an_image => || comes_back("delayed.mp4", 2),
        languages_come_back_from_an_image => || comes_back("languages.mp4", 3),
        h265_comes_back_from_an_image => || comes_back("h265.mp4", 2),
        mpeg_audio_comes_back_from_an_image => || comes_back("mp3.mp4", 1),
        ac_3_comes_back_from_an_image => || comes_back("ac-3.mp4", 1),
        mu_law_comes_back_from_an_image => || comes_back("mu-law.mov", 1),
        matroska_comes_back_from_an_image => || comes_back("languages.mkv", 3),
        matroska_of_a_recording_comes_back_from_an_image => || comes_back("live.mkv", 2),
        h265_in_matroska_comes_back_from_an_image => || comes_back("h265.mkv", 2),
        l16_in_matroska_comes_back_from_an_image => || comes_back("l16.mkv", 1),
        vp8_comes_back_from_an_image => || comes_back("vp8.webm", 2),
        vp9_comes_back_from_an_image => || comes_back("vp9.webm", 2),
    ]
}

/// Promise: Samples of all tracks of a movie are restored from its image byte for byte, with their times.
fn comes_back(name: &str, least_tracks: usize) -> Result<()> {
    let file = std::fs::read(clip(name)?)?;
    let (movie, samples) = read(&file)?;
    let playable = PlayableMovie::of(movie)?;
    ensure!(playable.movie.tracks().len() >= least_tracks, "{:?}", playable.description);
    let mut number = 0;
    let streams = playable.streams(|| {
        number += 1;
        Ok::<_, Infallible>((number, 65_000, 0))
    });
    let streams = streams?.context("no tracks")?;
    let identity = Identity { size: file.len() as u64, mtime_ns: 0, inode: 1, device: 1 };
    let recipe = PathLimits { payload: 1440, burst_us: 20_000 }.tracks();
    // An image begins with the first sample that is played.
    let tracks = playable.movie.tracks();
    let mut begins = samples.iter().filter_map(|sample| {
        let track = tracks.iter().find(|track| track.id as usize == sample.track + 1)?;
        Some(track.decode_us(sample).max(0))
    });
    let begin_us = begins.next().context("no sample")?;
    let packets = packets(&image(&file, Plan { identity, recipe, streams })?)?;
    for (track, (format, stream)) in
        playable.movie.tracks().iter().zip(playable.formats.iter().zip(streams.iter()))
    {
        let ours = packets.iter().filter(|(header, _)| header.ssrc == stream.ssrc);
        let packets: Vec<Packet> = ours.clone().map(|(_, packet)| packet.clone()).collect();
        let back = depacketize(*format, &packets).map_err(anyhow::Error::msg)?;
        // The list of the file includes tracks that are not played.
        let of_track = |sample: &&Sample| sample.track + 1 == track.id as usize;
        let sets = parameter_sets(&track.codec);
        let bytes = |sample: &Sample| {
            let bytes = &file[sample.extent.offset as usize..sample.extent.end() as usize];
            [if sample.sync { &sets[..] } else { &[] }, bytes].concat()
        };
        let expected: Vec<u8> = samples.iter().filter(of_track).flat_map(bytes).collect();
        let back = back.concat();
        ensure!(!back.is_empty() && expected.ends_with(&back), "other bytes of track {}", track.id);
        let shown = samples.iter().filter(of_track).filter(|sample| track.presentation_us(sample) >= 0);
        let least: usize = shown.map(|sample| sample.extent.length as usize).sum();
        ensure!(back.len() >= least, "{} bytes of track {}, {least} are shown", back.len(), track.id);
        let last_sample = samples.iter().rfind(of_track).context("no sample")?;
        let last_us = i128::from(track.presentation_us(last_sample) - begin_us);
        let ticks = last_us * i128::from(stream.clock_hz) / 1_000_000;
        let last = ours.map(|(header, _)| header.timestamp).next_back().context("no packet")?;
        let apart = ticks as i64 - i64::from(last);
        // The last packet of audio has the timestamp of its first frame, at most four frames before the last
        // one. A sample that consists of many PCM samples is split into packets.
        let within = if last_sample.count > 1 { i64::from(last_sample.duration) } else { 1 };
        ensure!((-within..20_000).contains(&apart), "the last timestamp is {apart} ticks early");
    }
    Ok(())
}

/// Parameter sets of a configuration, each after its length: they precede random access points, which have none in
/// these files.
fn parameter_sets(codec: &Codec) -> Vec<u8> {
    let lists = match codec {
        Codec::H264(avc) => [&avc.sequence_sets[..], &avc.picture_sets, &[]],
        Codec::H265(hevc) => [&hevc.video_sets[..], &hevc.sequence_sets, &hevc.picture_sets],
        _ => return Vec::new(),
    };
    let all = lists.into_iter().flatten();
    all.flat_map(|set| [&(set.len() as u32).to_be_bytes()[..], set].concat()).collect()
}

fn image(file: &[u8], plan: Plan) -> Result<Vec<u8>> {
    let mut packer = packer(plan)?;
    let (mut image, mut writer) = (vec![0; PAGE as usize], Writer::new(plan, Layout::Image));
    loop {
        while let Some(segment) = packer.pop()? {
            let written = writer.add(&segment, copy_payload(file))?;
            image.resize(written.entry.offset as usize, 0);
            image.extend(written.bytes);
        }
        match packer.wanted() {
            Wanted::Bytes(wanted) => packer.take(&file[wanted.offset as usize..wanted.end() as usize])?,
            Wanted::Nothing => {}
            Wanted::Growth(_) | Wanted::End => break,
        }
    }
    let summary = writer.finish(packer.finish()?);
    image.resize(summary.header.table.offset as usize, 0);
    image.extend(summary.table_bytes);
    image[..PAGE as usize].copy_from_slice(&summary.header.encode());
    Ok(image)
}

/// Reads the packets of an image in order.
fn packets(image: &[u8]) -> Result<Vec<(rtp::Header, Packet)>> {
    let header = Header::decode(&image[..PAGE as usize], image.len() as u64)?;
    let table = Table::decode(&image[header.table.offset as usize..], &header)?;
    let mut packets = Vec::new();
    for (index, entry) in table.segments.iter().enumerate() {
        let bytes = &image[entry.offset as usize..][..entry.length() as usize];
        for train in entry.trains(&header.plan, table.until_us(index, &header), bytes)? {
            let data = &bytes[train.offset as usize..][..train.length as usize];
            for packet in data.chunks(train.packet_size.into()) {
                let header = rtp::Header::parse(packet).context("no RTP header")?;
                let payload = rtp::without_padding(&header, &packet[rtp::HEADER_LENGTH..]);
                packets.push((header, (payload.context("padding")?.to_vec(), header.marker)));
            }
        }
    }
    Ok(packets)
}
