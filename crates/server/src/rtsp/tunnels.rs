//! Tunnels of a server, and the receiving side of an RTSP connection through one.

use super::receive::read;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};
use wirepath_http::ChunkedReader;
use wirepath_media::rtsp::TunnelDecoder;

/// Tunnels of a server, joined or waiting. Each is a connection of a listener, whose limits apply to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tunnels(Arc<Mutex<HashMap<Key, mpsc::Sender<Post>>>>);

/// Name of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Address of the client; other addresses cannot send requests into the tunnel.
    pub(super) client: IpAddr,
    /// True if both halves come over TLS: a half without TLS would have sent a password in clear.
    pub(super) is_secure: bool,
    pub(super) cookie: String,
}

impl Tunnels {
    /// Registers a GET; none if its cookie is in use.
    pub(super) fn enter(&self, key: Key) -> Option<(Entered, mpsc::Receiver<Post>)> {
        let mut tunnels = self.0.lock();
        let Entry::Vacant(vacant) = tunnels.entry(key.clone()) else { return None };
        let (sender, posts) = mpsc::channel(1);
        vacant.insert(sender);
        Some((Entered { tunnels: self.clone(), key }, posts))
    }

    pub(super) fn find(&self, key: &Key) -> Option<mpsc::Sender<Post>> {
        self.0.lock().get(key).cloned()
    }
}

/// A tunnel that can be found by its cookie, until this is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    tunnels: Tunnels,
    key: Key,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.tunnels.0.lock().remove(&self.key);
    }
}

/// Most bytes of requests that are read at once from a half that is being replaced.
const MOST_ARRIVED: usize = 1 << 20;

/// Decoder of the body of a POST: of its chunks, if it has some, then of Base64.
#[derive(Debug)]
struct BodyDecoder {
    chunks: Option<ChunkedReader>,
    text: TunnelDecoder,
}

impl BodyDecoder {
    fn decode(&mut self, body: &[u8], decoded: &mut Vec<u8>) -> io::Result<()> {
        let Some(chunks) = &mut self.chunks else {
            return self.text.decode(body, decoded).map_err(invalid);
        };
        let mut result = Ok(());
        let text = |text: &[u8]| result = result.and_then(|()| self.text.decode(text, decoded));
        // Bytes after the last chunk would be another request, which no tunnel client sends.
        chunks.read(body, text).map_err(invalid)?;
        result.map_err(invalid)
    }

    /// Returns whether the body has ended before its connection.
    fn is_over(&self) -> bool {
        self.chunks.as_ref().is_some_and(ChunkedReader::is_over)
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The half that requests come by.
#[derive(Debug)]
pub(super) struct Post {
    stream: TcpStream,
    decoder: BodyDecoder,
    /// Bytes of its body that were read with its head.
    read: Vec<u8>,
    /// Dropped with the half; the half's HTTP connection waits for that.
    _ended: oneshot::Sender<()>,
}

impl Post {
    /// A half, with the bytes of its body that were read. `ended` is dropped with it.
    pub(super) fn new(
        stream: TcpStream,
        is_chunked: bool,
        read: Vec<u8>,
        ended: oneshot::Sender<()>,
    ) -> Self {
        let chunks = is_chunked.then(ChunkedReader::default);
        let decoder = BodyDecoder { chunks, text: TunnelDecoder::default() };
        Self { stream, decoder, read, _ended: ended }
    }

    /// Complete requests that have arrived, without waiting.
    ///
    /// # Errors
    ///
    /// The body is not chunked, or its text is not Base64.
    fn arrived(&mut self) -> io::Result<Vec<u8>> {
        let (mut decoded, mut buffer) = (Vec::new(), [0; 4096]);
        let mut text = std::mem::take(&mut self.read);
        loop {
            self.decoder.decode(&text, &mut decoded)?;
            // The runtime may not know yet that the socket is readable. An error counts as the end.
            match rustix::io::read(&self.stream, &mut buffer) {
                Ok(length) if length > 0 && decoded.len() < MOST_ARRIVED => text = buffer[..length].to_vec(),
                _ => return Ok(decoded),
            }
        }
    }

    /// The next requests; none at the end of this half.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.decoder.is_over() {
            return Ok(None);
        }
        let mut decoded = Vec::new();
        let mut decode = |text: &[u8]| self.decoder.decode(text, &mut decoded);
        let (length, result) = match std::mem::take(&mut self.read) {
            text if !text.is_empty() => (text.len(), decode(&text)),
            _ => {
                let mut result = Ok(());
                (read(&mut self.stream, |text| result = decode(text)).await?, result)
            }
        };
        result?;
        Ok((length > 0).then_some(decoded))
    }
}

/// Receiving side of an RTSP connection through a tunnel.
pub(super) struct TunnelInput {
    /// The GET, of which only the end matters.
    get: OwnedReadHalf,
    post: Option<Post>,
    /// Halves that follow the first.
    posts: mpsc::Receiver<Post>,
    _entered: Entered,
}

impl TunnelInput {
    /// The input of a tunnel whose first POST has come.
    pub(super) fn new(get: OwnedReadHalf, post: Post, posts: mpsc::Receiver<Post>, entered: Entered) -> Self {
        Self { get, post: Some(post), posts, _entered: entered }
    }

    /// Passes on the next requests; returns their length, 0 when the client has closed the GET.
    pub(super) async fn read(&mut self, take: impl FnOnce(&[u8])) -> io::Result<usize> {
        loop {
            let next = async {
                match &mut self.post {
                    Some(post) => post.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                length = read(&mut self.get, |_| ()) => if length? == 0 { return Ok(0) },
                requests = next => match requests? {
                    Some(requests) if requests.is_empty() => {}
                    Some(requests) => {
                        take(&requests);
                        return Ok(requests.len());
                    }
                    None => self.post = None,
                },
                // The sender lives as long as the entry, so there may always be another half.
                Some(post) = self.posts.recv() => {
                    let before = self.post.replace(post);
                    let requests = before.map(|mut post| post.arrived()).transpose()?.unwrap_or_default();
                    if !requests.is_empty() {
                        take(&requests);
                        return Ok(requests.len());
                    }
                }
            }
        }
    }
}
