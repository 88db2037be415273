//! Answers: files, folders, names of our own, and paths outside.

use crate::http_support::content;
use crate::{Client, get, open};
use std::os::unix::fs::symlink;

#[test]
fn files_whole_and_in_part_on_one_connection() {
    let listener = open();
    let bytes = content(3_000_000);
    listener.file("clip.ts", &bytes);
    let mut client = Client::new(&listener);
    let whole = client.ask("GET", "/clip.ts", "");
    assert_eq!((whole.status, whole.value("Content-Type")), (200, Some("video/mp2t")));
    assert!(whole.body == bytes, "other bytes arrived");
    let tag = whole.value("ETag").unwrap().to_owned();
    assert!(tag.starts_with('"'), "{tag}");

    let head = client.ask("HEAD", "/clip.ts", "");
    assert_eq!((head.status, head.value("Content-Length")), (200, Some("3000000")));
    let part = client.ask("GET", "/clip.ts", &format!("Range: bytes=2999990-\r\nIf-Range: {tag}\r\n"));
    assert_eq!((part.status, &part.body[..]), (206, &bytes[2_999_990..]));
    let suffix = client.ask("GET", "/clip.ts", "Range: bytes=-7\r\n");
    assert_eq!((suffix.status, &suffix.body[..]), (206, &bytes[2_999_993..]));
    let outside = client.ask("GET", "/clip.ts", "Range: bytes=3000000-\r\n");
    assert_eq!((outside.status, outside.value("Content-Range")), (416, Some("bytes */3000000")));
    let same = client.ask("GET", "/clip.ts", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((same.status, same.value("ETag")), (304, Some(tag.as_str())));

    let several = client.ask("GET", "/clip.ts", "Range: bytes=0-4,1000000-1000004\r\n");
    assert_eq!(several.status, 206);
    let contains = |part: &[u8]| several.body.windows(part.len()).any(|window| window == part);
    assert!(contains(&bytes[..5]) && contains(&bytes[1_000_000..1_000_005]));
    assert!(contains(b"Content-Range: bytes 1000000-1000004/3000000\r\n"));

    let closing = client.ask("GET", "/clip.ts", "Range: bytes=0-0\r\nConnection: close\r\n");
    assert_eq!((closing.status, closing.value("Connection")), (206, Some("close")));
    assert_eq!(client.rest(), b"");
}

#[test]
fn an_empty_file() {
    let listener = open();
    listener.file("empty.ts", b"");
    let mut client = Client::new(&listener);
    let empty = client.ask("GET", "/empty.ts", "");
    assert_eq!((empty.status, empty.value("Content-Length")), (200, Some("0")));
    assert_eq!(client.ask("GET", "/empty.ts", "Range: bytes=0-\r\n").status, 416);
}

#[test]
fn out_of_reach() {
    let listener = open();
    listener.file("a.txt", b"a");
    symlink("/etc/passwd", listener.path().join("link.txt")).unwrap();
    symlink("..", listener.path().join("up")).unwrap();
    let above = listener.path().parent().unwrap();
    let below = listener.path().strip_prefix(above).unwrap().to_str().unwrap();
    for path in ["/link.txt", "/up/", "/a.txt/", "/.hidden", &format!("/up/{below}/a.txt")] {
        assert_eq!(get(&listener, path, "").status, 404, "{path}");
    }
}

#[test]
fn folders_are_listed_as_the_client_likes() {
    let listener = open();
    listener.file("sub folder/clip.ts", &[&[0x47][..], &[0; 187]].concat());
    let page = get(&listener, "/", "Accept: text/html,*/*;q=0.8\r\n");
    assert_eq!((page.status, page.value("Content-Type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("href=\"sub%20folder/\""), "{}", page.text());
    let moved = get(&listener, "/sub%20folder", "");
    assert_eq!((moved.status, moved.value("Location")), (301, Some("sub%20folder/")));
    let page = get(&listener, "/sub%20folder/", "Host2: x\r\n");
    assert!(page.text().contains("href=\"rtsp://h:8554/sub%20folder/clip.ts\""), "{}", page.text());
    let list = get(&listener, "/sub%20folder/", "Accept: application/json\r\n");
    assert_eq!((list.value("Content-Type"), list.value("Vary")), (Some("application/json"), Some("Accept")));
    let list: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
    assert_eq!(
        (&list["entries"][0]["name"], &list["entries"][0]["size_bytes"]),
        (&"clip.ts".into(), &188.into())
    );
    let head = Client::new(&listener).ask("HEAD", "/", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn our_own_names_win() {
    let listener = open();
    listener.file("metrics", b"an asset");
    listener.file("api/status", b"an asset");
    listener.file("a.txt", b"12345");
    let mut client = Client::new(&listener);
    client.ask("GET", "/a.txt", "");
    client.ask("GET", "/nothing", "");
    let metrics = client.ask("GET", "/metrics", "");
    for line in [
        "wirepath_http_connections_accepted_total 1",
        "wirepath_http_connections 1",
        "wirepath_http_requests_total 3",
        "wirepath_http_responses_total{class=\"2xx\"} 1",
        "wirepath_http_responses_total{class=\"4xx\"} 1",
        "# UNIT wirepath_http_body_bytes bytes",
        "# EOF",
    ] {
        assert!(metrics.text().lines().any(|other| other == line), "{line} in {}", metrics.text());
    }
    let status: serde_json::Value =
        serde_json::from_slice(&client.ask("GET", "/api/status", "").body).unwrap();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["http"]["connections"], 1);
    assert_eq!(status["http"]["limits"]["connections"], 4096);
    assert_eq!(status["counters"]["http"]["requests"], 4);
    assert_eq!(client.ask("HEAD", "/metrics", "").status, 200);
}

/// Promise: The policy of the `/status` page allows only its own script; a folder `status` stays reachable.
#[test]
fn the_status_page() {
    let listener = open();
    listener.file("status/clip.ts", b"an asset");
    let page = get(&listener, "/status", "");
    assert_eq!((page.status, page.value("Content-Type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.value("Content-Security-Policy").unwrap();
    let nonce = policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
    assert!(policy.starts_with("default-src 'none'; ") && nonce.len() == 32, "{policy}");
    assert!(page.text().contains(&format!("<script type=\"module\" nonce=\"{nonce}\">")));
    let again = get(&listener, "/status?x", "");
    assert_ne!(again.value("Content-Security-Policy"), Some(policy), "each page has its own number");
    let folder = get(&listener, "/status/", "Accept: application/json\r\n");
    assert!(folder.text().contains("clip.ts"), "{}", folder.text());
    let root = get(&listener, "/", "");
    assert!(root.text().contains("href=\"status\"") && root.text().contains("href=\"status/\""));
    assert!(!root.value("Content-Security-Policy").unwrap().contains("script"));
}

#[test]
fn methods() {
    let listener = open();
    listener.file("a.txt", b"a");
    let mut client = Client::new(&listener);
    for (method, path, status) in [
        ("OPTIONS", "*", 204),
        ("OPTIONS", "/a.txt", 204),
        ("DELETE", "/a.txt", 405),
        ("POST", "/metrics", 405),
        ("BREW", "/a.txt", 501),
        ("CONNECT", "h:443", 405),
        ("GET", "http://h/a.txt", 200),
    ] {
        let answer = client.ask(method, path, "");
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.value("Allow").is_some(), status != 200);
    }
}
