//! HTTP servers that answer as a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use anyhow::Result;

/// Answers the request for a path; returns whether the connection goes on.
type Answer = fn(&mut TcpStream, &str) -> std::io::Result<bool>;

/// A server that ends with the test.
pub(super) struct Scripted(SocketAddr);

impl Scripted {
    pub(super) fn start(answer: Answer) -> Result<Scripted> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that leaves ends its thread; what it missed is the test's to see.
                std::thread::spawn(move || drop(serve(stream, answer)));
            }
        });
        Ok(Scripted(address))
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.0)
    }
}

fn serve(mut stream: TcpStream, answer: Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 {
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        while line.trim_end() != "" {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
        line.clear();
        if !answer(&mut stream, &path)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Sends a whole response.
pub(super) fn send(stream: &mut TcpStream, status: &str, body: &[u8]) -> std::io::Result<bool> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(body)?;
    Ok(true)
}
