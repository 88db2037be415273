//! The bodies of the fuzz targets. Each takes any bytes and panics when a promise is broken.

pub mod authorization;
pub mod bpf;
pub mod demux;
pub mod http;
pub mod http_client;
pub mod image;
pub mod matroska;
pub mod mikey;
mod movie;
pub mod mp4;
pub mod picture;
pub mod playlist;
pub mod records;
pub mod rtcp;
pub mod rtsp;
pub mod rtsp_client;
pub mod sdp;
pub mod seeds;
pub mod signed_url;
pub mod ts;
pub mod tunnel;

/// A target: any bytes in, a panic when a promise is broken.
pub type Target = fn(&[u8]);

/// Every target under the name of its binary and of its folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("authorization", authorization::fuzz),
    ("bpf", bpf::fuzz),
    ("demux", demux::fuzz),
    ("http", http::fuzz),
    ("http_client", http_client::fuzz),
    ("image", image::fuzz),
    ("matroska", matroska::fuzz),
    ("mikey", mikey::fuzz),
    ("mp4", mp4::fuzz),
    ("picture", picture::fuzz),
    ("playlist", playlist::fuzz),
    ("records", records::fuzz),
    ("rtcp", rtcp::fuzz),
    ("rtsp", rtsp::fuzz),
    ("rtsp_client", rtsp_client::fuzz),
    ("sdp", sdp::fuzz),
    ("signed_url", signed_url::fuzz),
    ("ts", ts::fuzz),
    ("tunnel", tunnel::fuzz),
];
