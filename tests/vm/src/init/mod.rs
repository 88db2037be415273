//! The first process of a guest: makes it a home, loads modules, runs programs, reports, and switches off.

mod home;
mod leaks;
mod memory;
mod modules;
mod programs;

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::system::{RebootCommand, reboot};
use wirepath_tests::kernel_memory::KernelMemory;

use leaks::Kmemleak;

use crate::plan::{self, Event, Module, Plan, Program};

/// Path of the kernel's first process: a program called by this name is it.
pub const NAME: &str = "/init";

/// Does what the plan says, and switches the machine off.
///
/// # Errors
/// If there is no way to say that something is wrong; the kernel then panics, which the host sees.
pub fn main() -> Result<()> {
    home::mount().context("mounting")?;
    home::speak_on_the_second_port()?;
    if let Err(error) = run() {
        say(&Event::Fault(format!("{error:#}").replace('\n', " ")));
    }
    say(&Event::Done);
    // All output must be written before the power is off.
    rustix::termios::tcdrain(std::io::stdout()).context("waiting for the serial port")?;
    reboot(RebootCommand::PowerOff).context("switching off")?;
    Ok(())
}

fn run() -> Result<()> {
    let plan: Plan = serde_json::from_slice(&std::fs::read(plan::FILE)?).context("reading the plan")?;
    for driver in &plan.drivers {
        modules::load(driver, "")?;
    }
    home::finish()?;
    match &plan.module {
        Some(module) => {
            let kmemleak = Kmemleak::of_this_kernel()?;
            // First uses fill caches of the kernel, which stay.
            with_module(module, || run_programs(&plan, &plan.rehearsal))?;
            let before = KernelMemory::now()?;
            with_module(module, || run_all(&plan))?;
            match kmemleak {
                Some(kmemleak) => kmemleak.check()?,
                None => memory::check(before)?,
            }
        }
        None => run_all(&plan),
    }
    modules::check_taint()
}

fn with_module(module: &Module, run: impl FnOnce()) -> Result<()> {
    modules::load(&module.file, &module.parameters)?;
    run();
    modules::unload(&module.name)
}

fn run_all(plan: &Plan) {
    run_programs(plan, &plan.programs);
    if plan.shell
        && let Err(error) = programs::shell(Path::new("/dev/ttyS0"))
    {
        say(&Event::Fault(format!("{error:#}")));
    }
}

fn run_programs(plan: &Plan, programs: &[Program]) {
    for program in programs {
        say(&Event::Begin(program.name.clone()));
        let mut command = Command::new(&program.file);
        say(&Event::End(programs::run(command.args(&program.arguments), &plan.variables)));
    }
}

fn say(event: &Event) {
    // Nobody else is there to be told if this port fails; the host sees that the end is missing.
    writeln!(std::io::stdout(), "{event}").ok();
}
