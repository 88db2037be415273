//! Lengths of bursts that a folder or a client bounds.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::playback::{self, Playback};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![no_burst_is_longer_than_a_folder_or_a_client_allows]
}

/// Promise: No burst is longer than `--folder-burst-max` of its folder or than the limit in the client's
/// SETUP.
fn no_burst_is_longer_than_a_folder_or_a_client_allows() -> Result<()> {
    let clip = clips::constant(8)?;
    let folder = clips::folder(&[("cams/clip.ts", &clip), ("clip.ts", &clip)])?;
    let server =
        Server::of(folder.path()).with(["--burst", "120ms", "--folder-burst-max", "/cams=40ms"]).start()?;
    for (path, asked, expected_ms) in
        [("clip.ts", None, 120.0), ("cams/clip.ts", None, 40.0), ("cams/clip.ts", Some("20ms"), 20.0)]
    {
        let burst_ms = burst_ms(&server, path, asked)?;
        ensure!(burst_ms == expected_ms, "{path}, {asked:?}: bursts of {burst_ms} ms");
    }
    let mut client = Client::connect(server.rtsp)?;
    let (_, url) = playback::describe(&mut client, &server.rtsp_url("clip.ts"))?;
    let headers = [("Transport", "RTP/AVP;unicast;client_port=5000-5001"), ("X-Burst-Max", "0ms")];
    let refused = client.request("SETUP", &url, &headers)?;
    ensure!(refused.status == 400, "{refused:?}");
    Ok(())
}

/// Length of the bursts of a session on this asset that asks for such bursts.
fn burst_ms(server: &Server, path: &str, asked: Option<&str>) -> Result<f64> {
    let headers: Vec<_> = asked.map(|asked| ("X-Burst-Max", asked)).into_iter().collect();
    let mut playback = Playback::set_up_with(server.rtsp, path, &headers)?;
    playback.play(None)?;
    let burst_ms = Deadline::seconds(10.0).wait_for("a burst", || {
        let status = server.status()?;
        Ok(status["sessions"][0]["burst_ms"].as_f64().filter(|burst_ms| *burst_ms > 0.0))
    })?;
    playback.ask("TEARDOWN")?;
    Deadline::seconds(10.0).wait_for("the session's end", || Ok((server.sessions()? == 0).then_some(())))?;
    Ok(burst_ms)
}
