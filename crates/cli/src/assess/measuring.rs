//! Options that all experiments have.

use std::path::PathBuf;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use clap::{Arg, Args, ValueEnum};
use wirepath_assess::result::{LeftOut, Part};
use wirepath_assess::{Error, Options, Sink, result, test_bed};

use crate::image_options::{CALIBRATION, default_cache_folder};

/// Options that all experiments have.
#[derive(Args, Clone, Debug)]
pub(crate) struct Measuring {
    /// Write the result as JSON to FILE; with `-`, standard output has only the JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Payload sent by each run [default: 1GiB; 128MiB with --quick]
    #[arg(long, value_name = "SIZE", value_parser = volume)]
    volume: Option<ByteSize>,

    /// Runs of each measurement [default: 10; 3 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,

    /// Less volume and fewer runs: a few minutes for everything
    #[arg(long)]
    quick: bool,

    /// State of the page cache: warm (payload in memory) or cold (payload on storage)
    #[arg(long, value_enum, default_value_t = Cache::Warm)]
    cache: Cache,

    /// Destination of packets: drop, drop-nooffload, loopback, veth, or the HOST:PORT of `wirepath assess
    /// sink` [default: drop for root if namespaces can be made, otherwise loopback]
    #[arg(long)]
    sink: Option<Sink>,

    /// MTU of the sink's device in bytes [default: 1500]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(576..=65_535))]
    mtu: Option<u32>,

    /// Processor to measure on [default: the last that may be used]
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,

    /// File to send instead of a generated one
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Also measure the loops of this program, compiled from bench/bare.c: the streaming paths without the
    /// overhead of measuring. Needs a sink that drops
    #[arg(long, value_name = "PROGRAM")]
    bare: Option<PathBuf>,

    /// Calibration file: the costs by which the server chooses data paths, and the sizes from which the path
    /// `loan` lends. `stream` and `loan` add results of dropping sinks and of other hosts; `download` and
    /// `profile` read it [default: calibration.json in the server's default cache folder]
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,

    /// Policy of the path `loan`: lend by the calibrated size, always, or never [default: auto]
    #[arg(long, value_enum)]
    loan: Option<Loan>,

    /// Folder for generated files, which are kept for later runs except with --quick [default:
    /// /var/cache/wirepath for root, else ~/.cache/wirepath]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Parts of `relay` to measure; empty means all.
    #[arg(skip)]
    pub(crate) parts: Vec<Part>,

    /// True if `relay` measures all kinds of handlers.
    #[arg(skip)]
    pub(crate) handlers: bool,

    /// Object of an eBPF handler that `relay` measures.
    #[arg(skip)]
    pub(crate) kernel_handler: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Loan {
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cache {
    Warm,
    Cold,
}

impl Measuring {
    fn mtu(&self) -> u32 {
        self.mtu.unwrap_or(1500)
    }

    /// Calibration file.
    fn calibration(&self) -> Result<PathBuf> {
        let file = self
            .calibration
            .clone()
            .map_or_else(|| default_cache_folder().map(|folder| folder.join(CALIBRATION)), Ok);
        file.context("no default calibration file: use --calibration FILE")
    }

    /// Destination of packets, and a note about omitted sinks. The default is a device that drops, if it can
    /// be made. Root in a container may lack the necessary capabilities.
    fn sink(&self) -> (Sink, Option<LeftOut>) {
        if let Some(sink) = &self.sink {
            return (sink.clone(), None);
        }
        if !rustix::process::geteuid().is_root() {
            return (Sink::Loopback, None); // each experiment reports what needs root
        }
        match test_bed::with_test_bed(&Sink::Drop, self.mtu(), self.cpu, |_| Ok(())) {
            Ok(()) => (Sink::Drop, None),
            Err(error) => {
                let what = "sinks drop, drop-nooffload and veth; it was measured over loopback".to_owned();
                (Sink::Loopback, Some(LeftOut { what, why: error.to_string() }))
            }
        }
    }

    /// Checks that the chosen processor may be used.
    pub(crate) fn check_processor(&self) -> Result<(), Error> {
        test_bed::check_processor(self.cpu)
    }

    /// Options for the experiments, and a note about omitted sinks.
    pub(crate) fn options(&self) -> Result<(Options, Option<LeftOut>)> {
        let volume = self.volume.unwrap_or(if self.quick { ByteSize::mib(128) } else { ByteSize::gib(1) });
        let scratch = self.scratch.clone().map_or_else(default_cache_folder, Ok);
        let (sink, left_out) = self.sink();
        let options = Options {
            volume: volume.as_u64(),
            runs: self.runs.unwrap_or(if self.quick { 3 } else { 10 }),
            quick: self.quick,
            cache: match self.cache {
                Cache::Warm => result::Cache::Warm,
                Cache::Cold => result::Cache::Cold,
            },
            sink,
            mtu: self.mtu(),
            cpu: self.cpu,
            file: self.file.clone(),
            bare: self.bare.clone(),
            scratch: scratch.context("no default folder for test files: use --scratch DIR")?,
            calibration: self.calibration()?,
            loans: match self.loan {
                None | Some(Loan::Auto) => None,
                Some(Loan::On) => Some(true),
                Some(Loan::Off) => Some(false),
            },
            parts: self.parts.clone(),
            handlers: self.handlers,
            kernel_handler: self.kernel_handler.clone(),
        };
        Ok((options, left_out))
    }
}

fn volume(text: &str) -> Result<ByteSize, String> {
    let volume: ByteSize = text.parse()?;
    if volume.as_u64() == 0 { Err("invalid volume 0: expected at least 1 B".to_owned()) } else { Ok(volume) }
}

/// Hides and refuses options about sending, for `host`.
pub(super) fn without_sending(option: Arg) -> Arg {
    match option.get_id().as_str() {
        "mtu" => option.hide(true).value_parser(refuse::<u32>),
        _ => without_paths(option),
    }
}

/// Hides and refuses options about data paths, for experiments without data paths.
pub(super) fn without_paths(option: Arg) -> Arg {
    match option.get_id().as_str() {
        "bare" => option.hide(true).value_parser(refuse::<PathBuf>),
        "loan" => option.hide(true).value_parser(refuse::<Loan>),
        _ => option,
    }
}

/// Hides and refuses options about timing, for experiments without timing.
pub(super) fn without_timing(option: Arg) -> Arg {
    match option.get_id().as_str() {
        "volume" => option.hide(true).value_parser(refuse::<ByteSize>),
        "runs" => option.hide(true).value_parser(refuse::<u32>),
        _ => without_paths(option),
    }
}

fn refuse<T>(_: &str) -> Result<T, &'static str> {
    Err("not an option of this experiment")
}
