//! A folder as a page for people or as JSON for programs.

use crate::library::{Entry, EntryKind, FolderListing};
use askama::Template;
use bytesize::ByteSize;
use http::{StatusCode, header};
use serde_json::{Value as Json, json};
use std::net::SocketAddr;
use wirepath_http::{AssetPath, BodyPart, Listing, Response, content_type, encode_segment, http_date};

/// The page loads nothing from elsewhere and runs no script.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// URL of the RTSP listener, with the host name of this request, or the local address of its connection.
pub(super) fn rtsp_url(host: &str, local: SocketAddr, port: u16) -> String {
    match without_port(host) {
        "" => format!("rtsp://{}", SocketAddr::new(local.ip().to_canonical(), port)),
        host => format!("rtsp://{host}:{port}"),
    }
}

/// RTSP URL of a file that can be played.
fn played(rtsp: &str, folder: &AssetPath, entry: &Entry) -> Option<String> {
    let is_played = is_named_as_stream(entry) && entry.is_stream != Some(false);
    let slash = if folder.is_root() { "" } else { "/" };
    is_played.then(|| format!("{rtsp}/{}{slash}{}", folder.encoded(), encode_segment(&entry.name)))
}

/// Returns whether a file's name is that of a playable file: a transport stream or a movie.
pub(super) fn is_named_as_stream(entry: &Entry) -> bool {
    const PLAYED: [&str; 7] = [
        "audio/mp4",
        "audio/x-matroska",
        "video/mp2t",
        "video/mp4",
        "video/quicktime",
        "video/webm",
        "video/x-matroska",
    ];
    entry.kind == EntryKind::File && PLAYED.contains(&content_type(&entry.name))
}

/// The answer to GET of a folder.
pub(super) fn respond(form: Listing, path: &AssetPath, folder: &FolderListing, rtsp: &str) -> Response {
    let (content_type, text) = match form {
        Listing::Html => ("text/html; charset=utf-8", html(path, folder, rtsp)),
        Listing::Json => ("application/json", format!("{:#}\n", json(path, folder, rtsp))),
    };
    Response::with_body(StatusCode::OK, content_type, vec![BodyPart::Bytes(text.into_bytes())])
        .header(header::CONTENT_SECURITY_POLICY, POLICY)
        .header(header::CACHE_CONTROL, "no-cache")
        .header(header::VARY, "Accept")
}

fn json(path: &AssetPath, folder: &FolderListing, rtsp: &str) -> Json {
    let entry = |entry: &Entry| {
        json!({
            "name": String::from_utf8_lossy(&entry.name),
            "kind": match entry.kind { EntryKind::Folder => "folder", EntryKind::File => "file" },
            "url": url(entry),
            "rtsp": played(rtsp, path, entry),
            "size_bytes": entry.size,
            "modified_s": entry.modified_s,
        })
    };
    json!({
        "path": title(path),
        "truncated": folder.truncated,
        "entries": folder.entries.iter().map(entry).collect::<Vec<_>>(),
    })
}

#[derive(Template)]
#[template(path = "listing.html")]
struct Page {
    title: String,
    has_parent: bool,
    is_truncated: bool,
    entries: Vec<Row>,
}

struct Row {
    name: String,
    slash: &'static str,
    url: String,
    rtsp: Option<String>,
    size: String,
    date: String,
}

fn html(path: &AssetPath, folder: &FolderListing, rtsp: &str) -> String {
    let row = |entry: &Entry| Row {
        name: String::from_utf8_lossy(&entry.name).into_owned(),
        slash: slash(entry),
        url: url(entry),
        rtsp: played(rtsp, path, entry),
        size: match entry.kind {
            EntryKind::File => ByteSize(entry.size).to_string(),
            EntryKind::Folder => String::new(),
        },
        date: date(entry.modified_s),
    };
    let entries = folder.entries.iter().map(row).collect();
    let page =
        Page { title: title(path), has_parent: !path.is_root(), is_truncated: folder.truncated, entries };
    page.render().expect("writing to a string does not fail")
}

fn title(path: &AssetPath) -> String {
    let slash = if path.is_root() { "" } else { "/" };
    format!("/{}{slash}", String::from_utf8_lossy(path.as_bytes()))
}

/// URL relative to the folder.
fn url(entry: &Entry) -> String {
    format!("{}{}", encode_segment(&entry.name), slash(entry))
}

fn slash(entry: &Entry) -> &'static str {
    if entry.kind == EntryKind::Folder { "/" } else { "" }
}

/// Day and minute of an HTTP date: `21 Nov 2026 02:32`.
fn date(time_s: u64) -> String {
    let date = http_date(time_s);
    date.get(5..22).unwrap_or(&date).to_owned()
}

/// The host of `host:port`, brackets of IPv6 addresses included.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> FolderListing {
        let entry = |kind, name: &[u8], size| Entry {
            kind,
            name: name.to_vec(),
            size,
            modified_s: 60,
            is_stream: None,
        };
        FolderListing {
            entries: vec![
                entry(EntryKind::Folder, b"a b", 0),
                entry(EntryKind::File, b"<i>&'\".ts", 1536),
                entry(EntryKind::File, b"a:\xff.mp4", 5),
                entry(EntryKind::File, b"c.mkv", 6),
                entry(EntryKind::File, b"d.webm", 7),
                entry(EntryKind::File, b"notes.txt", 8),
            ],
            truncated: true,
        }
    }

    fn links(host: &str) -> String {
        rtsp_url(host, "[::ffff:127.0.0.1]:80".parse().unwrap(), 8554)
    }

    #[test]
    fn pages_are_escaped_and_encoded() {
        let path = AssetPath::decode("/x%3Cy%20z/").unwrap();
        let page = html(&path, &folder(), &links("h:8080"));
        for expected in [
            "<title>/x&#60;y z/</title>",
            "href=\"../\"",
            "href=\"a%20b/\"><bdi>a b</bdi>/</a><span></span><small></small><small>01 Jan 1970 00:01</small>",
            "href=\"%3Ci%3E%26%27%22.ts\"><bdi>&#60;i&#62;&#38;&#39;&#34;.ts</bdi></a>",
            "href=\"rtsp://h:8554/x%3Cy%20z/%3Ci%3E%26%27%22.ts\">rtsp</a><small>1.5 KiB</small>",
            "href=\"a%3A%FF.mp4\"><bdi>a:\u{fffd}.mp4</bdi></a>",
            "href=\"rtsp://h:8554/x%3Cy%20z/a%3A%FF.mp4\">rtsp</a><small>5 B</small>",
            "more in this folder",
        ] {
            assert!(page.contains(expected), "{expected} in {page}");
        }
        assert_eq!(page.matches("rtsp://").count(), 4);
    }

    /// Promise: The page offers no `rtsp` link for a file that cannot be played.
    #[test]
    fn only_streams_are_offered_for_playing() {
        let mut folder = folder();
        folder.entries.iter_mut().for_each(|entry| entry.is_stream = Some(false));
        let page = html(&AssetPath::decode("/").unwrap(), &folder, &links("h"));
        assert!(!page.contains("rtsp://"), "{page}");
    }

    #[test]
    fn json_for_programs() {
        let json = json(&AssetPath::decode("/").unwrap(), &folder(), &links(""));
        assert_eq!((&json["path"], &json["truncated"]), (&json!("/"), &json!(true)));
        assert_eq!(
            json["entries"][1],
            json!({
                "name": "<i>&'\".ts", "kind": "file", "url": "%3Ci%3E%26%27%22.ts",
                "rtsp": "rtsp://127.0.0.1:8554/%3Ci%3E%26%27%22.ts", "size_bytes": 1536, "modified_s": 60,
            })
        );
        assert_eq!(
            (&json["entries"][0]["url"], &json["entries"][2]["rtsp"]),
            (&json!("a%20b/"), &json!("rtsp://127.0.0.1:8554/a%3A%FF.mp4"))
        );
    }

    #[test]
    fn hosts() {
        for (host, expected) in
            [("h", "h"), ("h:8080", "h"), ("[::1]", "[::1]"), ("[::1]:8080", "[::1]"), ("h:", "h"), ("", "")]
        {
            assert_eq!(without_port(host), expected);
        }
    }
}
