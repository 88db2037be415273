//! A client that reads slowly.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::net::sockopt;

/// Reads so many bytes at less than 700 kB/s, without a pause that anybody could take for silence. What a
/// socket holds of them then has long to go while nobody sends anything.
pub fn read(connection: &mut TcpStream, bytes: usize) -> Result<()> {
    // So that little of it is the reader's already.
    sockopt::set_socket_recv_buffer_size(&*connection, 30_000)?;
    let (mut total, mut part) = (0, vec![0; 40_000]);
    while total < bytes {
        let read = connection.read(&mut part).with_context(|| format!("after {total} bytes"))?;
        ensure!(read > 0, "it ends after {total} bytes");
        total += read;
        std::thread::sleep(Duration::from_millis(60)); // that is how slowly
    }
    Ok(())
}
