//! Clients, files and storage that fail. Whoever is not hit must not notice, and nothing may be left behind.

use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::Process;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, clips, http, process, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_client_killed_costs_only_itself,
        a_control_connection_that_dies_ends_its_session,
        an_unreachable_port_ends_its_session,
        an_asset_deleted_while_playing_disturbs_nobody,
        an_asset_truncated_while_playing_disturbs_nobody,
        packing_killed_leaves_nothing_that_is_trusted,
        a_damaged_image_is_never_sent,
        a_cache_folder_that_cannot_be_written_is_said,
        garbage_is_refused,
        oversized_requests_are_refused,
    ]
}

/// These count descriptors and memory, or load the machine.
pub(crate) fn alone() -> Vec<Trial> {
    trials![half_open_connections_disturb_nobody, sessions_leak_nothing]
}

/// Promise: A client killed with SIGKILL affects no other client.
/// Promise: After each fault no descriptor and no memory is leaked.
fn a_client_killed_costs_only_itself() -> Result<()> {
    require!(process::find("ffmpeg").is_some(), "ffmpeg is not installed");
    let bed = TestBed::new(8)?;
    let before = bed.server.descriptors()?;
    let mut witness = bed.playing()?;
    let with_witness = bed.server.descriptors()?;
    let mut victim = Command::new("ffmpeg");
    victim.args([
        "-nostdin",
        "-v",
        "verbose",
        "-rtsp_transport",
        "udp",
        "-i",
        &bed.server.rtsp_url("clip.ts"),
    ]);
    victim.args(["-c", "copy", "-f", "null", "-"]);
    let victim = Process::start(&victim, true)?;
    let wait = Deadline::seconds(5.0);
    wait.wait_for("the second session", || Ok((bed.server.descriptors()? > with_witness).then_some(())))?;
    victim.signal(Signal::KILL)?;
    let wait = Deadline::seconds(1.0);
    wait.wait_for("its end", || Ok((bed.server.descriptors()? <= with_witness).then_some(())))?;
    bed.ensure_whole(&mut witness)?;
    drop(witness);
    let wait = Deadline::seconds(2.0);
    wait.wait_for("all descriptors closed", || Ok((bed.server.descriptors()? <= before).then_some(())))
}

/// Promise: A session stops within a second when its control connection dies.
fn a_control_connection_that_dies_ends_its_session() -> Result<()> {
    let bed = TestBed::new(8)?;
    let mut witness = bed.playing()?;
    let victim = bed.playing()?;
    let Playback { client, receiver, .. } = victim;
    drop(client);
    ensure!(receiver.falls_silent_within(1.0), "media went on for more than a second");
    bed.ensure_whole(&mut witness)
}

/// Promise: A session stops within a second when the client's port is unreachable.
fn an_unreachable_port_ends_its_session() -> Result<()> {
    let bed = TestBed::new(8)?;
    let mut witness = bed.playing()?;
    let Playback { mut client, receiver, session, url, .. } = bed.playing()?;
    receiver.close_ports(); // the next train meets a closed port, and the one after that is told
    Deadline::seconds(1.0).wait_for("454 for the session", || {
        let answer = client.request("GET_PARAMETER", &url, &[("Session", &session)])?;
        Ok((answer.status == 454).then_some(()))
    })?;
    bed.ensure_whole(&mut witness)
}

/// Promise: An asset that is deleted or truncated during playback disturbs no other session.
fn an_asset_deleted_while_playing_disturbs_nobody() -> Result<()> {
    asset_lost(|asset| std::fs::remove_file(asset).context("deleting"))
}

/// Promise: An asset that is deleted or truncated during playback disturbs no other session.
fn an_asset_truncated_while_playing_disturbs_nobody() -> Result<()> {
    asset_lost(|asset| std::fs::File::create(asset).map(drop).context("truncating"))
}

/// Two assets play; one is lost. Its session ends, properly or with the whole clip; the other does not
/// notice.
fn asset_lost(lose: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let stored = std::fs::read(clips::constant(6)?)?;
    let folder = process::open_folder()?;
    for name in ["clip.ts", "victim.ts"] {
        std::fs::write(folder.path().join(name), &stored)?;
    }
    let server = Server::of(folder.path()).start()?;
    let witness = begin(&server, "clip.ts")?;
    let victim = begin(&server, "victim.ts")?;
    lose(&folder.path().join("victim.ts"))?;
    let received = victim.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure!(received.gaps().is_empty() && stored.starts_with(&received.payload), "wrong bytes were sent");
    ensure_bytes(&witness.receiver.to_the_end(Deadline::seconds(15.0))?, &stored)?;
    let answer = Client::connect(server.rtsp)?.request("DESCRIBE", &server.rtsp_url("victim.ts"), &[])?;
    ensure!((400..600).contains(&answer.status), "{answer:?}");
    Ok(())
}

/// Promise: If packing is killed, a later start does not use the incomplete files.
fn packing_killed_leaves_nothing_that_is_trusted() -> Result<()> {
    let clip = clips::constant(60)?;
    let folder = process::open_folder()?;
    let asset = folder.path().join("clip.ts");
    super::playing::repeat(&clip, 20, &asset)?;
    let cache = tempfile::tempdir()?;
    let mut command = Command::new(server::binary()?);
    command.arg("pack").arg("--cache").arg(cache.path()).arg(&asset);
    let mut packing = Process::start(&command, true)?;
    Deadline::seconds(10.0).wait_for("a part of an image", || {
        Ok(files(cache.path())?.iter().any(|(_, length)| *length > 1 << 20).then_some(()))
    })?;
    packing.signal(Signal::KILL)?;
    packing.wait(Deadline::seconds(5.0))?;
    let server = Server::of(folder.path()).cache(cache.path()).start()?;
    let mut playback = Playback::set_up(server.rtsp, "clip.ts")?;
    playback.play(Some("npt=0-4"))?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure_bytes(&received, &std::fs::read(&clip)?[..received.payload.len()])
}

/// Promise: A damaged wire image is detected before any of its bytes is sent, and packed again.
///
/// One byte in 64 KiB of what the stored image's packets take is turned over; header and table, at both ends
/// of the file, say that it is good, so that it is begun to be played from.
fn a_damaged_image_is_never_sent() -> Result<()> {
    let clip = clips::constant(4)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let cache = tempfile::tempdir()?;
    pack(cache.path(), &folder.path().join("clip.ts"))?;
    for (file, length) in files(cache.path())? {
        let mut file = std::fs::OpenOptions::new().read(true).write(true).open(file)?;
        for offset in (10_000..length - 65_536).step_by(65_536) {
            let mut byte = [0];
            file.seek(std::io::SeekFrom::Start(offset))?;
            file.read_exact(&mut byte)?;
            file.seek(std::io::SeekFrom::Start(offset))?;
            file.write_all(&[!byte[0]])?;
        }
    }
    let server = Server::of(folder.path()).cache(cache.path()).start()?;
    ensure_bytes(&Playback::whole(server.rtsp, "clip.ts", 15.0)?, &std::fs::read(&clip)?)?;
    let images = &server.status()?["counters"]["images"];
    ensure!(images["found"] == 1 && images["rejected"] == 1, "it was not begun to be played from: {images}");
    Ok(())
}

/// Packs a file ahead of time.
fn pack(cache: &Path, asset: &Path) -> Result<()> {
    let output = Command::new(server::binary()?).arg("pack").arg("--cache").arg(cache).arg(asset).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Promise: A cache folder that cannot be written is reported at the start; packed images still play.
fn a_cache_folder_that_cannot_be_written_is_said() -> Result<()> {
    require!(process::find("unshare").is_some(), "unshare is not installed");
    require!(process::is_root(), "mounting takes root");
    let clip = clips::constant(4)?;
    let (folder, cache) = (clips::folder(&[("clip.ts", &clip)])?, tempfile::tempdir()?);
    let script = "mount -t tmpfs -o ro none \"$0\" && exec \"$@\"";
    let place = cache.path().to_str().context("a folder's name")?;
    let server =
        Server::of(folder.path()).cache(place).under(["unshare", "-m", "sh", "-c", script, place]).start()?;
    let wait = Deadline::seconds(5.0);
    let said = "the cache folder cannot be written to: media that is not packed yet can be downloaded, but not played";
    wait.wait_for("a warning", || Ok(server.process.log().contains(said).then_some(())))?;
    let download = http::get(server.http, "/clip.ts")?;
    ensure!(
        download.status == 200 && download.body == std::fs::read(&clip)?,
        "the download answered {}",
        download.status
    );
    Ok(())
}

/// Promise: Oversized requests and input that is not RTSP are refused.
fn garbage_is_refused() -> Result<()> {
    let bed = TestBed::new(2)?;
    let url = bed.server.rtsp_url("clip.ts");
    let zeros = vec![0; 4096];
    let cases: [&[u8]; 9] = [
        b"\r\n\r\n\r\n\r\nGARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"OPTIONS * RTSP/9.9\r\nCSeq: 1\r\n\r\n",
        b"OPTIONS * RTSP/1.0\r\n\r\n",
        b"OPTIONS * RTSP/1.0\r\nCSeq: 99999999999999999999\r\n\r\n",
        b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: -1\r\n\r\n",
        b"$\x00\xff\xff",
        b"\xff\xfe\xfd\xfc\r\n\r\n",
        &zeros,
    ];
    for case in cases {
        let mut client = Client::connect(bed.server.rtsp)?;
        client.send_raw(case)?;
        client.stream().shutdown(std::net::Shutdown::Write)?;
        ensure!(
            client.is_closed_within(Duration::from_secs(5))?,
            "{:?} keeps its connection",
            case.escape_ascii()
        );
    }
    Client::connect(bed.server.rtsp)?.succeed("OPTIONS", &url, &[])?;
    Ok(())
}

/// Promise: Oversized requests and input that is not RTSP are refused.
fn oversized_requests_are_refused() -> Result<()> {
    let bed = TestBed::new(2)?;
    let before = bed.server.memory_kib()?;
    let listeners = [(bed.server.rtsp, "RTSP/1.0\r\nCSeq: 1"), (bed.server.http, "HTTP/1.1\r\nHost: a")];
    let header = format!("X: {}\r\n", "y".repeat(1000));
    for (address, version) in listeners {
        let beginnings = [
            format!("OPTIONS /{}", "x".repeat(1 << 20)),
            format!("OPTIONS * {version}\r\n{}", header.repeat(1000)),
            format!("POST * {version}\r\nContent-Length: 99999999999\r\n\r\n"),
        ];
        for beginning in beginnings {
            let mut connection = http::connect(address)?;
            // The server may close before it has read all of it.
            connection.write_all(beginning.as_bytes()).ok();
            let mut answer = Vec::new();
            match connection.read_to_end(&mut answer) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
                Err(error) => return Err(error).context("the connection stays open"),
            }
            let text = String::from_utf8_lossy(&answer);
            let refused = text.contains(" 4") || text.contains(" 5");
            ensure!(answer.is_empty() || refused, "{}", text.lines().next().unwrap_or_default());
        }
    }
    let grown = bed.server.memory_kib()?.saturating_sub(before);
    ensure!(grown < 8 << 10, "{grown} KiB are kept");
    Ok(())
}

/// Promise: 1,000 half-open RTSP connections do not disturb other clients and are closed in time.
fn half_open_connections_disturb_nobody() -> Result<()> {
    const CONNECTIONS: usize = 1000;
    let bed = TestBed::new(8)?;
    let before = bed.server.descriptors()?;
    let mut witness = bed.playing()?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = http::connect(bed.server.rtsp)?;
        // Beyond its limit the server closes at once; that is an answer too.
        connection.write_all(b"OPTIONS rtsp://a/clip.ts RT").ok();
        connections.push(connection);
    }
    Client::connect(bed.server.rtsp)?.succeed("OPTIONS", "*", &[])?;
    bed.ensure_whole(&mut witness)?;
    drop((connections, witness));
    let wait = Deadline::seconds(5.0);
    wait.wait_for("all descriptors closed", || Ok((bed.server.descriptors()? <= before).then_some(())))
}

/// Promise: After each fault no descriptor and no memory is leaked.
///
/// After a first round has filled caches and pools, further rounds must cost nothing that stays.
fn sessions_leak_nothing() -> Result<()> {
    let bed = TestBed::new(8)?;
    let round = || -> Result<(usize, u64)> {
        for number in 0..100 {
            let mut playback = bed.playing()?;
            match number % 3 {
                0 => ensure!(playback.ask("TEARDOWN")?.status == 200),
                1 => playback.pause()?,
                _ => {}
            }
        }
        // The last ones end by their connections.
        let wait = Deadline::seconds(5.0);
        wait.wait_for("the sessions' end", || Ok((bed.server.sessions()? == 0).then_some(())))?;
        Ok((bed.server.descriptors()?, bed.server.memory_kib()?))
    };
    let first = round()?;
    let second = round()?;
    let third = round()?;
    // Another thread closes the files of the last sessions.
    Deadline::seconds(5.0)
        .wait_for("last descriptors", || Ok((bed.server.descriptors()? <= first.0).then_some(())))
        .with_context(|| format!("descriptors grow: {first:?} {second:?} {third:?}"))?;
    ensure!(third.1 <= second.1 + 2048, "memory grows: {first:?} {second:?} {third:?}");
    Ok(())
}

/// A server of one clip.
struct TestBed {
    server: Server,
    stored: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl TestBed {
    fn new(seconds: u32) -> Result<Self> {
        let clip = clips::constant(seconds)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path()).start()?;
        // Packed to its end before anything is counted: until then its image is not open, or open twice.
        Client::connect(server.rtsp)?.succeed("DESCRIBE", &server.rtsp_url("clip.ts"), &[])?;
        Deadline::seconds(20.0).wait_for("the image", || {
            Ok((server.status()?["assets"][0]["state"] == "ready").then_some(()))
        })?;
        // The ports that sessions share stay open.
        drop(begin(&server, "clip.ts")?);
        Deadline::seconds(5.0)
            .wait_for("the session's end", || Ok((server.sessions()? == 0).then_some(())))?;
        Ok(Self { server, stored: std::fs::read(&clip)?, _folder: folder })
    }

    fn playing(&self) -> Result<Playback> {
        begin(&self.server, "clip.ts")
    }

    fn ensure_whole(&self, playback: &mut Playback) -> Result<()> {
        let received = playback.receiver.to_the_end(Deadline::seconds(20.0))?;
        ensure_bytes(&received, &self.stored).context("another session was disturbed")
    }
}

/// Plays, and waits for the first packet.
fn begin(server: &Server, path: &str) -> Result<Playback> {
    let mut playback = Playback::set_up(server.rtsp, path)?;
    playback.play(None)?;
    playback.receiver.wait_for("packet", Deadline::seconds(10.0), |received| !received.packets.is_empty())?;
    Ok(playback)
}

/// Files below a folder and their lengths.
fn files(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // A file may be renamed or removed between the two calls.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push((entry.path(), metadata.len()));
        }
    }
    Ok(found)
}
