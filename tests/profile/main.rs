//! Profiles of loops whose answer is known.

use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use wirepath_assess::profile::{ProfileError, Profiler, Sampled};
use wirepath_assess::result::Shares;
use wirepath_tests::trial::Skip;
use wirepath_tests::trials;

/// Processor time for about 2,000 samples.
const PROCESSOR_TIME: Duration = Duration::from_millis(500);
const FEWEST_SAMPLES: u64 = 1000;

fn main() -> ExitCode {
    let alone = trials![
        reading_a_large_file_is_copying,
        asking_for_the_process_is_entering,
        sending_to_oneself_is_the_network,
        counting_is_user_space,
        what_is_done_before_and_after_is_not_sampled,
        a_ring_that_overflows_is_counted,
        an_error_of_the_work_ends_the_profile,
    ];
    wirepath_tests::trial::run(Vec::new(), alone)
}

/// Promise: The profile of a loop with known work shows the expected shares.
fn reading_a_large_file_is_copying() -> Result<()> {
    const SIZE: usize = 16 << 20;
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![7; SIZE])?;
    let mut buffer = vec![0; SIZE];
    let shares = profile(|| Ok(file.read_exact_at(&mut buffer, 0)?))?;
    ensure!(shares.copying > 0.5 && shares.entering < 0.2 && shares.network < 0.1, "{shares:#?}");
    Ok(())
}

/// Promise: The profile of a loop with known work shows the expected shares.
fn asking_for_the_process_is_entering() -> Result<()> {
    let shares = profile(|| {
        // Optimised in the standard library, whatever these tests are built with; so little else is done.
        let mut calls = 0;
        while calls < 10_000 {
            std::hint::black_box(std::process::id());
            calls += 1;
        }
        Ok(())
    })?;
    ensure!(shares.entering > 0.5 && shares.copying < 0.1 && shares.network < 0.1, "{shares:#?}");
    Ok(())
}

/// Promise: The profile of a loop with known work shows the expected shares.
fn sending_to_oneself_is_the_network() -> Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?; // nobody reads: the kernel drops what is too much
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    let shares = profile(|| {
        for _ in 0..1000 {
            sender.send(&[0; 16])?;
        }
        Ok(())
    })?;
    let greatest = shares.copying.max(shares.entering).max(shares.user);
    ensure!(shares.network > greatest && shares.network > 0.3, "{shares:#?}");
    Ok(())
}

/// Promise: The profile of a loop with known work shows the expected shares.
fn counting_is_user_space() -> Result<()> {
    let shares = profile(|| {
        std::hint::black_box((0..1_000_000_u64).map(std::hint::black_box).sum::<u64>());
        Ok(())
    })?;
    ensure!(shares.user > 0.8, "{shares:#?}");
    let program = std::env::current_exe()?;
    let program = program.file_name().context("a program has a name")?.to_string_lossy().into_owned();
    ensure!(shares.functions[0].function == program, "{shares:#?}");
    Ok(())
}

/// Promise: Preparation and clean-up of a run are not sampled.
fn what_is_done_before_and_after_is_not_sampled() -> Result<()> {
    const SIZE: usize = 16 << 20;
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![7; SIZE])?;
    let mut buffer = vec![0; SIZE];
    let shares = profile_of(|sampled| {
        file.read_exact_at(&mut buffer, 0)?;
        sampled.during(|| {
            std::hint::black_box((0..1_000_000_u64).map(std::hint::black_box).sum::<u64>());
            anyhow::Ok(())
        })?;
        Ok(file.read_exact_at(&mut buffer, 0)?)
    })?;
    ensure!(shares.user > 0.8 && shares.copying < 0.1, "{shares:#?}");
    Ok(())
}

/// Promise: Lost samples are counted.
fn a_ring_that_overflows_is_counted() -> Result<()> {
    // A step of three seconds, though a step is to take one at most: the ring has room for two.
    let mut profiler = profiler()?;
    let used =
        || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).context("a clock that goes backwards");
    let shares = profiler.run::<anyhow::Error>(Duration::from_millis(1), |sampled| {
        sampled.during(|| {
            let end = used()? + Duration::from_secs(3);
            while used()? < end {}
            Ok(())
        })
    })?;
    ensure!(shares.samples > 8000 && shares.lost > 0, "{shares:#?}");
    // A lost packet is counted once.
    let next =
        profiler.run::<anyhow::Error>(Duration::from_millis(50), |sampled| sampled.during(|| Ok(())))?;
    ensure!(next.lost == 0, "{next:#?}");
    Ok(())
}

fn an_error_of_the_work_ends_the_profile() -> Result<()> {
    let mut profiler = profiler()?;
    let mut steps = 0;
    let error = profiler.run(Duration::from_secs(3600), |_| {
        steps += 1;
        if steps == 3 { File::open("/no/such/file").map(drop).context("the third step") } else { Ok(()) }
    });
    let error = error.err().context("it went on")?;
    ensure!(steps == 3 && error.to_string() == "the third step", "{error:#} after {steps} steps");
    Ok(())
}

/// A profile of work whose share is known; shown, for whoever disputes it.
fn profile(mut step: impl FnMut() -> Result<()>) -> Result<Shares> {
    profile_of(|sampled| sampled.during(&mut step))
}

/// The same of work that says what of it is sampled.
fn profile_of(step: impl FnMut(&mut Sampled<'_>) -> Result<()>) -> Result<Shares> {
    let shares = profiler()?.run(PROCESSOR_TIME, step)?;
    println!("{shares:.2?}");
    ensure!(shares.samples >= FEWEST_SAMPLES && shares.lost == 0, "{shares:#?}");
    let named: f64 = shares.functions.iter().map(|function| function.share).sum();
    let classes = shares.copying + shares.entering + shares.network + shares.user;
    ensure!(shares.functions.len() <= 5 && named <= 1.0 + 1e-9 && classes <= 1.0 + 1e-9, "{shares:#?}");
    Ok(shares)
}

/// A profiler, or the reason why there can be none here.
fn profiler() -> Result<Profiler> {
    match Profiler::new() {
        Ok(profiler) => Ok(profiler),
        Err(ProfileError::Sampling(error)) => Err(error.into()),
        Err(error) => Err(Skip(error.to_string()).into()),
    }
}
