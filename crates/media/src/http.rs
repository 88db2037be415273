//! HTTP/1.1 and HTTP/1.0 on the serving side (RFC 9110, RFC 9112): request heads in, answers out.
//!
//! [`HeadReader`] turns the bytes of a connection into [`Request`]s, and [`respond`] turns a request and the
//! [`Facts`] about a stored file into a [`Response`] whose body refers to the file by extents. Nothing here
//! touches a socket, a file or a clock.

mod accept;
mod condition;
mod content_type;
mod head;
mod path;
mod range;
mod request;
mod respond;
mod response;

pub use accept::{Accept, Listing};
pub use condition::{Conditions, EntityTag, IfRange, TagList, Verdict, date_s};
pub use content_type::content_type;
pub use head::{HEAD_LIMIT, HEADER_LIMIT, HeadError, HeadReader, SKIPPED_BODY_LIMIT};
pub use path::{AssetPath, PathError, encode_segment};
pub use range::{ByteRange, Extent, RANGE_LIMIT, RangeSet};
pub use request::{Method, Request, Target, Version};
pub use respond::{ALLOWED, Circumstances, Facts, content, respond, respond_to_method};
pub use response::{Part, Response, Status, http_date};
