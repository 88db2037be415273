//! MP4 and Matroska files that ffmpeg makes, read by this crate and by readers that are not ours, ffprobe,
//! `shiguredo_mp4` and `matroska-demuxer`; transport streams by their tracks, compared with ffprobe; and tracks as
//! RTP, read by ffmpeg, and as images.

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
