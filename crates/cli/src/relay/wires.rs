//! `wirepath relay --in … --out …`: one stream, from inputs to outputs.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use wirepath_relay::{Address, FramingSpec, HandlerSpec, OrderSpec, PatternSpec, WhenFullSpec, Wiring};
use wirepath_streams::datapath::Support;
use wirepath_streams::datapath::calibration::Calibrations;
use wirepath_streams::{
    BlockingPool, Engine, EngineOptions, Importance, RunningStream, Stream, StreamEnd, StreamError,
    StreamEvent, StreamOptions,
};

use super::report;
use crate::interrupt::Interrupt;
use crate::terminal;

/// How often signals are looked for and the line is drawn.
const TICK: Duration = Duration::from_millis(100);

/// Inputs, outputs and what is between them.
#[derive(Args)]
pub(super) struct Wires {
    /// Where bytes come from; may be given more than once
    #[arg(long = "in", value_name = "ADDRESS", requires = "outputs")]
    inputs: Vec<Address>,

    /// Where they go; may be given more than once
    #[arg(long = "out", value_name = "ADDRESS", requires = "inputs")]
    outputs: Vec<Address>,

    /// How inputs are divided into records: whole, fixed:BYTES, ts, rtp, line, length32. With whole, a datagram is a record as it is
    #[arg(long, value_name = "FRAMING", default_value = "whole")]
    framing: FramingSpec,

    /// The order of inputs: arrival, roundrobin, random[:SEED], tag:OFFSET:BYTES[:WINDOW], shares[:WINDOW]
    #[arg(long, value_name = "ORDER", default_value = "arrival")]
    order: OrderSpec,

    /// How records are spread over outputs: mirror, stripe, stripe:BYTES, random[:SEED], capacity, shares:THRESHOLD
    #[arg(long, value_name = "PATTERN", default_value = "mirror")]
    pattern: PatternSpec,

    /// What sees the records on their way, in this order: crc32c, meter, match:TEXT, ts:pids=PID,…, ts:programme=NUMBER,
    /// seal:KEYFILE, open:KEYFILE, prefix, unprefix, touch[:MASK]
    #[arg(long = "handler", value_name = "HANDLER")]
    handlers: Vec<HandlerSpec>,

    /// When an output takes nothing: block, drop-newest, drop-oldest, disconnect
    #[arg(long, value_name = "CHOICE", default_value = "block")]
    when_full: WhenFullSpec,

    /// Write what was done as JSON to FILE at the end; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

impl Wires {
    /// Relays until inputs end, something fails or a signal comes.
    pub(super) fn run(self) -> Result<ExitCode> {
        let interrupt = Interrupt::watch().context("watching for signals")?;
        let wiring = Wiring {
            inputs: self.inputs,
            outputs: self.outputs,
            framing: self.framing,
            order: self.order,
            pattern: self.pattern,
            handlers: self.handlers,
            when_full: self.when_full,
        };
        let stream = match open(wiring, &interrupt)? {
            Ok(stream) => stream,
            Err(signal) => return Ok(ExitCode::from(128 + signal)),
        };
        let readers = BlockingPool::start("reader", 2, Importance::Equal)?;
        let support = Arc::new(Support::probe(None, Calibrations::default(), false));
        let engine =
            Engine::start(&EngineOptions::default(), support, &readers).context("starting a thread")?;
        let running = engine.start_stream(stream, StreamOptions::default());
        let begun = Instant::now();
        let end = attend(&running, &interrupt);
        eprintln!("wirepath: {}", report::in_words(&end.status, begun.elapsed()));
        if let Some(file) = &self.json {
            report::write(&end, begun.elapsed(), file)?;
        }
        match (end.result, interrupt.signal()) {
            (Ok(()), _) => Ok(ExitCode::SUCCESS),
            (Err(StreamError::Stopped), Some(signal)) => Ok(ExitCode::from(128 + signal)),
            (Err(error), _) => Err(error.into()),
        }
    }
}

/// Opens everything, which may wait for connections, or answers the signal that came meanwhile.
fn open(wiring: Wiring, interrupt: &Interrupt) -> Result<Result<Stream, u8>> {
    let (tell, told) = channel();
    std::thread::Builder::new().name("opening".to_owned()).spawn(move || {
        // Nobody listens any more if a signal came.
        drop(tell.send(wiring.stream(say)));
    })?;
    loop {
        match (told.recv_timeout(TICK), interrupt.signal()) {
            (Ok(stream), _) => return Ok(Ok(stream?)),
            (Err(_), Some(signal)) => return Ok(Err(signal)),
            (Err(RecvTimeoutError::Timeout), None) => {}
            (Err(RecvTimeoutError::Disconnected), None) => anyhow::bail!("opening addresses panicked"),
        }
    }
}

/// Shows how it goes until it is over.
fn attend(running: &RunningStream, interrupt: &Interrupt) -> StreamEnd {
    let bar = std::io::stderr().is_terminal().then(ProgressBar::new_spinner);
    let begun = Instant::now();
    loop {
        if let Some(end) = running.wait_for(TICK) {
            bar.iter().for_each(ProgressBar::finish_and_clear);
            return end;
        }
        if interrupt.signal().is_some() {
            running.stop();
        } else if let Some(bar) = &bar {
            let line = report::in_words(&running.status(), begun.elapsed());
            bar.set_message(
                line.chars().take(usize::from(terminal::width()).saturating_sub(4)).collect::<String>(),
            );
            bar.tick();
        }
    }
}

/// Tells what happens to the stream while it goes on.
fn say(event: StreamEvent) {
    match event {
        StreamEvent::InputFailed { error, .. } => eprintln!("wirepath: goes on without an input: {error}"),
        StreamEvent::OutputFailed { error, .. } => eprintln!("wirepath: goes on without an output: {error}"),
        StreamEvent::OutputDisconnected { name, dropped, .. } => eprintln!(
            "wirepath: {name} did not keep up and was let go of; {} records ({} bytes) were not delivered to it",
            dropped.records, dropped.bytes
        ),
        _ => {}
    }
}
