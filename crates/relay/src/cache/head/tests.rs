use super::*;
use wirepath_http::fields::only;
use wirepath_http::write_head;

fn request(text: &str) -> Result<ClientRequest, Refusal> {
    ClientRequest::read(text.as_bytes())
}

#[test]
fn a_request_keeps_what_goes_on_and_loses_what_does_not() {
    let request = request(
        "POST http://elsewhere?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nConnection: close, X-Mine\r\n\
         X-Mine: 1\r\nTE: trailers\r\nExpect: 100-Continue\r\nAccept: a\r\nAccept: b\r\n\r\n",
    )
    .unwrap();
    assert_eq!((request.target.as_str(), request.body_bytes), ("/?x=1", 3));
    assert!(!request.keep_alive && request.expects_continue);
    assert_eq!(write_head("first", &request.fields), b"first\r\nAccept: a, b\r\n\r\n");
}

/// Promise: Responses that cannot be forwarded are errors; ambiguous requests are refused.
#[test]
fn requests_that_could_be_read_in_two_ways_are_refused() {
    for (fields, status) in [
        ("Host: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n", StatusCode::BAD_REQUEST),
        ("Host: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n", StatusCode::BAD_REQUEST),
        ("Host: h\r\nContent-Length: +3\r\n", StatusCode::BAD_REQUEST),
        ("Host: h\r\nTransfer-Encoding: chunked\r\n", StatusCode::LENGTH_REQUIRED),
        ("Host: h\r\nHost: i\r\n", StatusCode::BAD_REQUEST),
        ("", StatusCode::BAD_REQUEST),
    ] {
        let refused = request(&format!("PUT / HTTP/1.1\r\n{fields}\r\n")).unwrap_err();
        assert_eq!(refused.status, status, "{fields}");
    }
    assert_eq!(
        request("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap_err().status,
        StatusCode::NOT_IMPLEMENTED
    );
    assert_eq!(request("GET x HTTP/1.1\r\nHost: h\r\n\r\n").unwrap_err().status, StatusCode::BAD_REQUEST);
}

#[test]
fn an_answer_says_how_long_its_body_is() {
    let length = |method: Method, text: &str| {
        let text = format!("HTTP/1.1 {text}\r\n\r\nrest");
        OriginResponse::read(text.as_bytes(), &method).map(|response| response.unwrap().0.body_bytes)
    };
    assert_eq!(length(Method::GET, "200 OK\r\nContent-Length: 7"), Ok(Some(7)));
    assert_eq!(length(Method::GET, "200 OK"), Ok(None));
    assert_eq!(length(Method::HEAD, "200 OK\r\nContent-Length: 7"), Ok(Some(0)));
    assert_eq!(length(Method::GET, "304 Not Modified\r\nContent-Length: 7"), Ok(Some(0)));
    let chunked = length(Method::GET, "200 OK\r\nTransfer-Encoding: chunked").unwrap_err();
    assert!(chunked.words.contains("chunked"), "{chunked}");
    assert!(length(Method::GET, "200 OK\r\nContent-Length: 7\r\nContent-Length: 8").is_err());
    assert_eq!(OriginResponse::read(b"HTTP/1.1 200 OK\r\nA: b\r\n", &Method::GET).unwrap().map(|_| ()), None);
}

/// Promise: `Connection` removes no header field about the length or use of a body.
#[test]
fn a_connection_takes_nothing_of_the_message_away() {
    let options = "Connection: close, Content-Length, cache-control, SET-COOKIE, X-Mine";
    let lines = "Content-Length: 5\r\nCache-Control: no-store\r\nSet-Cookie: a=b\r\nX-Mine: 1";
    let text = format!("HTTP/1.1 200 OK\r\n{options}\r\n{lines}\r\n\r\n");
    let response = OriginResponse::read(text.as_bytes(), &Method::GET).unwrap().unwrap().0;
    let mut kept: Vec<&str> = response.fields.keys().map(HeaderName::as_str).collect();
    kept.sort_unstable();
    assert_eq!((response.body_bytes, kept), (Some(5), vec!["cache-control", "content-length", "set-cookie"]));
    let request =
        request(&format!("PUT / HTTP/1.1\r\nHost: h\r\n{options}, Host\r\n{lines}\r\n\r\n")).unwrap();
    assert_eq!((request.body_bytes, request.fields.contains_key("x-mine")), (5, false));
}

/// Promise: HTTP/1.0 clients get no `100 Continue`; a 204 has no `Content-Length`.
#[test]
fn nobody_is_told_to_go_on_in_http_1_0() {
    let head = |version| {
        request(&format!(
            "PUT / HTTP/1.{version}\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n"
        ))
    };
    assert!(!head(0).unwrap().expects_continue && head(1).unwrap().expects_continue);
}

/// Promise: HTTP/1.0 clients get no `100 Continue`; a 204 has no `Content-Length`.
#[test]
fn an_answer_without_content_states_no_length() {
    for (status, states_length) in [("200 OK", true), ("204 No Content", false), ("304 Not Modified", true)] {
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: 7\r\n\r\n");
        let response = OriginResponse::read(text.as_bytes(), &Method::GET).unwrap().unwrap().0;
        assert_eq!(response.fields.contains_key(header::CONTENT_LENGTH), states_length, "{status}");
    }
}

#[test]
fn lines_of_one_name_are_one_but_for_cookies() {
    let text = b"HTTP/1.0 200 OK\r\nVary: a\r\nSet-Cookie: x\r\nVary: b\r\nSet-Cookie: y\r\n\r\n";
    let fields = OriginResponse::read(text, &Method::GET).unwrap().unwrap().0.fields;
    assert_eq!(only(&fields, &header::VARY), Some("a, b"));
    assert_eq!(fields.get_all(header::SET_COOKIE).iter().count(), 2);
    let cookies = request("GET / HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\nCookie: c=d\r\n\r\n").unwrap();
    assert_eq!(only(&cookies.fields, &header::COOKIE), Some("a=b; c=d"));
}
