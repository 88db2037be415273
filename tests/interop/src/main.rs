//! Plays each format with each client over each transport, compares what came with a decode of the file, and
//! writes the tables of `docs/interop.md`: `make interop`.
//!
//! Arguments: `--write FILE.md` adds the results to those kept in `FILE.tsv`, and replaces what is between
//! the marks of the document by tables of all. Results of clients that are not installed are kept so.
//! `--minutes N` ends the run after so many (40): cells not begun by then, or not played again after a failure,
//! keep their results, and the run has failed. Other words choose cells by their names (`GStreamer "UDP|TCP"`).
//!
//! Players of other people, in real time, fail on a busy machine for reasons of its own. So a cell that failed is
//! played once more after all others, alone. It is unstable if it plays then, which fails the run, too.

mod cases;
mod ffmpeg;
mod gstreamer;
mod live555;
mod matrix;
mod retina;
mod sessions;
mod vlc;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cases::{Bed, Case};
use matrix::{Attempt, Cell, Matrix};
use wirepath_tests::loss;
use wirepath_tests::namespace::Namespace;
use wirepath_tests::process;

/// Minutes of a run, unless an argument says otherwise.
const MINUTES: u64 = 40;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("wirepath-interop: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Fills the matrix, and prints or writes it. Returns whether all cells were played and none
/// failed, not even at its first attempt.
fn run() -> Result<bool> {
    let begin = Instant::now();
    let (mut document, mut words, mut minutes) = (None, Vec::new(), MINUTES);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--write" => document = Some(arguments.next().context("--write needs a file")?),
            "--minutes" => {
                let number = arguments.next().context("--minutes needs a number")?;
                minutes = number.parse().with_context(|| format!("invalid value {number} of --minutes"))?;
            }
            option if option.starts_with('-') => {
                bail!("unknown option {option}: expected --write FILE or --minutes N")
            }
            _ => words.push(argument),
        }
    }
    // Groups are routed to the loopback device, which is not for this machine's own network to see.
    let namespace = Namespace::new()?;
    namespace.ip("link set lo multicast on")?;
    namespace.ip("route add 224.0.0.0/4 dev lo")?;
    let deadline = begin + Duration::from_secs(60 * minutes);
    let (matrix, left) = namespace.enter(|| fill(&words, deadline))?;
    let is_good = matrix.failures() == 0 && left == 0;
    let summary = matrix.summary();
    match document {
        Some(file) => keep(matrix, &file)?,
        None => print!("{}", matrix.markdown()),
    }
    eprintln!("{summary}; {left} left at the limit of {minutes} min; took {} s", begin.elapsed().as_secs());
    Ok(is_good)
}

/// Adds results to those that are kept beside a document, and writes its tables.
fn keep(matrix: Matrix, document: &str) -> Result<()> {
    let file = Path::new(document).with_extension("tsv");
    let mut all = Matrix::read(&file)?;
    all.merge(matrix);
    std::fs::write(&file, all.text()).with_context(|| file.display().to_string())?;
    matrix::write(document, &all.markdown())
}

/// Plays all cases whose names have all of `words`, each a choice of parts with `|` between: three at a time
/// for each processor, since players wait for most of the time, then those that failed, one at a time.
/// Returns the results and the number of cases that were not begun, or not played again, before the deadline.
fn fill(words: &[String], deadline: Instant) -> Result<(Matrix, usize)> {
    let is_chosen = |case: &Case| {
        let name = case.to_string();
        words.iter().all(|word| word.split('|').any(|part| name.contains(part)))
    };
    let cases: Vec<Case> = Case::all().filter(is_chosen).collect();
    let bed = Bed::new(&cases)?;
    let day = process::run("date", ["-u", "+%F"], 10.0)?.trim().to_owned();
    let threads = 3 * thread::available_parallelism().map_or(1, usize::from);
    let first = play_all(&cases, &bed, threads, deadline)?;
    let mut left = cases.len() - first.len();
    let failed: Vec<Case> =
        first.iter().filter(|(_, attempt)| attempt.failed()).map(|(case, _)| *case).collect();
    let mut again = play_all(&failed, &bed, 1, deadline)?;
    let mut matrix = Matrix::default();
    for (case, attempt) in first {
        let second = again.iter().position(|(other, _)| *other == case).map(|at| again.swap_remove(at).1);
        if attempt.failed() && second.is_none() {
            left += 1;
        } else {
            matrix.set(&case, Cell::of(attempt, second), &day);
        }
    }
    Ok((matrix, left))
}

/// Plays cases on so many threads. Those that are not begun before the deadline are left out.
fn play_all(cases: &[Case], bed: &Bed, threads: usize, deadline: Instant) -> Result<Vec<(Case, Attempt)>> {
    let (next, attempts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while Instant::now() < deadline
            && let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let (result, overload) = loss::watch(|| case.play(bed))?;
            let attempt = Attempt::new(result, overload);
            eprintln!("{case}: {attempt}");
            attempts.lock().expect("nothing panics holding it").push((*case, attempt));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a panic is a failure of this program"))
    })?;
    Ok(attempts.into_inner().expect("nothing panics holding it"))
}
