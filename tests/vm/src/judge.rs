//! Reads a kernel's log: what in it fails a test.

/// Beginnings of kernel messages that report a fault, and the fault. Each is a text of the kernel's sources:
/// those of `WARN_ON` and of lockdep begin with `WARNING: `, those of bugs with `BUG: `, those of
/// `slub_debug` with `BUG ` and a name.
const COMPLAINTS: &[&str] = &[
    "WARNING: ",
    "BUG: ",
    "BUG ",
    "Oops: ",
    "Kernel panic",
    "Call Trace:",
    "general protection fault",
    "Unable to handle kernel",
    "divide error:",
    "invalid opcode:",
    "stack segment:",
    "double fault:",
    "INFO: task ", // blocked for more than 120 seconds
    "INFO: rcu_",  // a stall
    "rcu: INFO: ", // a stall, newer kernels
    "INFO: trying to register non-static key",
    "INFO: possible ", // lockdep of older kernels
    "UBSAN: ",
    "kmemleak: ",
    "unreferenced object ",
    "refcount_t: ",
    "pagealloc: memory corruption", // a page was written to after it was freed
    "pagealloc: single bit error",
    "list_add corruption",
    "list_del corruption",
    "unregister_netdevice: waiting for", // a reference to a device that nobody gives back
    "Slab cache still has objects",
    "Objects remaining in ",
    "cut here ]",
    "Out of memory: ",
];

/// Messages that look like a fault and are none.
const HARMLESS: &[&str] = &[
    "kmemleak: Kernel memory leak detector ", // initialized, disabled
    "kmemleak: Automatic memory scanning ",
];

/// Line that begins the report of a limit of memory, which has a trace of calls. Tests set such limits to
/// cgroups; a guest that is out of memory itself says so, see above.
const LIMIT_OF_MEMORY: &str = " invoked oom-killer: ";

/// Lines from that line to its trace.
const LINES_TO_TRACE: usize = 6;

/// Lines shown of one complaint.
const EXCERPT_LINES: usize = 16;

/// A complaint of the kernel: its line, and the lines that followed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The first line, without its time.
    pub(crate) line: String,
    /// It and what followed.
    pub(crate) excerpt: String,
}

/// Finds all complaints in a kernel's log. Those that follow closely belong to the first.
pub(crate) fn complaints(log: &str) -> Vec<Complaint> {
    let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(start) =
        (next..lines.len()).find(|at| is_complaint(lines[*at]) && !is_of_limit(&lines, *at))
    {
        next = (start + EXCERPT_LINES).min(lines.len());
        let excerpt = lines[start..next].join("\n");
        // The line that says what it is comes after the one that says where to cut.
        let says = lines[start..next].iter().find(|line| is_complaint(line) && !line.contains("cut here ]"));
        found.push(Complaint { line: without_time(says.unwrap_or(&lines[start])).to_owned(), excerpt });
    }
    found
}

fn is_complaint(line: &str) -> bool {
    COMPLAINTS.iter().any(|text| contains_word(line, text))
        && !HARMLESS.iter().any(|text| line.contains(text))
}

/// Returns whether the line is the trace of a report of a limit of memory.
fn is_of_limit(lines: &[&str], at: usize) -> bool {
    lines[at].contains("Call Trace:")
        && lines[at.saturating_sub(LINES_TO_TRACE)..at].iter().any(|line| line.contains(LIMIT_OF_MEMORY))
}

/// Returns whether `text` is in `line` and begins a word there: `DEBUG: ` is no `BUG: `.
fn contains_word(line: &str, text: &str) -> bool {
    line.match_indices(text)
        .any(|(start, _)| !line[..start].ends_with(|before: char| before.is_alphanumeric()))
}

/// The message behind `[    1.234567] `.
fn without_time(line: &str) -> &str {
    let message = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    match message {
        Some((time, message)) if time.trim().parse::<f64>().is_ok() => message,
        _ => line,
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
