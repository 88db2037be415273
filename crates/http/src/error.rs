//! Limits and errors of heads.

use http::StatusCode;

use crate::PathError;

/// Longest head of a request in bytes, and the maximum number of bytes buffered of a client's connection.
pub const HEAD_LIMIT: usize = 16 * 1024;

/// Maximum number of header fields in a head.
pub(crate) const HEADER_LIMIT: usize = 100;

/// Malformed head, a fault of the sender. The connection must be closed after the response, since the
/// beginning of the next head is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The first byte cannot begin a method: this is not HTTP, or HTTP over TLS.
    #[error(
        "the first byte of the request, {0:#04x}, cannot begin a method: this port expects plain HTTP/1.1"
    )]
    NotHttp(u8),
    /// Not a request line followed by header fields.
    #[error("malformed head: {0}")]
    Malformed(httparse::Error),
    /// A version other than 1.0 and 1.1.
    #[error("unsupported version: expected HTTP/1.1 or HTTP/1.0")]
    Version,
    /// The first line alone exceeds the limit of a head.
    #[error("first line too long: more than {0} bytes")]
    LineTooLong(usize),
    /// The head is too long.
    #[error("head too long: more than {0} bytes")]
    TooLong(usize),
    /// The head has too many fields.
    #[error("too many fields: more than {HEADER_LIMIT}")]
    TooManyFields,
    /// No `Host` in HTTP/1.1, more than one, or an invalid host (RFC 9112 section 3.2).
    #[error("invalid Host: expected one field with a host name and an optional port")]
    Host,
    /// The length of the body is not a number, or is stated twice (RFC 9112 section 6.3).
    #[error("invalid Content-Length: expected one number, and no Transfer-Encoding beside it")]
    BodyLength,
    /// The path is invalid.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl HeadError {
    /// Status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::LineTooLong(_) => StatusCode::URI_TOO_LONG,
            Self::TooLong(_) | Self::TooManyFields => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl From<httparse::Error> for HeadError {
    fn from(error: httparse::Error) -> HeadError {
        match error {
            httparse::Error::TooManyHeaders => HeadError::TooManyFields,
            httparse::Error::Version => HeadError::Version,
            error => HeadError::Malformed(error),
        }
    }
}
