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

/// Bytes of a half that are read in one system call.
const READ_LENGTH: usize = 4096;

/// Most system calls that read what has arrived from a half that is being replaced.
const MOST_READS: usize = 256;

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

    /// Decodes what `read` reads, until it reads nothing or the body is over.
    ///
    /// # Errors
    ///
    /// The body is not chunked, its text is not Base64, or there is too much of it.
    fn decode_all(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> usize,
        decoded: &mut Vec<u8>,
    ) -> io::Result<()> {
        let mut buffer = [0; READ_LENGTH];
        // The limit counts what is read: white space and the framing of chunks decode to nothing.
        for _ in 0..MOST_READS {
            if self.is_over() {
                return Ok(());
            }
            match read(&mut buffer) {
                0 => return Ok(()),
                length => self.decode(&buffer[..length], decoded)?,
            }
        }
        Err(invalid(TooMuchArrived))
    }

    /// Returns whether the body has ended before its connection.
    fn is_over(&self) -> bool {
        self.chunks.as_ref().is_some_and(ChunkedReader::is_over)
    }
}

/// Error: a half that is being replaced has more to read than a client leaves behind.
#[derive(Debug, thiserror::Error)]
#[error("too much data in a POST that another POST replaces: wait for responses before the next POST")]
struct TooMuchArrived;

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
    /// The body is not chunked, its text is not Base64, or there is too much of it.
    fn arrived(&mut self) -> io::Result<Vec<u8>> {
        let mut decoded = Vec::new();
        self.decoder.decode(&std::mem::take(&mut self.read), &mut decoded)?;
        // The runtime may not know yet that the socket is readable. An error counts as the end.
        let read = |buffer: &mut [u8]| rustix::io::read(&self.stream, buffer).unwrap_or(0);
        self.decoder.decode_all(read, &mut decoded)?;
        Ok(decoded)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Decoder of chunks, or of plain text.
    fn decoder(is_chunked: bool) -> BodyDecoder {
        BodyDecoder { chunks: is_chunked.then(ChunkedReader::default), text: TunnelDecoder::default() }
    }

    /// Decodes a body that repeats `text` and never ends. Returns the bytes decoded, the result, and how much was read.
    fn decode_endless(mut decoder: BodyDecoder, text: &[u8]) -> (Vec<u8>, io::Result<()>, usize) {
        let (mut decoded, mut length) = (Vec::new(), 0);
        let mut bytes = text.iter().copied().cycle();
        let read = |buffer: &mut [u8]| {
            length += buffer.len();
            assert!(length <= 2 * MOST_READS * READ_LENGTH, "the loop does not end");
            buffer.fill_with(|| bytes.next().unwrap());
            buffer.len()
        };
        let result = decoder.decode_all(read, &mut decoded);
        (decoded, result, length)
    }

    /// Promise: A POST of a tunnel that is being replaced ends the tunnel if it goes on and on, whatever it contains.
    #[test]
    fn an_endless_body_is_refused() {
        for (is_chunked, text) in
            [(false, "  \r\n"), (true, "1\r\n \r\n"), (false, "T1BU"), (true, "4\r\nT1BU\r\n")]
        {
            let (_, result, length) = decode_endless(decoder(is_chunked), text.as_bytes());
            let error = result.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text:?}");
            assert!(error.to_string().contains("another POST replaces"), "{error}");
            assert_eq!(length, MOST_READS * READ_LENGTH, "{text:?}");
        }
    }

    #[test]
    fn bytes_after_the_last_chunk_are_not_read() {
        let mut over = decoder(true);
        let mut decoded = Vec::new();
        over.decode(b"4\r\nT1BU\r\n0\r\n\r\n", &mut decoded).unwrap();
        assert_eq!(decoded, b"OPT");
        let (decoded, result, length) = decode_endless(over, b"x");
        result.unwrap();
        assert_eq!((decoded, length), (Vec::new(), 0));
    }
}
