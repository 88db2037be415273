//! Media containers, RTP payload formats and streaming protocols, without I/O.
//!
//! No function opens a file or a socket or reads a clock: bytes and times are arguments, results are return
//! values. Every test is therefore a plain function call, and every parser can be fuzzed.

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
pub mod replay;
pub mod rtcp;
pub mod rtp;
pub mod rtsp;
pub mod sdp;
pub mod srtp;
pub mod track;
pub mod ts;
