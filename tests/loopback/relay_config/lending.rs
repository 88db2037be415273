//! The rule of lending: what of a file that is written again while its bytes wait for a receiver.
//!
//!   file ---- relay ---- a connection whose receiver does not read yet

use std::io::Read;
use std::net::{TcpListener, TcpStream};

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use wirepath_tests::process::{find, run};
use wirepath_tests::{http, require, trials};

use super::{Folder, Watched, numbers};

pub(super) fn trials() -> Vec<Trial> {
    trials![
        a_rewritten_file_is_sent_as_it_was_read_by_lend_safe,
        a_rewritten_file_is_sent_as_it_is_by_lend_always,
        the_rule_is_changed_while_streams_run,
    ]
}

const LENGTH: usize = 16 << 20;

/// A relay of a file of ones, and its receiver.
struct Waiting {
    folder: Folder,
    relay: Watched,
    receiver: TcpStream,
}

impl Waiting {
    fn start(arguments: &[&str]) -> Result<Waiting> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        // A receive buffer that grows may take all that is left, and the relay would end.
        set_socket_recv_buffer_size(&listener, 256 << 10)?;
        let out = listener.local_addr()?;
        let folder = Folder::new(&format!(
            "[[stream]]\nname = \"file\"\nin = [\"file:data\"]\nout = [\"tcp://{out}\"]\n"
        ))?;
        std::fs::write(folder.path("data"), vec![1; LENGTH])?;
        let relay = Watched::start(&folder, arguments)?;
        let (receiver, _) = listener.accept()?;
        Ok(Waiting { folder, relay, receiver })
    }

    /// Waits until the connection has taken something, writes twos to the file, and counts those among what was
    /// taken before.
    fn count_later_bytes(&mut self) -> Result<usize> {
        let taken =
            self.relay.wait_for("some bytes", |streams| streams[0]["bytes_out"].as_u64() > Some(0))?;
        let taken = taken[0]["bytes_out"].as_u64().map_or(0, |bytes| bytes as usize);
        std::os::unix::fs::FileExt::write_all_at(
            &std::fs::File::options().write(true).open(self.folder.path("data"))?,
            &vec![2; LENGTH],
            0,
        )?;
        let mut received = Vec::new();
        self.receiver.read_to_end(&mut received)?;
        ensure!(received.len() == LENGTH, "{} bytes came", received.len());
        Ok(received[..taken].iter().filter(|&&byte| byte == 2).count())
    }

    fn loans(&self, method: &str, body: &str) -> Result<String> {
        let url = format!("http://{}/api/loans", self.relay.http);
        run("curl", ["-sS", "-X", method, "--data-binary", body, "-w", "\n%{http_code}", &url], 20.0)
    }
}

/// Promise: With `--lend safe` a relay sends a file's bytes as read, also if the file is written later.
fn a_rewritten_file_is_sent_as_it_was_read_by_lend_safe() -> Result<()> {
    for rule in ["safe", "never"] {
        let later = Waiting::start(&["--lend", rule])?.count_later_bytes()?;
        ensure!(later == 0, "{rule}: {later} bytes were written after they were sent");
    }
    Ok(())
}

/// Shows that the test above could fail.
fn a_rewritten_file_is_sent_as_it_is_by_lend_always() -> Result<()> {
    let later = Waiting::start(&["--lend", "always"])?.count_later_bytes()?;
    ensure!(later > 0, "the file's pages were copied");
    Ok(())
}

/// Promise: The lending rule of all streams of a relay can be changed at run time, and its effects are
/// counted.
fn the_rule_is_changed_while_streams_run() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let mut waiting = Waiting::start(&[])?;
    waiting.relay.wait_for("some bytes", |streams| streams[0]["bytes_out"].as_u64() > Some(0))?;
    ensure!(waiting.loans("GET", "")?.contains("\"lend\":\"always\""), "another default");
    ensure!(waiting.loans("PUT", "sometimes")?.ends_with("\n400"), "an unknown rule was set");
    let answer = waiting.loans("PUT", "safe")?;
    ensure!(answer.contains("\"lend\":\"safe\"") && answer.ends_with("\n200"), "{answer}");
    // Half of it, so that the stream still runs when its numbers are read.
    let mut half = vec![0; LENGTH / 2];
    waiting.receiver.read_exact(&mut half)?;
    ensure!(half.iter().all(|&byte| byte == 1), "another byte came");
    let metrics = String::from_utf8(http::get(waiting.relay.http, "/metrics")?.body)?;
    let numbers = numbers(&metrics)?;
    for name in ["wirepath_loans_lent_bytes_total", "wirepath_loans_copied_bytes_total"] {
        ensure!(numbers.get(name).is_some_and(|&bytes| bytes > 0.0), "{name}: {metrics}");
    }
    let mut rest = Vec::new();
    waiting.receiver.read_to_end(&mut rest)?;
    ensure!(rest.len() == LENGTH - half.len() && rest.iter().all(|&byte| byte == 1), "{} bytes", rest.len());
    Ok(())
}
