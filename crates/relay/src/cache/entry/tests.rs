use super::*;
use http::Method;

const NOW_S: u64 = 1_800_000_000;

fn at(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW_S.saturating_add_signed(seconds))
}

fn fields(lines: &str) -> HeaderMap {
    let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
    OriginResponse::read(text.as_bytes(), &Method::GET).unwrap().unwrap().0.fields
}

/// Entry made of a response with these header fields, to a request with these header fields.
fn entry_for(request: &str, response: &str) -> Option<Entry> {
    let response = OriginResponse { status: StatusCode::OK, fields: fields(response), body_bytes: Some(10) };
    Entry::new("http://o/", &fields(request), &response, at(0))
}

fn entry(response: &str) -> Option<Entry> {
    entry_for("", response)
}

/// Promise: Responses that RFC 9111 forbids a shared cache to store pass through.
#[test]
fn what_may_not_be_shared_or_is_of_no_use_is_not_kept() {
    for (lines, is_kept) in [
        ("Cache-Control: max-age=60\r\n", true),
        ("Cache-Control: Public\r\nCache-Control: s-maxage=60\r\n", true),
        ("ETag: \"1\"\r\n", true),
        ("Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n", true),
        ("Expires: Thu, 01 Jan 2060 00:00:00 GMT\r\n", true),
        ("", false),
        ("Cache-Control: max-age=60\r\nCache-Control: No-Store\r\n", false),
        ("Cache-Control: PRIVATE, max-age=60\r\n", false),
        ("Cache-Control: private=\"x\", max-age=60\r\n", false),
        ("Cache-Control: public, max-age=60\r\nSet-Cookie: a=b\r\n", false),
        ("Cache-Control: max-age=60\r\nVary: *\r\n", false),
        ("Cache-Control: max-age=60\r\nVary: Accept\r\nVary: *\r\n", false),
        ("Cache-Control: max-age=60\r\nContent-Range: bytes 0-9/20\r\n", false),
    ] {
        assert_eq!(entry(lines).is_some(), is_kept, "{lines}");
    }
    assert!(entry_for("Authorization: x\r\n", "Cache-Control: max-age=60\r\n").is_none());
    assert!(entry_for("Cache-Control: no-store\r\n", "Cache-Control: max-age=60\r\n").is_none());
    let endless =
        OriginResponse { status: StatusCode::OK, fields: fields("ETag: \"1\"\r\n"), body_bytes: None };
    assert!(Entry::new("http://o/", &HeaderMap::new(), &endless, at(0)).is_none(), "its end is not known");
}

#[test]
fn freshness_ends_and_requests_may_ask_for_more() {
    let entry = entry("Cache-Control: max-age=60\r\nAge: 10\r\nETag: \"1\"\r\n").unwrap();
    for (request, seconds, expected) in [
        ("", 0, Use::Fresh),
        ("", 49, Use::Fresh),
        ("", 51, Use::Stale),
        ("Cache-Control: no-cache\r\n", 0, Use::Stale),
        ("Cache-Control: max-age=20\r\n", 11, Use::Stale),
        ("Cache-Control: max-stale=5\r\n", 52, Use::Fresh),
    ] {
        assert_eq!(entry.use_for(&fields(request), at(seconds)), expected, "{request} after {seconds} s");
    }
    assert_eq!((entry.age(at(20)).as_secs(), entry.time_to_live(at(20)).as_secs()), (30, 30));
}

#[test]
fn an_entry_varies_with_what_it_says() {
    let response = "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n";
    let entry = entry_for("Accept-Language: de\r\nAccept: x\r\nCookie: secret\r\n", response).unwrap();
    assert_eq!(entry.use_for(&fields("Accept-Language: de\r\nAccept: y\r\n"), at(0)), Use::Fresh);
    assert_eq!(entry.use_for(&fields("Accept-Language: fr\r\n"), at(0)), Use::Other);
    assert_eq!(entry.use_for(&fields(""), at(0)), Use::Other);
    assert_eq!(
        entry.record("b", 0).varying,
        [("accept-language".to_owned(), "de".to_owned())],
        "and no more"
    );
}

/// Promise: A stale entry is validated, and a 304 renews it.
#[test]
fn a_304_renews_what_it_is_about() {
    let entry = entry("Cache-Control: max-age=1\r\nETag: \"1\"\r\nContent-Type: a/b\r\nX: old\r\n").unwrap();
    let response = |lines: &str| OriginResponse {
        status: StatusCode::NOT_MODIFIED,
        fields: fields(lines),
        body_bytes: Some(0),
    };
    let renewal = response("ETag: \"1\"\r\nCache-Control: max-age=9\r\nX: new\r\nContent-Type: c/d\r\n");
    let renewed = entry.renewed(&HeaderMap::new(), &renewal, at(100)).unwrap();
    assert_eq!(renewed.use_for(&HeaderMap::new(), at(108)), Use::Fresh);
    assert_eq!(
        (renewed.bytes, &renewed.fields["x"], &renewed.fields["content-type"]),
        (10, &HeaderValue::from_static("new"), &HeaderValue::from_static("a/b"))
    );
    assert!(entry.renewed(&HeaderMap::new(), &response("ETag: \"2\"\r\n"), at(100)).is_none());
    assert!(
        entry.renewed(&HeaderMap::new(), &response("X: new\r\n"), at(100)).is_some(),
        "it is about what was asked"
    );
    assert!(
        entry
            .renewed(&HeaderMap::new(), &response("ETag: \"1\"\r\nCache-Control: no-store\r\n"), at(100))
            .is_none()
    );
}

#[test]
fn a_failing_origin_is_bridged_for_as_long_as_it_allowed() {
    let allowed = entry("Cache-Control: max-age=10, stale-if-error=20\r\n").unwrap();
    assert!(allowed.serves_on_error(at(30)) && !allowed.serves_on_error(at(31)));
    assert!(
        !entry("Cache-Control: max-age=10, stale-if-error=20, must-revalidate\r\n")
            .unwrap()
            .serves_on_error(at(15))
    );
    assert!(!entry("Cache-Control: max-age=10\r\n").unwrap().serves_on_error(at(11)));
}

#[test]
fn a_record_gives_the_entry_back() {
    let response = "Cache-Control: max-age=60\r\nVary: Accept\r\nX: caf\u{e9}\r\n";
    let entry = entry_for("Accept: x\r\n", response).unwrap();
    let json = serde_json::to_vec(&entry.record("body", 7)).unwrap();
    let record = Record::read(&json).unwrap();
    assert_eq!((record.body.as_str(), record.bytes, record.body_modified_ns), ("body", 10, 7));
    let again = record.entry().unwrap();
    assert_eq!((&again.fields, again.status, &again.url), (&entry.fields, entry.status, &entry.url));
    assert_eq!(again.use_for(&fields("Accept: x\r\n"), at(59)), Use::Fresh);
    assert_eq!(again.use_for(&fields("Accept: x\r\n"), at(61)), Use::Stale);
    for damaged in [&json[..json.len() - 1], &json[1..], b"", b"{}", b"null"] {
        assert!(Record::read(damaged).is_none());
    }
    let other = String::from_utf8(json).unwrap().replace("wirepath-cache/1", "wirepath-cache/2");
    assert!(Record::read(other.as_bytes()).is_none());
}

/// Promise: An `Age` of any number of digits is accepted, and passed on as at most 2^31 s.
#[test]
fn an_age_of_any_length_makes_no_sum_overflow() {
    for (age, use_expected) in [
        ("10", Use::Fresh),
        ("2147483649", Use::Stale),
        ("18446744073709551615", Use::Stale),
        ("99999999999999999999999", Use::Stale),
        ("-1", Use::Stale),
        ("young", Use::Stale),
    ] {
        let response =
            format!("Cache-Control: max-age=60, stale-if-error=9\r\nETag: \"1\"\r\nAge: {age}\r\n");
        let entry = entry(&response).unwrap();
        // The entry as another process reads it from a record that may be older than this rule.
        let json = serde_json::to_vec(&entry.record("body", 7)).unwrap();
        assert!(String::from_utf8_lossy(&json).contains(age), "what was told is written down");
        for entry in [&entry, &Record::read(&json).unwrap().entry().unwrap()] {
            assert_eq!(entry.use_for(&HeaderMap::new(), at(1)), use_expected, "{age}");
            assert!(entry.age(at(1)).as_secs() <= (1 << 31) + 1, "{age}");
            assert_eq!(entry.serves_on_error(at(1)), use_expected == Use::Fresh, "{age}");
        }
        let renewal = format!("ETag: \"1\"\r\nAge: {age}\r\n");
        let renewal = OriginResponse {
            status: StatusCode::NOT_MODIFIED,
            fields: fields(&renewal),
            body_bytes: Some(0),
        };
        let renewed = entry.renewed(&HeaderMap::new(), &renewal, at(1)).unwrap();
        assert_eq!(renewed.use_for(&HeaderMap::new(), at(2)), use_expected, "{age}");
    }
}

/// Promise: The age of a response is the greater of its `Age` and the age by its `Date`.
///
/// RFC 9111 section 4.2.3: an origin or an upstream cache may send an old response without an `Age`.
#[test]
fn an_answer_is_as_old_as_its_date_says() {
    let dated = |ago_s: i64, lines: &str| {
        let made_s = NOW_S.saturating_add_signed(-ago_s);
        let lines = format!("Date: {}\r\nETag: \"1\"\r\n{lines}", http_date(made_s));
        entry(&lines).unwrap()
    };
    let control = "Cache-Control: max-age=600, stale-if-error=100\r\n";
    for (ago_s, age, age_s, expected) in [
        (0, "", 0, Use::Fresh),
        (500, "", 500, Use::Fresh),
        (500, "Age: 550\r\n", 550, Use::Fresh),
        (550, "Age: 500\r\n", 550, Use::Fresh),
        (-3600, "", 0, Use::Fresh),
        (3600, "", 3600, Use::Stale),
    ] {
        let entry = dated(ago_s, &format!("{control}{age}"));
        assert_eq!(entry.age(at(0)).as_secs(), age_s, "{ago_s} s ago, {age}");
        assert_eq!(entry.use_for(&HeaderMap::new(), at(0)), expected, "{ago_s} s ago, {age}");
    }
    let stale = dated(650, control);
    assert!(stale.serves_on_error(at(50)) && !stale.serves_on_error(at(51)), "since it ceased to be fresh");
    // A lifetime by `Expires` counts from the date, too.
    let expires = dated(500, &format!("Expires: {}\r\n", http_date(NOW_S + 100)));
    assert_eq!(expires.time_to_live(at(0)).as_secs(), 100);
}

/// Promise: A stale response is never served if the origin forbids it.
#[test]
fn a_stale_response_is_not_served_if_the_origin_forbids_it() {
    let request = fields("Cache-Control: max-stale=100\r\n");
    for (directive, seconds, expected) in [
        ("max-age=10", 20, Use::Fresh),
        ("max-age=10, must-revalidate", 20, Use::Stale),
        ("max-age=10, Proxy-Revalidate", 20, Use::Stale),
        ("s-maxage=10", 5, Use::Fresh),
        ("s-maxage=10", 20, Use::Stale),
        ("no-cache", 0, Use::Stale),
        ("no-cache=\"x\", max-age=10", 0, Use::Stale),
    ] {
        let response = format!("Cache-Control: {directive}, stale-if-error=100\r\nETag: \"1\"\r\n");
        let entry = entry(&response).unwrap();
        assert_eq!(entry.use_for(&request, at(seconds)), expected, "{directive}");
        if seconds == 20 {
            assert_eq!(entry.serves_on_error(at(seconds)), expected == Use::Fresh, "{directive}");
        }
    }
}

/// Promise: Cache rules with bytes that are not ASCII are honoured.
#[test]
fn rules_that_cannot_be_read_are_not_passed_over() {
    for lines in [
        "Cache-Control: private, x=\"\u{e9}\"\r\nExpires: Thu, 01 Jan 2060 00:00:00 GMT\r\n",
        "Cache-Control: max-age=60\r\nVary: Accept, \u{e9}\r\n",
        "Cache-Control: max-age=60\r\nAge: \u{e9}\r\n",
        "ETag: \"1\"\r\nExpires: \u{e9}\r\n",
    ] {
        assert!(entry(lines).is_none(), "{lines}");
    }
    let good = entry("Cache-Control: max-age=60\r\n").unwrap();
    let json = String::from_utf8(serde_json::to_vec(&good.record("body", 7)).unwrap()).unwrap();
    let bad = json.replace("max-age=60", "max-age=60, private, x=\u{e9}");
    assert!(Record::read(bad.as_bytes()).unwrap().entry().is_none(), "nor in a record");
}

/// Promise: All lines of a header field count when the cache distinguishes variants.
#[test]
fn a_field_that_came_in_lines_varies_with_all_of_them() {
    let response = "Cache-Control: max-age=60\r\nVary: X\r\n";
    let request = |lines: &str| {
        let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        crate::cache::head::ClientRequest::read(head.as_bytes()).unwrap().fields
    };
    let answer = OriginResponse { status: StatusCode::OK, fields: fields(response), body_bytes: Some(10) };
    let entry = Entry::new("http://o/", &request("X: a\r\nX: b\r\n"), &answer, at(0)).unwrap();
    assert_eq!(entry.use_for(&request("X: a\r\nX: b\r\n"), at(0)), Use::Fresh);
    assert_eq!(entry.use_for(&request("X: a\r\n"), at(0)), Use::Other);
    assert_eq!(entry.use_for(&request("X: a\r\nX: c\r\n"), at(0)), Use::Other);
}

/// Promise: A response selected by a cookie is stored only with an explicit lifetime or `public`.
#[test]
fn what_a_cookie_chose_is_kept_only_if_it_says_for_how_long_or_for_all() {
    const LONG_AGO: &str = "Last-Modified: Thu, 01 Jan 2020 00:00:00 GMT\r\nETag: \"1\"\r\n";
    for (lines, is_kept) in [
        ("", false),
        ("Cache-Control: stale-if-error=60\r\n", false),
        ("Cache-Control: max-age=60\r\n", true),
        ("Cache-Control: s-maxage=60\r\n", true),
        ("Cache-Control: Public\r\n", true),
        ("Expires: Thu, 01 Jan 2060 00:00:00 GMT\r\n", true),
    ] {
        let response = format!("{lines}{LONG_AGO}");
        assert_eq!(entry_for("Cookie: a=b\r\n", &response).is_some(), is_kept, "{lines}");
        assert!(entry(&response).is_some(), "{lines}");
    }
    let kept = entry(LONG_AGO).unwrap();
    let same =
        OriginResponse { status: StatusCode::NOT_MODIFIED, fields: HeaderMap::new(), body_bytes: Some(0) };
    assert!(kept.renewed(&fields("Cookie: a=b\r\n"), &same, at(1)).is_some(), "it was kept without one");
}
