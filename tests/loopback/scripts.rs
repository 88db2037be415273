//! The scripts behind `make run`, copied beside what they need, so that nothing is built or installed.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::process::{Process, as_ordinary_user, find, is_root};
use wirepath_tests::rtsp::Client;
use wirepath_tests::{Deadline, clips, http, process, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        make_run_names_media_that_does_not_exist,
        an_example_that_plays_is_shown,
        a_single_file_is_its_own_example,
        a_movie_is_an_example,
        an_example_is_encoded_as_urls_are,
        a_folder_without_streams_has_no_example,
        how_options_are_given_is_said_where_one_would_help,
        what_is_missing_and_how_root_installs_it_is_said,
    ]
}

/// The folder of the workspace.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Promise: `make run` names a `MEDIA` folder that does not exist.
fn make_run_names_media_that_does_not_exist() -> Result<()> {
    require!(find("make").is_some(), "make is not installed");
    let mut command = Command::new("make");
    command.args(["--no-print-directory", "-C", WORKSPACE, "run", "MEDIA=/does/not/exist"]);
    let mut make = Process::start(&command, true)?;
    let status = make.wait(Deadline::seconds(10.0))?;
    let said = "MEDIA=/does/not/exist does not exist; name a folder or a file";
    ensure!(!status.success() && make.log().contains(said), "{status}: {}", make.log());
    Ok(())
}

/// Promise: `make run` says how to play what it serves, with a working example.
fn an_example_that_plays_is_shown() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = clips::folder(&[("b c.ts", &clip), ("sub/clip.ts", &clip), (".hidden.ts", &clip)])?;
    let run = Run::of(folder.path())?;
    let said = run.said("Stop with Ctrl-C")?;
    ensure!(said.contains("for example sub/clip.ts"), "{said}");
    run.ensure_example_plays(&said)
}

/// Promise: `make run` says how to play what it serves, with a working example.
fn a_single_file_is_its_own_example() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let run = Run::of(&folder.path().join("clip.ts"))?;
    let said = run.said("Stop with Ctrl-C")?;
    run.ensure_example_plays(&said)
}

/// Promise: `make run` says how to play what it serves, with a working example.
///
/// A transport stream, which every client plays, goes before movies.
fn a_movie_is_an_example() -> Result<()> {
    for (name, film) in [("film.mp4", clips::mp4(2)?), ("a.film.mkv", clips::matroska(2)?)] {
        let folder = clips::folder(&[(name, &film)])?;
        for media in [folder.path().to_owned(), folder.path().join(name)] {
            let run = Run::of(&media)?;
            let said = run.said("Stop with Ctrl-C")?;
            ensure!(said.contains(&format!("for example {name}")), "{said}");
            run.ensure_example_plays(&said)?;
        }
    }
    let folder = clips::folder(&[("a.mp4", &clips::mp4(2)?), ("b.ts", &clips::constant(2)?)])?;
    let said = Run::of(folder.path())?.said("Stop with Ctrl-C")?;
    ensure!(said.contains("for example b.ts"), "{said}");
    ensure!(said.contains("vlc rtsp://"), "{said}");
    Ok(())
}

/// Promise: `make run` encodes other characters in its example, and gives VLC movies over HTTP.
fn an_example_is_encoded_as_urls_are() -> Result<()> {
    let folder = clips::folder(&[("Grüße 1+1.mkv", &clips::matroska(2)?)])?;
    let run = Run::of(folder.path())?;
    let said = run.said("Stop with Ctrl-C")?;
    ensure!(said.contains("/Gr%C3%BC%C3%9Fe%201%2B1.mkv\n"), "{said}");
    ensure!(word_after(&said, "  vlc ")?.starts_with("http://"), "{said}");
    run.ensure_example_plays(&said)
}

/// Promise: `make run` says if a folder has nothing to play.
///
/// A folder of other files, such a file alone, and an empty folder.
fn a_folder_without_streams_has_no_example() -> Result<()> {
    let others = process::open_folder()?;
    let other = others.path().join("notes.txt");
    std::fs::write(&other, "Not a movie.")?;
    let empty = process::open_folder()?;
    for media in [others.path(), other.as_path(), empty.path()] {
        let run = Run::of(media)?;
        let said = run.said("Stop with Ctrl-C")?;
        ensure!(said.contains("No file in it has a name that ends in"), "{said}");
        ensure!(!said.contains("ffplay"), "{said}");
        let listing = word_after(&said, "All files: ")?;
        let address = listing.trim_start_matches("http://").trim_end_matches('/').parse()?;
        ensure!(http::get(address, "/")?.status == 200, "{listing} is no listing");
    }
    Ok(())
}

/// Promise: `make run` says how to play what it serves, with a working example.
fn how_options_are_given_is_said_where_one_would_help() -> Result<()> {
    let folder = process::open_folder()?;
    let holder = TcpListener::bind("127.0.0.1:0")?;
    let mut run = Run::listening_at(folder.path(), &holder.local_addr()?.to_string())?;
    let status = run.process.wait(Deadline::seconds(20.0))?;
    let said = run.process.log();
    ensure!(status.code() == Some(1) && said.contains("make run ARGS=\"--rtsp"), "{status}: {said}");
    Ok(())
}

/// Promise: A missing tool that cannot be installed is reported, with the command for root.
///
/// Without root and without a way to become it, on a machine that has all but ffmpeg.
fn what_is_missing_and_how_root_installs_it_is_said() -> Result<()> {
    require!(!is_root() || find("setpriv").is_some(), "`setpriv` is not installed");
    let home = process::open_folder()?;
    let copy = home.path().join("scripts");
    std::fs::create_dir(&copy)?;
    std::fs::copy(Path::new(WORKSPACE).join("scripts/install.sh"), copy.join("install.sh"))?;
    let tools = home.path().join("tools");
    std::fs::create_dir(&tools)?;
    for tool in ["bash", "sh", "env", "dirname", "id", "sed", "cut", "grep", "cc", "curl", "git"] {
        let found = find(tool);
        require!(found.is_some(), "`{tool}` is not installed");
        symlink(found.context("it was just found")?, tools.join(tool))?;
    }
    let mut command = as_ordinary_user("env", home.path());
    command.arg(format!("PATH={}", tools.display())).arg("CARGO_HOME=/nowhere");
    let mut install = Process::start(command.args(["bash", "scripts/install.sh", "run"]), true)?;
    let status = install.wait(Deadline::seconds(10.0))?;
    let said = install.log();
    ensure!(status.code() == Some(69), "{status}: {said}");
    let missing = said.lines().find_map(|line| line.strip_prefix("Missing: ")).context("no `Missing:`")?;
    ensure!(missing.split(' ').any(|package| package == "ffmpeg"), "{said}");
    let install = format!("install -y --no-install-recommends {missing}");
    ensure!(said.contains("As root, run:\n\n  apt-get update && ") && said.contains(&install), "{said}");
    Ok(())
}

/// `scripts/run.sh`, serving something with the binary of these tests.
struct Run {
    process: Process,
    _home: tempfile::TempDir,
}

impl Run {
    fn of(media: &Path) -> Result<Run> {
        Run::listening_at(media, "127.0.0.1:0")
    }

    /// Runs the script with the RTSP listener at this address.
    fn listening_at(media: &Path, rtsp: &str) -> Result<Run> {
        let home = tempfile::tempdir()?;
        let path = |name: &str| -> PathBuf { home.path().join(name) };
        std::fs::create_dir(path("scripts"))?;
        std::fs::copy(Path::new(WORKSPACE).join("scripts/run.sh"), path("scripts/run.sh"))?;
        std::fs::create_dir(path("release"))?;
        symlink(server::binary()?, path("release/wirepath"))?;
        std::fs::write(path("calibration.json"), server::calibration(&["wire_sendfile"])?)?;
        let mut command = Command::new("bash");
        command.arg(path("scripts/run.sh")).args(["--rtsp", rtsp, "--http=127.0.0.1:0", "--cache"]);
        command.arg(path("cache")).arg("--calibration").arg(path("calibration.json"));
        command.env("MEDIA", media).env("CARGO_TARGET_DIR", home.path());
        Ok(Run { process: Process::start(&command, true)?, _home: home })
    }

    /// Waits for these words in the output; returns the output.
    fn said(&self, words: &str) -> Result<String> {
        let said = || Ok(Some(self.process.log()).filter(|log| log.contains(words)));
        Deadline::seconds(20.0).wait_for(words, said).with_context(|| self.process.log())
    }

    /// Ensures that the printed example commands play and download something.
    fn ensure_example_plays(&self, said: &str) -> Result<()> {
        let rtsp = word_after(said, "ffplay -rtsp_transport udp ")?;
        let (address, _) = rtsp.trim_start_matches("rtsp://").split_once('/').context("a URL")?;
        Client::connect(address.parse()?)?.succeed("DESCRIBE", rtsp, &[])?;
        let (address, path) = word_after(said, "curl -O http://")?.split_once('/').context("a URL")?;
        ensure!(http::get(address.parse()?, &format!("/{path}"))?.status == 200, "{path} cannot be fetched");
        Ok(())
    }
}

fn word_after<'a>(text: &'a str, before: &str) -> Result<&'a str> {
    let rest = text.split_once(before).with_context(|| format!("no `{before}` in\n{text}"))?.1;
    rest.split_whitespace().next().context("nothing behind it")
}
