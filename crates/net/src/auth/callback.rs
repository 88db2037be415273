//! Authentication callback: a service of the operator decides about requests over HTTP, and its answers are
//! cached for some time.

mod kept;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{StatusCode, Uri, header, uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use tokio::sync::Semaphore;
use tokio::time::{error::Elapsed, timeout};

use super::counters::{CallbackResult, Counters};
use crate::limits::ClientLimits;
use crate::log_limit::LogLimit;
use kept::{KeptAnswers, Key};

/// Limit of concurrent requests to the service; further requests wait, within the time limit.
const AT_ONCE: usize = 16;

/// Limits of waiting and active requests to the service: for one client address, so that no client fills the
/// queue, and in total.
const PER_ADDRESS: usize = 64;
const IN_ALL: usize = 4096;

/// Maximum number of cached answers.
const MOST_KEPT: usize = 4096;

/// Time after which an unused connection to the service is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// Longest body of an answer that is read, so that its connection can be used again.
const MOST_BODY_BYTES: usize = 64 * 1024;

/// Time limit for reading such a body. The decision is in the status.
const BODY_LIMIT: Duration = Duration::from_millis(100);

/// Log lines per second about failures of the service.
const LINES_PER_SECOND: u32 = 1;

/// Options of the callback.
#[derive(Clone, Debug)]
pub struct CallbackOptions {
    /// URL of the service: `http` or `https`, with a host.
    pub url: Uri,
    /// Time limit of an answer.
    pub timeout: Duration,
    /// Time for which an answer is cached.
    pub keep: Duration,
}

/// Decision of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// 2xx.
    Allowed,
    /// 401: credentials may help.
    Unauthorized,
    /// 403.
    Forbidden,
    /// No decision.
    Failed,
}

/// Failure of a request to the service.
#[derive(Debug, thiserror::Error)]
enum CallbackError {
    #[error("no answer within the time limit")]
    Timeout(#[from] Elapsed),
    /// The root cause is shown, because the error itself only says that connecting or reading failed.
    #[error("{}", root_cause(.0))]
    Request(#[from] hyper_util::client::legacy::Error),
    #[error("unexpected status {0}: expected 2xx, 401 or 403")]
    Status(StatusCode),
    #[error("too many requests to it are pending for this client address, or in total")]
    Limit,
}

/// Client of the service.
pub(super) struct Callback {
    options: CallbackOptions,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    at_once: Semaphore,
    waiting: Arc<ClientLimits>,
    kept: KeptAnswers,
    log: LogLimit,
}

impl Callback {
    /// Creates a client; for `https` with the certificates that this machine trusts. Waits for storage.
    pub(super) fn open(options: CallbackOptions) -> io::Result<Callback> {
        let tls = HttpsConnectorBuilder::new();
        let tls = match options.url.scheme() == Some(&uri::Scheme::HTTPS) {
            true => tls.with_provider_and_native_roots(default_provider())?,
            false => tls.with_tls_config(trusting_none()?),
        };
        let connector = tls.https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_LIMIT)
            .pool_max_idle_per_host(AT_ONCE)
            .build(connector);
        let (at_once, kept) = (Semaphore::new(AT_ONCE), KeptAnswers::new(MOST_KEPT, options.keep));
        let (waiting, log) = (ClientLimits::new(IN_ALL, PER_ADDRESS), LogLimit::new(LINES_PER_SECOND));
        Ok(Callback { options, client, at_once, waiting, kept, log })
    }

    /// URL of the service, without its query, which may contain a secret.
    pub(super) fn shown_url(&self) -> String {
        let url = &self.options.url;
        let (scheme, authority) = (url.scheme_str().unwrap_or_default(), url.authority());
        format!("{scheme}://{}{}", authority.map_or("", uri::Authority::as_str), url.path())
    }

    /// Drops all cached answers.
    pub(super) fn forget(&self) {
        self.kept.clear();
    }

    /// Asks the service about a request of a client, unless its answer is cached or already awaited. `path`
    /// distinguishes paths that look alike in the question, which is text.
    pub(super) async fn ask(
        &self,
        client: IpAddr,
        (path, question): (&[u8], Vec<u8>),
        counters: &Counters,
    ) -> Verdict {
        let answer = self.kept.find(Key::of(path, &question));
        let mut is_saved = true;
        let asked = answer.get_or_init(async || {
            is_saved = false;
            self.request(client, question, counters).await
        });
        let verdict = asked.await;
        if is_saved {
            counters.callbacks_saved.increment();
        }
        verdict
    }

    async fn request(&self, client: IpAddr, question: Vec<u8>, counters: &Counters) -> Verdict {
        let answered = self.answer(client, question, counters).await;
        let (result, verdict) = match &answered {
            Ok(status) if status.is_success() => (CallbackResult::Allowed, Verdict::Allowed),
            Ok(StatusCode::UNAUTHORIZED) => (CallbackResult::Refused, Verdict::Unauthorized),
            Ok(_) => (CallbackResult::Refused, Verdict::Forbidden),
            Err(CallbackError::Status(_)) => (CallbackResult::Status, Verdict::Failed),
            Err(CallbackError::Timeout(_)) => (CallbackResult::Timeout, Verdict::Failed),
            Err(CallbackError::Request(_)) => (CallbackResult::Error, Verdict::Failed),
            Err(CallbackError::Limit) => (CallbackResult::Limit, Verdict::Failed),
        };
        counters.callbacks.increment(result);
        if let Err(error) = answered
            && let Some(suppressed) = self.log.pass(Instant::now())
        {
            let url = self.shown_url();
            tracing::warn!(url, %error, suppressed, "the authentication callback failed; clients get 503");
        }
        verdict
    }

    /// Waits for a free slot and asks, within the limits; returns the status that decides.
    async fn answer(
        &self,
        client: IpAddr,
        question: Vec<u8>,
        counters: &Counters,
    ) -> Result<StatusCode, CallbackError> {
        let _waiting = self.waiting.admit(client).map_err(|_| CallbackError::Limit)?;
        let begun = Instant::now();
        let answered = timeout(self.options.timeout, self.post(question)).await;
        counters.callback_seconds.record(begun.elapsed());
        let response = answered??;
        let status = response.status();
        drain(response.into_body()).await;
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Ok(status),
            status if status.is_success() => Ok(status),
            status => Err(CallbackError::Status(status)),
        }
    }

    /// Sends a question.
    async fn post(&self, question: Vec<u8>) -> Result<http::Response<Incoming>, CallbackError> {
        let _one_of_few = self.at_once.acquire().await.expect("the semaphore is never closed");
        let mut request = http::Request::new(Full::new(Bytes::from(question)));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.options.url.clone();
        let content_type = http::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, content_type);
        Ok(self.client.request(request).await?)
    }
}

/// Reads a body that is short and arrives in time; otherwise its connection is closed.
async fn drain(body: Incoming) {
    // An error only ends the connection.
    _ = timeout(BODY_LIMIT, Limited::new(body, MOST_BODY_BYTES).collect()).await;
}

/// TLS configuration for a client that never uses TLS.
fn trusting_none() -> io::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn root_cause(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .last()
        .map_or(String::new(), ToString::to_string)
}
