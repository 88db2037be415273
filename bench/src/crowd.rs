//! Many sessions that ask for media and never see it: it goes to the sink.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use wirepath_tests::playback::describe;
use wirepath_tests::rtsp::Client;

/// Transport of every session; each has an address of its own.
const TRANSPORT: &str = "RTP/AVP;unicast;client_port=5000-5001";

/// Sets so many sessions up and starts them. They last as long as their connections.
pub(crate) fn play(server: SocketAddr, asset: &str, sessions: usize) -> Result<Vec<Client>> {
    let url = format!("rtsp://{server}/{asset}");
    let mut clients = Vec::with_capacity(sessions);
    let mut names = Vec::with_capacity(sessions);
    for number in 0..sessions {
        let mut client = Client::over(connect(number, server)?);
        let (_, track) = describe(&mut client, &url)?;
        let answer = client.succeed("SETUP", &track, &[("Transport", TRANSPORT)])?;
        let session = answer.header("session").context("SETUP was answered without a Session")?;
        names.push(session.split(';').next().unwrap_or_default().to_owned());
        clients.push(client);
    }
    for (client, session) in clients.iter_mut().zip(&names) {
        client.succeed("PLAY", &url, &[("Session", session)])?;
    }
    Ok(clients)
}

fn connect(number: usize, server: SocketAddr) -> Result<TcpStream> {
    let [.., high, low] = u32::try_from(number + 256)?.to_be_bytes();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::new(10, 78, high, low), 0)).into())?;
    socket.connect(&server.into()).with_context(|| format!("connecting session {number}"))?;
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}
