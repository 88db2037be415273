//! How far a TRACE or an OPTIONS goes: `Max-Forwards` (RFC 9110 section 7.6.2).

use http::Method;
use http::header::{self, HeaderMap};
use wirepath_media::http::{Part, Response, Status, Version};

use super::head::{self, Asked};

/// What a TRACE does not show to scripts that could not see it otherwise (RFC 9110 section 9.3.8).
const SECRET: &[header::HeaderName] = &[header::AUTHORIZATION, header::COOKIE];

/// Our answer to a request that goes no further, or whose number of hops is none. Of one that goes on, this hop is taken off.
pub(super) fn answer_to_last(asked: &mut Asked) -> Option<Response> {
    if asked.method != Method::TRACE && asked.method != Method::OPTIONS {
        return None; // elsewhere it means nothing
    }
    let stated = head::joined(&asked.fields, &header::MAX_FORWARDS)?;
    let is_number = stated.bytes().all(|byte| byte.is_ascii_digit());
    match stated.parse::<u64>().ok().filter(|_| is_number) {
        Some(0) if asked.method == Method::TRACE => Some(reflection(asked)),
        Some(0) => Some(Response::empty(Status::NoContent)),
        Some(left) => {
            asked.fields.insert(header::MAX_FORWARDS, (left - 1).into());
            None
        }
        None => Some(Response::error(Status::BadRequest, "Max-Forwards is no number of hops")),
    }
}

/// The request as it came here, but for its connection, its host and its secrets.
fn reflection(asked: &Asked) -> Response {
    let is_shown = |name: &&header::HeaderName| !SECRET.contains(*name);
    let fields: HeaderMap =
        asked.fields.keys().filter(is_shown).map(|name| (name.clone(), asked.fields[name].clone())).collect();
    let version = if asked.version == Version::Http10 { "1.0" } else { "1.1" };
    let line = format!("{} {} HTTP/{version}", asked.method, asked.target);
    Response::with_body(Status::Ok, "message/http", vec![Part::Bytes(head::write(&line, &fields))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, lines: &str) -> Asked {
        Asked::read(format!("{method} /a HTTP/1.1\r\nHost: h\r\n{lines}\r\n").as_bytes()).unwrap()
    }

    /// Promise: TRACE and OPTIONS obey `Max-Forwards`.
    #[test]
    fn what_goes_no_further_is_answered_here() {
        for (method, hops, status) in [
            ("TRACE", "0", Some(Status::Ok)),
            ("OPTIONS", "0", Some(Status::NoContent)),
            ("OPTIONS", "00", Some(Status::NoContent)),
            ("OPTIONS", "-1", Some(Status::BadRequest)),
            ("OPTIONS", "+1", Some(Status::BadRequest)),
            ("TRACE", "1, 2", Some(Status::BadRequest)),
            ("TRACE", "99999999999999999999", Some(Status::BadRequest)),
            ("TRACE", "1", None),
            ("GET", "0", None),
            ("GET", "x", None),
        ] {
            let answer = answer_to_last(&mut asked(method, &format!("Max-Forwards: {hops}\r\n")));
            assert_eq!(answer.map(|answer| answer.status), status, "{method} {hops}");
        }
        assert_eq!(answer_to_last(&mut asked("TRACE", "")), None);
    }

    #[test]
    fn what_goes_on_has_one_hop_less() {
        for (method, left) in [("TRACE", "6"), ("OPTIONS", "6"), ("GET", "7")] {
            let mut asked = asked(method, "Max-Forwards: 7\r\n");
            assert_eq!(answer_to_last(&mut asked), None);
            assert_eq!(asked.fields[header::MAX_FORWARDS], left, "{method}");
        }
    }

    /// Promise: TRACE and OPTIONS obey `Max-Forwards`.
    #[test]
    fn a_trace_shows_what_came_and_no_secrets() {
        let lines = "Cookie: a=b\r\nX: y\r\nMax-Forwards: 0\r\nAuthorization: c\r\n";
        let answer = answer_to_last(&mut asked("TRACE", lines)).unwrap();
        let shown = b"TRACE /a HTTP/1.1\r\nx: y\r\nmax-forwards: 0\r\n\r\n";
        assert_eq!(answer.body, [Part::Bytes(shown.to_vec())]);
    }
}
