//! Paths, archives and channels that a reload of the configuration adds, changes or removes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use wirepath_tests::interleaved::{Came, Interleaved};
use wirepath_tests::origin::{self, Origin};
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::rtp::Receiver;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, http, require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        an_archive_is_added_and_removed,
        an_archive_with_another_pattern_is_another_one,
        an_unchanged_archive_keeps_what_it_knows,
        a_channel_is_added,
        a_channel_is_removed,
        the_group_of_a_removed_channel_ends,
        a_channel_goes_on_with_another_list,
        a_channel_that_waits_for_its_first_asset_begins_anew,
        a_path_is_added,
        a_folder_that_was_replaced_is_opened_again,
        a_path_is_removed,
        a_second_path_moves_the_first,
        an_invalid_catalog_changes_nothing,
        what_is_added_waits_with_the_users_that_it_is_for,
        rules_wait_with_the_paths_that_they_are_about,
        options_that_wait_differ_from_those_in_force,
        a_path_is_never_served_without_its_rule,
        a_reload_repeats_checks_that_it_overtakes,
        a_session_without_a_user_goes_on_without_one,
        what_a_confined_server_cannot_open_is_refused,
        a_folder_out_of_reach_does_not_hold_up_a_reload,
    ]
}

/// Reloads that add a path, and as many that remove it.
const RELOADS: usize = 12;

/// Limit of everything that is waited for.
const LIMIT_S: f64 = 30.0;

const RECORDINGS: [&str; 3] = ["2026-11-23T10-00-00.ts", "2026-11-23T10-00-02.ts", "2026-11-23T10-00-05.ts"];

/// A server of folders beside its configuration file.
struct TestBed {
    server: Server,
    home: TempDir,
    clip: Vec<u8>,
}

impl TestBed {
    /// Folders `one`, `two` and `three` of a clip of four seconds, of which `one` has an archive `cam`; the
    /// playlists `news`, `music`, `long`, `both` and `late`; files of users and URL keys.
    fn new(configuration: &str) -> Result<TestBed> {
        let (clip, short, slow) = (clips::constant(4)?, clips::constant(2)?, clips::constant(12)?);
        let archive = RECORDINGS.map(|name| (format!("one/cam/{name}"), short.as_path()));
        let mut files: Vec<(&str, &Path)> =
            archive.iter().map(|(name, file)| (name.as_str(), *file)).collect();
        let clips = ["one/clip.ts", "two/clip.ts", "three/clip.ts", "list/clip.ts"]
            .map(|name| (name, clip.as_path()));
        files.extend(clips);
        files.extend([("list/short.ts", short.as_path()), ("list/slow.ts", slow.as_path())]);
        let home = clips::folder(&files)?;
        for name in RECORDINGS {
            set_old(&home.path().join("one/cam").join(name))?;
        }
        let lists = [("news", "short.ts\n"), ("music", "short.ts\n"), ("long", "clip.ts\n")];
        for (name, list) in lists.into_iter().chain([("both", "short.ts\nslow.ts\n")]) {
            fs::write(home.path().join(format!("list/{name}.m3u")), list)?;
        }
        let late = "assets = [{ path = \"short.ts\", at = 2099-01-01T00:00:00Z }]\n";
        fs::write(home.path().join("list/late.toml"), late)?;
        fs::write(home.path().join("users"), format!("bob:Wirepath:{}\n", "0".repeat(32)))?;
        fs::write(home.path().join("keys"), "")?;
        let file = home.path().join("wirepath.toml");
        fs::write(&file, configuration)?;
        let server = Server::configured(file.to_str().context("a file's name")?).start()?;
        Ok(TestBed { server, home, clip: fs::read(&clip)? })
    }

    /// Bytes of the archive.
    fn archive(&self) -> Result<Vec<u8>> {
        Ok(fs::read(self.home.path().join("list/short.ts"))?.repeat(RECORDINGS.len()))
    }

    /// Changes the file, sends SIGHUP and waits for a new line of the log that has these words. Returns the
    /// line.
    fn reload_until(&self, configuration: &str, words: &str) -> Result<String> {
        fs::write(self.home.path().join("wirepath.toml"), configuration)?;
        let count = || self.server.process.log().matches(words).count();
        let before = count();
        self.server.process.signal(Signal::HUP)?;
        Deadline::seconds(LIMIT_S).wait_for(words, || Ok((count() > before).then_some(())))?;
        let log = self.server.process.log();
        Ok(log.lines().rfind(|line| line.contains(words)).context("no line")?.to_owned())
    }

    fn reload(&self, configuration: &str) -> Result<()> {
        self.reload_until(configuration, "the configuration is read again").map(drop)
    }

    /// Status of DESCRIBE.
    fn describe(&self, path: &str) -> Result<u16> {
        let headers = [("Accept", "application/sdp")];
        let mut client = Client::connect(self.server.rtsp)?;
        Ok(client.request("DESCRIBE", &self.server.rtsp_url(path), &headers)?.status)
    }

    fn get(&self, path: &str) -> Result<http::Response> {
        http::request(self.server.http, "GET", path, &[("Accept", "application/json")])
    }

    /// Ensures that a file can be played and downloaded, or neither.
    fn ensure_served(&self, path: &str, is_served: bool) -> Result<()> {
        let expected = if is_served { 200 } else { 404 };
        let found = (self.describe(path)?, self.get(&format!("/{path}"))?.status);
        ensure!(found == (expected, expected), "{path}: {found:?}");
        Ok(())
    }

    /// Plays a path until its first packet, over the RTSP connection.
    fn play(&self, path: &str) -> Result<Interleaved> {
        let mut session = Interleaved::set_up(self.server.rtsp, path, None)?;
        session.play(None)?;
        while session.received.packets.is_empty() {
            ensure!(!matches!(session.read()?, Came::End), "the connection ended");
        }
        Ok(session)
    }

    /// Bytes of a channel of the playlist `both`, which loops.
    fn loops(&self) -> Result<Vec<u8>> {
        let asset = |name| fs::read(self.home.path().join("list").join(name));
        Ok([asset("short.ts")?, asset("slow.ts")?].concat().repeat(4))
    }

    /// Waits until the longer asset of the playlist `both` has just begun: sessions read nothing of the next
    /// one yet, and a reload takes less time than the rest of it.
    fn wait_for_long_asset(&self, channel: &str) -> Result<()> {
        for asset in ["short.ts", "slow.ts"] {
            let is_on = || Ok((self.channel(channel)?["asset"] == asset).then_some(()));
            Deadline::seconds(LIMIT_S).wait_for(asset, is_on)?;
        }
        Ok(())
    }

    fn channel(&self, name: &str) -> Result<Value> {
        let status = self.server.status()?;
        let channels = status["channels"].as_array().context("no channels")?;
        Ok(channels.iter().find(|channel| channel["name"] == name).context("no such channel")?.clone())
    }
}

/// Makes a file old: the newest recording of an archive is played once it has not changed for a while.
fn set_old(file: &Path) -> Result<()> {
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    Ok(fs::File::options().write(true).open(file)?.set_modified(hour_ago)?)
}

/// Ensures that a session ends, and has played bytes to their end.
fn ensure_ends(mut session: Interleaved, bytes: &[u8]) -> Result<()> {
    session.to_the_end(Deadline::seconds(LIMIT_S))?;
    ensure!(session.received.gaps().is_empty(), "{:?}", session.received.gaps());
    ensure_bytes(&session.received, bytes)
}

/// Promise: A reload adds an archive, or removes it: then requests get 404, and its sessions play all
/// recordings.
fn an_archive_is_added_and_removed() -> Result<()> {
    let without = "paths = [\"one\"]\n";
    let bed = TestBed::new(without)?;
    ensure!(bed.describe("cam")? == 404);
    bed.reload(&format!("{without}archive = [\"cam\"]\n"))?;
    let session = bed.play("cam")?;
    let listed = bed.get("/cam/?recordings")?;
    let listed: Value = serde_json::from_slice(&listed.body)?;
    ensure!(listed["total"] == RECORDINGS.len(), "{listed}");

    let line = bed.reload_until(without, "not served any more")?;
    ensure!(line.contains("archive cam"), "{line}");
    bed.reload(without)?;
    ensure!(bed.describe("cam")? == 404);
    let listed: Value = serde_json::from_slice(&bed.get("/cam/?recordings")?.body)?;
    ensure!(listed["total"].is_null(), "{listed}");
    ensure!(bed.server.status()?["archives"] == serde_json::json!([]));
    ensure_ends(session, &bed.archive()?)
}

/// Promise: A reload with another pattern of an archive makes it another archive; its sessions keep their
/// pattern.
fn an_archive_with_another_pattern_is_another_one() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\"]\narchive = [\"cam\"]\n")?;
    let session = bed.play("cam")?;
    let other = bed.home.path().join("one/cam/cam-20261124-100000.ts");
    fs::copy(bed.home.path().join("one/cam").join(RECORDINGS[0]), &other)?;
    set_old(&other)?;
    bed.reload("paths = [\"one\"]\narchive = [\"cam=cam-%Y%m%d-%H%M%S\"]\n")?;
    let listed: Value = serde_json::from_slice(&bed.get("/cam/?recordings")?.body)?;
    ensure!(listed["total"] == 1 && listed["recordings"][0]["name"] == "cam-20261124-100000.ts", "{listed}");
    ensure_ends(session, &bed.archive()?)
}

/// Promise: A reload leaves unchanged archives as they are: their recordings are not examined again.
fn an_unchanged_archive_keeps_what_it_knows() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\"]\narchive = [\"cam\"]\n")?;
    // A recording that is examined, and left out, when the archive is played.
    fs::write(bed.home.path().join("one/cam/2026-11-23T09-00-00.ts"), "junk")?;
    drop(bed.play("cam")?);
    let left_out = |status: Value| status["archives"][0]["left_out"].as_array().map_or(0, Vec::len);
    ensure!(left_out(bed.server.status()?) == 1, "{}", bed.server.status()?["archives"]);
    bed.reload("paths = [\"one\"]\narchive = [\"cam\", \"\"]\n")?;
    let status = bed.server.status()?;
    ensure!(status["archives"].as_array().map(Vec::len) == Some(2), "{}", status["archives"]);
    ensure!(left_out(status) == 1, "{}", bed.server.status()?["archives"]);
    bed.reload("paths = [\"one\"]\narchive = [\"cam=%Y-%m-%dT%H-%M-%S\", \"\"]\narchive-gaps = \"hold\"\n")?;
    ensure!(left_out(bed.server.status()?) == 1, "{}", bed.server.status()?["archives"]);
    Ok(())
}

/// Promise: A reload adds a channel; the timelines and sessions of other channels continue.
fn a_channel_is_added() -> Result<()> {
    let before = "paths = [\"one\"]\nchannel = [\"news=list/long.m3u\"]\n";
    let bed = TestBed::new(before)?;
    let mut viewer = Playback::set_up(bed.server.rtsp, "news")?;
    viewer.play(None)?;
    let came = viewer.receiver.wait_for("packets", Deadline::seconds(LIMIT_S), |received| {
        received.payload.len() > bed.clip.len() / 4
    })?;
    let position = bed.channel("news")?["position_s"].as_f64().context("a position")?;
    ensure!(bed.describe("music")? == 404);
    bed.reload("paths = [\"one\"]\nchannel = [\"music=list/music.m3u\", \"news=list/long.m3u\"]\n")?;
    drop(bed.play("music")?);
    ensure!(bed.channel("news")?["position_s"].as_f64().is_some_and(|now| now >= position));
    let enough = came.payload.len() + bed.clip.len();
    let received = viewer
        .receiver
        .wait_for("a loop", Deadline::seconds(LIMIT_S), |received| received.payload.len() > enough)?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    ensure!(bed.clip.repeat(4).windows(enough).any(|bytes| bytes == &received.payload[..enough]));
    Ok(())
}

/// Promise: Sessions of a channel that a reload removes end with the asset that is on; requests get 404, PLAY
/// 503.
fn a_channel_is_removed() -> Result<()> {
    let both = "paths = [\"one\"]\nchannel = [\"news=list/both.m3u\", \"music=list/music.m3u\"]\n";
    let bed = TestBed::new(both)?;
    let mut waits = Interleaved::set_up(bed.server.rtsp, "news", None)?;
    let udp = {
        let mut session = Playback::set_up(bed.server.rtsp, "news")?;
        session.play(None)?;
        session
    };
    let mut session = bed.play("news")?;
    let mut other = bed.play("music")?;
    bed.wait_for_long_asset("news")?;
    bed.reload("paths = [\"one\"]\nchannel = [\"music=list/music.m3u\"]\n")?;
    ensure!(bed.describe("news")? == 404);

    session.to_the_end(Deadline::seconds(LIMIT_S))?;
    let received = udp.receiver.to_the_end(Deadline::seconds(LIMIT_S))?;
    let loops = bed.loops()?;
    for received in [&session.received, &received] {
        ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
        let has_played = !received.payload.is_empty() && loops.ends_with(&received.payload);
        ensure!(has_played, "it did not end with the asset");
    }
    let url = bed.server.rtsp_url("news");
    waits.send("PLAY", &[])?;
    let answer = loop {
        if let Came::Response(answer) = waits.read()? {
            break answer;
        }
    };
    ensure!(answer.status == 503, "{url}: {answer:?}");
    other.succeed("PAUSE", &[])?;
    ensure!(bed.channel("music")?["position_s"].is_number());
    Ok(())
}

/// Promise: The multicast group of a channel that a reload removes ends with the asset that is on.
fn the_group_of_a_removed_channel_ends() -> Result<()> {
    let common = "paths = [\"one\"]\nmulticast = \"239.255.77.91-239.255.77.91:5004?interface=127.0.0.1\"\n";
    let bed = TestBed::new(&format!("{common}channel = [\"news=list/both.m3u\"]\n"))?;
    let receiver = Receiver::join(Ipv4Addr::new(239, 255, 77, 91), 5004)?;
    let (mut client, url) = (Client::connect(bed.server.rtsp)?, bed.server.rtsp_url("news"));
    let answer = client.succeed("SETUP", &url, &[("Transport", "RTP/AVP;multicast")])?;
    let session = answer.header("session").context("no session")?;
    let session = session.split(';').next().unwrap_or_default().to_owned();
    client.succeed("PLAY", &url, &[("Session", &session)])?;
    bed.wait_for_long_asset("news")?;
    bed.reload(common)?;
    let received = receiver.to_the_end(Deadline::seconds(LIMIT_S))?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    let has_played = !received.payload.is_empty() && bed.loops()?.ends_with(&received.payload);
    ensure!(has_played, "it did not end with the asset");
    let answer = client.request("PLAY", &url, &[("Session", &session)])?;
    ensure!(answer.status == 503, "{answer:?}");
    Ok(())
}

/// Promise: After a reload a channel continues with another playlist, in the same sessions.
fn a_channel_goes_on_with_another_list() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\"]\nchannel = [\"news=list/news.m3u\"]\n")?;
    let mut viewer = Playback::set_up(bed.server.rtsp, "news")?;
    viewer.play(None)?;
    let changed = "paths = [\"one\"]\nchannel = [\"news=list/long.m3u\"]\n";
    bed.reload_until(changed, "playlist read again")?;
    let before = viewer.receiver.received().payload.len();
    let short = bed.archive()?.len() / RECORDINGS.len();
    let received = viewer.receiver.wait_for("the other asset", Deadline::seconds(60.0), |received| {
        received.payload.len() > before + 2 * short + 3 * bed.clip.len()
    })?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    ensure!(
        received.payload.windows(bed.clip.len()).any(|bytes| bytes == bed.clip),
        "the list is the old one"
    );
    ensure!(bed.channel("news")?["asset"] == "clip.ts", "{}", bed.channel("news")?);
    Ok(())
}

/// Promise: A channel whose playlist changes while it waits for its first asset begins anew, with the new
/// list.
fn a_channel_that_waits_for_its_first_asset_begins_anew() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\"]\nchannel = [\"news=list/late.toml\"]\n")?;
    ensure!(bed.describe("news")? == 200 && bed.channel("news")?["asset"].is_null());
    bed.reload("paths = [\"one\"]\nchannel = [\"news=list/long.m3u\"]\n")?;
    drop(bed.play("news")?);
    ensure!(bed.channel("news")?["asset"] == "clip.ts", "{}", bed.channel("news")?);
    Ok(())
}

/// Promise: A reload adds a folder or file, which can be played and downloaded at once, as in the listing.
fn a_path_is_added() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\", \"two\"]\n")?;
    bed.ensure_served("three/clip.ts", false)?;
    let session = bed.play("one/clip.ts")?;
    let line =
        bed.reload_until("paths = [\"one\", \"two\", \"three\", \"list/short.ts\"]\n", "served from now on")?;
    ensure!(line.contains("three") && line.contains("short.ts") && !line.contains("two"), "{line}");
    bed.reload("paths = [\"one\", \"two\", \"three\", \"list/short.ts\"]\n")?;
    for path in ["one/clip.ts", "three/clip.ts", "short.ts"] {
        bed.ensure_served(path, true)?;
    }
    let listing: Value = serde_json::from_slice(&bed.get("/")?.body)?;
    ensure!(listing.to_string().contains("three") && listing.to_string().contains("short.ts"), "{listing}");
    ensure_ends(session, &bed.clip)
}

/// Promise: A reload opens a served folder again if another one has its path, and names a path that is missing.
fn a_folder_that_was_replaced_is_opened_again() -> Result<()> {
    const CONFIGURATION: &str = "paths = [\"one\", \"two\"]\n";
    let bed = TestBed::new(CONFIGURATION)?;
    let two = bed.home.path().join("two");
    fs::remove_dir_all(&two)?;
    ensure!(bed.get("/two/")?.status == 404, "a deleted folder has no listing");
    let line = bed.reload_until(CONFIGURATION, "the configuration is unchanged")?;
    ensure!(line.contains("paths: cannot find") && line.contains("two"), "{line}");
    fs::create_dir(&two)?;
    fs::copy(clips::constant(2)?, two.join("new.ts"))?;
    bed.ensure_served("two/new.ts", false)?;
    bed.reload(CONFIGURATION)?;
    bed.ensure_served("two/new.ts", true)?;
    bed.ensure_served("one/clip.ts", true)
}

/// Promise: A path that a reload removes gets 404; its sessions and downloads continue to their ends.
fn a_path_is_removed() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\", \"two\", \"three\"]\n")?;
    let small = bed.home.path().join("two/small.txt");
    fs::write(&small, "small")?;
    set_old(&small)?;
    // Files that were requested before are kept open.
    for _ in 0..3 {
        ensure!(bed.get("/two/small.txt")?.status == 200);
    }
    let session = bed.play("two/clip.ts")?;
    // Larger than the buffers of both sockets.
    let large = vec![7; 64 << 20];
    fs::write(bed.home.path().join("two/large.bin"), &large)?;
    let mut download = http::connect(bed.server.http)?;
    download.write_all(b"GET /two/large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut came = vec![0; 4096];
    download.read_exact(&mut came)?;
    bed.reload("paths = [\"one\", \"three\"]\n")?;

    bed.ensure_served("two/clip.ts", false)?;
    for path in ["/two/", "/two/small.txt"] {
        ensure!(bed.get(path)?.status == 404, "{path}");
    }
    bed.ensure_served("three/clip.ts", true)?;
    let listing: Value = serde_json::from_slice(&bed.get("/")?.body)?;
    ensure!(!listing.to_string().contains("two"), "{listing}");
    download.read_to_end(&mut came)?;
    ensure!(came.ends_with(&large), "{} bytes came", came.len());
    ensure_ends(session, &bed.clip)
}

/// Promise: When a second path is added, the first one is served under its name; the log says so.
fn a_second_path_moves_the_first() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\"]\narchive = [\"cam\"]\n")?;
    let session = bed.play("cam")?;
    let both = "paths = [\"one\", \"two\"]\narchive = [\"one/cam\"]\n";
    let line = bed.reload_until(both, "URLs of a served path change")?;
    ensure!(line.contains("to=\"/one/\""), "{line}");
    bed.reload(both)?;
    for (path, is_served) in [("clip.ts", false), ("one/clip.ts", true), ("two/clip.ts", true)] {
        bed.ensure_served(path, is_served)?;
    }
    ensure!((bed.describe("cam")?, bed.describe("one/cam")?) == (404, 200));
    ensure_ends(session, &bed.archive()?)
}

/// Promise: A reload whose paths, archives or channels are invalid changes nothing, and the log says why.
fn an_invalid_catalog_changes_nothing() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\", \"two\"]\nchannel = [\"news=list/news.m3u\"]\n")?;
    fs::create_dir_all(bed.home.path().join("other/two"))?;
    fs::write(bed.home.path().join("list/bad.toml"), "assets = 3\n")?;
    for (broken, words) in [
        ("paths = [\"one\", \"three\", \"missing\"]\n", "cannot find"),
        ("paths = [\"three\", \"two\", \"other/two\"]\n", "would both appear as /two"),
        ("paths = [\"one\", \"three\"]\narchive = [\"one/cam=%Q\"]\n", "unknown conversion"),
        ("paths = [\"one\", \"three\"]\narchive = [\"one/cam\", \"one/cam=%s\"]\n", "two patterns"),
        ("paths = [\"one\", \"three\"]\nchannel = [\"three=list/news.m3u\"]\n", "served already"),
        ("paths = [\"one\", \"three\"]\nchannel = [\"a=list/missing.m3u\"]\n", "cannot find"),
        ("paths = [\"one\", \"three\"]\nchannel = [\"news=list/bad.toml\"]\n", "bad.toml:1"),
        ("paths = []\n", "nothing to serve"),
    ] {
        let line = bed.reload_until(broken, "the configuration is unchanged")?;
        ensure!(line.contains(words) && line.contains("mend it and send SIGHUP"), "{words}: {line}");
        bed.ensure_served("three/clip.ts", false)?;
        bed.ensure_served("two/clip.ts", true)?;
        ensure!(bed.channel("news")?["entries"] == 1);
    }
    Ok(())
}

/// Promise: Paths, archives and channels that a reload adds wait for the next start if users do.
fn what_is_added_waits_with_the_users_that_it_is_for() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\", \"two\"]\n")?;
    let words = "these changed options take effect at the next start: users, channel, paths";
    let channel = "channel = [\"news=list/news.m3u\"]\n";
    bed.reload_until(&format!("users = \"users\"\npaths = [\"one\", \"three\"]\n{channel}"), words)?;
    bed.ensure_served("three/clip.ts", false)?;
    bed.ensure_served("two/clip.ts", true)?;
    ensure!(bed.describe("news")? == 404);
    Ok(())
}

/// Promise: Rules wait for the next start if paths do: a path that the file removes with its rule stays
/// protected.
fn rules_wait_with_the_paths_that_they_are_about() -> Result<()> {
    let access = "users = \"users\"\n";
    let protected = format!("{access}paths = [\"one\", \"two\"]\nfolder-users = [\"/=-\", \"two=bob\"]\n");
    let bed = TestBed::new(&protected)?;
    let two = || Ok::<_, anyhow::Error>((bed.describe("two/clip.ts")?, bed.get("/two/clip.ts")?.status));
    ensure!(two()? == (401, 401));
    let words = "these changed options take effect at the next start: url-key, folder-users, paths";
    bed.reload_until(
        &format!("{access}paths = [\"one\"]\nfolder-users = [\"/=-\"]\nurl-key = \"keys\"\n"),
        words,
    )?;
    ensure!(two()? == (401, 401), "{:?}", two()?);
    bed.ensure_served("one/clip.ts", true)?;
    // Without a change of the keys, both go.
    bed.reload(&format!("{access}paths = [\"one\"]\nfolder-users = [\"/=-\"]\n"))?;
    ensure!(two()? == (404, 404), "{:?}", two()?);
    bed.ensure_served("clip.ts", true)
}

/// Promise: After several reloads the log names the options that differ from those in force.
fn options_that_wait_differ_from_those_in_force() -> Result<()> {
    let before = "paths = [\"one\", \"two\"]\n";
    let bed = TestBed::new(before)?;
    bed.reload("paths = [\"one\", \"two\", \"three\"]\n")?;
    let words = "these changed options take effect at the next start: ";
    let line = bed.reload_until(&format!("{before}auth-url = \"http://127.0.0.1:9/\"\n"), words)?;
    ensure!(line.ends_with(": auth-url, paths"), "{line}");
    bed.ensure_served("three/clip.ts", true)?;
    let line = bed
        .reload_until("paths = [\"one\", \"two\", \"three\"]\nauth-url = \"http://127.0.0.1:9/\"\n", words)?;
    ensure!(line.ends_with(": auth-url"), "{line}");
    bed.reload(before)?;
    bed.ensure_served("three/clip.ts", false)
}

/// Promise: A path that a reload adds or removes together with its rule is never served without the rule.
fn a_path_is_never_served_without_its_rule() -> Result<()> {
    let users = "users = \"users\"\n";
    let without = format!("{users}paths = [\"one\", \"two\"]\nfolder-users = [\"/=-\"]\n");
    let with =
        format!("{users}paths = [\"one\", \"two\", \"three\"]\nfolder-users = [\"/=-\", \"three=bob\"]\n");
    let bed = TestBed::new(&without)?;
    let small = bed.home.path().join("three/small.txt");
    fs::write(&small, "small")?;
    set_old(&small)?;
    let is_over = AtomicBool::new(false);
    let ask = |request: &dyn Fn() -> Result<u16>| {
        let mut seen = BTreeSet::new();
        while !is_over.load(Relaxed) {
            seen.insert(request()?);
        }
        Ok::<_, anyhow::Error>(seen)
    };
    std::thread::scope(|scope| {
        let asking = [
            scope.spawn(|| ask(&|| Ok(bed.get("/three/small.txt")?.status))),
            scope.spawn(|| ask(&|| bed.describe("three/clip.ts"))),
        ];
        let reloaded = (0..RELOADS).try_for_each(|_| {
            bed.reload(&with)?;
            bed.reload(&without)
        });
        is_over.store(true, Relaxed);
        for asking in asking {
            let seen = asking.join().map_err(|_| anyhow!("a client panicked"))??;
            ensure!(seen == BTreeSet::from([401, 404]), "{seen:?}");
        }
        reloaded
    })
}

/// Promise: A request is admitted again if a reload replaces what is served while the callback is asked.
fn a_reload_repeats_checks_that_it_overtakes() -> Result<()> {
    let (release, released) = mpsc::channel::<()>();
    let (released, questions) = (Mutex::new(released), AtomicUsize::new(0));
    let service = Origin::start(move |_, connection| {
        if questions.fetch_add(1, Relaxed) >= 2 {
            return origin::answer(connection, "403 Forbidden", "", b"");
        }
        _ = released.lock().unwrap_or_else(PoisonError::into_inner).recv();
        origin::answer(connection, "200 OK", "", b"")
    })?;
    let access = format!("auth-url = \"http://{}/\"\nauth-keep = \"0s\"\n", service.address);
    let bed = TestBed::new(&format!("{access}paths = [\"one\", \"two\"]\n"))?;
    std::thread::scope(|scope| {
        let asking = [
            scope.spawn(|| Ok(bed.get("/three/clip.ts")?.status)),
            scope.spawn(|| bed.describe("three/clip.ts")),
        ];
        let both = || Ok((service.asked().len() == 2).then_some(()));
        let reloaded = Deadline::seconds(5.0)
            .wait_for("both questions", both)
            .and_then(|()| bed.reload(&format!("{access}paths = [\"one\", \"two\", \"three\"]\n")));
        // Both questions are answered.
        drop(release);
        for asking in asking {
            let status = asking.join().map_err(|_| anyhow!("a client panicked"))??;
            ensure!(status == 403, "{status}");
        }
        reloaded
    })
}

/// Promise: A session of a folder for everyone continues without a user after a reload that removes the
/// folder and its rule.
fn a_session_without_a_user_goes_on_without_one() -> Result<()> {
    let users = "users = \"users\"\n";
    let bed =
        TestBed::new(&format!("{users}paths = [\"one\", \"two\", \"three\"]\nfolder-users = [\"two=-\"]\n"))?;
    let mut session = bed.play("two/clip.ts")?;
    bed.reload(&format!("{users}paths = [\"one\", \"three\"]\n"))?;
    ensure!(bed.describe("two/clip.ts")? == 401);
    session.succeed("PAUSE", &[])?;
    session.succeed("GET_PARAMETER", &[])?;
    session.succeed("PLAY", &[])?;
    session.to_the_end(Deadline::seconds(LIMIT_S))
}

/// Promise: A reload refuses paths, playlists and assets that a confined server cannot open: they need a
/// restart.
fn what_a_confined_server_cannot_open_is_refused() -> Result<()> {
    let bed = TestBed::new("paths = [\"one\", \"two\"]\n")?;
    let is_confined = bed.server.process.log().contains("to its folders by Landlock");
    require!(is_confined, "this kernel has no Landlock");
    let elsewhere = clips::folder(&[("four/clip.ts", &clips::constant(2)?)])?;
    let there = elsewhere.path().display();
    fs::write(elsewhere.path().join("four/list.m3u"), "clip.ts\n")?;
    fs::write(bed.home.path().join("list/four.m3u"), format!("short.ts\n{there}/four/clip.ts\n"))?;
    let kept = "paths = [\"one\", \"three\"]\n";
    for (refused, words) in [
        (format!("paths = [\"one\", \"three\", \"{there}/four\"]\n"), "cannot serve"),
        (format!("paths = [\"one\", \"three\", \"{there}/four/clip.ts\"]\n"), "cannot serve"),
        (format!("{kept}channel = [\"news={there}/four/list.m3u\"]\n"), "--channel news: cannot open"),
        (format!("{kept}channel = [\"news=list/four.m3u\"]\n"), "four/clip.ts"),
    ] {
        let line = bed.reload_until(&refused, "the configuration is unchanged")?;
        let says_why = line.contains(words) && line.contains("Permission denied");
        ensure!(says_why && line.contains("restart it"), "{words}: {line}");
        bed.ensure_served("three/clip.ts", false)?;
        bed.ensure_served("two/clip.ts", true)?;
    }
    // The server can read files of time zones only if an archive had local times at the start.
    if Path::new("/usr/share/zoneinfo").exists() || Path::new("/etc/localtime").exists() {
        let local = format!("{kept}archive = [\"one/cam\"]\narchive-zone = \"local\"\n");
        let line = bed.reload_until(&local, "the configuration is unchanged")?;
        ensure!(line.contains("--archive-zone local") && line.contains("restart it"), "{line}");
    }
    // Folders within reach need no restart.
    bed.reload(kept)?;
    bed.ensure_served("three/clip.ts", true)
}

/// Promise: A reload keeps a folder if a confined server cannot open the one that has its path now, and says so.
fn a_folder_out_of_reach_does_not_hold_up_a_reload() -> Result<()> {
    const CONFIGURATION: &str = "users = \"users\"\npaths = [\"one\", \"two\"]\n";
    let everybody = format!("{CONFIGURATION}folder-users = [\"/=-\"]\n");
    let bed = TestBed::new(&everybody)?;
    let is_confined = bed.server.process.log().contains("to its folders by Landlock");
    require!(is_confined, "this kernel has no Landlock");
    bed.ensure_served("two/clip.ts", true)?;
    let elsewhere = clips::folder(&[("four/clip.ts", &clips::constant(2)?)])?;
    let two = bed.home.path().join("two");
    fs::rename(&two, bed.home.path().join("before"))?;
    std::os::unix::fs::symlink(elsewhere.path().join("four"), &two)?;
    let line = bed.reload_until(&format!("{everybody}cors = [\"*\"]\n"), "another folder has this path")?;
    ensure!(line.contains("WARN") && line.contains("two"), "{line}");
    bed.ensure_served("two/clip.ts", true)?;
    ensure!(bed.get("/two/clip.ts")?.body == bed.clip, "another file");
    // Rules take effect.
    bed.reload(CONFIGURATION)?;
    ensure!(bed.describe("two/clip.ts")? == 401);
    Ok(())
}
