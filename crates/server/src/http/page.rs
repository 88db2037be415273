//! The status page: one self-contained document, made of the files in `web`.
//!
//! Its policy allows only its own script and style, by a nonce that is drawn for each response, and so no
//! script among the served files. The script cannot turn text into elements (`require-trusted-types-for`), so
//! names of files and clients stay text.

use http::{StatusCode, header};
use wirepath_http::{BodyPart, Response};
use wirepath_net::http::boundary;

const PAGE: &str = include_str!("../../web/page.html");
const STYLE: &str = include_str!("../../web/page.css");

/// Parts of the script, which is a module, in order.
const SCRIPT: &[&str] = &[
    include_str!("../../web/dom.js"),
    include_str!("../../web/format.js"),
    include_str!("../../web/model.js"),
    include_str!("../../web/plot.js"),
    include_str!("../../web/rates.js"),
    include_str!("../../web/table.js"),
    include_str!("../../web/overview.js"),
    include_str!("../../web/tables.js"),
    include_str!("../../web/files.js"),
    include_str!("../../web/page.js"),
];

/// The answer to GET of the page.
pub(super) fn respond() -> Response {
    let nonce = format!("{:032x}", boundary());
    let body = vec![BodyPart::Bytes(document(&nonce).into_bytes())];
    Response::with_body(StatusCode::OK, "text/html; charset=utf-8", body)
        .header(header::CONTENT_SECURITY_POLICY, &policy(&nonce))
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::REFERRER_POLICY, "no-referrer")
}

fn document(nonce: &str) -> String {
    let page = PAGE.replace("{{nonce}}", nonce);
    page.replace("{{style}}", STYLE).replace("{{script}}", &SCRIPT.concat())
}

fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         media-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The status page loads nothing from other hosts and makes no markup from text.
    #[test]
    fn the_page_is_complete_and_builds_no_markup_from_text() {
        let document = document("1f");
        assert!(!document.contains("{{"), "a marker is left");
        assert_eq!(document.matches("<script").count(), 1);
        assert_eq!(document.matches("</script").count(), 1, "a script must not end early");
        assert_eq!(document.matches("nonce=\"1f\"").count(), 2);
        for foreign in ["//cdn", "https://", "@import", "url("] {
            assert!(!document.contains(foreign), "{foreign}");
        }
        for unsafe_word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            " onclick=",
            " onload=",
            " style=\"",
            "javascript:",
        ] {
            assert!(!document.contains(unsafe_word), "{unsafe_word}");
        }
    }
}
