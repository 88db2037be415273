//! RTSP as RFC 2326 has it, asked by a client that makes mistakes.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::playback::Playback;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        options_lists_the_methods,
        each_mistake_has_its_status,
        requests_may_be_split_at_any_byte,
        requests_may_be_pipelined,
        names_may_be_percent_encoded_and_nested,
        nothing_outside_the_folder_is_described,
        a_folder_is_refused_with_what_to_ask_for,
        media_goes_to_the_address_that_asked,
        a_torn_down_session_is_gone,
    ]
}

const TRANSPORT: &str = "RTP/AVP;unicast;client_port=40000-40001";

fn options_lists_the_methods() -> Result<()> {
    let bed = TestBed::new()?;
    let answer = bed.client()?.succeed("OPTIONS", "*", &[])?;
    let public = answer.header("public").unwrap_or_default();
    let methods = ["DESCRIBE", "SETUP", "PLAY", "PAUSE", "TEARDOWN", "GET_PARAMETER", "SET_PARAMETER"];
    ensure!(methods.iter().all(|method| public.contains(method)), "Public: {public}");
    Ok(())
}

/// Promise: Errors have the status codes that RFC 2326 requires.
fn each_mistake_has_its_status() -> Result<()> {
    let bed = TestBed::new()?;
    let url = bed.server.rtsp_url("clip.ts");
    let gone = bed.server.rtsp_url("gone.ts");
    type Case<'a> = (u16, &'a str, &'a str, &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 9] = [
        (404, "DESCRIBE", &gone, &[]),
        (551, "DESCRIBE", &url, &[("Require", "org.example.magic")]),
        (461, "SETUP", &url, &[("Transport", "RTP/AVP;multicast")]),
        (461, "SETUP", &url, &[("Transport", "RAW/RAW/UDP;unicast")]),
        (400, "SETUP", &url, &[]),
        (454, "PLAY", &url, &[("Session", "0123456789abcdef")]),
        (454, "TEARDOWN", &url, &[("Session", "0123456789abcdef")]),
        (454, "SETUP", &url, &[("Session", "0123456789abcdef"), ("Transport", TRANSPORT)]),
        (501, "FROBNICATE", &url, &[]),
    ];
    for (expected, method, url, headers) in cases {
        let answer = bed.client()?.request(method, url, headers)?;
        ensure!(answer.status == expected, "{method} {headers:?}: {} instead of {expected}", answer.status);
        ensure!(expected != 551 || answer.header("unsupported") == Some("org.example.magic"), "{answer:?}");
    }
    Ok(())
}

/// Promise: Requests may be pipelined and split at any byte.
fn requests_may_be_split_at_any_byte() -> Result<()> {
    let bed = TestBed::new()?;
    let request =
        format!("OPTIONS {} RTSP/1.0\r\nCSeq: 7\r\nUser-Agent: a\r\n\r\n", bed.server.rtsp_url("clip.ts"));
    for split in 1..request.len() {
        let mut client = bed.client()?;
        client.stream().set_nodelay(true)?;
        client.send_raw(&request.as_bytes()[..split])?;
        client.send_raw(&request.as_bytes()[split..])?;
        let answer = client.response()?;
        ensure!(answer.status == 200 && answer.header("cseq") == Some("7"), "split at {split}: {answer:?}");
    }
    Ok(())
}

/// Promise: Requests may be pipelined and split at any byte.
fn requests_may_be_pipelined() -> Result<()> {
    let bed = TestBed::new()?;
    let mut client = bed.client()?;
    let url = bed.server.rtsp_url("clip.ts");
    let requests: String =
        (1..=50).map(|number| format!("OPTIONS {url} RTSP/1.0\r\nCSeq: {number}\r\n\r\n")).collect();
    client.send_raw(requests.as_bytes())?;
    for number in 1..=50 {
        let answer = client.response()?;
        ensure!(answer.header("cseq") == Some(&number.to_string()), "answer {number} is {answer:?}");
    }
    Ok(())
}

/// Promise: Percent-encoded paths, spaces and UTF-8 name files.
fn names_may_be_percent_encoded_and_nested() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("sub/folder/a b – ü.ts", &clip)])?;
    let server = Server::of(folder.path()).start()?;
    for path in ["sub/folder/a%20b%20%E2%80%93%20%C3%BC.ts", "sub/folder/a%20b%20–%20ü.ts"] {
        Client::connect(server.rtsp)?.succeed("DESCRIBE", &server.rtsp_url(path), &[])?;
    }
    Ok(())
}

/// Promise: Files outside the served folders are unreachable, whatever the path or symlink.
fn nothing_outside_the_folder_is_described() -> Result<()> {
    let bed = TestBed::new()?;
    let outside = bed.folder.path().parent().expect("a temporary folder has a parent").join("outside.ts");
    let link = bed.folder.path().join("link.ts");
    std::os::unix::fs::symlink("/etc/passwd", &link)?;
    for path in
        ["../outside.ts", "%2e%2e/outside.ts", "..%2foutside.ts", "sub/../../outside.ts", "link.ts", "%00"]
    {
        let answer = bed.client()?.request("DESCRIBE", &bed.server.rtsp_url(path), &[])?;
        ensure!([400, 403, 404].contains(&answer.status), "{path}: {answer:?}");
    }
    ensure!(!outside.exists());
    Ok(())
}

/// Promise: DESCRIBE and SETUP of a folder get 404 with what to ask for, if the client may open the folder.
fn a_folder_is_refused_with_what_to_ask_for() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder =
        clips::folder(&[("cams/clip.ts", &clip), ("private/clip.ts", &clip), (".old/clip.ts", &clip)])?;
    let users = tempfile::NamedTempFile::new()?;
    std::fs::write(users.path(), format!("bob:home:{}\n", "0".repeat(32)))?;
    let users = users.path().to_str().expect("temporary names are UTF-8");
    let server = Server::of(folder.path())
        .with(["--users", users, "--folder-users=/=-", "--folder-users=private=bob"])
        .start()?;
    let ask = |method: &str, path: &str| {
        Client::connect(server.rtsp)?.request(method, &server.rtsp_url(path), &[("Transport", TRANSPORT)])
    };
    let says_folder =
        |body: &[u8]| String::from_utf8_lossy(body).starts_with("this is a folder: DESCRIBE a file");
    for path in ["cams", "cams/", ""] {
        let answer = ask("DESCRIBE", path)?;
        ensure!(answer.status == 404 && says_folder(&answer.body), "{path:?}: {answer:?}");
    }
    let answer = ask("SETUP", "cams/track1")?;
    ensure!(answer.status == 404 && says_folder(&answer.body), "{answer:?}");
    for (path, status) in
        [("private", 401), ("private/", 401), (".old", 404), ("gone", 404), ("cams/clip.ts/", 200)]
    {
        let answer = ask("DESCRIBE", path)?;
        ensure!(answer.status == status && !says_folder(&answer.body), "{path:?}: {answer:?}");
    }
    Ok(())
}

/// Promise: Media is sent only to the address that requested it.
///
/// `destination=` would let anyone send media to a victim (RFC 2326 section 16).
fn media_goes_to_the_address_that_asked() -> Result<()> {
    let bed = TestBed::new()?;
    let transport = format!("{TRANSPORT};destination=127.0.0.77");
    let url = bed.server.rtsp_url("clip.ts");
    let answer = bed.client()?.request("SETUP", &url, &[("Transport", &transport)])?;
    let agreed = answer.header("transport").unwrap_or_default();
    ensure!(answer.status != 200 || !agreed.contains("127.0.0.77"), "{answer:?}");
    Ok(())
}

fn a_torn_down_session_is_gone() -> Result<()> {
    let bed = TestBed::new()?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(None)?;
    ensure!(playback.ask("TEARDOWN")?.status == 200);
    ensure!(playback.receiver.falls_silent_within(1.0), "media went on after TEARDOWN");
    ensure!(playback.ask("PLAY")?.status == 454);
    Ok(())
}

struct TestBed {
    server: Server,
    folder: tempfile::TempDir,
}

impl TestBed {
    fn new() -> Result<Self> {
        let folder = clips::folder(&[("clip.ts", &clips::constant(6)?)])?;
        Ok(Self { server: Server::of(folder.path()).start()?, folder })
    }

    fn client(&self) -> Result<Client> {
        Client::connect(self.server.rtsp)
    }
}
