//! Compares this crate with ffmpeg and others. MP4 and Matroska files made by ffmpeg are also read by
//! ffprobe, `shiguredo_mp4` and `matroska-demuxer`; tracks of transport streams are compared with ffprobe;
//! and tracks are sent as RTP to ffmpeg, and packed into images.

mod clips;
mod demux;
mod descriptions;
mod matroska;
mod packing;
mod playing;
mod samples;

use std::process::ExitCode;

fn main() -> ExitCode {
    wirepath_testkit::trial::run(
        [
            samples::trials(),
            matroska::trials(),
            demux::trials(),
            descriptions::trials(),
            packing::trials(),
            playing::trials(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Vec::new(),
    )
}
