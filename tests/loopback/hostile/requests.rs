//! Valid requests, which attackers then corrupt.

use wirepath_tests::server::Server;

/// A session's life, with detours. `{session}` stands for what SETUP answers; media goes to `port` and the
/// next.
pub(super) fn rtsp(server: &Server, port: u16) -> Vec<Vec<u8>> {
    let (url, track) = (server.rtsp_url("clip.ts"), server.rtsp_url("clip.ts/track1"));
    let transport = format!("Transport: RTP/AVP;unicast;client_port={port}-{}\r\n", port + 1);
    let session = "Session: {session}\r\n";
    let elsewhere =
        format!("Transport: RTP/AVP;unicast;destination=127.0.0.1;client_port={port}-{}\r\n", port + 1);
    let lines = [
        ("OPTIONS", "*", String::new()),
        ("DESCRIBE", &url, "Accept: application/sdp\r\n".to_owned()),
        ("DESCRIBE", &server.rtsp_url("%2e%2e/gone.ts"), String::new()),
        ("SETUP", &track, elsewhere),
        ("SETUP", &url, transport.clone()),
        ("SETUP", &track, transport.clone()),
        ("PLAY", &url, format!("{session}Range: npt=1-3\r\n")),
        ("GET_PARAMETER", &url, session.to_owned()),
        ("SETUP", &track, format!("{session}{transport}")),
        ("PAUSE", &url, session.to_owned()),
        ("PLAY", &url, format!("{session}Range: npt=0.5-\r\n")),
        ("PLAY", &url, format!("{session}Range: npt=2-1\r\n")),
        ("SET_PARAMETER", &url, format!("{session}Content-Length: 6\r\n\r\na: b")),
        ("TEARDOWN", &url, session.to_owned()),
        ("PLAY", &url, session.to_owned()),
    ];
    let lines = lines.into_iter().enumerate();
    lines
        .map(|(number, (method, url, headers))| {
            format!("{method} {url} RTSP/1.0\r\nCSeq: {number}\r\n{headers}\r\n").into_bytes()
        })
        .collect()
}

/// Questions that each have another answer.
pub(super) fn http() -> Vec<Vec<u8>> {
    let lines = [
        ("GET", "/", "Accept: application/json\r\n"),
        ("HEAD", "/clip.ts", ""),
        ("GET", "/clip.ts", "Range: bytes=0-99\r\n"),
        ("GET", "/clip.ts", "Range: bytes=5-9,100-,-7\r\nIf-Range: \"tag\"\r\n"),
        ("GET", "/clip.ts", "Range: bytes=99999999999-\r\n"),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", ""),
        ("GET", "/missing.ts", ""),
        ("GET", "/api/status", ""),
        ("POST", "/clip.ts", "Content-Length: 5\r\n\r\nhello"),
        ("GET", "/metrics", "Connection: keep-alive\r\n"),
        ("GET", "/clip.ts", ""),
    ];
    let request = |(method, path, headers)| format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
    lines.map(|line| request(line).into_bytes()).into()
}
