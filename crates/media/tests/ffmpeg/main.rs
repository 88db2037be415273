//! MP4 files that ffmpeg makes, read by this crate and by readers that are not ours, ffprobe and
//! `shiguredo_mp4`; and their tracks as RTP, read by ffmpeg, and as images.

mod clips;
mod descriptions;
mod packing;
mod playing;
mod samples;

use std::process::ExitCode;

fn main() -> ExitCode {
    wirepath_testkit::trial::run(
        [samples::trials(), descriptions::trials(), packing::trials(), playing::trials()]
            .into_iter()
            .flatten()
            .collect(),
        Vec::new(),
    )
}
