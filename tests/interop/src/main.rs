//! Plays each format with each client over each transport, compares what came with a decode of the file, and
//! writes the tables of `docs/interop.md`: `make interop`.
//!
//! Arguments: `--write FILE.md` adds the results to those kept in `FILE.tsv`, and replaces what is between
//! the marks of the document by tables of all. Results of clients that are not installed are kept so. Other
//! words choose cells by their names (`GStreamer "UDP|TCP"`).

mod cases;
mod ffmpeg;
mod gstreamer;
mod live555;
mod matrix;
mod retina;
mod vlc;

use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use cases::{Bed, Cannot, Case};
use matrix::{Cell, Matrix};
use wirepath_tests::loss::unless_overloaded;
use wirepath_tests::namespace::Namespace;
use wirepath_tests::process;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("{failed} cells failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("wirepath-interop: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Fills the matrix, and prints or writes it. Returns the number of failures.
fn run() -> Result<usize> {
    let (mut document, mut words) = (None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--write" => document = Some(arguments.next().context("--write needs a file")?),
            option if option.starts_with('-') => bail!("unknown option {option}: expected --write FILE"),
            _ => words.push(argument),
        }
    }
    // Groups are routed to the loopback device, which is not for this machine's own network to see.
    let namespace = Namespace::new()?;
    namespace.ip("link set lo multicast on")?;
    namespace.ip("route add 224.0.0.0/4 dev lo")?;
    let matrix = namespace.enter(|| fill(&words))?;
    let failures = matrix.failures();
    match document {
        Some(file) => keep(matrix, &file)?,
        None => print!("{}", matrix.markdown()),
    }
    Ok(failures)
}

/// Adds results to those that are kept beside a document, and writes its tables.
fn keep(matrix: Matrix, document: &str) -> Result<()> {
    let file = Path::new(document).with_extension("tsv");
    let mut all = Matrix::read(&file)?;
    all.merge(matrix);
    std::fs::write(&file, all.text()).with_context(|| file.display().to_string())?;
    matrix::write(document, &all.markdown())
}

/// Plays a case, again if it fails while the machine is overloaded.
fn play(case: &Case, bed: &Bed) -> Result<()> {
    let cannot = RefCell::new(None);
    let played = unless_overloaded(|| match case.play(bed) {
        Err(error) if error.is::<Cannot>() => {
            cannot.replace(Some(error));
            Ok(())
        }
        played => played,
    });
    cannot.into_inner().map_or(played, Err)
}

/// Plays all cases whose names have all of `words`, each a choice of parts with `|` between; two at a time
/// for each processor, since players wait for most of the time.
fn fill(words: &[String]) -> Result<Matrix> {
    let is_chosen = |case: &Case| {
        let name = case.to_string();
        words.iter().all(|word| word.split('|').any(|part| name.contains(part)))
    };
    let cases: Vec<Case> = Case::all().filter(is_chosen).collect();
    let bed = Bed::new(&cases)?;
    let day = process::run("date", ["-u", "+%F"], 10.0)?.trim().to_owned();
    let (next, matrix) = (AtomicUsize::new(0), Mutex::new(Matrix::default()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let cell = Cell::of(play(case, &bed));
            eprintln!("{case}: {}", cell.text());
            matrix.lock().expect("nothing panics holding it").set(case, cell, &day);
        }
    };
    thread::scope(|scope| {
        (0..2 * thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(scope.spawn(work)));
    });
    Ok(matrix.into_inner().expect("nothing panics holding it"))
}
