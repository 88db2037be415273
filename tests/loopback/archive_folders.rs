//! Archives whose recordings lie in folders with a part of the time, as recorders write them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value as Json;
use tempfile::TempDir;
use wirepath_tests::playback::{Playback, ensure_bytes};
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, http, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        recordings_in_folders_are_one_stream => || recordings_are_one_stream(DAYS),
        recordings_in_folders_of_fixed_names_are_one_stream => || recordings_are_one_stream(FRIGATE),
        recordings_of_mediamtx_are_one_stream => || recordings_are_one_stream(MEDIAMTX),
        new_and_removed_folders_are_noticed,
        recordings_out_of_the_served_folder_are_not_found,
        wrong_patterns_are_told,
        two_archives_of_one_path_are_told,
        a_hundred_thousand_names_in_folders_are_listed,
    ]
}

/// Pattern, and names of two recordings before midnight and two behind it.
type Names = (&'static str, [&'static str; 4]);

const DAYS: Names = (
    "%Y-%m-%d/%H-%M-%S",
    ["2026-11-23/23-59-48.ts", "2026-11-23/23-59-58.ts", "2026-11-24/00-00-00.ts", "2026-11-24/00-00-03.ts"],
);

const FRIGATE: Names = (
    "%Y-%m-%d/%H/front door/%M.%S",
    [
        "2026-11-23/23/front door/59.48.ts",
        "2026-11-23/23/front door/59.58.ts",
        "2026-11-24/00/front door/00.00.ts",
        "2026-11-24/00/front door/00.03.ts",
    ],
);

const MEDIAMTX: Names = (
    "%Y-%m-%d_%H-%M-%S-%f",
    [
        "2026-11-23_23-59-48-000000.ts",
        "2026-11-23_23-59-58-000000.ts",
        "2026-11-24_00-00-00-012345.ts",
        "2026-11-24_00-00-03-000001.ts",
    ],
);

fn folder(recordings: &[(&str, &Path)]) -> Result<TempDir> {
    let named: Vec<_> = recordings.iter().map(|(name, clip)| (format!("cam/{name}"), *clip)).collect();
    let named: Vec<_> = named.iter().map(|(name, clip)| (name.as_str(), *clip)).collect();
    clips::folder(&named)
}

fn serve(folder: &TempDir, pattern: &str) -> Result<Server> {
    Server::of(folder.path()).with(["--archive", &format!("cam={pattern}")]).start()
}

/// The recordings of the archive.
fn listed(server: &Server, query: &str) -> Result<Json> {
    let response = http::get(server.http, &format!("/cam/?recordings{query}"))?;
    ensure!(response.status == 200, "{response:?}");
    serde_json::from_slice(&response.body).context("JSON")
}

fn names(page: &Json) -> Result<Vec<&str>> {
    let recordings = page["recordings"].as_array().context("no recordings")?;
    recordings.iter().map(|recording| recording["name"].as_str().context("no name")).collect()
}

/// Promise: Recordings in folders by day or hour play as one stream over midnight, and are listed with links to
/// them.
fn recordings_are_one_stream((pattern, recordings): Names) -> Result<()> {
    let clips: [PathBuf; 4] =
        [clips::constant(2)?, clips::constant(2)?, clips::constant(3)?, clips::variable(2)?];
    let named: Vec<_> = recordings.iter().zip(&clips).map(|(name, clip)| (*name, clip.as_path())).collect();
    let folder = folder(&named)?;
    let bytes = clips.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?;
    let server = serve(&folder, pattern)?;

    let page = listed(&server, "")?;
    ensure!(names(&page)? == recordings, "{page}");
    let gap = |index: usize| page["recordings"][index]["gap_s"].as_f64().context("no gap");
    ensure!((7.4..8.1).contains(&gap(0)?) && gap(1)? < 0.1 && gap(2)? < 0.1, "{page}");
    for (index, bytes) in bytes.iter().enumerate() {
        let url = page["recordings"][index]["url"].as_str().context("no URL")?;
        let file = http::get(server.http, &format!("/cam/{url}"))?;
        ensure!(file.status == 200 && file.body == *bytes, "{url}: {}", file.status);
    }
    let next_day = listed(&server, "&from=2026-11-24T00:00:02Z")?;
    ensure!(names(&next_day)? == recordings[2..], "{next_day}");

    let mut playback = Playback::set_up(server.rtsp, "cam")?;
    playback.play(None)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure!(received.gaps().is_empty(), "{:?}", received.gaps());
    ensure_bytes(&received, &bytes.concat())?;

    // A time in the gap before midnight is that of the next recording, and the range ends on the next day.
    let mut playback = Playback::set_up(server.rtsp, "cam")?;
    let answer = playback.play(Some("clock=20261123T235955Z-20261124T000002Z"))?;
    ensure!(answer.header("range") == Some("clock=20261123T235958Z-20261124T000002Z"), "{answer:?}");
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure!(bytes[1..3].concat().starts_with(&received.payload), "other bytes came");
    ensure!(received.payload.len() > bytes[1].len() + bytes[2].len() / 3, "it ended before midnight");
    Ok(())
}

/// Promise: An archive lists recordings of new folders, and no longer those of removed ones, without a restart.
fn new_and_removed_folders_are_noticed() -> Result<()> {
    let clip = clips::constant(2)?;
    let folder = folder(&[("2026-11-23/10-00-00.ts", &clip), ("2026-11-24/10-00-00.ts", &clip)])?;
    let cam = folder.path().join("cam");
    let server = serve(&folder, DAYS.0)?;
    ensure!(names(&listed(&server, "")?)? == ["2026-11-23/10-00-00.ts", "2026-11-24/10-00-00.ts"]);

    fs::remove_dir_all(cam.join("2026-11-23"))?;
    fs::create_dir(cam.join("2026-11-25"))?;
    fs::rename(cam.join("2026-11-24/10-00-00.ts"), cam.join("2026-11-25/11-00-00.ts"))?;
    // There is a pause after a check that took long.
    Deadline::seconds(20.0).wait_for("the new folder", || {
        Ok((names(&listed(&server, "")?)? == ["2026-11-25/11-00-00.ts"]).then_some(()))
    })?;
    let mut playback = Playback::set_up(server.rtsp, "cam")?;
    playback.play(None)?;
    let received = playback.receiver.to_the_end(Deadline::seconds(30.0))?;
    ensure_bytes(&received, &fs::read(&clip)?)
}

/// Promise: No symbolic link makes files outside the served folder recordings of an archive with folders.
fn recordings_out_of_the_served_folder_are_not_found() -> Result<()> {
    let clip = clips::constant(2)?;
    let secret = clips::folder(&[("10-00-00.ts", clip.as_path())])?;
    let folder = folder(&[("2026-11-23/10-00-00.ts", &clip)])?;
    std::os::unix::fs::symlink(secret.path(), folder.path().join("cam/2026-11-24"))?;
    std::os::unix::fs::symlink("../..", folder.path().join("cam/2026-11-25"))?;
    let server = serve(&folder, DAYS.0)?;
    let page = listed(&server, "")?;
    ensure!(names(&page)? == ["2026-11-23/10-00-00.ts"], "{page}");
    ensure!(http::get(server.http, "/cam/2026-11-24/10-00-00.ts")?.status == 404);
    Ok(())
}

/// Promise: `--archive` with a pattern that cannot be used ends with an error that says what to write.
fn wrong_patterns_are_told() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (pattern, expected) in [
        ("/srv/%s", "expected names with single slashes between them"),
        ("%path/%s", "write the path of its folder in URLs before `=`"),
        ("%Y-%m-%d/%H", "names would have no time"),
        ("%Y-%m-%d/%s_%H", "write %s without fields of the date and time"),
    ] {
        let Err(error) = serve(&folder, pattern) else { anyhow::bail!("{pattern} was accepted") };
        let error = format!("{error:#}");
        ensure!(error.contains(expected) && error.contains(pattern), "{error}");
    }
    Ok(())
}

/// Promise: Two archives with one path are refused with the reason and what to do.
fn two_archives_of_one_path_are_told() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let archives = ["--archive", "cams/door", "--archive", "yard=%s", "--archive", "/cams/door/=%s"];
    let Err(error) = Server::of(folder.path()).with(archives).start() else {
        anyhow::bail!("it was accepted")
    };
    let error = format!("{error:#}");
    ensure!(error.contains("--archive cams/door: the path is given with two patterns"), "{error}");
    ensure!(error.contains("remove one of them"), "{error}");
    Ok(())
}

/// Number of times that a folder of the archive was read.
fn folder_reads(server: &Server) -> Result<u64> {
    server.status()?["archives"][0]["folder_reads"].as_u64().context("folder_reads")
}

/// Promise: A listing of 100,000 recordings in 300 folders reads only folders that changed since the listing
/// before.
fn a_hundred_thousand_names_in_folders_are_listed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cam = folder.path().join("cam");
    for day in 1..=300 {
        let day = cam.join(format!("2026-{day:03}"));
        fs::create_dir_all(&day)?;
        for minute in 0..334 {
            fs::File::create(day.join(format!("{:02}-{:02}-00.ts", minute / 60, minute % 60)))?;
        }
    }
    let server = serve(&folder, "%Y-%j/%H-%M-%S")?;
    // A folder that has just changed is read again for each listing, except in the pause after a long check.
    let last_change_s = fs::metadata(cam.join("2026-300"))?.ctime();
    Deadline::seconds(10.0).wait_for("times of change that show the next one", || {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok((last_change_s + 3 <= now_s as i64).then_some(()))
    })?;
    let reads = Deadline::seconds(60.0).wait_for("a listing that reads no folder", || {
        listed(&server, "&limit=1")?;
        let before = folder_reads(&server)?;
        listed(&server, "&limit=1")?;
        Ok((folder_reads(&server)? == before).then_some(before))
    })?;
    ensure!(reads >= 301, "{reads}");
    let page = listed(&server, "&from=2026-05-31T23:00:00Z&limit=5")?;
    ensure!(page["total"] == 100_200, "{}", page["total"]);
    ensure!(names(&page)?.first() == Some(&"2026-151/05-33-00.ts"), "{page}");
    ensure!(page["next"] == "2026-06-01T00:04:00Z", "{page}");
    let examined = server.status()?["archives"][0]["left_out"].as_array().map(Vec::len);
    ensure!(examined == Some(6), "{examined:?} were examined");
    ensure!(server.status()?["archives"][0]["folders"] == 301);

    fs::File::create(cam.join("2026-200/23-00-00.ts"))?;
    let mut listings = 0;
    let page = Deadline::seconds(20.0).wait_for("the new recording", || {
        listings += 1;
        let page = listed(&server, "&from=2026-07-19T23:00:00Z&limit=1")?;
        Ok((page["total"] == 100_201).then_some(page))
    })?;
    ensure!(names(&page)? == ["2026-200/23-00-00.ts"], "{page}");
    let reads = folder_reads(&server)? - reads;
    ensure!(reads <= listings, "other folders were read: {reads} reads for {listings} listings");
    Ok(())
}
