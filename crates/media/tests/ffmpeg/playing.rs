//! Packets played by ffmpeg over RTSP: compares the frames from its depacketizers with those of the file.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_media::container::Movie;
use wirepath_media::payload::depacketize::depacketize;
use wirepath_media::payload::{Format, Packetizer, Payload, Payloads, TrackDescription, Unit, Units};
use wirepath_media::rtp;
use wirepath_media::track::{Codec, Extent, Sample};
use wirepath_testkit::trials;

use super::clips::{clip, run};
use super::samples::read;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        h264_comes_out_as_it_is_in_the_file => || plays("b-frames.mp4", 0, 1),
        h264_in_slices_comes_out_as_it_is_in_the_file => || plays("languages.mp4", 0, 1),
        aac_comes_out_as_it_is_in_the_file => || plays("b-frames.mp4", 1, 1),
        aac_in_fours_comes_out_as_it_is_in_the_file => || plays("b-frames.mp4", 1, 4),
        h265_comes_out_as_it_is_in_the_file => || plays("h265.mp4", 0, 1),
        opus_comes_out_as_it_is_in_the_file => || plays("h265.mp4", 1, 1),
        mpeg_audio_comes_out_as_it_is_in_the_file => || plays("mp3.mp4", 0, 1),
        mpeg_audio_in_fours_comes_out_as_it_is_in_the_file => || plays("mp3.mp4", 0, 4),
        ac3_comes_out_as_it_is_in_the_file => || plays("ac-3.mp4", 0, 1),
        vp8_comes_out_as_it_is_in_the_file => || plays("vp8.webm", 0, 1),
        vp9_comes_out_as_it_is_in_the_file => || plays("vp9.mp4", 0, 1),
        vp9_in_webm_comes_out_as_it_is_in_the_file => || plays("vp9.webm", 0, 1),
        h264_in_matroska_comes_out_as_it_is_in_the_file => || plays("languages.mkv", 0, 1),
        h265_in_matroska_comes_out_as_it_is_in_the_file => || plays("h265.mkv", 0, 1),
        aac_in_matroska_comes_out_as_it_is_in_the_file => || plays("b-frames.mkv", 1, 4),
        opus_in_webm_comes_out_as_it_is_in_the_file => || plays("vp8.webm", 1, 1),
        ac3_in_matroska_comes_out_as_it_is_in_the_file => || plays("h265.mkv", 1, 1),
        mpeg_audio_in_matroska_comes_out_as_it_is_in_the_file => || plays("av1.mkv", 1, 1),
        av1_comes_out_as_it_is_in_the_file => || av1("av1.mp4"),
        av1_in_matroska_comes_out_as_it_is_in_the_file => || av1("av1.mkv"),
        a_law_comes_out_as_it_is_in_the_file => || sounds("a-law.mov", 1),
        mu_law_comes_out_as_it_is_in_the_file => || sounds("mu-law.mov", 4),
        l16_comes_out_as_it_is_in_the_file => || sounds("l16.mov", 1),
        l16_in_matroska_comes_out_as_it_is_in_the_file => || sounds("l16.mkv", 1),
        little_endian_l16_comes_out_as_it_is_in_the_file => || sounds("l16-little.mov", 1),
        little_endian_l24_comes_out_as_it_is_in_the_file => || sounds("l24-little.mov", 1),
        little_endian_l16_in_matroska_comes_out_as_it_is_in_the_file => || sounds("l16-little.mkv", 1),
        a_law_in_matroska_comes_out_as_it_is_in_the_file => || sounds("a-law.mkv", 1),
    ]
}

/// Payload limit of packets, less than that of Ethernet, so that short samples have several packets.
const LIMIT: usize = 400;

/// Timeout for ffmpeg.
const PATIENCE: Duration = Duration::from_secs(30);

/// Promise: ffmpeg's depacketizers read the packets of each format and decode the frames of the file.
fn plays(name: &str, index: usize, most: usize) -> Result<()> {
    let (clip, played) = played(name, index, most, hashes)?;
    let direct = hashes(&["-i", path(&clip)?], &format!("0:{index}"))?;
    ensure!(direct.len() > 20, "{} frames", direct.len());
    let differing = played.iter().zip(&direct).filter(|(played, direct)| played != direct).count();
    ensure!(
        played == direct,
        "{} frames over RTP, {} in the file, {differing} differ",
        played.len(),
        direct.len()
    );
    Ok(())
}

/// Promise: ffmpeg reads the packets of G.711 and L16 and decodes the sound of the file.
fn sounds(name: &str, most: usize) -> Result<()> {
    let (clip, played) = played(name, 0, most, sound)?;
    let direct = sound(&["-i", path(&clip)?], "0:0")?;
    ensure!(played == direct, "{played:?} over RTP, {direct:?} in the file");
    Ok(())
}

/// Promise: AV1 from RTP packets, converted back to a stream of OBUs, decodes to the frames of the file.
///
/// ffmpeg before version 8 has no depacketizer for AV1; that of this crate's tests is used instead.
fn av1(name: &str) -> Result<()> {
    let clip = clip(name)?;
    let file = std::fs::read(&clip)?;
    let (movie, samples) = read(&file)?;
    let payloads = payloads(&file, &movie, &samples, 0, 1)?;
    let without_padding = |payload: Payload<'_>| {
        let mut bytes = payload.copy(&file);
        bytes.truncate(payload.length - usize::from(payload.padding));
        (bytes, payload.marker)
    };
    let packets: Vec<_> = payloads.iter().map(without_padding).collect();
    let units = depacketize(Format::Av1, &packets).map_err(anyhow::Error::msg)?;
    let folder = tempfile::tempdir()?;
    let stream = folder.path().join("stream.obu");
    std::fs::write(&stream, units.iter().flat_map(|unit| low_overhead(unit)).collect::<Vec<u8>>())?;
    let (played, direct) = (hashes(&["-i", path(&stream)?], "0:0")?, hashes(&["-i", path(&clip)?], "0:0")?);
    ensure!(direct.len() > 20 && played == direct, "{} frames of {}", played.len(), direct.len());
    Ok(())
}

/// Converts a temporal unit of OBUs after lengths of four bytes to the low-overhead format, with a temporal
/// delimiter and size fields.
fn low_overhead(mut unit: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x12, 0];
    while let Some((length, rest)) = unit.split_first_chunk() {
        let (obu, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        let (header, body) = obu.split_at(if obu[0] & 4 == 0 { 1 } else { 2 });
        bytes.push(header[0] | 2);
        bytes.extend(&header[1..]);
        let size = [0, 7, 14].map(|shift| 0x80 | (body.len() >> shift) as u8);
        bytes.extend(size);
        bytes.push((body.len() >> 21) as u8);
        bytes.extend(body);
        unit = rest;
    }
    bytes
}

/// Hash of audio, which is divided into packets differently than in the file.
fn sound(input: &[&str], map: &str) -> Result<Vec<String>> {
    let output = ["-map", map, "-c:a", "pcm_s16le", "-f", "md5", "-"];
    Ok(vec![run("ffmpeg", &[&["-nostdin", "-v", "error"], input, &output].concat())?])
}

/// Path of a clip, and result of `hashes` for one of its tracks that ffmpeg plays from this server.
fn played(
    name: &str,
    index: usize,
    most: usize,
    hashes: fn(&[&str], &str) -> Result<Vec<String>>,
) -> Result<(PathBuf, Vec<String>)> {
    let clip = clip(name)?;
    let file = std::fs::read(&clip)?;
    let (movie, samples) = read(&file)?;
    let (description, stream) = stream(&file, &movie, &samples, index, most)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("rtsp://{}/clip", listener.local_addr()?);
    let server = thread::spawn(move || serve(&listener, &description, &stream));
    let played = hashes(&["-analyzeduration", "200000", "-rtsp_transport", "tcp", "-i", &url], "0:0")?;
    server.join().ok().context("the server panicked")??;
    Ok((clip, played))
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a name")
}

/// Hashes of samples: of decoded pictures, which do not depend on the format of NAL units, and of audio
/// without decoding.
fn hashes(input: &[&str], map: &str) -> Result<Vec<String>> {
    let codecs = ["-map", map, "-c:a", "copy", "-fps_mode", "passthrough", "-f", "framemd5", "-"];
    let text = run("ffmpeg", &[&["-nostdin", "-v", "error"], input, &codecs].concat())?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    // Fields: stream, times, duration, size, hash; then side data about priming.
    Ok(lines.filter_map(|line| line.split(',').nth(5)).map(|hash| hash.trim().to_owned()).collect())
}

/// SDP of a track, and its packets as interleaved frames.
fn stream(
    file: &[u8],
    movie: &Movie,
    samples: &[Sample],
    index: usize,
    most: usize,
) -> Result<(String, Vec<u8>)> {
    let track = &movie.tracks()[index];
    let about = TrackDescription::of(track, 96, None)?;
    let kind = if about.video { "video" } else { "audio" };
    let mut lines = vec!["v=0".to_owned(), "o=- 1 1 IN IP4 127.0.0.1".into(), "s=-".into(), "t=0 0".into()];
    lines.push(format!("m={kind} 0 RTP/AVP {}", about.payload_type));
    lines.push(format!("a=rtpmap:{}", about.map));
    lines.extend(about.parameters.iter().map(|parameters| format!("a=fmtp:{parameters}")));
    lines.push("a=control:track1".into());

    let mut bytes = Vec::new();
    for (sequence, payload) in payloads(file, movie, samples, index, most)?.iter().enumerate() {
        let (marker, timestamp) = (payload.marker, payload.timestamp as u32);
        let header = rtp::Header {
            padding: payload.padding > 0,
            marker,
            payload_type: about.payload_type,
            sequence: sequence as u16,
            timestamp,
            ssrc: 7,
        };
        let packet = [&header.to_bytes()[..], &payload.copy(file)].concat();
        ensure!(packet.len() <= LIMIT + rtp::HEADER_LENGTH, "a packet of {} bytes", packet.len());
        bytes.extend([b'$', 0, (packet.len() >> 8) as u8, packet.len() as u8]);
        bytes.extend(packet);
    }
    Ok((lines.join("\r\n") + "\r\n", bytes))
}

/// Packetizes a track.
fn payloads(file: &[u8], movie: &Movie, samples: &[Sample], index: usize, most: usize) -> Result<Payloads> {
    let track = &movie.tracks()[index];
    let format = Format::of(track)?;
    let (mut packetizer, mut payloads) = (Packetizer::new(format, LIMIT, most), Payloads::default());
    payloads.permit_padding(usize::MAX);
    let clock = u64::from(format.clock_hz(track));
    for sample in samples.iter().filter(|sample| sample.track == index) {
        let presented = sample.decode_time.saturating_add_signed(sample.composition_offset);
        let timestamp = presented * clock / u64::from(track.timescale);
        let units = units(file, &track.codec, sample.extent)?;
        packetizer.push(sample.extent, &units, timestamp, &mut payloads)?;
    }
    packetizer.flush(&mut payloads);
    Ok(payloads)
}

fn units(file: &[u8], codec: &Codec, sample: Extent) -> Result<Vec<Unit>> {
    let (mut walk, mut units) = (Units::new(codec, sample), Vec::new());
    while let Some(wanted) = walk.wanted() {
        units.extend(walk.take(&file[wanted.offset as usize..wanted.end() as usize])?);
    }
    Ok(units)
}

/// Answers the requests of a client, and sends the packets after PLAY.
fn serve(listener: &TcpListener, description: &str, stream: &[u8]) -> Result<()> {
    let (connection, _) = listener.accept()?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut requests = BufReader::new(connection.try_clone()?);
    loop {
        let (method, sequence) = request(&mut requests)?;
        let rest = match method.as_str() {
            "DESCRIBE" => {
                let length = description.len();
                format!("Content-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{description}")
            }
            "SETUP" => "Session: 1\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n\r\n".to_owned(),
            "PLAY" => "Session: 1\r\nRange: npt=0-\r\n\r\n".to_owned(),
            _ => "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n\r\n".to_owned(),
        };
        write(&connection, format!("RTSP/1.0 200 OK\r\nCSeq: {sequence}\r\n{rest}").as_bytes())?;
        if method == "PLAY" {
            write(&connection, stream)?;
            // ffmpeg ends when the connection is closed.
            return Ok(connection.shutdown(std::net::Shutdown::Write)?);
        }
    }
}

fn write(mut connection: &TcpStream, bytes: &[u8]) -> Result<()> {
    Ok(connection.write_all(bytes)?)
}

/// Reads method and CSeq of the next request.
fn request(requests: &mut BufReader<TcpStream>) -> Result<(String, String)> {
    let (mut method, mut sequence) = (None, String::new());
    loop {
        let mut line = String::new();
        ensure!(requests.read_line(&mut line)? > 0, "the client left");
        let line = line.trim_end();
        match (&method, line.strip_prefix("CSeq: ")) {
            (None, _) => method = line.split(' ').next().map(str::to_owned),
            (_, Some(number)) => sequence = number.to_owned(),
            (Some(method), None) if line.is_empty() => return Ok((method.clone(), sequence)),
            _ => {}
        }
    }
}
