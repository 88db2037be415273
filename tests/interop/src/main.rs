//! Plays each format with each client over each transport, compares what came with a decode of the file, and writes
//! the tables of `docs/interop.md`: `make interop`.
//!
//! Arguments: `--write FILE` replaces what is between the marks of a document; other words choose cells by their names
//! (`ffmpeg UDP`).

mod cases;
mod ffmpeg;
mod gstreamer;
mod live555;
mod matrix;
mod retina;
mod vlc;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use cases::{Bed, Case};
use matrix::{Cell, Matrix};
use wirepath_tests::namespace::Namespace;

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
    let text = matrix.markdown();
    match document {
        Some(file) => matrix::write(&file, &text)?,
        None => print!("{text}"),
    }
    Ok(matrix.failures())
}

/// Plays all cases whose names have all of `words`, as many at a time as there are processors: players decode.
fn fill(words: &[String]) -> Result<Matrix> {
    let bed = Bed::new()?;
    let is_chosen = |case: &Case| words.iter().all(|word| case.to_string().contains(word.as_str()));
    let cases: Vec<Case> = Case::all().filter(is_chosen).collect();
    let (next, matrix) = (AtomicUsize::new(0), Mutex::new(Matrix::default()));
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let cell = Cell::of(case.play(&bed));
            eprintln!("{case}: {}", cell.text());
            matrix.lock().expect("nothing panics holding it").set(case, cell);
        }
    };
    thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(scope.spawn(work)));
    });
    Ok(matrix.into_inner().expect("nothing panics holding it"))
}
