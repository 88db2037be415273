//! Lending rule of all streams: `/api/loans`.

use http::{Method, StatusCode, header};
use serde_json::json;
use wirepath_http::{AssetPath, BodyPart, Response};
use wirepath_streams::{Lending, LendingSwitch};

use super::Refusal;
use crate::streams::metrics::Loans;

pub(super) fn is_path(path: &AssetPath) -> bool {
    path.segments().eq([&b"api"[..], b"loans"])
}

/// Sets the rule on PUT; the body is the name of the rule. Returns the rule and the counts of loans.
pub(super) fn answer(switch: &LendingSwitch, method: &Method, body: &[u8]) -> Result<Response, Refusal> {
    if method == Method::PUT {
        switch.set(rule(body)?);
    }
    let loans = Loans::of(switch);
    let report = json!({
        "lend": switch.rule().name(),
        "lent_bytes": loans.lent_bytes,
        "copied_bytes": loans.copied_bytes,
        "lent_trains": loans.trains.lent,
        "lent_trains_copied": loans.trains.copied_although_lent,
        "out_bytes": loans.trains.bytes_out,
    });
    let body = vec![BodyPart::Bytes(report.to_string().into_bytes())];
    let response = Response::with_body(StatusCode::OK, "application/json", body);
    Ok(response.header(header::CACHE_CONTROL, "no-store"))
}

fn rule(body: &[u8]) -> Result<Lending, Refusal> {
    let text = String::from_utf8_lossy(body);
    text.trim().parse().map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rules_are_set() {
        let switch = LendingSwitch::default();
        assert!(answer(&switch, &Method::PUT, b" safe\n").is_ok());
        assert_eq!(switch.rule(), Lending::Safe);
        let refused = answer(&switch, &Method::PUT, b"sometimes").err().map(|(status, _)| status);
        assert_eq!(refused, Some(StatusCode::BAD_REQUEST));
        assert!(answer(&switch, &Method::GET, b"never").is_ok());
        assert_eq!(switch.rule(), Lending::Safe);
    }
}
