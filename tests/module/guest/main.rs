//! The kernel module against the model, in a guest where it is loaded; elsewhere there is nothing to test,
//! which is said.
//!
//! `module [--seed NUMBER] [--seconds NUMBER] [--case NUMBER] [--all] [FILTER]`: a failing case prints what
//! repeats it.

mod bench;
mod bytes;
mod caller;
mod concurrent;
mod denials;
mod descriptors;
mod failing;
mod files;
mod filters;
mod folios;
mod frames;
mod handlers;
mod headers;
mod injected;
mod links;
mod misuse;
mod nfs;
mod objects;
mod query;
mod reload;
mod runs;
mod settings;
mod sockets;
mod stacks;
mod vectors;
mod wire;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use wirepath_sys::module::DEVICE;
use wirepath_tests::{require, trial, trials};

use settings::Settings;

fn main() -> ExitCode {
    let (settings, arguments) = match Settings::read(std::env::args()) {
        Ok(read) => read,
        Err(error) => {
            eprintln!("module: {error:#}");
            return ExitCode::from(2);
        }
    };
    println!("module: seed {}", settings.seed);
    settings.apply();
    if !Path::new(DEVICE).exists() {
        return trial::run_as(arguments, Vec::new(), trials![the_module_is_loaded]);
    }
    if let Err(error) = wire::set_loopback_up() {
        eprintln!("module: cannot set the loopback device up: {error:#}");
        return ExitCode::FAILURE;
    }
    let groups = [
        query::trials(),
        bytes::trials(),
        nfs::trials(),
        folios::trials(),
        misuse::trials(),
        vectors::trials(),
        runs::trials(),
        handlers::trials(),
        links::trials(),
        stacks::trials(),
        filters::trials(),
        denials::trials(),
        headers::trials(),
        sockets::trials(),
        concurrent::trials(),
        reload::trials(),
        caller::trials(),
        injected::trials(),
    ];
    let code = trial::run_as(arguments, Vec::new(), groups.into_iter().flatten().collect());
    settings::print_counts();
    code
}

fn the_module_is_loaded() -> Result<()> {
    require!(
        Path::new(DEVICE).exists(),
        "the kernel module is not loaded here; `wirepath-vm test` runs these tests in guests"
    );
    Ok(())
}
