//! The result of a run on the kernel that checks itself, as a folder that says what was run, on what, and
//! what came of it.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use crate::command::{Command, output};
use crate::suite::{Chosen, Debugged, Ran};
use crate::workspace;

/// Lines of a complaint that are kept.
const LINES: usize = 40;

/// Writes `README.md`, the kernel's configuration, and what its kernels complained about; what was in
/// `folder` of an earlier run is replaced.
///
/// # Errors
/// If something cannot be read or written.
pub fn write(folder: &Path, debugged: &Debugged, chosen: &Chosen) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, without_paths(text)).with_context(|| path.display().to_string())
    };
    let configuration = std::fs::read_to_string(&debugged.configuration)
        .with_context(|| debugged.configuration.display().to_string())?;
    put("kernel.config", &configuration)?;
    put("complaints.txt", &complaints(&debugged.guests))?;
    put("tests.txt", &tests(&debugged.guests))?;
    put("README.md", &summary(debugged, chosen, &commit(), SystemTime::now()))
}

/// The commit that is checked out, and whether something of it was changed.
fn commit() -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(workspace::folder()).args(["describe", "--always", "--dirty", "--abbrev=12"]);
    output(&mut git).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn summary(debugged: &Debugged, chosen: &Chosen, commit: &str, end: SystemTime) -> String {
    let began = end.checked_sub(Duration::from_secs(debugged.seconds)).unwrap_or(end);
    let time = |time| humantime::format_rfc3339_seconds(time).to_string();
    let only: String = chosen.only.iter().map(|name| format!(" --only {name:?}")).collect();
    let left = match debugged.left {
        0 => String::new(),
        left => format!(", {left} guests have not ended"),
    };
    let mut text = format!(
        "# The module on a kernel that checks itself: {}

`make test-kernel-debug ARGS=\"--seconds {} --seed {}{only}\"`, at commit {commit}, from {} to {} ({} s),
on Linux {} in {}, {} tests passed, {} failed, {} skipped{left}.

| file | what it is |
| --- | --- |
| [kernel.config](kernel.config) | the kernel's whole configuration |
| [tests.txt](tests.txt) | each test and what came of it, and what was counted |
| [complaints.txt](complaints.txt) | what each guest's kernel complained about |

| guest | passed | failed | skipped | seconds | its kernel's first complaint |
| --- | ---: | ---: | ---: | ---: | --- |
",
        debugged.verdict(),
        chosen.caller.seconds,
        chosen.caller.seed,
        time(began),
        time(end),
        debugged.seconds,
        debugged.release,
        debugged.machine,
        debugged.counts()[0],
        debugged.counts()[1],
        debugged.counts()[2],
    );
    for Ran { name, report, complaint, seconds } in &debugged.guests {
        let [passed, failed, skipped] = report.counts();
        let first =
            complaint.lines().map(cell).find(|line| !line.is_empty()).unwrap_or_else(|| "none".to_owned());
        writeln!(text, "| {name} | {passed} | {failed} | {skipped} | {seconds} | {first} |")
            .expect("a string takes all");
    }
    text.push_str(
        "\nA guest with a planted fault passes if its kernel complains about it, and about nothing if nothing was planted.\n\
         [What the options are for](../../tests/vm/debug/kernel.config), [how it is run](../../docs/vm.md#the-kernel-that-checks-itself).\n",
    );
    text
}

/// A line as a cell of a table, without the time before it.
fn cell(line: &str) -> String {
    let message =
        line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, message)| message);
    message.trim().replace('|', "\\|")
}

fn complaints(guests: &[Ran]) -> String {
    let mut text = String::new();
    for Ran { name, complaint, .. } in guests {
        let mut lines: Vec<&str> = complaint.lines().collect();
        let left_out = lines.len().saturating_sub(LINES);
        lines.truncate(LINES);
        let rest = if left_out == 0 { String::new() } else { format!("\n({left_out} more lines)") };
        let said = if lines.is_empty() { "nothing".to_owned() } else { lines.join("\n") };
        write!(text, "=== {name}\n{said}{rest}\n\n").expect("a string takes all");
    }
    text
}

fn tests(guests: &[Ran]) -> String {
    let mut text = String::new();
    for Ran { report, .. } in guests {
        let counted = report.output.lines().filter(|line| line.starts_with("counted: "));
        let counted: String = counted.map(|line| format!("{line}\n")).collect();
        writeln!(text, "{}{counted}", report.text()).expect("a string takes all");
    }
    text
}

/// Text that is the same wherever the project is.
fn without_paths(text: &str) -> String {
    let cache = crate::cache().display().to_string();
    let project = workspace::folder().display().to_string();
    text.replace(&cache, "target/vm").replace(&format!("{project}/"), "")
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
