//! A client of one connection that stays open.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, ensure};

/// A client.
pub struct Client {
    connection: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn connect(address: SocketAddr) -> Result<Client> {
        let connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        Ok(Client { connection, buffer: vec![0; 1 << 20] })
    }

    /// Asks, and receives an answer of so many bytes.
    pub(crate) fn skip(&mut self, path: &str, length: usize) -> Result<()> {
        let (announced, mut received) = self.ask(path)?;
        ensure!(announced == length, "{announced} bytes are announced: expected {length}");
        while received < length {
            let read = self.connection.read(&mut self.buffer)?;
            ensure!(read > 0, "the answer ends after {received} of {length} bytes");
            received += read;
        }
        Ok(())
    }

    /// Asks, and answers the body.
    ///
    /// # Errors
    /// Those of the socket, or a refusal.
    pub fn body(&mut self, path: &str) -> Result<Vec<u8>> {
        let (length, begun) = self.ask(path)?;
        let mut body = self.buffer[..begun].to_vec();
        body.resize(length, 0);
        self.connection.read_exact(&mut body[begun..])?;
        Ok(body)
    }

    /// Asks; answers the length of the body, and how much of it is at the beginning of the buffer.
    fn ask(&mut self, path: &str) -> Result<(usize, usize)> {
        write!(self.connection, "GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n")?;
        let mut filled = 0;
        let end = loop {
            let read = self.connection.read(&mut self.buffer[filled..])?;
            ensure!(read > 0, "the connection ended");
            filled += read;
            if let Some(end) = self.buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
        ensure!(head.starts_with("http/1.1 200"), "{path}: {head}");
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).context("a length")?;
        let length = length.trim().parse()?;
        self.buffer.copy_within(end..filled, 0);
        Ok((length, filled - end))
    }
}
