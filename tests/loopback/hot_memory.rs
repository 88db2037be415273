//! Images in hot memory: sent from there when they are, from their files when not, the same bytes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::hot::{counted, require_ring, wait_for_path};
use wirepath_tests::interleaved::Interleaved;
use wirepath_tests::playback::{Playback, announced, ensure_bytes};
use wirepath_tests::process::Process;
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, clients, clips, frames, process, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        wire_uring_sends_every_byte,
        sessions_begin_before_their_image_is_hot,
        after_a_seek_the_same_bytes_leave_by_gso_writev,
        connections_play_from_hot_memory,
        ffmpeg_plays_over_tcp_from_hot_memory,
        ffmpeg_plays_a_movie_over_tcp_from_hot_memory,
        an_image_that_does_not_fit_is_sent_from_its_file,
        a_limit_of_locked_memory_costs_a_line_in_the_log,
        a_limit_of_locked_memory_ends_lending_of_mappings,
        hot_memory_for_another_path_is_not_used,
        wire_uring_without_memory_is_refused,
        without_hot_memory_nothing_is_said_of_it,
    ]
}

/// Promise: All data paths send the same bytes, with stored, separate and generated headers.
fn wire_uring_sends_every_byte() -> Result<()> {
    require_ring()?;
    let bed = TestBed::new(&["--path", "wire_uring", "--hot-memory", "64MiB"])?;
    bed.wait_until_hot()?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    let before = bed.server.status()?;
    let (sequence, timestamp) = announced(&playback.play(None)?)?;
    wait_for_path("wire_uring", || bed.server.status())?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure_bytes(&received, &bed.stored)?;
    let first = received.packets.first().context("no packet")?;
    ensure!((first.sequence, first.timestamp) == (sequence, timestamp), "RTP-Info announced another packet");
    let after = bed.server.status()?;
    let more = |name| Ok::<_, anyhow::Error>(counted(&after, name)? - counted(&before, name)?);
    // One session, so at most one train in each call; none left by another path.
    ensure!(more("trains")? == more("batches")?, "{} trains, {} calls", more("trains")?, more("batches")?);
    ensure!(more("packets")? == received.packets.len() as u64);
    Ok(())
}

/// Promise: Sessions change to and from hot memory between two trains, without a wrong byte.
fn sessions_begin_before_their_image_is_hot() -> Result<()> {
    require_ring()?;
    let bed = TestBed::new(&["--hot-memory", "64MiB"])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(None)?;
    wait_for_path("wire_uring", || bed.server.status())?;
    ensure_bytes(&playback.receiver.to_the_end(Deadline::seconds(15.0))?, &bed.stored)?;
    let status = bed.server.status()?;
    ensure!(status["data_path"]["name"] == "wire_uring", "{}", status["data_path"]);
    let hot = &status["hot_memory"];
    let (used, budget) = (hot["used_bytes"].as_u64(), hot["budget_bytes"].as_u64());
    ensure!(used > Some(bed.stored.len() as u64) && budget == Some(64 << 20), "{hot}");
    ensure!(hot["images"][0]["name"] == "clip.ts" && hot["given_up"].is_null(), "{hot}");
    // Before the image is in hot memory, its trains may leave by wire_mapping.
    let rings = status["data_path"]["by_io_uring"].as_array().context("no data paths by io_uring")?;
    let trains: u64 = rings.iter().filter_map(|ring| ring["trains"].as_u64()).sum();
    ensure!(rings[0]["name"] == "wire_uring" && trains == counted(&status, "trains_lent")?, "{rings:?}");
    let counted = &status["counters"]["hot"];
    ensure!(counted["images"] == 1.0 && counted["copied"] == 1, "{counted}");
    Ok(())
}

/// Promise: Sessions change to and from hot memory between two trains, without a wrong byte.
fn after_a_seek_the_same_bytes_leave_by_gso_writev() -> Result<()> {
    require_ring()?;
    let bed = TestBed::new(&["--hot-memory", "64MiB", "--path", "auto"])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(Some("npt=0-"))?;
    wait_for_path("wire_uring", || bed.server.status())?;
    playback.pause()?;
    let (sequence, timestamp) = announced(&playback.play(Some("npt=4-"))?)?;
    wait_for_path("gso_writev", || bed.server.status())?;
    let received = playback.receiver.to_the_end(Deadline::seconds(15.0))?;
    ensure!(received.gaps().is_empty(), "gaps {:?}", received.gaps());
    let index = received.packets.iter().position(|packet| packet.sequence == sequence);
    let sought = &received.packets[index.context("the packet announced after the seek did not come")?];
    ensure!(sought.timestamp == timestamp, "RTP-Info announced {timestamp}, {} came", sought.timestamp);
    let (before, after) = received.payload.split_at(sought.payload.start);
    ensure!(bed.stored.starts_with(before) && bed.stored.ends_with(after), "other bytes came");
    ensure!(before.len() > 100_000 && after.len() > 100_000, "{}, {} bytes", before.len(), after.len());
    Ok(())
}

/// Promise: Sessions over TCP play from hot memory, the same bytes, among responses.
fn connections_play_from_hot_memory() -> Result<()> {
    require_ring()?;
    let bed = TestBed::hot_over_tcp("clip.ts", &clips::constant(6)?)?;
    let before = bed.server.status()?;
    let mut client = Interleaved::set_up_in(bed.server.rtsp, "clip.ts", [0, 1])?;
    let (sequence, timestamp) = announced(&client.play(None)?)?;
    let deadline = Deadline::seconds(20.0);
    while client.received.bye.is_none() {
        ensure!(!deadline.has_passed(), "no BYE");
        client.succeed("GET_PARAMETER", &[])?;
    }
    ensure_bytes(&client.received, &bed.stored)?;
    let first = client.received.packets.first().context("no packet")?;
    ensure!((first.sequence, first.timestamp) == (sequence, timestamp), "RTP-Info announced another packet");
    ensure!(client.responses > 100, "only {} responses", client.responses);
    let after = bed.server.status()?;
    let more = |name| Ok::<_, anyhow::Error>(counted(&after, name)? - counted(&before, name)?);
    ensure!(
        more("trains_lent")? == more("trains")?,
        "{} of {} trains",
        more("trains_lent")?,
        more("trains")?
    );
    let image = &after["hot_memory"]["images"][0];
    ensure!(image["name"] == "clip.ts" && image["transport"] == "tcp", "{image}");
    Ok(())
}

/// Promise: ffmpeg plays a clip and a movie over TCP from hot memory.
fn ffmpeg_plays_over_tcp_from_hot_memory() -> Result<()> {
    require_ring()?;
    let bed = TestBed::hot_over_tcp("clip.ts", &clips::constant(6)?)?;
    let before = counted(&bed.server.status()?, "trains_lent")?;
    let home = process::open_folder()?;
    let output = home.path().join("out.ts");
    clients::ffmpeg_with(&["-rtsp_transport", "tcp"], &bed.server.rtsp_url("clip.ts"), &output, 25.0)?;
    let (came, stored) = (clips::pictures(&output)?.len(), clips::pictures(&clips::constant(6)?)?.len());
    // ffmpeg passes a picture on when the next begins, so the last one stays inside.
    ensure!(came <= stored && came + 1 >= stored, "{came} pictures of {stored} came");
    ensure!(counted(&bed.server.status()?, "trains_lent")? > before + 100);
    Ok(())
}

/// Promise: ffmpeg plays a clip and a movie over TCP from hot memory.
fn ffmpeg_plays_a_movie_over_tcp_from_hot_memory() -> Result<()> {
    require_ring()?;
    let film = clips::film(6, "libx264", "aac", "mp4")?;
    let bed = TestBed::hot_over_tcp("film.mp4", &film)?;
    let before = counted(&bed.server.status()?, "trains_lent")?;
    let came = frames::decode(&["-rtsp_transport", "tcp"], &bed.server.rtsp_url("film.mp4"), 40.0)?;
    let path = film.to_str().context("a clip's name")?;
    let stored = frames::decode(&["-ignore_editlist", "1"], path, 60.0)?;
    ensure!((came.len(), stored.len()) == (2, 2), "{} of {} tracks came", came.len(), stored.len());
    frames::ensure_all(&came[0], &stored[0], 1)?;
    ensure!(frames::ensure_from(&came[1], &stored[1], 1, 1)? == 1);
    ensure!(counted(&bed.server.status()?, "trains_lent")? > before + 100);
    Ok(())
}

fn an_image_that_does_not_fit_is_sent_from_its_file() -> Result<()> {
    require_ring()?;
    let bed = TestBed::new(&["--hot-memory", "1MiB"])?;
    ensure_bytes(&Playback::whole(bed.server.rtsp, "clip.ts", 15.0)?, &bed.stored)?;
    let status = bed.server.status()?;
    ensure!(status["hot_memory"]["used_bytes"] == 0, "{}", status["hot_memory"]);
    ensure!(status["counters"]["hot"]["copied"] == 0, "{}", status["counters"]["hot"]);
    Ok(())
}

/// Promise: Without io_uring or enough locked memory, the server logs this once and uses another path.
fn a_limit_of_locked_memory_costs_a_line_in_the_log() -> Result<()> {
    require_ring()?;
    // Enough for rings, not for an image.
    let mut limited = vec!["prlimit", "--memlock=1048576"];
    if process::is_root() {
        // Only with this right is the limit none for root.
        limited.extend(["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "--"]);
    }
    for tool in limited.iter().filter(|word| !word.contains('-')) {
        require!(process::find(tool).is_some(), "`{tool}` is not installed");
    }
    let bed = TestBed::under(&limited, &["--hot-memory", "64MiB"])?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(None)?;
    Deadline::seconds(10.0).wait_for("the line in the log", || {
        Ok(bed.server.process.log().contains("the limit of locked memory is too low").then_some(()))
    })?;
    ensure_bytes(&playback.receiver.to_the_end(Deadline::seconds(15.0))?, &bed.stored)?;
    let status = bed.server.status()?;
    let reason = status["hot_memory"]["given_up"].as_str().unwrap_or_default();
    ensure!(reason.contains("LimitMEMLOCK"), "{}", status["hot_memory"]);
    ensure!(counted(&status, "batches")? == 0, "something left by wire_uring");
    Ok(())
}

/// Promise: Beyond the limit of locked memory, sessions continue by another path, without a lost packet.
fn a_limit_of_locked_memory_ends_lending_of_mappings() -> Result<()> {
    require_ring()?;
    // Enough for a ring, and less than the pages of a full train.
    let mut limited = vec!["prlimit", "--memlock=65536"];
    if process::is_root() {
        // Only with this right is the limit none for root.
        limited.extend(["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "--"]);
    }
    for tool in limited.iter().filter(|word| !word.contains('-')) {
        require!(process::find(tool).is_some(), "`{tool}` is not installed");
    }
    let options = ["--path=wire_mapping", "--images=all", "--burst=500ms", "--threads=1"];
    let bed = TestBed::under(&limited, &options)?;
    // The image is complete after the first playback.
    ensure_bytes(&Playback::whole(bed.server.rtsp, "clip.ts", 15.0)?, &bed.stored)?;
    let mut playback = Playback::set_up(bed.server.rtsp, "clip.ts")?;
    playback.play(None)?;
    wait_for_path("wire_sendfile", || bed.server.status())?;
    ensure_bytes(&playback.receiver.to_the_end(Deadline::seconds(15.0))?, &bed.stored)?;
    let log = bed.server.process.log();
    require!(!log.contains("cannot open an io_uring"), "a ring takes more locked memory here");
    let exceptions = &bed.server.status()?["data_path"]["exceptions"];
    let reason = exceptions[0]["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("wire_mapping failed on a route"), "{exceptions}");
    Ok(())
}

fn hot_memory_for_another_path_is_not_used() -> Result<()> {
    let bed = TestBed::new(&["--hot-memory", "64MiB", "--path", "gso_writev"])?;
    // The log leaves on a thread of its own, and may come after the server is ready.
    Deadline::seconds(10.0).wait_for("line of the log", || {
        Ok(bed.server.process.log().contains("hot memory is not used").then_some(()))
    })?;
    ensure_bytes(&Playback::whole(bed.server.rtsp, "clip.ts", 15.0)?, &bed.stored)?;
    ensure!(bed.server.status()?["hot_memory"].is_null());
    Ok(())
}

fn wire_uring_without_memory_is_refused() -> Result<()> {
    let mut command = Command::new(server::binary()?);
    command.args(["serve", "--rtsp=127.0.0.1:0", "--http=127.0.0.1:0", "--path=wire_uring", "."]);
    let mut process = Process::start(&command, true)?;
    let status = process.wait(Deadline::seconds(10.0))?;
    ensure!(!status.success() && process.log().contains("--hot-memory SIZE"), "{}", process.log());
    Ok(())
}

fn without_hot_memory_nothing_is_said_of_it() -> Result<()> {
    let bed = TestBed::new(&["--hot-memory", "0"])?;
    let status = bed.server.status()?;
    ensure!(status["hot_memory"].is_null() && status["counters"]["hot"].is_null(), "{status}");
    ensure!(status["data_path"]["name"] != "wire_uring", "{}", status["data_path"]);
    Ok(())
}

/// A server of one clip.
struct TestBed {
    server: Server,
    stored: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl TestBed {
    fn new(arguments: &[&str]) -> Result<Self> {
        Self::under(&[], arguments)
    }

    /// A server started by the command `before`.
    fn under(before: &[&str], arguments: &[&str]) -> Result<Self> {
        let clip = clips::constant(6)?;
        let folder = clips::folder(&[("clip.ts", &clip)])?;
        let server = Server::of(folder.path()).with(arguments).under(before).start()?;
        Ok(Self { server, stored: std::fs::read(&clip)?, _folder: folder })
    }

    /// A server of a clip by this name, whose image is complete and held with framing.
    fn hot_over_tcp(name: &str, clip: &Path) -> Result<Self> {
        let folder = clips::folder(&[(name, clip)])?;
        let server = Server::of(folder.path()).with(["--hot-memory", "64MiB"]).packed().start()?;
        let bed = Self { server, stored: std::fs::read(clip)?, _folder: folder };
        bed.wait_until_hot_over_tcp(name)?;
        Ok(bed)
    }

    /// Has the image held with framing, by setting up a session over TCP until it is.
    fn wait_until_hot_over_tcp(&self, name: &str) -> Result<()> {
        let _session = Interleaved::set_up_in(self.server.rtsp, name, [0, 1])?;
        Deadline::seconds(10.0).wait_for("hot memory", || {
            let hot = self.server.status()?["hot_memory"]["images"].clone();
            Ok((hot[0]["transport"] == "tcp").then_some(()))
        })
    }

    /// Has the image held, by playing it until it is.
    fn wait_until_hot(&self) -> Result<()> {
        let mut playback = Playback::set_up(self.server.rtsp, "clip.ts")?;
        playback.play(None)?;
        wait_for_path("wire_uring", || self.server.status())?;
        playback.ask("TEARDOWN")?;
        Deadline::seconds(5.0)
            .wait_for("the end of the session", || Ok((self.server.sessions()? == 0).then_some(())))
    }
}
