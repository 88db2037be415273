//! `/api/loans`: the rule by which a program lends pages, and counts of its loans.

use http::{Method, StatusCode, header};
use serde_json::{Value as Json, json};
use wirepath_http::{AssetPath, BodyPart, Response};
use wirepath_streams::{Lending, LendingSwitch};

/// Maximum length of a request body, which is the name of a rule.
pub const MAX_BODY_BYTES: usize = 64;

/// Returns whether a path is that of the rule.
pub fn is_path(path: &AssetPath) -> bool {
    path.as_bytes() == b"api/loans" && !path.names_folder()
}

/// Sets the rule on PUT; the body is its name. Returns the rule as `lend`, and the fields of `counts`.
///
/// # Errors
/// Status and reason of the refusal of an unknown rule.
pub fn answer(
    switch: &LendingSwitch,
    method: &Method,
    body: &[u8],
    counts: impl FnOnce() -> Json,
) -> Result<Response, (StatusCode, String)> {
    if method == Method::PUT {
        switch.set(rule(body)?);
    }
    let mut report = counts();
    report["lend"] = json!(switch.rule().name());
    let body = vec![BodyPart::Bytes(report.to_string().into_bytes())];
    let response = Response::with_body(StatusCode::OK, "application/json", body);
    Ok(response.header(header::CACHE_CONTROL, "no-store"))
}

fn rule(body: &[u8]) -> Result<Lending, (StatusCode, String)> {
    let text = String::from_utf8_lossy(body);
    text.trim().parse().map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rules_are_set() {
        let switch = LendingSwitch::default();
        let answer =
            |method: Method, body: &[u8]| answer(&switch, &method, body, || json!({"lent_bytes": 1}));
        assert!(answer(Method::PUT, b" safe\n").is_ok());
        assert_eq!(switch.rule(), Lending::Safe);
        let refused = answer(Method::PUT, b"sometimes").err().map(|(status, _)| status);
        assert_eq!(refused, Some(StatusCode::BAD_REQUEST));
        assert!(answer(Method::GET, b"never").is_ok());
        assert_eq!(switch.rule(), Lending::Safe);
    }

    #[test]
    fn only_one_path_is_that_of_the_rule() {
        for (path, expected) in [("/api/loans", true), ("/api/loans/", false), ("/api/loan", false)] {
            assert_eq!(is_path(&AssetPath::decode(path).expect("a path")), expected, "{path}");
        }
    }
}
