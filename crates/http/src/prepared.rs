//! Response heads that are formatted in advance, except for what changes between requests.

use http::{HeaderMap, StatusCode, Version, header};

use crate::Response;
use crate::head::HeadWriter;
use crate::response::{date_now, end_head};

/// Head of a response whose fields are formatted once: only `Date`, fields of the request and connection
/// fields are added for each client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedHead {
    status: StatusCode,
    fields: Vec<u8>,
    content_length: Option<u64>,
}

impl PreparedHead {
    /// Prepares the head of a response.
    pub fn new(response: &Response) -> Self {
        let mut fields = HeadWriter::default();
        let is_stated = |name| response.content_length.is_some() && name == header::CONTENT_LENGTH;
        for (name, value) in response.headers.iter().filter(|(name, _)| !is_stated(*name)) {
            fields.field(name, value.as_bytes());
        }
        let content_length = response.content_length;
        Self { status: response.status, fields: fields.into_bytes(), content_length }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Formats the head with `further` fields after those of the response, like [`Response::head`].
    pub fn head(&self, further: &HeaderMap, client: Version, keep_alive: bool, now_s: u64) -> Vec<u8> {
        let mut head = HeadWriter::of_response(self.status, 0);
        head.field(&header::DATE, &date_now(now_s));
        head.lines(&self.fields);
        for (name, value) in further {
            head.field(name, value.as_bytes());
        }
        end_head(head, self.content_length, client, keep_alive)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::{EntityTag, HeadReader, Representation, ResponseContext, respond, respond_in_full};

    proptest! {
        /// Promise: A prepared response is identical to a response made for its request.
        #[test]
        fn prepared_heads_are_those_that_are_made(
            size: u32,
            modified_s in 0..5_000_000_000_u64,
            now_s in 0..5_000_000_000_u64,
            further in prop::collection::vec(("x-[a-z]{1,5}", "[ -~]{0,9}"), 0..3),
            is_old: bool,
            keep_alive: bool,
        ) {
            let mut reader = HeadReader::default();
            reader.feed(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
            let request = reader.next().expect("valid").expect("whole");
            let file = Representation {
                size: size.into(),
                modified_s,
                tag: EntityTag::strong("a"),
                content_type: "video/mp4",
            };
            let response = respond(&request, &file, &ResponseContext { now_s, boundary: || 7 });
            let mut fields = HeaderMap::new();
            for (name, value) in further {
                let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a name");
                fields.insert(name, HeaderValue::from_str(&value).expect("a value"));
            }
            let version = if is_old { Version::HTTP_10 } else { Version::HTTP_11 };
            prop_assert_eq!(&respond_in_full(&file, now_s), &response);
            let prepared = PreparedHead::new(&response).head(&fields, version, keep_alive, now_s);
            let mut made = response;
            made.headers.extend(fields);
            prop_assert_eq!(prepared, made.head(version, keep_alive, now_s));
        }
    }
}
