//! `GET /api/assets/PATH/rate`: the bit rate of an open asset over time, for the status page.

use std::sync::Arc;

use http::{StatusCode, header};
use serde_json::json;
use tokio::sync::Semaphore;
use wirepath_http::{AssetPath, BodyPart, Response};

use crate::images::{RatePlot, Store};

/// Bit rates of the assets that are open.
pub(crate) struct AssetRates {
    store: Arc<Store>,
    /// Permit for one response at a time, so that viewers of the page do not disturb sessions.
    answering: Arc<Semaphore>,
}

/// Name of the asset whose rates a path requests.
pub(super) fn asset_of(path: &AssetPath) -> Option<&[u8]> {
    let name = path.as_bytes().strip_prefix(b"api/assets/")?.strip_suffix(b"/rate")?;
    Some(name).filter(|name| !name.is_empty() && !path.names_folder())
}

impl AssetRates {
    /// Bit rates of a store's assets.
    pub(crate) fn new(store: Arc<Store>) -> AssetRates {
        AssetRates { store, answering: Arc::new(Semaphore::new(1)) }
    }

    /// The response about the asset of this name.
    pub(super) async fn answer(&self, name: &[u8]) -> Response {
        let (store, name) = (Arc::clone(&self.store), String::from_utf8_lossy(name).into_owned());
        let _permit = self.answering.acquire().await;
        let looked_up = tokio::task::spawn_blocking(move || {
            let images = store.open_images();
            images.iter().find(|image| image.name() == name).map(|image| RatePlot::of(image))
        });
        match looked_up.await {
            Ok(Some(plot)) => {
                let rates: Vec<u64> = plot.bits_per_second.iter().map(|bits| bits.round() as u64).collect();
                let (step_s, is_complete) = (plot.step_us / 1e6, plot.is_complete);
                let body = json!({"step_s": step_s, "is_complete": is_complete, "bits_per_second": rates});
                let body = vec![BodyPart::Bytes(format!("{body}\n").into_bytes())];
                Response::with_body(StatusCode::OK, "application/json", body)
                    .header(header::CACHE_CONTROL, "no-store")
            }
            Ok(None) => {
                let why = "no such asset is open: rates are known of those that were played lately";
                Response::error(StatusCode::NOT_FOUND, why)
            }
            Err(error) => {
                tracing::error!(%error, "looking up the bit rate of an asset failed");
                Response::error(StatusCode::INTERNAL_SERVER_ERROR, "the look-up failed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_an_asset() {
        for (path, expected) in [
            ("/api/assets/clip.ts/rate", Some(&b"clip.ts"[..])),
            ("/api/assets/a/b%20c.ts/rate", Some(b"a/b c.ts")),
            ("/api/assets/rate/rate", Some(b"rate")),
            ("/api/assets/rate", None),
            ("/api/assets/clip.ts/rate/", None),
            ("/api/assets/clip.ts", None),
        ] {
            assert_eq!(asset_of(&AssetPath::decode(path).unwrap()), expected, "{path}");
        }
    }
}
