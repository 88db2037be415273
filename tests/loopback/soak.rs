//! Everything at once, for long: sessions at random, clients that misbehave, assets that change, little
//! memory.
//!
//!     crowds 127.1.0.0/24, attackers 127.0.0.2, .3, … ──RTSP, HTTP, RTCP──► server 127.0.0.1 ──► witnesses
//!
//! `WIREPATH_SOAK_SECONDS` and `WIREPATH_SOAK_SESSIONS` make longer runs than that of `make test`: an hour
//! and 2,000 with `make soak`. `WIREPATH_SOAK_SUMMARY` is the file that the summary goes to.

mod crowd;
mod disturbance;
mod reload;
mod sample;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use wirepath_tests::memory_group::MemoryGroup;
use wirepath_tests::mutation::Dice;
use wirepath_tests::playback::Playback;
use wirepath_tests::rtsp::Client;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, trials};

use crate::hostile::{self, setting};
use sample::Sample;

/// Assets that come and go.
const FILMS: usize = 8;

/// Duration of each asset.
const CLIP_SECONDS: u32 = 20;

/// Memory of the server, page cache included, beside that for each session.
const MEMORY_BYTES: u64 = 256 << 20;
const SESSION_BYTES: u64 = 256 << 10;

/// Runs from this on wait at the end until idle assets are closed, and then nothing more may be open.
const LONG_SECONDS: u64 = 120;

/// Time after which idle assets are closed and idle threads have ended, and something to spare.
const SETTLED_S: f64 = 90.0;

/// Time for sessions that vanished to be given up, by `--session-timeout`, and something to spare.
const ENDED_S: f64 = 30.0;

/// Descriptors of an asset that is open: itself, its index and its image.
const PER_ASSET: usize = 3;

/// Memory in KiB that a server may have more after all than when its sessions had begun.
const GROWTH_KIB: u64 = 48 << 10;

/// This loads the machine and counts descriptors, threads and memory.
pub(crate) fn alone() -> Vec<Trial> {
    trials![a_soak_leaks_nothing_and_disturbs_nobody]
}

/// Counts of what was done to the server.
#[derive(Default)]
struct Done {
    plays: AtomicU64,
    slow_readers: AtomicU64,
    half_open: AtomicU64,
    replaced: AtomicU64,
    signals: AtomicU64,
    reloads: AtomicU64,
    refused_reloads: AtomicU64,
    wrong_requests: AtomicU64,
}

/// Promise: All faults at once disturb no other session and leak nothing (`make soak`).
///
/// Clients that vanish, stall and send garbage, files that are replaced and removed, configurations and users that
/// are read again, little memory.
fn a_soak_leaks_nothing_and_disturbs_nobody() -> Result<()> {
    let seconds = setting("WIREPATH_SOAK_SECONDS", 12)?;
    let bed = Bed::new(seconds, setting("WIREPATH_SOAK_SESSIONS", 60)?)?;
    let file = summary_file()?;
    let before = bed.settled()?;
    let (witness, samples, failures) =
        bed.soak().with_context(|| format!("the server's log ends with {}", bed.log_end()))?;
    let after = bed.after(&before)?;
    let summary = bed.summary(&witness, &samples, &before, &after);
    println!("soak: {summary:#}");
    if let Some(mut file) = file {
        writeln!(file, "{summary:#}").context("writing the summary")?;
    }
    ensure!(failures.is_empty(), "{}; the server's log ends with {}", failures.join("; "), bed.log_end());
    bed.ensure_sound(&witness, &samples, &before, &after)
}

/// The file for the summary, if there is to be one: opened before an hour is spent.
fn summary_file() -> Result<Option<File>> {
    let Ok(path) = std::env::var("WIREPATH_SOAK_SUMMARY") else { return Ok(None) };
    File::create(&path).map(Some).context(path)
}

struct Bed {
    server: Server,
    folder: tempfile::TempDir,
    files: reload::Files,
    seconds: u64,
    sessions: u64,
    seed: u64,
    done: Done,
    /// Reason for which the server's memory is not limited.
    unlimited: Option<String>,
    /// Dropped after the server.
    _memory: Option<MemoryGroup>,
}

impl Bed {
    fn new(seconds: u64, sessions: u64) -> Result<Bed> {
        let clip = clips::constant(CLIP_SECONDS)?;
        let folder = clips::folder(&[("witness.ts", &clip), ("clip.ts", &clip)])?;
        for film in 0..FILMS {
            std::fs::copy(&clip, folder.path().join(film_name(film)))?;
        }
        let memory = MemoryGroup::new(MEMORY_BYTES + sessions * SESSION_BYTES);
        let unlimited = memory.as_ref().err().map(|error| format!("{error:#}"));
        if let Some(reason) = &unlimited {
            println!("soak: without memory pressure: {reason}");
        }
        let memory = memory.ok();
        let command: Vec<String> = memory.iter().flat_map(MemoryGroup::command).collect();
        let files = reload::Files::new(folder.path())?;
        let limits = ["--session-timeout=5s", "--max-sessions-per-address=4000", "--max-lag=1s"];
        let server = Server::of(folder.path()).with([files.option()]).with(limits);
        let server = server.under(command).packed().start()?;
        let seed = setting("WIREPATH_HOSTILE_SEED", 1)?;
        let done = Done::default();
        Ok(Bed { server, folder, files, seconds, sessions, seed, done, unlimited, _memory: memory })
    }

    /// Counts of a server that nobody asks for anything, after it was used for the first time.
    fn settled(&self) -> Result<Sample> {
        Playback::set_up(self.server.rtsp, "witness.ts")?.play(None)?;
        Deadline::seconds(ENDED_S).wait_for("no session", || {
            let sample = Sample::of(&self.server)?;
            Ok(sample.is_idle().then_some(sample))
        })
    }

    fn is_long(&self) -> bool {
        self.seconds >= LONG_SECONDS
    }

    fn log_end(&self) -> String {
        hostile::tail(&self.server.process.log()).to_owned()
    }

    fn count_in_log(&self, words: &str) -> u64 {
        self.server.process.log().matches(words).count() as u64
    }

    /// Does everything at once; returns what the witnesses say, what was sampled, and failures of disturbances,
    /// which are not to lose what the witnesses saw in an hour.
    fn soak(&self) -> Result<(Value, Vec<Sample>, Vec<String>)> {
        let until = Deadline::seconds(self.seconds as f64);
        let dice = |number: u64| Dice::new(self.seed.wrapping_mul(77).wrapping_add(number));
        std::thread::scope(|scope| {
            let witness = scope.spawn(|| crowd::witnesses(self));
            let crowds = [scope.spawn(|| crowd::over_udp(self)), scope.spawn(|| crowd::over_tcp(self))];
            let disturbances = [
                scope.spawn(|| disturbance::pause_and_seek(self, dice(1), until)),
                scope.spawn(|| disturbance::read_slowly(self, dice(2), until)),
                scope.spawn(|| disturbance::stay_half_open(self, dice(3), until)),
                scope.spawn(|| disturbance::change_assets(self, dice(4), until)),
                scope.spawn(|| reload::change_configuration(self, until)),
            ];
            let attackers: Vec<_> = (0..hostile::ATTACKERS)
                .map(|number| scope.spawn(move || hostile::attack(&self.server, self.seed, number, until)))
                .collect();
            let samples = sample::every(self, until);
            let mut failures = Vec::new();
            for disturbance in disturbances {
                let ended = disturbance.join().expect("a disturbance answers with errors");
                failures.extend(ended.err().map(|error| format!("{error:#}")));
            }
            for attacker in attackers {
                match attacker.join().expect("an attacker answers with errors") {
                    Ok(connections) => _ = self.done.wrong_requests.fetch_add(connections, Relaxed),
                    Err(error) => failures.push(format!("{error:#}")),
                }
            }
            for crowd in crowds {
                crowd.join().expect("a crowd answers with errors").context("a crowd")?;
            }
            let witness = witness.join().expect("witnesses answer with errors").context("the witnesses")?;
            Ok((witness, samples?, failures))
        })
    }

    /// Counts after all sessions have ended; of a long run after idle assets are closed.
    fn after(&self, before: &Sample) -> Result<Sample> {
        Client::connect(self.server.rtsp)?.succeed("OPTIONS", "*", &[])?;
        let idle = || Ok(Some(Sample::of(&self.server)?).filter(Sample::is_idle));
        let Ok(idle) = Deadline::seconds(ENDED_S).wait_for("the end of all sessions", idle) else {
            return Sample::of(&self.server); // what is left is said by `ensure_sound`
        };
        // Requests would keep threads busy that are to end.
        let over = || {
            let (descriptors, threads) = (self.server.descriptors()?, self.server.threads()?);
            Ok(self.leak(before, &Sample { descriptors, threads, ..idle }).is_none().then_some(()))
        };
        let deadline = Deadline::seconds(if self.is_long() { SETTLED_S } else { ENDED_S });
        deadline
            .wait_for("descriptors and threads as before", over)
            .or_else(|_| Ok::<_, anyhow::Error>(()))?;
        Sample::of(&self.server)
    }

    /// Something of which there is more than before, but for assets that a short run leaves open.
    fn leak(&self, before: &Sample, after: &Sample) -> Option<&'static str> {
        let of_assets = if self.is_long() { 0 } else { PER_ASSET * after.open_assets as usize };
        after.leaks(&Sample { descriptors: before.descriptors + of_assets, ..*before })
    }

    fn summary(&self, witness: &Value, samples: &[Sample], before: &Sample, after: &Sample) -> Value {
        let Done { plays, slow_readers, half_open, replaced, wrong_requests, .. } = &self.done;
        let Done { signals, reloads, refused_reloads, .. } = &self.done;
        let of = |choose: fn(&Sample) -> u64| samples.iter().map(choose).max();
        json!({
            "seconds": self.seconds,
            "sessions_asked": self.sessions,
            "memory_pressure": self.unlimited.as_ref().map_or(json!(true), |reason| json!(reason)),
            "witnesses": {
                "timely": witness["sessions"]["timely"], "judged": witness["sessions"]["judged"],
                "lost": witness["media"]["lost"], "underruns": witness["media"]["underruns"],
                "underruns_at_s": underruns_at(&witness["timeline"]),
                "lateness_ms": witness["media"]["lateness_ms"], "failures": witness["failures"],
            },
            "done": {
                "plays_pauses_seeks": plays.load(Relaxed), "slow_readers": slow_readers.load(Relaxed),
                "half_open": half_open.load(Relaxed), "assets_replaced": replaced.load(Relaxed),
                "signals": signals.load(Relaxed), "configurations_taken_over": reloads.load(Relaxed),
                "configurations_refused": refused_reloads.load(Relaxed),
                "connections_of_attackers": wrong_requests.load(Relaxed),
            },
            "most": {
                "sessions": of(|sample| sample.sessions), "descriptors": of(|sample| sample.descriptors as u64),
                "threads": of(|sample| sample.threads), "memory_kib": of(|sample| sample.memory_kib),
                "packings": of(|sample| sample.packings),
            },
            "before": before.json(), "after": after.json(),
            "samples": samples.iter().map(Sample::json).collect::<Vec<_>>(),
        })
    }

    fn ensure_sound(
        &self,
        witness: &Value,
        samples: &[Sample],
        before: &Sample,
        after: &Sample,
    ) -> Result<()> {
        let log = self.server.process.log();
        ensure!(!log.contains("panicked"), "the server panicked: {}", self.log_end());
        let sessions = &witness["sessions"];
        ensure!(sessions["failed"] == 0 && sessions["timely"] == sessions["judged"], "witnesses: {sessions}");
        ensure!(witness["media"]["lost"] == 0, "witnesses: {}", witness["media"]);
        self.ensure_reloaded()?;
        ensure!(after.is_idle(), "not idle at the end: {}", after.json());
        let leak = self.leak(before, after);
        ensure!(
            leak.is_none(),
            "{} leaked: before {}, after {}",
            leak.unwrap_or_default(),
            before.json(),
            after.json()
        );
        let begun = samples.get(samples.len() / 4).unwrap_or(before).memory_kib;
        let grown = after.memory_kib.saturating_sub(begun);
        ensure!(grown < GROWTH_KIB, "{grown} KiB of memory more than after a quarter of the time");
        let done = [&self.done.plays, &self.done.slow_readers, &self.done.half_open, &self.done.replaced];
        ensure!(done.iter().all(|count| count.load(Relaxed) > 0), "hardly a soak");
        Ok(())
    }

    /// Every SIGHUP had the server read its configuration again, by what it served and by its log.
    fn ensure_reloaded(&self) -> Result<()> {
        let of = |count: &AtomicU64| count.load(Relaxed);
        let (taken_over, refused) = (of(&self.done.reloads), of(&self.done.refused_reloads));
        ensure!(
            taken_over > 0 && of(&self.done.signals) == taken_over + refused,
            "{} signals, {taken_over} configurations taken over, {refused} refused",
            of(&self.done.signals)
        );
        for (words, count) in [(reload::TAKEN_OVER, taken_over), (reload::REFUSED, refused)] {
            ensure!(self.count_in_log(words) == count, "`{words}` is not {count} times in the log");
        }
        Ok(())
    }

    fn path_of(&self, film: usize) -> std::path::PathBuf {
        self.folder.path().join(film_name(film))
    }

    fn clip(&self) -> std::path::PathBuf {
        self.folder.path().join(Path::new("clip.ts"))
    }
}

/// Seconds of a run in which players ran dry.
fn underruns_at(timeline: &Value) -> Vec<f64> {
    let seconds = timeline.as_array().map_or(&[][..], Vec::as_slice).windows(2);
    let ran_dry = seconds.filter(|pair| pair[0]["underruns"].as_u64() < pair[1]["underruns"].as_u64());
    ran_dry.filter_map(|pair| pair[1]["at_s"].as_f64()).collect()
}

fn film_name(film: usize) -> String {
    format!("film{film}.ts")
}
