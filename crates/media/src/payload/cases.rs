//! Test cases of all formats, for the tests of packetizers and depacketizers and as seeds of the fuzzer.

use super::{Format, PcmEncoding, PcmFormat};

/// Samples, and the packets expected for them.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name of the case, for its special property.
    pub name: &'static str,
    /// Payload format.
    pub format: Format,
    /// Most bytes of a payload.
    pub limit: usize,
    /// Most audio frames of a packet.
    pub most: usize,
    /// Lengths of the NAL units of each sample of H.264 and H.265; of the OBUs of AV1 without size fields;
    /// for other formats, the length of each sample as a list of one.
    pub samples: &'static [&'static [usize]],
    /// Lengths of payloads.
    pub payloads: &'static [usize],
    /// Packets of each train.
    pub trains: &'static [usize],
}

const fn video(
    name: &'static str,
    format: Format,
    samples: &'static [&'static [usize]],
    payloads: &'static [usize],
    trains: &'static [usize],
) -> Case {
    Case { name, format, limit: 100, most: 1, samples, payloads, trains }
}

const fn audio(
    name: &'static str,
    format: Format,
    most: usize,
    samples: &'static [&'static [usize]],
    payloads: &'static [usize],
    trains: &'static [usize],
) -> Case {
    Case { name, format, limit: 100, most, samples, payloads, trains }
}

use Format::{Aac, Ac3, Av1, H264, H265, MpegAudio, Opus, Vp8, Vp9};

const A_LAW: Format = Format::Pcm(PcmFormat { encoding: PcmEncoding::Pcma, channels: 1, sample_rate: 8000 });
const MU_LAW: Format = Format::Pcm(PcmFormat { encoding: PcmEncoding::Pcmu, channels: 2, sample_rate: 1000 });
const L16: Format = Format::Pcm(PcmFormat { encoding: PcmEncoding::L16, channels: 2, sample_rate: 48_000 });
const L24: Format = Format::Pcm(PcmFormat { encoding: PcmEncoding::L24, channels: 1, sample_rate: 48_000 });

/// All cases, with payloads of at most 100 bytes.
pub const CASES: &[Case] = &[
    video("h264-no-units", H264, &[&[]], &[], &[]),
    video("h264-one-byte", H264, &[&[1]], &[1], &[1]),
    video("h264-full", H264, &[&[100]], &[100], &[1]),
    video("h264-one-more-than-full", H264, &[&[101]], &[100, 4], &[2]),
    video("h264-equal-fragments", H264, &[&[1 + 3 * 98]], &[100, 100, 100], &[3]),
    video("h264-short-last-fragment", H264, &[&[1 + 3 * 98 + 1]], &[100, 100, 100, 3], &[4]),
    video("h264-aggregated", H264, &[&[10, 20, 30]], &[67], &[1]),
    video("h264-aggregated-to-the-byte", H264, &[&[47, 48]], &[100], &[1]),
    video("h264-aggregated-less-a-byte", H264, &[&[48, 48]], &[48, 48], &[2]),
    video("h264-parameter-sets-and-a-picture", H264, &[&[25, 4, 300]], &[34, 100, 100, 100, 7], &[1, 4]),
    video("h264-slices", H264, &[&[150, 150], &[10]], &[100, 53, 100, 53, 10], &[2, 2, 1]),
    video("h264-pictures", H264, &[&[300], &[40]], &[100, 100, 100, 7, 40], &[4, 1]),
    video("h265-no-units", H265, &[&[]], &[], &[]),
    video("h265-header", H265, &[&[2]], &[2], &[1]),
    video("h265-full", H265, &[&[100]], &[100], &[1]),
    video("h265-one-more-than-full", H265, &[&[101]], &[100, 5], &[2]),
    video("h265-equal-fragments", H265, &[&[2 + 3 * 97]], &[100, 100, 100], &[3]),
    video("h265-aggregated", H265, &[&[10, 20, 30]], &[68], &[1]),
    video("h265-parameter-sets-and-a-picture", H265, &[&[25, 4, 300]], &[35, 100, 100, 100, 10], &[1, 4]),
    video("av1-no-units", Av1, &[&[]], &[], &[]),
    video("av1-header", Av1, &[&[1]], &[2], &[1]),
    video("av1-full", Av1, &[&[99]], &[100], &[1]),
    video("av1-one-more-than-full", Av1, &[&[100]], &[100, 2], &[2]),
    video("av1-two-units", Av1, &[&[10, 20]], &[32], &[1]),
    video("av1-sequence-and-frame", Av1, &[&[12, 300]], &[100, 100, 100, 17], &[4]),
    video("av1-four-units", Av1, &[&[10, 10, 10, 10]], &[33, 11], &[2]),
    video("av1-no-room-for-another", Av1, &[&[95, 20]], &[96, 21], &[2]),
    video("av1-room-for-a-beginning", Av1, &[&[94, 99], &[7]], &[100, 96, 8], &[2, 1]),
    video("av1-frames", Av1, &[&[50, 200], &[200]], &[100, 100, 54, 100, 100, 3], &[3, 3]),
    video("vp8-empty", Vp8, &[&[0]], &[], &[]),
    video("vp8-full", Vp8, &[&[99]], &[100], &[1]),
    video("vp8-fragments", Vp8, &[&[200], &[5]], &[100, 100, 3, 6], &[3, 1]),
    video("vp9-empty", Vp9, &[&[0]], &[], &[]),
    video("vp9-full", Vp9, &[&[99]], &[100], &[1]),
    video("vp9-fragments", Vp9, &[&[200], &[5]], &[100, 100, 3, 6], &[3, 1]),
    audio("a-law", A_LAW, 1, &[&[160], &[0]], &[100, 60], &[1, 1]),
    audio("mu-law-20-ms", MU_LAW, 1, &[&[80]], &[40, 40], &[1, 1]),
    audio("mu-law-40-ms", MU_LAW, 2, &[&[80]], &[80], &[1]),
    audio("l16", L16, 1, &[&[104], &[8]], &[100, 4, 8], &[1, 1, 1]),
    audio("l24", L24, 1, &[&[102]], &[99, 3], &[1, 1]),
    audio("aac-empty", Aac, 1, &[&[0]], &[4], &[1]),
    audio("aac-one", Aac, 1, &[&[50], &[60]], &[54, 64], &[1, 1]),
    audio("aac-full", Aac, 1, &[&[96]], &[100], &[1]),
    audio("aac-fragments", Aac, 1, &[&[200], &[3]], &[100, 100, 12, 7], &[3, 1]),
    audio("aac-together", Aac, 4, &[&[10], &[20], &[30], &[40]], &[68, 44], &[1, 1]),
    audio("aac-four-at-most", Aac, 4, &[&[1], &[1], &[1], &[1], &[1]], &[14, 5], &[1, 1]),
    audio("aac-longest", Aac, 1, &[&[700]], &[100, 100, 100, 100, 100, 100, 100, 32], &[8]),
    audio("opus", Opus, 1, &[&[1], &[100]], &[1, 100], &[1, 1]),
    audio("mpeg-audio", MpegAudio, 1, &[&[96], &[10]], &[100, 14], &[1, 1]),
    audio("mpeg-audio-together", MpegAudio, 4, &[&[40], &[40], &[40]], &[84, 44], &[1, 1]),
    audio("mpeg-audio-fragments", MpegAudio, 4, &[&[200]], &[100, 100, 12], &[3]),
    audio("ac-3", Ac3, 1, &[&[98], &[10]], &[100, 12], &[1, 1]),
    audio("ac-3-together", Ac3, 4, &[&[40], &[40], &[40]], &[82, 42], &[1, 1]),
    audio("ac-3-fragments", Ac3, 1, &[&[200], &[110]], &[100, 100, 6, 100, 14], &[3, 2]),
];
