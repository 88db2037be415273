//! RTSP through an HTTP tunnel: a GET and a POST behind what looks like one connection.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};

use crate::http::{self, Response};

/// Head of the request that opens half of a tunnel.
pub fn head(method: &str, cookie: &str) -> String {
    let length = if method == "POST" { "Content-Length: 32767\r\n" } else { "" };
    format!(
        "{method} /clip.ts HTTP/1.0\r\nx-sessioncookie: {cookie}\r\nAccept: application/x-rtsp-tunnelled\r\n\
         Content-Type: application/x-rtsp-tunnelled\r\n{length}\r\n"
    )
}

/// Opens half of a tunnel, and sends its head.
pub fn half(server: SocketAddr, method: &str, cookie: &str) -> Result<TcpStream> {
    let mut stream = http::connect(server)?;
    stream.write_all(head(method, cookie).as_bytes()).context("the head")?;
    Ok(stream)
}

/// Opens the GET of a tunnel and reads the head of its response.
pub fn get(server: SocketAddr, cookie: &str) -> Result<TcpStream> {
    let mut stream = half(server, "GET", cookie)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).with_context(|| String::from_utf8_lossy(&head).into_owned())?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head)?;
    ensure!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    ensure!(head.contains("\r\nContent-Type: application/x-rtsp-tunnelled\r\n"), "{head}");
    ensure!(!head.contains("Content-Length"), "{head}");
    Ok(stream)
}

/// Response to half of a tunnel that is refused.
pub fn refusal(server: SocketAddr, method: &str, cookie: &str) -> Result<Response> {
    http::read_response(&mut half(server, method, cookie)?, &mut Vec::new(), false)
}

/// Opens a tunnel. What is written to the connection that is returned is encoded into the body of the POST, so many
/// bytes at a time.
pub fn open(server: SocketAddr, cookie: &str, bytes_at_a_time: usize) -> Result<TcpStream> {
    let mut get = get(server, cookie)?;
    let mut post = half(server, "POST", cookie)?;
    let listener = TcpListener::bind("127.0.0.1:0").context("a port")?;
    let near = http::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept().context("accept")?;
    let (mut said, mut ended) = (far.try_clone()?, get.try_clone()?);
    get.set_read_timeout(None)?;
    thread::spawn(move || {
        // Either side may close first.
        _ = std::io::copy(&mut get, &mut far);
        _ = far.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let mut bytes = vec![0; bytes_at_a_time];
        while let Ok(length @ 1..) = said.read(&mut bytes) {
            if post.write_all(BASE64_STANDARD.encode(&bytes[..length]).as_bytes()).is_err() {
                break;
            }
        }
        _ = ended.shutdown(Shutdown::Both);
        ended = post; // the POST stays until the GET is closed
        drop(ended);
    });
    Ok(near)
}
