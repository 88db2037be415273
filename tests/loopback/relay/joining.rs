//! One record from portions of several inputs.

use std::io::Write;
use std::os::unix::net::UnixStream;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use wirepath_tests::process::Process;
use wirepath_tests::{Deadline, trials};

use super::{at, random_bytes, relay, run, wait_for};

/// Bytes of a stripe.
const STRIPE: usize = 40_000;
const PICTURES: usize = 30;

pub(super) fn trials() -> Vec<Trial> {
    trials![
        stripes_over_sockets_make_pictures,
        a_picture_without_a_stripe_is_dropped_and_reported,
        lines_are_joined_by_their_key
    ]
}

/// The pictures whose stripes these connections carry.
fn pictures(stripes: &[Vec<u8>]) -> Vec<u8> {
    let whole = stripes.iter().map(|stripes| stripes.len() / STRIPE).min().unwrap_or(0);
    let stripe = |number: usize| stripes.iter().map(move |of| &of[number * STRIPE..(number + 1) * STRIPE]);
    (0..whole).flat_map(stripe).flatten().copied().collect()
}

/// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
///
/// By a configuration file, over sockets, of which one is ahead of the others.
fn stripes_over_sockets_make_pictures() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bytes = random_bytes(3 * PICTURES * STRIPE);
    let stripes: Vec<Vec<u8>> = bytes.chunks(PICTURES * STRIPE).map(<[u8]>::to_vec).collect();
    let sockets: Vec<_> = (0..3).map(|number| folder.path().join(number.to_string())).collect();
    let inputs: Vec<String> =
        sockets.iter().map(|socket| format!("\"unix:{}?listen\"", socket.display())).collect();
    let file = folder.path().join("relay.toml");
    let text = format!(
        "[[stream]]\nname = \"picture\"\nin = [{}]\nout = [\"file:pictures\"]\nframing = \"fixed:{STRIPE}\"\norder = \"join:2\"\n",
        inputs.join(", ")
    );
    std::fs::write(&file, text)?;
    let report = folder.path().join("report.json");
    let mut joining = relay(&["--config"])?;
    joining.arg(&file).arg("--json").arg(&report);
    let mut joining = Process::start(&joining, true)?;
    sockets.iter().try_for_each(|socket| wait_for(socket))?;
    let connections = sockets.iter().map(UnixStream::connect).collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| -> Result<()> {
        let senders: Vec<_> = connections
            .into_iter()
            .zip(&stripes)
            .enumerate()
            .map(|(number, (mut connection, stripes))| {
                let pieces = stripes.chunks(1000 + 30_000 * number);
                scope.spawn(move || pieces.into_iter().try_for_each(|piece| connection.write_all(piece)))
            })
            .collect();
        senders.into_iter().try_for_each(|sender| Ok(sender.join().expect("writing does not panic")?))
    })?;
    joining.succeed(Deadline::seconds(20.0))?;
    ensure!(std::fs::read(folder.path().join("pictures"))? == pictures(&stripes), "other pictures came");
    let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
    let none = json!({"incomplete": 0, "spare": 0, "unkeyed": 0, "too_long": 0});
    ensure!(report["streams"][0]["join"] == none, "{report}");
    Ok(())
}

/// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
///
/// One input ends early: what cannot be complete is dropped, counted, and makes exit code 3.
fn a_picture_without_a_stripe_is_dropped_and_reported() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let stripes = [random_bytes(PICTURES * STRIPE), random_bytes((PICTURES - 7) * STRIPE)];
    let [one, two] = ["one", "two"].map(|name| at(folder.path(), "file", name));
    for (name, bytes) in ["one", "two"].iter().zip(&stripes) {
        std::fs::write(folder.path().join(name), bytes)?;
    }
    let framing = format!("fixed:{STRIPE}");
    let joined =
        run(&["--in", &one, "--in", &two, "--framing", &framing, "--order", "join", "--out", "-"], b"")?;
    let said = String::from_utf8(joined.stderr)?;
    ensure!(joined.status.code() == Some(3), "{said}");
    ensure!(said.contains(", 7 records without all their portions dropped"), "{said}");
    ensure!(joined.stdout == pictures(&stripes), "other pictures came");
    Ok(())
}

/// Promise: Portions of several inputs are joined to one record, by position or by key, within a window.
fn lines_are_joined_by_their_key() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let names = at(folder.path(), "file", "names");
    std::fs::write(folder.path().join("names"), "03 c\n01 a\n-\n02 b\n")?;
    let order = ["--framing", "line", "--order", "join-key:0:3:10"];
    let arguments = [&["--in", "-", "--in", &names, "--out", "-"], &order[..]].concat();
    let joined = run(&arguments, b"01 one\n03 three\n02 two\n")?;
    let said = String::from_utf8(joined.stderr)?;
    ensure!(joined.status.success() && said.contains(", 1 portion without a key dropped"), "{said}");
    let text = String::from_utf8(joined.stdout)?;
    for record in ["01 one\n01 a\n", "02 two\n02 b\n", "03 three\n03 c\n"] {
        ensure!(text.contains(record), "{text}");
    }
    ensure!(text.len() == "01 one\n01 a\n02 two\n02 b\n03 three\n03 c\n".len(), "{text}");
    Ok(())
}
