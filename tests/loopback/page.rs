//! The status page in a browser.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use tempfile::TempDir;
use wirepath_tests::browser::{Browser, Look};
use wirepath_tests::playback::{Playback, describe};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, http, process, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_page_shows_what_the_status_says,
        the_page_is_used_by_keyboard,
        a_page_that_is_paused_stays,
        the_page_plays_an_mp4,
        the_page_draws_the_rate_of_an_asset,
        the_page_fits,
    ]
}

/// Name of an asset that would be markup if it were not text.
const HOSTILE_NAME: &str = "<img src=x onerror=alert(1)>.ts";

/// Name of a client, likewise.
const HOSTILE_AGENT: &str = "</td><script>alert(1)</script>";

/// Promise: The status page shows the values of `/api/status`, and names of files and clients as text.
fn the_page_shows_what_the_status_says() -> Result<()> {
    let bed = TestBed::new()?;
    let mut browser = bed.browser()?;
    bed.is_shown(&mut browser)?;
    let shown = shown_as_status(&bed, &mut browser)?;
    let texts = shown["sessions"].to_string() + &shown["assets"].to_string() + &shown["files"].to_string();
    for hostile in [HOSTILE_NAME, HOSTILE_AGENT] {
        ensure!(texts.contains(&json!(hostile).to_string()), "{hostile} is not in {texts}");
    }
    let warnings = shown["warnings"].to_string();
    ensure!(warnings.contains("clients that report lost packets (1): 127.0.0.1:"), "{warnings}");
    ensure!(shown["mistold"] == json!([]), "numbers shown as other texts: {}", shown["mistold"]);
    ensure!(shown["elements"] == json!({"script": 1, "img": 0}), "{}", shown["elements"]);
    ensure!(shown["foreign"] == json!([]), "from other hosts: {}", shown["foreign"]);
    Ok(())
}

/// Waits until the page shows what the status says, which changes meanwhile. Returns what is shown.
fn shown_as_status(bed: &TestBed, browser: &mut Browser) -> Result<Value> {
    let deadline = Deadline::seconds(10.0);
    loop {
        let (status, shown) = (expected(&bed.server.status()?), browser.evaluate(SHOWN)?);
        let all = status.as_object().context("an object")?;
        let Some((key, said)) = all.iter().find(|(key, said)| shown[key] != **said) else { return Ok(shown) };
        ensure!(!deadline.has_passed(), "{key}: {} is shown, and the status says {said}", shown[key]);
    }
}

/// Content of the page, as its reader sees it.
const SHOWN: &str = include_str!("page/shown.js");

/// The same from the status.
fn expected(status: &Value) -> Value {
    let list = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        number => number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string()),
    };
    let session = |session: &Value| {
        let report = &session["receiver_report"];
        json!({
            "Client": text(&session["client"]), "Asset": text(&session["asset"]),
            "State": text(&session["state"]), "Position": text(&session["position_s"]),
            "Rate": "0", "Packets": text(&session["packets"]),
            "Lost": text(&report["packets_lost"]), "Loss now": text(&report["fraction_lost"]),
            "Jitter": text(&report["jitter_ms"]), "Round trip": text(&report["round_trip_ms"]),
            "Burst": text(&session["burst_ms"]), "Skips": text(&session["forward_skips"]),
            "Transport": text(&session["transport"]),
            "Data path": text(&session["data_path"]),
            "Player": text(&session["agent"]),
        })
    };
    let mut sessions: Vec<Value> = list("sessions").iter().map(session).collect();
    sessions.sort_by_key(|session| text(&session["Client"]));
    let asset = |asset: &Value| {
        let own = |session: &&Value| session["asset"] == asset["name"];
        json!({
            "Name": asset["name"], "State": asset["state"], "Plays": text(&asset["plays"]),
            "Sessions": list("sessions").iter().filter(own).count().to_string(),
            "Duration": text(&asset["duration_s"]), "Bit rate": text(&asset["bits_per_second"]),
        })
    };
    let mut assets: Vec<Value> = list("assets").iter().map(asset).collect();
    assets.sort_by_key(|asset| text(&asset["Name"]));
    let upto = status["lateness_us"]["histogram"].as_array().cloned().unwrap_or_default();
    let mut upto: Vec<u64> = upto.iter().filter_map(|row| row["trains"].as_u64()).collect();
    upto.push(status["lateness_us"]["trains"].as_u64().unwrap_or(0));
    let lateness: Vec<u64> =
        upto.iter().scan(0, |last, upto| Some(upto - std::mem::replace(last, *upto))).collect();
    let playing = list("sessions").iter().filter(|session| session["state"] == "playing").count();
    let most = text(&status["rtsp"]["limits"]["sessions"]);
    let costs = status["data_path"]["calibrations"][0]["costs"].as_array().cloned().unwrap_or_default();
    let mut costs: Vec<String> = costs.iter().map(|cost| text(&cost["path"])).collect();
    costs.sort();
    let path = &status["data_path"];
    let rings = path["by_io_uring"].as_array().cloned().unwrap_or_default();
    let rings =
        rings.iter().map(|ring| format!("{} by {}", thousands(&text(&ring["trains"])), text(&ring["name"])));
    let rings = rings.collect::<Vec<_>>().join(", ");
    let [trains, copied] = [&path["trains"], &path["trains_copied"]].map(|trains| thousands(&text(trains)));
    let copies = if copied == "0" { String::new() } else { format!("; the kernel copied {copied} of these") };
    let rings =
        if rings.is_empty() { rings } else { format!("Of {trains} trains, by io_uring: {rings}{copies}.") };
    json!({
        "rings": rings,
        "clients": playing,
        "left": status["rtsp"]["limits"]["sessions"].as_u64().map(|most| most - sessions.len() as u64),
        "packets": status["counters"]["playback"]["packets"],
        "late": status["lateness_us"]["p99"],
        "lateness": lateness,
        "path": path["name"],
        "costs": costs,
        "sessions": sessions,
        "assets": assets,
        "warnings": list("warnings").iter().map(|warning| warning["text"].clone()).collect::<Vec<_>>(),
        "capacity": format!("{} of {}", sessions.len(), thousands(&most)),
        "threads": list("threads").len(),
    })
}

/// Digits with separators of thousands.
fn thousands(digits: &str) -> String {
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// Promise: The tables of the status page can be sorted and filtered by keyboard.
fn the_page_is_used_by_keyboard() -> Result<()> {
    let bed = TestBed::new()?;
    let mut browser = bed.browser()?;
    bed.is_shown(&mut browser)?;
    let first = "document.querySelector('#sessions tbody td:nth-child(2)').textContent";
    let focus = |what: &str| format!("document.querySelector('#sessions {what}').focus()");
    let asset = "th:nth-child(2) button";
    browser.evaluate(&focus(asset))?;
    browser.press("Enter", 13)?;
    ensure!(browser.evaluate(first)? == HOSTILE_NAME, "not sorted by asset");
    let sort = "document.querySelector('#sessions th:nth-child(2)').ariaSort";
    ensure!(browser.evaluate(sort)? == "ascending");
    browser.press("Enter", 13)?;
    ensure!(browser.evaluate(first)? == "clip.ts" && browser.evaluate(sort)? == "descending");
    browser.evaluate(&focus("input"))?;
    browser.type_text("ONERROR resting")?;
    browser
        .wait_for("document.querySelectorAll('#sessions tbody tr').length === 1", Deadline::seconds(5.0))?;
    let count = "document.querySelector('#sessions .count').textContent";
    ensure!(browser.evaluate(count)? == "1 of 3 sessions", "{}", browser.evaluate(count)?);
    Ok(())
}

/// Promise: The status page does not change while it is paused.
fn a_page_that_is_paused_stays() -> Result<()> {
    let bed = TestBed::new()?;
    let mut browser = bed.browser()?;
    bed.is_shown(&mut browser)?;
    browser.evaluate("document.getElementById('pause').focus()")?;
    browser.press("Enter", 13)?;
    ensure!(browser.evaluate("document.getElementById('live').textContent")? == "paused");
    let at = browser.evaluate(UPTIME)?;
    // Two events of a listener of its own: the page got at least one of them, too.
    browser.evaluate(
        "new Promise((done) => { let seen = 0; const events = new EventSource('api/events');
         events.onmessage = () => { seen += 1; if (seen === 3) { events.close(); done(); } }; })",
    )?;
    ensure!(browser.evaluate(UPTIME)? == at, "the page went on");
    browser.press("Enter", 13)?;
    ensure!(browser.evaluate(UPTIME)? != at, "the page does not go on");
    Ok(())
}

/// Promise: The status page plays an MP4 file.
fn the_page_plays_an_mp4() -> Result<()> {
    let bed = TestBed::new()?;
    let mut browser = bed.browser()?;
    let play = "#files button[aria-label=\"Play clip.mp4\"]";
    browser.wait_for(&format!("document.querySelector('{play}') !== null"), Deadline::seconds(20.0))?;
    browser.evaluate(&format!("document.querySelector('{play}').focus()"))?;
    browser.press("Enter", 13)?;
    let plays =
        "document.querySelector('video').currentTime > 0.2 && document.querySelector('video').videoWidth > 0";
    browser.wait_for(plays, Deadline::seconds(20.0))
}

/// Promise: The status page draws the bit rate of an asset over time with the values of
/// `/api/assets/PATH/rate`.
fn the_page_draws_the_rate_of_an_asset() -> Result<()> {
    let bed = TestBed::new()?;
    std::fs::copy(clips::variable(6)?, bed._folder.path().join("variable.ts"))?;
    let _session = Playback::set_up(bed.server.rtsp, "variable.ts")?;
    let mut browser = bed.browser()?;
    let is_indexed = || {
        let status = bed.server.status()?;
        let assets = status["assets"].as_array().cloned().unwrap_or_default();
        let ready = |asset: &Value| asset["name"] == "variable.ts" && asset["state"] == "ready";
        Ok(assets.into_iter().find(ready))
    };
    let asset = Deadline::seconds(30.0).wait_for("the index", is_indexed)?;
    let answer = http::get(bed.server.http, "/api/assets/variable.ts/rate")?;
    ensure!(answer.status == 200, "{answer:?}");
    let said: Value = serde_json::from_slice(&answer.body)?;
    let points: Vec<f64> =
        said["bits_per_second"].as_array().context("rates")?.iter().filter_map(Value::as_f64).collect();
    ensure!((2..=120).contains(&points.len()) && said["is_complete"] == true, "{said}");
    let mean = points.iter().sum::<f64>() / points.len() as f64;
    let told = asset["bits_per_second"].as_f64().context("a rate")?;
    ensure!((mean / told - 1.0).abs() < 0.01, "{mean} in the mean, and the status says {told}");
    let (least, most) = points
        .iter()
        .fold((f64::MAX, 0.0), |(least, most): (f64, f64), point| (least.min(*point), most.max(*point)));
    ensure!(least < 0.97 * most, "a clip whose rate goes up and down has {points:?}");
    let drawn = format!("({HEIGHTS})('variable.ts').length === {}", points.len());
    browser.wait_for(&drawn, Deadline::seconds(30.0))?;
    let heights = browser.evaluate(&format!("({HEIGHTS})('variable.ts')"))?;
    let heights: Vec<f64> = heights.as_array().context("heights")?.iter().filter_map(Value::as_f64).collect();
    ensure!(heights.len() == points.len(), "{} points are drawn of {}", heights.len(), points.len());
    for (height, point) in heights.iter().zip(&points) {
        ensure!(
            (height - point / most).abs() < 0.01,
            "{height} of the largest is drawn, {point} of {most} said"
        );
    }
    let missing = http::get(bed.server.http, "/api/assets/none.ts/rate")?;
    ensure!(missing.status == 404, "{missing:?}");
    Ok(())
}

/// Heights of the points of an asset's plot, as shares of the largest.
const HEIGHTS: &str = "(name) => {
    const row = [...document.querySelectorAll('#assets tbody tr')]
        .find((row) => row.querySelector('[data-label=Name]').textContent === name);
    const line = row?.querySelector('[data-label=\"Rate over time\"] path.line')?.getAttribute('d') ?? '';
    const points = line.slice(1).split('L').filter((point) => point);
    return points.map((point) => (29 - Number(point.split(' ')[1])) / 28);
}";

/// Promise: The status page fits the screens of a phone and a desktop, in light and dark mode.
///
/// Pictures are kept in the target folder, for people to look at.
fn the_page_fits() -> Result<()> {
    let bed = TestBed::new()?;
    let mut browser = bed.browser()?;
    bed.is_shown(&mut browser)?;
    let pictures = pictures()?;
    let mut grounds = BTreeSet::new();
    for (name, width, is_phone, is_dark) in [
        ("light", 1280, false, false),
        ("dark", 1280, false, true),
        ("phone-light", 390, true, false),
        ("phone-dark", 390, true, true),
    ] {
        browser.look(Look { width, height: 844, is_phone, is_dark })?;
        browser.picture(&pictures.join(format!("page-{name}.png")))?;
        let overflow = browser.evaluate(&format!("document.documentElement.scrollWidth - {width}"))?;
        ensure!(overflow.as_i64().is_some_and(|pixels| pixels <= 0), "{name}: {overflow} pixels too wide");
        let small = browser.evaluate(SMALL)?;
        ensure!(small == json!([]), "{name}: too small to read: {small}");
        let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")?;
        grounds.insert(ground.to_string());
    }
    ensure!(grounds.len() == 2, "light and dark are {grounds:?}");
    Ok(())
}

/// Texts that are too small to read.
const SMALL: &str = "[...document.querySelectorAll('main *')]
    .filter((element) => element.childElementCount === 0 && element.textContent.trim())
    .filter((element) => parseFloat(getComputedStyle(element).fontSize) < 11)
    .map((element) => element.textContent)";

/// Folder of pictures that tests keep.
fn pictures() -> Result<PathBuf> {
    let folder = process::profile_folder()?.join("pictures");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Time of the snapshot that the page shows.
const UPTIME: &str = "Number(document.documentElement?.dataset.uptimeMs)";

/// A server with three sessions that rest: one that has played and reported loss, one with a hostile name of
/// the asset, and one with a hostile name of the client.
pub(crate) struct TestBed {
    pub(crate) server: Server,
    home: TempDir,
    _folder: TempDir,
    _playbacks: [Playback; 2],
    _client: (Client, (std::net::UdpSocket, std::net::UdpSocket)),
}

impl TestBed {
    pub(crate) fn new() -> Result<Self> {
        let (clip, mp4) = (clips::constant(6)?, clips::mp4(8)?);
        let names = [("clip.ts", &*clip), (HOSTILE_NAME, &*clip), ("clip.mp4", &*mp4), ("sub/a.ts", &*clip)];
        let folder = clips::folder(&names)?;
        let server = Server::of(folder.path()).start()?;
        let mut played = Playback::set_up(server.rtsp, "clip.ts")?;
        played.play(None)?;
        let some = |received: &wirepath_tests::rtp::Received| received.packets.len() > 100;
        played.receiver.wait_for("packets", Deadline::seconds(5.0), some)?;
        played.pause()?;
        let hostile = HOSTILE_NAME.replace('<', "%3C").replace('>', "%3E").replace(' ', "%20");
        let resting = Playback::set_up(server.rtsp, &hostile)?;
        let client = agent(&server)?;
        let bed = Self {
            server,
            home: process::open_folder()?,
            _folder: folder,
            _playbacks: [played, resting],
            _client: client,
        };
        bed.report_loss()?;
        Ok(bed)
    }

    /// Reports a loss of 25 of 256 packets, 1,000 in all.
    fn report_loss(&self) -> Result<()> {
        let playback = &self._playbacks[0];
        let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 1];
        report.extend(playback.ssrc()?.to_be_bytes());
        report.extend([25, 0, 0x03, 0xe8]);
        report.extend([0; 16]);
        let to = (self.server.rtsp.ip(), playback.server_port(1)?).into();
        playback.receiver.send_rtcp(&report, to)?;
        Deadline::seconds(5.0).wait_for("the loss in /api/status", || {
            let sessions = self.server.status()?["sessions"].to_string();
            Ok(sessions.contains("\"packets_lost\":1000").then_some(()))
        })
    }

    fn browser(&self) -> Result<Browser> {
        let mut browser = Browser::start(self.home.path())?;
        browser.open(&self.server.http_url("status"))?;
        Ok(browser)
    }

    /// Waits until the page shows the state that the server is in from now on, with rates, and the files.
    fn is_shown(&self, browser: &mut Browser) -> Result<()> {
        let now = self.server.status()?["uptime_ms"].as_u64().context("no uptime")?;
        let is_shown = format!(
            "{UPTIME} > {now} && document.querySelector('#tile-rate .value').dataset.value === '0'
             && document.querySelectorAll('#files tbody tr').length === 4"
        );
        browser.wait_for(&is_shown, Deadline::seconds(30.0))
    }
}

/// A session of a client with a hostile name.
fn agent(server: &Server) -> Result<(Client, (std::net::UdpSocket, std::net::UdpSocket))> {
    let mut client = Client::connect(server.rtsp)?;
    let (_, control) = describe(&mut client, &server.rtsp_url("clip.ts"))?;
    let sockets = wirepath_tests::rtp::pair(server.rtsp.ip())?;
    let port = sockets.0.local_addr()?.port();
    let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
    client.succeed("SETUP", &control, &[("Transport", &transport), ("User-Agent", HOSTILE_AGENT)])?;
    Ok((client, sockets))
}
