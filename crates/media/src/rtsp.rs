//! RTSP 1.0 (RFC 2326): parses requests, writes responses, and reads a server's messages for clients.
//!
//! [`Reader`] turns the bytes of a connection into [`Request`]s. Typed headers are parsed on demand, so that
//! each invalid header is answered with its own status. Requests are parsed by hand, and responses written
//! with `rtsp-types`: see `docs/decisions/0001-parse-rtsp-requests-by-hand.md`.

mod client;
mod clock;
pub(crate) mod headers;
mod npt;
mod reader;
mod replay;
mod request;
mod resource;
mod response;
mod transport;
mod tunnel;

pub use client::{RESPONSE_BODY_LIMIT, ServerFault, ServerItem, ServerReader, ServerRequest, ServerResponse};
pub use clock::{ClockRange, ClockTime, TimeRange};
pub use headers::Headers;
pub use npt::{Npt, NptRange};
pub use reader::{FRAME_LIMIT, HEAD_LIMIT, Item, Reader};
pub use replay::{Frames, REPLAY_OPTION};
pub use request::{BODY_LIMIT, BURST_MAX, Refusal, Request};
pub use resource::{Resource, ResourceError, Target};
pub use response::{Response, RtpInfo};
pub use rtsp_types::{Method, StatusCode, headers as header_names};
pub use transport::{
    ChannelPair, Delivery, Offer, PortPair, Profile, Protocol, ReplyDelivery, TransportReply,
};
pub use tunnel::{MEDIA_TYPE as TUNNEL_MEDIA_TYPE, NotBase64, TunnelDecoder};
