//! HTTP/1.1 and HTTP/1.0 as bytes and values (RFC 9110, RFC 9112): one reader and one writer of heads, ranges
//! and conditions.
//!
//! [`HeadReader`] finds the heads in the bytes of a connection; [`RequestHead`] and [`ResponseHead`] are
//! their values, in the types of the crate `http`. A server interprets a head as a [`Request`], and
//! [`respond`] turns it and the metadata of a stored file into a [`Response`] whose body refers to the file
//! by extents. This crate uses no socket, file or clock.

mod accept;
mod chunked;
mod condition;
mod content_type;
mod error;
pub mod fields;
mod head;
mod path;
mod prepared;
mod range;
mod reader;
mod request;
mod respond;
mod response;

pub use accept::Listing;
pub use chunked::{ChunkedError, ChunkedReader};
pub use condition::{Conditions, EntityTag, Verdict};
pub use content_type::content_type;
pub use error::{HEAD_LIMIT, HeadError};
pub use head::{RequestHead, ResponseHead, status_line, write_head};
pub use path::{AssetPath, PathError, encode_segment};
pub use prepared::PreparedHead;
pub use range::{Extent, RangeSet};
pub use reader::HeadReader;
pub use request::{Request, Target};
pub use respond::{
    ALLOWED, Representation, ResponseContext, content, respond, respond_in_full, respond_to_method,
};
pub use response::{BodyPart, Response, http_date};
