//! Records over TCP without HTTP: a client sends one line, `PATH?QUERY`, and gets a stream of Arrow IPC, or a line
//! that begins with `error: `.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use wirepath_engine::Engine;
use wirepath_http::AssetPath;
use wirepath_net::folder::Found;
use wirepath_net::{ClientLimits, DescriptorBudget, Exceeded, ReservedListener, serve};
use wirepath_streams::{Framing, Object, ObjectPart, StreamBuilder, StreamOptions};

use crate::answer::answer;
use crate::query::{Format, Question, Wanted};
use crate::records::Records;
use crate::stored::{Form, Stored};

/// Longest line in bytes.
const LINE_LIMIT: u64 = 16 << 10;

/// Time within which a line has to come.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time after which a connection is cut that takes nothing.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Descriptors of a connection: itself, a file and what is made of it.
const PER_CONNECTION: usize = 3;

/// Listener for lines.
pub struct LineListener {
    /// Its socket.
    pub socket: TcpListener,
    /// Limits on connections.
    pub limits: Arc<ClientLimits>,
    /// Budget of their descriptors.
    pub descriptors: Arc<DescriptorBudget>,
}

impl LineListener {
    /// Serves records until `drain` becomes true; then lets the answers that have begun end.
    pub async fn serve(self, records: Records, engine: Arc<Engine>, drain: watch::Receiver<bool>) {
        let LineListener { socket, limits, descriptors } = self;
        let draining = drain.clone();
        serve(
            "TCP",
            ReservedListener::new(socket),
            drain,
            None,
            |(stream, peer): (TcpStream, SocketAddr)| {
                let admit = || Ok((limits.admit(peer.ip())?, descriptors.admit(peer.ip(), PER_CONNECTION)?));
                let permits: Result<_, Exceeded> = admit();
                let Ok(permits) = permits else {
                    tracing::debug!(%peer, "connection refused: too many");
                    return None;
                };
                let (records, engine, draining) = (records.clone(), Arc::clone(&engine), draining.clone());
                Some(async move {
                    if let Err(error) = exchange(stream, &records, &engine, draining).await {
                        tracing::debug!(%peer, %error, "TCP connection failed");
                    }
                    drop(permits);
                })
            },
        )
        .await;
    }
}

/// Answers one line.
async fn exchange(
    stream: TcpStream,
    records: &Records,
    engine: &Engine,
    mut drain: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let read = async {
        let mut limited = (&mut reader).take(LINE_LIMIT);
        limited.read_line(&mut line).await
    };
    tokio::select! {
        read = tokio::time::timeout(LINE_TIMEOUT, read) => read.map_err(io::Error::other)??,
        _ = drain.wait_for(|drain| *drain) => return Ok(()),
    };
    let mut stream = reader.into_inner();
    let Some(line) = line.strip_suffix('\n') else {
        return refuse(&mut stream, "expected a line PATH?QUERY").await;
    };
    let line = line.strip_suffix('\r').unwrap_or(line).to_owned();
    let computed = records.compute(move |records| find(records, &line)).await;
    match computed.unwrap_or_else(|busy| Err(busy.to_string())) {
        Ok(parts) => send(stream, parts, engine).await,
        Err(why) => refuse(&mut stream, &why).await,
    }
}

async fn refuse(stream: &mut TcpStream, why: &str) -> io::Result<()> {
    let line = format!("error: {}\n", why.replace(['\r', '\n'], " "));
    tokio::time::timeout(WRITE_TIMEOUT, stream.write_all(line.as_bytes())).await.map_err(io::Error::other)?
}

/// The answer to a line, or what is wrong with it. May block.
fn find(records: &Records, line: &str) -> Result<Vec<ObjectPart>, String> {
    let (path, query) = line.split_once('?').unwrap_or((line, ""));
    let path = AssetPath::decode(&format!("/{}", path.trim_start_matches('/')))
        .map_err(|error| error.to_string())?;
    let format = match Question::parse(query).map_err(|error| error.to_string())? {
        Question::Format(Format { form: Some(Form::File), .. }) => {
            return Err("only streams are sent over TCP".into());
        }
        Question::Format(format) => Format { form: Some(Form::Stream), ..format },
        Question::Whole => Format { fields: vec![Wanted::All], filter: None, form: Some(Form::Stream) },
        Question::Schema => {
            return Err("schema is served over HTTP only; a stream begins with its schema".into());
        }
    };
    let stored = match records.folder.find(&path).map_err(|error| error.to_string())? {
        Found::File(stored) if !path.names_folder() => stored,
        _ => return Err("no such file".into()),
    };
    let read = |bytes: &mut [u8], at| stored.file.read_exact_at(bytes, at);
    let opened = Stored::open(stored.size, read).map_err(|error| error.to_string())?;
    let answered =
        answer(&opened, &format, stored.size, &records.limits(), read).map_err(|error| error.to_string())?;
    let file: Arc<File> = Arc::new(stored.file);
    Ok(answered.assembly.parts(&file))
}

/// Has the engine send the parts of an answer.
async fn send(stream: TcpStream, parts: Vec<ObjectPart>, engine: &Engine) -> io::Result<()> {
    let (on_end, end) = oneshot::channel();
    let answer = StreamBuilder::default()
        .input(Object::parts("answer", parts), Framing::Whole)
        .output(Object::stream("client", OwnedFd::from(stream.into_std()?))?)
        .output_timeout(WRITE_TIMEOUT)
        .build();
    // Sending fails only if this task was ended, which stops the stream.
    let on_end = Box::new(move |end| drop(on_end.send(end)));
    let sending = answer.start(engine, StreamOptions { on_end: Some(on_end), ..StreamOptions::default() });
    let end = end.await.map_err(|_| io::Error::other("the engine has ended"))?;
    drop(sending);
    end.result.map_err(io::Error::other)
}
