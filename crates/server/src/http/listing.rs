//! A folder as a page for people or as JSON for programs.

use crate::library::{Entry, EntryKind, FolderListing};
use http::{StatusCode, header};
use serde_json::{Value as Json, json};
use std::fmt::{self, Write};
use std::net::SocketAddr;
use wirepath_http::{AssetPath, BodyPart, Listing, Response, content_type, encode_segment, http_date};

/// The page needs nothing from elsewhere and runs nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:0 auto;padding:1rem}\
h1{font-size:1.25rem;overflow-wrap:anywhere}\
ul{list-style:none;margin:0;padding:0}\
li{display:grid;grid-template-columns:minmax(0,1fr) 2.5rem 5rem 9.5rem;align-items:baseline;gap:0 1rem;\
padding:.5rem 0;border-top:1px solid #8884}\
a{overflow-wrap:anywhere}\
@media(max-width:40rem){li{grid-template-columns:2.5rem 5rem 1fr}.name{grid-column:1/-1}}\
small{text-align:right;opacity:.7;font-variant-numeric:tabular-nums;white-space:nowrap}";

/// Links to the RTSP listener.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// `rtsp://host:port`
    rtsp: String,
}

impl Links {
    /// The client reaches the other door by the name it used for this one, or by the address it reached.
    pub(super) fn new(host: &str, local: SocketAddr, port: u16) -> Self {
        let rtsp = match without_port(host) {
            "" => format!("rtsp://{}", SocketAddr::new(local.ip().to_canonical(), port)),
            host => format!("rtsp://{host}:{port}"),
        };
        Self { rtsp }
    }

    /// The address of a file that can be played.
    fn rtsp(&self, folder: &AssetPath, entry: &Entry) -> Option<String> {
        let played = is_named_as_stream(entry) && entry.is_stream != Some(false);
        let slash = if folder.is_root() { "" } else { "/" };
        played.then(|| format!("{}/{}{slash}{}", self.rtsp, folder.encoded(), encode_segment(&entry.name)))
    }
}

/// Returns whether a file is named as one that can be played: a transport stream.
pub(super) fn is_named_as_stream(entry: &Entry) -> bool {
    entry.kind == EntryKind::File && content_type(&entry.name) == "video/mp2t"
}

/// The answer to GET of a folder.
pub(super) fn respond(form: Listing, path: &AssetPath, folder: &FolderListing, links: &Links) -> Response {
    let (content_type, text) = match form {
        Listing::Html => ("text/html; charset=utf-8", html(path, folder, links)),
        Listing::Json => ("application/json", format!("{:#}\n", json(path, folder, links))),
    };
    Response::with_body(StatusCode::OK, content_type, vec![BodyPart::Bytes(text.into_bytes())])
        .header(header::CONTENT_SECURITY_POLICY, POLICY)
        .header(header::CACHE_CONTROL, "no-cache")
        .header(header::VARY, "Accept")
}

fn json(path: &AssetPath, folder: &FolderListing, links: &Links) -> Json {
    let entry = |entry: &Entry| {
        json!({
            "name": String::from_utf8_lossy(&entry.name),
            "kind": match entry.kind { EntryKind::Folder => "folder", EntryKind::File => "file" },
            "url": url(entry),
            "rtsp": links.rtsp(path, entry),
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

fn html(path: &AssetPath, folder: &FolderListing, links: &Links) -> String {
    let title = title(path);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1><bdi>{0}</bdi></h1>\n<ul>\n",
        Escaped(&title)
    );
    if !path.is_root() {
        page.push_str("<li><a class=\"name\" href=\"../\">../</a></li>\n");
    }
    for entry in &folder.entries {
        write_entry(&mut page, entry, links.rtsp(path, entry)).expect("writing to a string does not fail");
    }
    page.push_str("</ul>\n");
    page.push_str(match (folder.truncated, folder.entries.is_empty()) {
        (true, _) => "<p>There is more in this folder than fits on this page.</p>\n",
        (false, true) => "<p>This folder is empty.</p>\n",
        (false, false) => "",
    });
    page.push_str("</body>\n</html>\n");
    page
}

fn write_entry(page: &mut String, entry: &Entry, rtsp: Option<String>) -> fmt::Result {
    let name = String::from_utf8_lossy(&entry.name);
    let slash = if entry.kind == EntryKind::Folder { "/" } else { "" };
    write!(page, "<li><a class=\"name\" href=\"{}\"><bdi>{}</bdi>{slash}</a>", url(entry), Escaped(&name))?;
    // A cell that is empty keeps the columns of the others in line.
    match rtsp {
        Some(rtsp) => write!(page, "<a href=\"{}\">rtsp</a>", Escaped(&rtsp))?,
        None => page.push_str("<span></span>"),
    }
    let size = if entry.kind == EntryKind::File { size(entry.size) } else { String::new() };
    writeln!(page, "<small>{size}</small><small>{}</small></li>", date(entry.modified_s))
}

fn title(path: &AssetPath) -> String {
    let slash = if path.is_root() { "" } else { "/" };
    format!("/{}{slash}", String::from_utf8_lossy(path.as_bytes()))
}

/// Relative to the folder.
fn url(entry: &Entry) -> String {
    let slash = if entry.kind == EntryKind::Folder { "/" } else { "" };
    format!("{}{slash}", encode_segment(&entry.name))
}

/// Three digits and a binary unit.
fn size(bytes: u64) -> String {
    let mut size = bytes as f64;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].iter();
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = "B";
    while size >= 1024.0 {
        size /= 1024.0;
        unit = units.next().unwrap_or(&"EiB");
    }
    if size < 10.0 { format!("{size:.1} {unit}") } else { format!("{size:.0} {unit}") }
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

/// Text inside HTML, also inside quoted attributes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => f.write_char(c),
        })
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
            ],
            truncated: true,
        }
    }

    fn links(host: &str) -> Links {
        Links::new(host, "[::ffff:127.0.0.1]:80".parse().unwrap(), 8554)
    }

    #[test]
    fn pages_are_escaped_and_encoded() {
        let path = AssetPath::decode("/x%3Cy%20z/").unwrap();
        let page = html(&path, &folder(), &links("h:8080"));
        for expected in [
            "<title>/x&lt;y z/</title>",
            "href=\"../\"",
            "href=\"a%20b/\"><bdi>a b</bdi>/</a><span></span><small></small><small>01 Jan 1970 00:01</small>",
            "href=\"%3Ci%3E%26%27%22.ts\"><bdi>&lt;i&gt;&amp;&#39;&quot;.ts</bdi></a>",
            "href=\"rtsp://h:8554/x%3Cy%20z/%3Ci%3E%26%27%22.ts\">rtsp</a><small>1.5 KiB</small>",
            "href=\"a%3A%FF.mp4\"><bdi>a:\u{fffd}.mp4</bdi></a><span></span><small>5 B</small>",
            "more in this folder",
        ] {
            assert!(page.contains(expected), "{expected} in {page}");
        }
        assert_eq!(page.matches("rtsp://").count(), 1);
    }

    /// Promise: The page offers no `rtsp` link for a file that cannot be played.
    #[test]
    fn only_streams_are_offered_for_playing() {
        let mut folder = folder();
        folder.entries[1].is_stream = Some(false);
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
            (&json!("a%20b/"), &Json::Null)
        );
    }

    #[test]
    fn sizes() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (10 * 1024, "10 KiB"),
            (3 << 30, "3.0 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
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
