//! Containers, payload formats and protocols as bytes and values.
//!
//! Nothing here opens a file, a socket or a clock: bytes and times come in as arguments and values go out, so
//! every test is a plain function call and every parser can be fuzzed.

pub mod container;
pub mod demux;
pub mod hls;
pub mod image;
pub mod inspect;
pub mod matroska;
pub mod mp4;
pub mod pack;
pub mod payload;
mod queue;
pub mod random;
pub mod rtcp;
pub mod rtp;
pub mod rtsp;
pub mod sdp;
pub mod srtp;
pub mod track;
pub mod ts;
