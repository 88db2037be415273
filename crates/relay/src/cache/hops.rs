//! `Max-Forwards` of TRACE and OPTIONS (RFC 9110 section 7.6.2).

use http::header::{self, HeaderMap};
use http::{Method, StatusCode, Version};
use wirepath_http::fields::joined;
use wirepath_http::{BodyPart, Response, write_head};

use super::head::ClientRequest;

/// Request header fields that a TRACE must not reflect (RFC 9110 section 9.3.8).
const SECRET: &[header::HeaderName] = &[header::AUTHORIZATION, header::COOKIE];

/// Response to a request that is not forwarded: `Max-Forwards` is 0 or invalid. Otherwise decrements
/// `Max-Forwards`.
pub(super) fn local_response(request: &mut ClientRequest) -> Option<Response> {
    if request.method != Method::TRACE && request.method != Method::OPTIONS {
        return None; // Max-Forwards has no meaning for other methods
    }
    let stated = joined(&request.fields, &header::MAX_FORWARDS)?;
    let is_number = stated.bytes().all(|byte| byte.is_ascii_digit());
    match stated.parse::<u64>().ok().filter(|_| is_number) {
        Some(0) if request.method == Method::TRACE => Some(reflection(request)),
        Some(0) => Some(Response::empty(StatusCode::NO_CONTENT)),
        Some(left) => {
            request.fields.insert(header::MAX_FORWARDS, (left - 1).into());
            None
        }
        None => Some(Response::error(StatusCode::BAD_REQUEST, "invalid Max-Forwards: expected a number")),
    }
}

/// Response with the request as received, without hop-by-hop fields, host and secrets.
fn reflection(request: &ClientRequest) -> Response {
    let is_shown = |name: &&header::HeaderName| !SECRET.contains(*name);
    let fields: HeaderMap = request
        .fields
        .keys()
        .filter(is_shown)
        .map(|name| (name.clone(), request.fields[name].clone()))
        .collect();
    let version = if request.version == Version::HTTP_10 { "1.0" } else { "1.1" };
    let line = format!("{} {} HTTP/{version}", request.method, request.target);
    Response::with_body(StatusCode::OK, "message/http", vec![BodyPart::Bytes(write_head(&line, &fields))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, lines: &str) -> ClientRequest {
        ClientRequest::read(format!("{method} /a HTTP/1.1\r\nHost: h\r\n{lines}\r\n").as_bytes()).unwrap()
    }

    /// Promise: TRACE and OPTIONS obey `Max-Forwards`.
    #[test]
    fn what_goes_no_further_is_answered_here() {
        for (method, hops, status) in [
            ("TRACE", "0", Some(StatusCode::OK)),
            ("OPTIONS", "0", Some(StatusCode::NO_CONTENT)),
            ("OPTIONS", "00", Some(StatusCode::NO_CONTENT)),
            ("OPTIONS", "-1", Some(StatusCode::BAD_REQUEST)),
            ("OPTIONS", "+1", Some(StatusCode::BAD_REQUEST)),
            ("TRACE", "1, 2", Some(StatusCode::BAD_REQUEST)),
            ("TRACE", "99999999999999999999", Some(StatusCode::BAD_REQUEST)),
            ("TRACE", "1", None),
            ("GET", "0", None),
            ("GET", "x", None),
        ] {
            let answer = local_response(&mut request(method, &format!("Max-Forwards: {hops}\r\n")));
            assert_eq!(answer.map(|answer| answer.status), status, "{method} {hops}");
        }
        assert_eq!(local_response(&mut request("TRACE", "")), None);
    }

    #[test]
    fn what_goes_on_has_one_hop_less() {
        for (method, left) in [("TRACE", "6"), ("OPTIONS", "6"), ("GET", "7")] {
            let mut request = request(method, "Max-Forwards: 7\r\n");
            assert_eq!(local_response(&mut request), None);
            assert_eq!(request.fields[header::MAX_FORWARDS], left, "{method}");
        }
    }

    /// Promise: TRACE and OPTIONS obey `Max-Forwards`.
    #[test]
    fn a_trace_shows_what_came_and_no_secrets() {
        let lines = "Cookie: a=b\r\nX: y\r\nMax-Forwards: 0\r\nAuthorization: c\r\n";
        let answer = local_response(&mut request("TRACE", lines)).unwrap();
        let shown = b"TRACE /a HTTP/1.1\r\nX: y\r\nMax-Forwards: 0\r\n\r\n";
        assert_eq!(answer.body, [BodyPart::Bytes(shown.to_vec())]);
    }
}
