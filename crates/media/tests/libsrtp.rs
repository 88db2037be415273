//! Compares SRTP with libsrtp, used by `srtpdec` of GStreamer.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use wirepath_media::rtp::Header;
use wirepath_media::srtp::{MASTER_KEY_LENGTH, MasterKey, RtpProtector, TAG_LENGTH};
use wirepath_testkit::{require, trials};

fn main() -> ExitCode {
    wirepath_testkit::trial::run(trials![libsrtp_decrypts_packets_across_a_wrap], Vec::new())
}

/// Promise: libsrtp decrypts SRTP of any length, also across gaps of any size and a wrap of the sequence numbers.
fn libsrtp_decrypts_packets_across_a_wrap() -> Result<()> {
    let has_srtp = Command::new("gst-inspect-1.0").args(["--exists", "srtpdec"]).status();
    require!(has_srtp.is_ok_and(|status| status.success()), "GStreamer's srtpdec is not installed");
    let key: [u8; MASTER_KEY_LENGTH] = std::array::from_fn(|byte| (byte * 37 + 11) as u8);
    let mut protector = RtpProtector::new(&MasterKey::from(key));
    let (mut encrypted, mut clear) = (Vec::new(), Vec::new());
    // Framing of RFC 4571: each packet follows its length.
    let add = |packets: &mut Vec<u8>, packet: &[u8]| {
        packets.extend((packet.len() as u16).to_be_bytes());
        packets.extend(packet);
    };
    let mut random = 7_u32;
    let mut sequence = 64_000_u16;
    for number in 0..4000_u32 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        sequence = sequence.wrapping_add(match number {
            2500 => 40_000, // a client that did not read for a long time
            number if number % 97 == 96 => 40,
            _ => 1,
        });
        let payload: Vec<u8> = (0..random >> 21).map(|byte| (byte ^ random) as u8).collect();
        let (marker, timestamp) = (number % 5 == 0, number.wrapping_mul(3000));
        let header =
            Header { padding: false, marker, payload_type: 96, sequence, timestamp, ssrc: 0x1234_5678 }
                .to_bytes();
        let mut packet = vec![0; header.len() + payload.len() + TAG_LENGTH];
        let index = protector.index(sequence)?;
        protector.protect(index, &header, &[], &payload, &mut packet);
        protector.note_sent(index);
        add(&mut encrypted, &packet);
        let sent = u16::from_be_bytes([packet[2], packet[3]]);
        ensure!((sent == sequence) == (number < 2500), "packet {number} has sequence number {sent}");
        add(&mut clear, &[&packet[..header.len()], &payload].concat());
    }
    let folder = tempfile::tempdir()?;
    let (source, decrypted) = (folder.path().join("encrypted"), folder.path().join("decrypted"));
    std::fs::write(&source, encrypted)?;
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let caps = format!(
        "application/x-srtp-stream,media=video,clock-rate=90000,payload=96,encoding-name=H264,ssrc=(uint)305419896,\
         srtp-key=(buffer){hex},srtp-cipher=aes-128-icm,srtp-auth=hmac-sha1-80,srtcp-cipher=aes-128-icm,\
         srtcp-auth=hmac-sha1-80"
    );
    let mut command = Command::new("gst-launch-1.0");
    command.args(["-q", "filesrc", &format!("location={}", source.display()), "!", &caps, "!"]);
    command.args(["rtpstreamdepay", "!", "srtpdec", "!", "rtpstreampay", "!", "filesink"]);
    command.arg(format!("location={}", decrypted.display()));
    let output = command.output().context("gst-launch-1.0")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(std::fs::read(&decrypted)? == clear, "other packets than those that were encrypted");
    Ok(())
}
