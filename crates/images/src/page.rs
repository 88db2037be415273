//! The page that shows a picture, and the listing of a folder: each one document that needs nothing else.
//!
//! As on the status page of `wirepath serve`, the policy admits the page's own script and style by a number that
//! is drawn for each answer, and the script makes no elements of text.

use http::{StatusCode, header};
use wirepath_http::{AssetPath, BodyPart, Response, encode_segment};
use wirepath_net::folder::Entry;
use wirepath_net::http::boundary;

const VIEWER: &str = include_str!("../web/viewer.html");
const LISTING: &str = include_str!("../web/listing.html");

/// The viewer; its script asks for the picture of its own path.
pub(crate) fn viewer() -> Response {
    answer(VIEWER)
}

/// Endings of names that are shown with a link to the viewer.
const PICTURES: [&[u8]; 5] = [b".ppm", b".pgm", b".pnm", b".tif", b".tiff"];

/// The names in a folder; folders and names of pictures have a link.
pub(crate) fn listing(path: &AssetPath, entries: &[Entry]) -> Response {
    let mut rows = String::new();
    if !path.is_root() {
        rows += "<li><a href=\"../\">../</a></li>\n";
    }
    for Entry { name, is_folder } in entries {
        let shown = escape(&String::from_utf8_lossy(name));
        if !is_folder && !has_picture_name(name) {
            rows += &format!("<li>{shown}</li>\n");
            continue;
        }
        let (link, behind) = (encode_segment(name), if *is_folder { "/" } else { "?view" });
        let slash = if *is_folder { "/" } else { "" };
        rows += &format!("<li><a href=\"{link}{behind}\">{shown}{slash}</a></li>\n");
    }
    let title = escape(&format!("/{}", String::from_utf8_lossy(path.as_bytes())));
    answer(&LISTING.replace("{{title}}", &title).replace("{{rows}}", &rows))
}

/// Returns whether a file is listed as a picture. Requests decide by the content, which a listing does not
/// read.
fn has_picture_name(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    PICTURES.iter().any(|ending| name.ends_with(ending))
}

fn answer(page: &str) -> Response {
    let nonce = format!("{:032x}", boundary());
    let body = vec![BodyPart::Bytes(page.replace("{{nonce}}", &nonce).into_bytes())];
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    );
    Response::with_body(StatusCode::OK, "text/html; charset=utf-8", body)
        .header(header::CONTENT_SECURITY_POLICY, &policy)
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::REFERRER_POLICY, "no-referrer")
}

/// Text for HTML. Braces are escaped, too: they mark what is filled in.
fn escape(text: &str) -> String {
    let escape = |c: char| match c {
        '&' | '<' | '>' | '"' | '\'' | '{' | '}' => format!("&#{};", c as u32),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(response: &Response) -> String {
        match &response.body[..] {
            [BodyPart::Bytes(bytes)] => String::from_utf8_lossy(bytes).into_owned(),
            body => panic!("{body:?}"),
        }
    }

    /// Promise: The viewer loads nothing from other hosts and makes no markup from text.
    #[test]
    fn the_viewer_is_complete_and_builds_no_markup_from_text() {
        let viewer = text(&viewer());
        assert!(!viewer.contains("{{"), "a marker is left");
        assert_eq!(viewer.matches("<script").count(), 1);
        let unsafe_words =
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " onclick="];
        for word in ["//cdn", "https://", "@import", "url("].iter().chain(&unsafe_words) {
            assert!(!viewer.contains(word), "{word}");
        }
    }

    #[test]
    fn only_folders_and_names_of_pictures_have_links() {
        let entry = |name: &[u8], is_folder| Entry { name: name.to_vec(), is_folder };
        let entries = [entry(b"more", true), entry(b"A.TIFF", false), entry(b"t.txt", false)];
        let listing = text(&listing(&AssetPath::decode("/").expect("a path"), &entries));
        let rows = "<li><a href=\"more/\">more/</a></li>\n<li><a href=\"A.TIFF?view\">A.TIFF</a></li>\n<li>t.txt</li>\n";
        assert!(listing.contains(rows), "{listing}");
    }

    #[test]
    fn names_in_a_listing_are_text() {
        let entries = [Entry { name: b"<b>{{nonce}}.ppm".to_vec(), is_folder: false }];
        let listing = text(&listing(&AssetPath::decode("/").expect("a path"), &entries));
        assert!(listing.contains("&#60;b&#62;&#123;&#123;nonce"), "{listing}");
        assert!(listing.contains("href=\"%3Cb%3E%7B%7Bnonce%7D%7D.ppm?view\""), "{listing}");
    }
}
