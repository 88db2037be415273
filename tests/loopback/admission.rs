//! Sessions beyond what the processor can send in time.

use std::process::Command;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::playback::{self, Playback};
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::{Server, binary};
use wirepath_tests::{Deadline, clips, trials};

/// A thread's time for 21 sessions, before the cost of any was measured.
const TIME_OF_21: [&str; 6] = ["--admission", "measured", "--threads", "1", "--reserve", "99.8925%"];

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        sessions_beyond_the_capacity_are_refused_and_the_others_play_on,
        no_time_for_sessions_is_no_session,
        without_admission_by_measurement_nobody_is_refused
    ]
}

/// Promise: A session is refused when those that play leave no processor time for it, and these play on.
fn sessions_beyond_the_capacity_are_refused_and_the_others_play_on() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(4)?)])?;
    let server = Server::of(folder.path()).with(TIME_OF_21).start()?;
    let mut first = Playback::set_up(server.rtsp, "clip.ts")?;
    let mut clients = Vec::new();
    for number in 2..=21 {
        let (client, status) = set_up(&server)?;
        ensure!(status == 200, "SETUP of session {number} is answered with {status}");
        clients.push(client);
    }
    let (_, status) = set_up(&server)?;
    ensure!(status == 453, "SETUP of session 22 is answered with {status}");
    first.play(None)?;
    first.receiver.to_the_end(Deadline::seconds(20.0))?;
    let capacity = &server.status()?["capacity"];
    ensure!(capacity["sessions"].as_u64().is_some_and(|sessions| sessions <= 21), "{capacity}");

    drop((first, clients));
    Deadline::seconds(20.0).wait_for("room for another session", || {
        let (_, status) = set_up(&server)?;
        Ok((status == 200).then_some(()))
    })
}

fn no_time_for_sessions_is_no_session() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).with(["--admission", "measured", "--reserve", "100%"]).start()?;
    let (_, status) = set_up(&server)?;
    ensure!(status == 453, "SETUP is answered with {status}");
    let got = wirepath_tests::http::get(server.http, "/clip.ts")?;
    ensure!(got.status == 200, "a download is answered with {}", got.status);
    Ok(())
}

/// Promise: `--admission off` refuses nobody by what is measured, and a reserve beside it is an error.
fn without_admission_by_measurement_nobody_is_refused() -> Result<()> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).with(["--admission", "off"]).start()?;
    Playback::whole(server.rtsp, "clip.ts", 20.0)?;
    let arguments =
        ["--admission", "off", "--reserve", "20%", "--rtsp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let refused = Command::new(binary()?).arg("serve").arg(folder.path()).args(arguments).output()?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(
        !refused.status.success() && error.contains("--reserve belongs to --admission measured"),
        "{error}"
    );
    Ok(())
}

/// Sets up a session that does not play; returns the status of the response.
fn set_up(server: &Server) -> Result<(Client, u16)> {
    let mut client = Client::connect(server.rtsp)?;
    let (_, url) = playback::describe(&mut client, &server.rtsp_url("clip.ts"))?;
    let transport = [("Transport", "RTP/AVP;unicast;client_port=5000-5001")];
    let status = client.request("SETUP", &url, &transport)?.status;
    Ok((client, status))
}
