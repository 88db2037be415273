//! MP4 files that ffmpeg makes, read by this crate and by readers that are not ours: ffprobe and
//! `shiguredo_mp4`.

mod clips;
mod samples;

use std::process::ExitCode;

fn main() -> ExitCode {
    wirepath_testkit::trial::run(samples::trials(), Vec::new())
}
