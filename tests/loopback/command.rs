//! The command itself: what it prints, how it ends, what it refuses.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::process::Process;
use wirepath_tests::server::{self, Server};
use wirepath_tests::{Deadline, clips, process, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        one_line_says_that_both_listeners_are_ready,
        systemd_is_told,
        an_unknown_configuration_key_is_named_with_its_place,
        a_key_is_refused_in_the_words_in_which_its_flag_is,
        flags_win_over_the_configuration,
        a_clash_of_names_is_an_error_at_start,
        several_folders_appear_under_their_names,
        what_cannot_be_served_is_an_error,
        all_threads_keep_to_the_named_processors,
        limits_that_contradict_each_other_are_refused_at_start,
        an_address_that_is_none_and_one_that_is_taken_are_said_with_what_to_do,
        packing_ahead_makes_an_image,
        the_server_plays_what_was_packed_ahead,
        an_index_is_made_ahead,
        packing_goes_on_past_what_cannot_be_packed,
        packing_that_is_interrupted_leaves_nothing,
        inspect_answers_json,
        inspect_reads_images_and_finds_their_damage,
        inspect_shows_the_tracks_of_a_movie,
        inspect_shows_the_tracks_of_a_matroska_file,
    ]
}

/// Promise: `wirepath serve` prints one line, `ready rtsp=… http=…`, once both listeners are open.
fn one_line_says_that_both_listeners_are_ready() -> Result<()> {
    let folder = process::open_folder()?;
    let mut server = Server::of(folder.path()).start()?;
    server.process.signal(Signal::TERM)?;
    ensure!(server.process.wait(Deadline::seconds(10.0))?.success(), "{}", server.process.log());
    ensure!(server.further_lines().is_empty(), "more than one line on standard output");
    Ok(())
}

/// Promise: `--cpus` restricts all threads to the given processors; a processor that may not be used is an
/// error.
fn all_threads_keep_to_the_named_processors() -> Result<()> {
    let folder = process::open_folder()?;
    let own = std::fs::read_to_string("/proc/self/status")?;
    let own =
        own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).context("no processors")?;
    let first = own.split([',', '-']).next().context("no processor")?;
    let server = Server::of(folder.path()).with(["--cpus", first]).start()?;
    for status in process::of_threads(server.process.pid(), "status")? {
        ensure!(status.contains(&format!("Cpus_allowed_list:\t{first}\n")), "{status}");
    }
    let threads = &server.status()?["engine"]["threads"];
    ensure!(threads == 1, "{threads} engine threads on one processor");

    let cpus = format!("--cpus={first},1023");
    let output = Command::new(server::binary()?).args(["serve", &cpus]).arg(folder.path()).output()?;
    let error = String::from_utf8(output.stderr)?;
    let expected = "--cpus: processor 1023 is not in the affinity mask of this process, which has ";
    ensure!(!output.status.success() && error.contains(expected), "{error}");
    Ok(())
}

/// Promise: systemd is notified when the server is ready and when it stops.
///
/// As systemd does with `Type=notify`: a datagram socket, named in the environment.
fn systemd_is_told() -> Result<()> {
    let folder = process::open_folder()?;
    let name = folder.path().join("notify");
    let socket = UnixDatagram::bind(&name)?;
    socket.set_read_timeout(Some(Deadline::seconds(10.0).left()))?;
    let told = || -> Result<String> {
        let mut buffer = [0; 1000];
        let length = socket.recv(&mut buffer).context("nothing was said")?;
        Ok(String::from_utf8(buffer[..length].to_vec())?)
    };
    let mut command = Command::new(server::binary()?);
    command.args(["serve", "--rtsp=127.0.0.1:0", "--http=127.0.0.1:0", "--cache"]);
    command.arg(folder.path().join("cache")).arg(folder.path()).env("NOTIFY_SOCKET", &name);
    let mut process = Process::start(&command, true)?;
    let ready = told()?;
    ensure!(ready.lines().any(|line| line == "READY=1"), "{ready}");
    process.signal(Signal::TERM)?;
    let stopping = told()?;
    ensure!(stopping.lines().any(|line| line == "STOPPING=1"), "{stopping}");
    ensure!(process.wait(Deadline::seconds(10.0))?.success(), "{}", process.log());
    Ok(())
}

/// Promise: Flags override the configuration file; an unknown key is an error with its line and a similar key.
fn an_unknown_configuration_key_is_named_with_its_place() -> Result<()> {
    let folder = process::open_folder()?;
    let file = folder.path().join("wirepath.toml");
    std::fs::write(&file, "rtsp = \"127.0.0.1:0\"\nhtpp = \"127.0.0.1:0\"\n")?;
    let log = refused([folder.path(), Path::new("--config"), &file])?;
    let error = "wirepath.toml: line 2: unknown key `htpp`: did you mean `http`?";
    ensure!(log.contains(error), "{log}");
    let list = folder.path().join("news.toml");
    std::fs::write(&list, "loop = true\nasset = [\"a.ts\"]\n")?;
    let channel = format!("news={}", list.display());
    let log = refused([folder.path(), Path::new("--channel"), Path::new(&channel)])?;
    ensure!(log.contains("news.toml:2: unknown key `asset`: did you mean `assets`?"), "{log}");
    Ok(())
}

/// Promise: A key of the configuration file is refused with the same words as its flag.
fn a_key_is_refused_in_the_words_in_which_its_flag_is() -> Result<()> {
    let folder = process::open_folder()?;
    let file = folder.path().join("wirepath.toml");
    for (flag, value, written, words) in [
        ("cache-size", "63KiB", "\"63KiB\"", "63.0 KiB is too small: expected at least 64.0 KiB"),
        ("threads", "1025", "1025", "expected a whole number from 1 to 1024"),
    ] {
        std::fs::write(&file, format!("{flag} = {written}\n"))?;
        let of_key = refused([folder.path(), Path::new("--config"), &file])?;
        ensure!(of_key.contains(words) && of_key.contains("line 1"), "{of_key}");
        let of_flag = refused([folder.path(), Path::new(&format!("--{flag}")), Path::new(value)])?;
        ensure!(of_flag.contains(words), "{of_flag}");
    }
    Ok(())
}

/// Promise: Flags override the configuration file; an unknown key is an error with its line and a similar key.
fn flags_win_over_the_configuration() -> Result<()> {
    let folder = process::open_folder()?;
    let file = folder.path().join("wirepath.toml");
    std::fs::write(&file, "rtsp = \"192.0.2.1:8554\"\nhttp = \"192.0.2.1:8080\"\n")?;
    let file = file.to_str().expect("temporary names are UTF-8");
    let server = Server::of(folder.path()).with(["--config", file]).start()?;
    ensure!(server.rtsp.ip().is_loopback() && server.http.ip().is_loopback());
    Ok(())
}

/// Promise: Several folders and files are served under their own names; a name conflict is an error at the
/// start.
fn a_clash_of_names_is_an_error_at_start() -> Result<()> {
    let (one, other) = (process::open_folder()?, process::open_folder()?);
    let paths = [one.path().join("media"), other.path().join("media")];
    for path in &paths {
        std::fs::create_dir(path)?;
    }
    let log = refused(paths.each_ref().map(std::path::PathBuf::as_path))?;
    ensure!(log.contains("media"), "{log}");
    Ok(())
}

/// Promise: Several folders and files are served under their own names; a name conflict is an error at the
/// start.
fn several_folders_appear_under_their_names() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("one/clip.ts", &clip), ("two/clip.ts", &clip), ("three.ts", &clip)])?;
    let path = |name: &str| folder.path().join(name);
    let server = Server::of(path("one")).and(path("two")).and(path("three.ts")).start()?;
    for name in ["one/clip.ts", "two/clip.ts", "three.ts"] {
        let mut client = wirepath_tests::rtsp::Client::connect(server.rtsp)?;
        client.succeed("DESCRIBE", &server.rtsp_url(name), &[])?;
        let answer = wirepath_tests::http::get(server.http, &format!("/{name}"))?;
        ensure!(answer.status == 200, "{name}: {}", answer.status);
    }
    Ok(())
}

fn what_cannot_be_served_is_an_error() -> Result<()> {
    let folder = process::open_folder()?;
    let log = refused([folder.path().join("gone").as_path()])?;
    ensure!(log.contains("gone"), "{log}");
    let log = refused([folder.path(), Path::new("--rtsp"), Path::new("192.0.2.1:8554")])?;
    ensure!(log.contains("192.0.2.1:8554"), "{log}");
    Ok(())
}

/// Promise: Hot memory larger than the machine's, RTP ports without a pair, and a missing interface end the start.
fn limits_that_contradict_each_other_are_refused_at_start() -> Result<()> {
    let folder = process::open_folder()?;
    for (arguments, said) in [
        (&["--hot-memory", "1PiB"][..], "this machine has"),
        (&["--rtp-ports", "20001-20002"], "no even port before an odd one"),
        (
            &["--multicast", "239.255.42.1:5004?interface=none0"],
            "cannot send to the groups of --multicast: interface none0: No such device",
        ),
    ] {
        let arguments = arguments.iter().map(Path::new);
        let log = refused([folder.path()].into_iter().chain(arguments))?;
        ensure!(log.contains(said), "{log}");
    }
    Ok(())
}

fn an_address_that_is_none_and_one_that_is_taken_are_said_with_what_to_do() -> Result<()> {
    for (arguments, example) in [
        (&["serve", "--rtsp", "nowhere"][..], "127.0.0.1:8554"),
        (&["assess", "sink", "--listen", "nowhere"], "127.0.0.1:8554"),
        (&["relay", "--in", "-", "--out", "-", "--metrics", "nowhere"], "127.0.0.1:8554"),
    ] {
        let output = Command::new(server::binary()?).args(arguments).output()?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(2) && said.contains(&format!("such as {example}")), "{said}");
    }
    let folder = process::open_folder()?;
    let holder = TcpListener::bind("127.0.0.1:0")?;
    let taken = holder.local_addr()?.to_string();
    let log = refused([folder.path(), Path::new("--rtsp"), Path::new(&taken)])?;
    ensure!(log.contains("in use") && log.contains("choose another with --rtsp ADDRESS:PORT"), "{log}");
    drop(holder);
    Ok(())
}

/// Promise: `wirepath pack` packs ahead of time, and the server plays its images.
fn packing_ahead_makes_an_image() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let cache = tempfile::tempdir()?;
    let log = pack(cache.path(), [folder.path().join("clip.ts").as_path()])?;
    ensure!(log.contains("clip.ts: 0:02.") && log.contains("trains") && log.contains("packed in"), "{log}");
    let images = files(cache.path())?;
    ensure!(images.len() == 1 && images[0].extension().is_some_and(|ending| ending == "wpi"), "{images:?}");
    let log = pack(cache.path(), [folder.path()])?;
    ensure!(log.contains("already packed") && files(cache.path())? == images, "{log}");
    Ok(())
}

/// Promise: `wirepath pack` packs ahead of time, and the server plays its images.
///
/// The server uses what was packed ahead: the same file, untouched but for the time of its last use, is all
/// there is.
fn the_server_plays_what_was_packed_ahead() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let server = Server::of(folder.path()).start()?;
    pack(&server.cache, [folder.path()])?;
    let images = files(&server.cache)?;
    let inode = std::fs::metadata(&images[0])?.ino();
    let received = Playback::whole(server.rtsp, "clip.ts", 15.0)?;
    ensure_bytes(&received, &std::fs::read(&clip)?)?;
    ensure!(files(&server.cache)? == images && std::fs::metadata(&images[0])?.ino() == inode);
    let metrics = wirepath_tests::http::get(server.http, "/metrics")?;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let has = |line| metrics.lines().any(|found| found == line);
    ensure!(has("wirepath_images_packed_total 0") && has("wirepath_images_found_total 1"), "{metrics}");
    Ok(())
}

/// Promise: `wirepath pack --index` makes only indexes, and the server plays with them.
fn an_index_is_made_ahead() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("clip.ts", &clip)])?;
    let server = Server::of(folder.path()).start()?;
    let log = pack(&server.cache, [Path::new("--index"), folder.path()])?;
    ensure!(log.contains("index of") && log.contains("packed in"), "{log}");
    let indexes = files(&server.cache)?;
    let is_index = |path: &Path| path.to_string_lossy().ends_with(".index.wpi");
    ensure!(indexes.len() == 1 && is_index(&indexes[0]), "{indexes:?}");
    let length = std::fs::metadata(&indexes[0])?.len();
    ensure!(length < std::fs::metadata(&clip)?.len() / 20, "{length} bytes");
    ensure!(pack(&server.cache, [Path::new("--index"), folder.path()])?.contains("already packed"));
    ensure_bytes(&Playback::whole(server.rtsp, "clip.ts", 15.0)?, &std::fs::read(&clip)?)?;
    let counted = &server.status()?["counters"]["images"];
    ensure!(counted["indexes_found"] == 1 && counted["indexed"] == 0, "{counted}");
    Ok(())
}

/// Promise: `wirepath pack` names files that it cannot pack, with the reason, and packs the rest.
fn packing_goes_on_past_what_cannot_be_packed() -> Result<()> {
    let folder = clips::folder(&[("a/clip.ts", &clips::constant(2)?)])?;
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a/notes.txt"), "no transport stream\n".repeat(1000))?;
    std::fs::write(path("text.ts"), "no transport stream\n".repeat(1000))?;
    let cache = tempfile::tempdir()?;
    let mut command = Command::new(server::binary()?);
    command.args(["pack", "--json", "--cache"]).arg(cache.path());
    command.args([path("text.ts"), path("gone.ts"), path("a")]);
    let output = command.output()?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    let lines = String::from_utf8(output.stdout)?;
    let objects = lines.lines().map(serde_json::from_str).collect::<Result<Vec<serde_json::Value>, _>>()?;
    let statuses: Vec<_> =
        objects.iter().map(|object| object["status"].as_str().unwrap_or_default()).collect();
    ensure!(statuses == ["failed", "failed", "packed", "skipped"], "{lines}");
    let errors = String::from_utf8(output.stderr)?;
    ensure!(errors.contains("text.ts: error: not an MPEG transport stream"), "{errors}");
    ensure!(errors.contains("gone.ts: error: ") && errors.contains("notes.txt: skipped: "), "{errors}");
    ensure!(files(cache.path())?.len() == 1);
    Ok(())
}

/// Promise: A signal during packing leaves no incomplete file.
///
/// A signal in the middle of packing leaves neither an image nor a part of one.
fn packing_that_is_interrupted_leaves_nothing() -> Result<()> {
    let folder = process::open_folder()?;
    let clip = std::fs::read(clips::constant(60)?)?;
    let mut big = std::fs::File::create(folder.path().join("big.ts"))?;
    for _ in 0..12 {
        std::io::Write::write_all(&mut big, &clip)?;
    }
    let cache = tempfile::tempdir()?;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = Command::new(server::binary()?);
        command.arg("pack").arg("--cache").arg(cache.path()).arg(folder.path());
        let mut process = Process::start(&command, true)?;
        Deadline::seconds(10.0)
            .wait_for("an unfinished image", || Ok((!files(cache.path())?.is_empty()).then_some(())))?;
        process.signal(signal)?;
        let status = process.wait(Deadline::seconds(10.0))?;
        ensure!(status.code() == Some(code), "{status}: {}", process.log());
        ensure!(files(cache.path())?.is_empty(), "{:?}", files(cache.path())?);
    }
    Ok(())
}

/// Promise: `wirepath inspect` shows the contents of an asset or a wire image, as text or JSON.
fn inspect_answers_json() -> Result<()> {
    let (code, json, errors) = inspect(&clips::two_programmes(4)?)?;
    ensure!(code == Some(0) && errors.is_empty(), "{errors}");
    ensure!(json["schema"] == 2 && json["kind"] == "asset", "{json}");
    let programmes = json["programmes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let count = |field: &str| programmes.iter().filter(|programme| programme[field] == true).count();
    ensure!(programmes.len() == 2 && count("played") == 2 && count("clock") == 1, "{json}");
    ensure!(programmes.iter().all(|programme| programme["service"].is_string()), "{json}");
    let seconds = json["duration_us"].as_f64().unwrap_or_default() / 1e6;
    ensure!((3.5..5.0).contains(&seconds), "{seconds} s");
    let pids = json["pids"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shares: f64 = pids.iter().filter_map(|pid| pid["share"].as_f64()).sum();
    ensure!((shares - 1.0).abs() < 1e-9, "the shares make {shares}");
    let rates = json["bit_rate"]["bits_per_second"].as_array().map(Vec::as_slice).unwrap_or_default();
    let bits: f64 = rates.iter().filter_map(serde_json::Value::as_f64).sum::<f64>() / 10.0;
    let payload = json["payload_bytes"].as_f64().unwrap_or_default() * 8.0;
    ensure!((bits / payload - 1.0).abs() < 0.001, "{bits} bits over time, {payload} in all");
    Ok(())
}

/// Promise: `wirepath inspect` finds every damaged segment of an image and shows its position.
///
/// An image is told by its content, says what its asset says, and shows what is wrong with it.
fn inspect_reads_images_and_finds_their_damage() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(10)?)])?;
    let (_, asset, _) = inspect(&folder.path().join("clip.ts"))?;
    let cache = tempfile::tempdir()?;
    pack(cache.path(), [folder.path()])?;
    let path = cache.path().join("renamed");
    std::fs::rename(&files(cache.path())?[0], &path)?;
    let (code, image, errors) = inspect(&path)?;
    ensure!(code == Some(0) && image["kind"] == "image" && image["image"]["intact"] == true, "{errors}");
    for field in
        ["programmes", "pids", "duration_us", "bit_rate", "trains", "random_access_points", "packets"]
    {
        ensure!(image[field] == asset[field] && !asset[field].is_null(), "{field}: {image}");
    }
    let inode = std::fs::metadata(folder.path().join("clip.ts"))?.ino();
    ensure!(image["image"]["asset"]["inode"] == inode, "{image}");

    let mut bytes = std::fs::read(&path)?;
    bytes[1_500_000] ^= 1;
    std::fs::write(&path, &bytes)?;
    let (code, image, errors) = inspect(&path)?;
    ensure!(code == Some(1) && image["image"]["intact"] == false, "{image}");
    ensure!(errors.contains("renamed: error: byte 962560") && errors.contains("segment 4"), "{errors}");
    std::fs::write(&path, &bytes[..5000])?;
    let (code, _, errors) = inspect(&path)?;
    ensure!(code == Some(1) && errors.contains("renamed: at byte 0: the header"), "{errors}");
    Ok(())
}

/// Promise: `wirepath inspect` shows tracks, times, rates and RTP payload formats of MP4 files.
fn inspect_shows_the_tracks_of_a_movie() -> Result<()> {
    let clip = clips::mp4(4)?;
    let (code, json, errors) = inspect(&clip)?;
    ensure!(code == Some(0) && json["container"] == "mp4", "{errors}");
    ensure!(json["random_access_points"]["count"] == 4, "a key frame each second: {json}");
    let [video, audio] = [&json["tracks"][0], &json["tracks"][1]];
    ensure!(video["codec"] == "H.264" && video["width"] == 640 && video["height"] == 360, "{video}");
    ensure!(video["frame_rate"] == 25.0 && video["samples"] == 100 && video["rtp"] == "RFC 6184", "{video}");
    ensure!(
        audio["codec"] == "AAC-LC" && audio["sample_rate"] == 48_000 && audio["rtp"] == "RFC 3640",
        "{audio}"
    );
    let duration = json["duration_us"].as_f64().unwrap_or_default() / 1e6;
    ensure!((3.9..4.1).contains(&duration), "{duration} s");
    let text = Command::new(server::binary()?).arg("inspect").arg(&clip).output()?;
    let text = String::from_utf8(text.stdout)?;
    ensure!(text.contains("MP4 file (isom)") && text.contains("640x360"), "{text}");

    let folder = process::open_folder()?;
    let cut = folder.path().join("cut.mp4");
    std::fs::write(&cut, &std::fs::read(&clip)?[..2000])?;
    let (code, _, errors) = inspect(&cut)?;
    ensure!(
        code == Some(1) && errors.contains("cut.mp4: MP4 box moov at byte 32: the file ends within it"),
        "{errors}"
    );
    Ok(())
}

/// Promise: `wirepath inspect` shows tracks, times, rates and RTP payload formats of Matroska and WebM files.
fn inspect_shows_the_tracks_of_a_matroska_file() -> Result<()> {
    let file = clips::matroska(4)?;
    let (code, json, errors) = inspect(&file)?;
    ensure!(code == Some(0) && json["container"] == "matroska" && json["cues"] == 4, "{json} {errors}");
    ensure!(json["random_access_points"]["count"] == 4, "a key frame each second: {json}");
    let [video, audio] = [&json["tracks"][0], &json["tracks"][1]];
    ensure!(video["codec"] == "H.264" && video["width"] == 640 && video["height"] == 360, "{video}");
    ensure!(video["frame_rate"] == 25.0 && video["samples"] == 100 && video["rtp"] == "RFC 6184", "{video}");
    ensure!(audio["codec"] == "AAC-LC" && audio["sample_rate"] == 48_000, "{audio}");
    let text = Command::new(server::binary()?).arg("inspect").arg(&file).output()?;
    let text = String::from_utf8(text.stdout)?;
    ensure!(text.contains("Matroska file") && text.contains("4 cues"), "{text}");

    let folder = process::open_folder()?;
    let cut = folder.path().join("cut.mkv");
    std::fs::write(&cut, &std::fs::read(&file)?[..100])?;
    let (code, _, errors) = inspect(&cut)?;
    ensure!(code == Some(1) && errors.contains("cut.mkv: no Tracks element"), "{errors}");
    Ok(())
}

/// Exit code, standard output and standard error of `inspect --json`. Without output the JSON is null.
fn inspect(file: &Path) -> Result<(Option<i32>, serde_json::Value, String)> {
    let output = Command::new(server::binary()?).args(["inspect", "--json"]).arg(file).output()?;
    let json = match output.stdout.as_slice() {
        [] => serde_json::Value::Null,
        bytes => serde_json::from_slice(bytes)?,
    };
    Ok((output.status.code(), json, String::from_utf8(output.stderr)?))
}

/// Packs files into a cache, and answers what was printed.
fn pack<'a>(cache: &Path, files: impl IntoIterator<Item = &'a Path>) -> Result<String> {
    let mut command = Command::new(server::binary()?);
    command.arg("pack").arg("--cache").arg(cache).args(files);
    Process::start(&command, true)?.succeed(Deadline::seconds(20.0))
}

/// The files in a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?)
}

/// Starts a server that must refuse to start, and answers what it said.
fn refused<'a>(arguments: impl IntoIterator<Item = &'a Path>) -> Result<String> {
    let mut command = Command::new(server::binary()?);
    let mut process = Process::start(command.arg("serve").args(arguments), true)?;
    let status = process.wait(Deadline::seconds(10.0))?;
    let log = process.log();
    ensure!(!status.success() && !log.contains("ready rtsp="), "it started: {log}");
    ensure!(!log.contains("panicked"), "{log}");
    Ok(log)
}
