//! A client that sends exactly the given requests.

use super::soon;
use std::collections::HashMap;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, UdpSocket};

pub(super) struct Client {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    cseq: u64,
    pub(super) address: SocketAddr,
    /// Interleaved frames that came while a response was awaited.
    pub(super) frames: Vec<(u8, Vec<u8>)>,
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(&name.to_ascii_lowercase()).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The session's identifier, without its timeout.
    pub(super) fn session(&self) -> String {
        self.header("Session").split(';').next().unwrap_or_default().to_owned()
    }
}

/// A session from the client's view: its identifier and its sockets.
pub(super) struct SetUp {
    pub(super) id: String,
    pub(super) rtp: UdpSocket,
    pub(super) rtcp: UdpSocket,
    pub(super) reply: Reply,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the listener is open");
        let (read, write) = stream.into_split();
        Self { read: BufReader::new(read), write, cseq: 0, address, frames: Vec::new() }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("rtsp://{}/{path}", self.address)
    }

    /// Sends a request for a path, with these header lines, and receives the response.
    pub(super) async fn ask(&mut self, method: &str, path: &str, headers: &[&str]) -> Reply {
        let url = self.url(path);
        self.ask_url(method, &url, headers).await
    }

    pub(super) async fn ask_url(&mut self, method: &str, url: &str, headers: &[&str]) -> Reply {
        self.cseq += 1;
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let request = format!("{method} {url} RTSP/1.0\r\nCSeq: {}\r\n{headers}\r\n", self.cseq);
        self.send(request.as_bytes()).await;
        let reply = self.reply().await;
        assert_eq!(reply.header("CSeq"), self.cseq.to_string());
        reply
    }

    pub(super) async fn set_up(&mut self, path: &str) -> SetUp {
        let (rtp, rtcp) = (socket().await, socket().await);
        let (a, b) = (port(&rtp), port(&rtcp));
        let transport = format!("Transport: RTP/AVP;unicast;client_port={a}-{b}");
        let reply = self.ask("SETUP", &format!("{path}/track1"), &[&transport]).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        SetUp { id: reply.session(), rtp, rtcp, reply }
    }

    /// A request in a session.
    pub(super) async fn in_session(&mut self, method: &str, set_up: &SetUp, headers: &[&str]) -> Reply {
        let session = format!("Session: {}", set_up.id);
        let headers: Vec<&str> = headers.iter().copied().chain([session.as_str()]).collect();
        self.ask(method, "clip.ts", &headers).await
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.expect("the listener takes it");
    }

    pub(super) async fn close_write(&mut self) {
        self.write.shutdown().await.expect("open until now");
    }

    pub(super) async fn reply(&mut self) -> Reply {
        soon("an answer", self.read_reply()).await.expect("an answer, not the end")
    }

    /// Returns whether the listener accepts this client.
    pub(super) async fn is_served(&mut self) -> bool {
        // A listener that refuses may close before this is written.
        _ = self.write.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").await;
        soon("an answer or the end", self.read_reply()).await.is_some_and(|reply| reply.status == 200)
    }

    /// The listener refuses this client: 503 and the end, without a request.
    pub(super) async fn expect_rejection(&mut self) {
        let reply = self.reply().await;
        assert_eq!((reply.status, reply.header("Connection")), (503, "close"));
        self.expect_end().await;
    }

    /// Nothing more comes.
    pub(super) async fn expect_end(&mut self) {
        assert!(soon("the end", self.read_reply()).await.is_none());
    }

    /// The next interleaved frame.
    pub(super) async fn frame(&mut self) -> (u8, Vec<u8>) {
        if self.frames.is_empty() {
            soon("a frame", self.read_frame()).await.expect("a frame");
        }
        self.frames.remove(0)
    }

    async fn read_frame(&mut self) -> Option<()> {
        let mut head = [0; 4];
        self.read.read_exact(&mut head).await.ok()?;
        assert_eq!(head[0], b'$', "{head:?}");
        let mut frame = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]]))];
        self.read.read_exact(&mut frame).await.ok()?;
        self.frames.push((head[1], frame));
        Some(())
    }

    async fn read_reply(&mut self) -> Option<Reply> {
        while self.read.fill_buf().await.ok()?.first() == Some(&b'$') {
            self.read_frame().await?;
        }
        let line = self.line().await?;
        let status = line.strip_prefix("RTSP/1.0 ")?.get(..3)?.parse().ok()?;
        let mut headers = HashMap::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a number"));
        let mut body = vec![0; length];
        self.read.read_exact(&mut body).await.ok()?;
        Some(Reply { status, headers, body: String::from_utf8(body).expect("text") })
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        // A reset is an end too.
        let length = self.read.read_line(&mut line).await.unwrap_or(0);
        (length > 0).then(|| line.trim_end().to_owned())
    }
}

pub(super) async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.expect("a free port")
}

pub(super) fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().expect("bound").port()
}
