//! `/api/loans`: the rule by which trains and files are sent without a copy, and counts of both kinds.

use std::net::SocketAddr;
use std::sync::Arc;

use http::Method;
use serde_json::{Value as Json, json};
use wirepath_http::Response;
use wirepath_net::loans;
use wirepath_playback::Playbacks;

/// Rule of lending of the whole server.
pub(crate) struct LoanControl {
    playbacks: Arc<Playbacks>,
}

impl LoanControl {
    /// The rule of these playbacks, which the HTTP listener shares.
    pub(crate) fn new(playbacks: Arc<Playbacks>) -> LoanControl {
        LoanControl { playbacks }
    }

    /// The rule and the counts.
    pub(super) fn show(&self) -> Response {
        self.answer(&Method::GET, &[])
    }

    /// Sets the rule of this name, logs who requested it, and responds as [`LoanControl::show`].
    pub(super) fn set(&self, name: &[u8], (peer, user): (SocketAddr, Option<&str>)) -> Response {
        let switch = self.playbacks.lending();
        let before = switch.rule();
        let response = self.answer(&Method::PUT, name);
        let rule = switch.rule();
        if rule != before {
            tracing::info!(%peer, ?user, %rule, "an administrator sets the rule of lending");
        }
        response
    }

    fn answer(&self, method: &Method, body: &[u8]) -> Response {
        let answered = loans::answer(self.playbacks.lending(), method, body, || self.counts());
        answered.unwrap_or_else(|(status, why)| Response::error(status, &why))
    }

    fn counts(&self) -> Json {
        let (switch, trains) = (self.playbacks.lending(), self.playbacks.counters());
        json!({
            "lent_bytes": switch.lent_bytes(),
            "copied_bytes": switch.copied_bytes(),
            "lent_trains": trains.trains_lent,
            "lent_trains_copied": trains.trains_copied,
            "copied_trains": trains.trains_copied_by_rule,
            "out_trains": trains.trains_out,
        })
    }
}
