//! An HTTP server whose every answer a test decides: it can wait, break off and count.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::{Context, Result, ensure};

use crate::http;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its first line: `GET /a HTTP/1.0`.
    pub line: String,
    /// Names in lower case, and values, in order.
    pub headers: Vec<(String, String)>,
    /// As long as it said; empty if it is left for the answer to read.
    pub body: Vec<u8>,
}

/// A server on a free port of the loopback address, until it is dropped. Each connection has one request.
pub struct Origin {
    /// Listen address.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Asked {
    /// The first header of that name; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// Request target.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    fn read(connection: &mut TcpStream, with_body: bool) -> Result<Asked> {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !bytes.ends_with(b"\r\n\r\n") {
            ensure!(connection.read(&mut byte)? == 1, "the connection ended within a head");
            bytes.push(byte[0]);
        }
        let head = String::from_utf8(bytes)?;
        let (line, rest) = head.split_once("\r\n").context("a first line")?;
        let headers = http::headers_of(rest);
        let mut asked = Asked { line: line.to_owned(), headers, body: Vec::new() };
        if with_body {
            let length = asked.header("content-length").unwrap_or("0").parse()?;
            asked.body.resize(length, 0);
            connection.read_exact(&mut asked.body)?;
        }
        Ok(asked)
    }
}

impl Origin {
    /// Starts it. `answer` writes the answer to a request; the connection is closed when it returns, and
    /// reset if it fails.
    pub fn start(
        answer: impl Fn(&Asked, &mut TcpStream) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Origin> {
        Origin::begin(answer, true)
    }

    /// Starts one that leaves the bodies of requests for `answer` to read.
    pub fn of_heads(
        answer: impl Fn(&Asked, &mut TcpStream) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Origin> {
        Origin::begin(answer, false)
    }

    fn begin(
        answer: impl Fn(&Asked, &mut TcpStream) -> Result<()> + Send + Sync + 'static,
        with_body: bool,
    ) -> Result<Origin> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("an origin's port")?;
        let address = listener.local_addr()?;
        let (asked, is_over) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::<AtomicBool>::default());
        let (heard, over, answer) = (Arc::clone(&asked), Arc::clone(&is_over), Arc::new(answer));
        let accepting = std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let (heard, answer) = (Arc::clone(&heard), Arc::clone(&answer));
                std::thread::spawn(move || serve(connection, with_body, &heard, &*answer));
            }
        });
        Ok(Origin { address, asked, is_over, accepting: Some(accepting) })
    }

    /// Requests received so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("nothing panics holding it").clone()
    }

    /// Number of requests for this target.
    pub fn count(&self, target: &str) -> usize {
        self.asked().iter().filter(|asked| asked.target() == target).count()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // This wakes the thread that accepts; if nobody listens any more, it has ended.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            accepting.join().expect("accepting does not panic");
        }
    }
}

fn serve(
    mut connection: TcpStream,
    with_body: bool,
    heard: &Mutex<Vec<Asked>>,
    answer: &(dyn Fn(&Asked, &mut TcpStream) -> Result<()> + Send + Sync),
) {
    // A client that leaves in the middle of its request was not heard.
    let Ok(asked) = Asked::read(&mut connection, with_body) else { return };
    heard.lock().expect("nothing panics holding it").push(asked.clone());
    if answer(&asked, &mut connection).is_err() {
        socket2::SockRef::from(&connection)
            .set_linger(Some(std::time::Duration::ZERO))
            .expect("a socket can be told to reset");
    }
}

/// An answer with these header lines, each ending in CRLF, and a body of stated length.
pub fn answer(connection: &mut TcpStream, status: &str, lines: &str, body: &[u8]) -> Result<()> {
    let length = body.len();
    write!(connection, "HTTP/1.1 {status}\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n")?;
    connection.write_all(body)?;
    Ok(())
}
