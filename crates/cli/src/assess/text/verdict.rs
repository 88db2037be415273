//! Which path to use, in a sentence for each purpose.

use wirepath_assess::Assessment;
use wirepath_assess::verdict::{Verdict, verdicts};

use super::measurements::small;
use crate::format;
use crate::table::section;

/// The verdict on the sink of a result; empty where nothing was measured.
pub(super) fn part(result: &Assessment) -> String {
    let sentences: String = verdicts(result).iter().map(sentence).collect();
    section(&format!("Verdict (sink {})", result.settings.sink), &sentences)
}

fn sentence(verdict: &Verdict) -> String {
    let Verdict { purpose, path, size, cost, plain, next, close } = verdict;
    let size =
        size.map_or("for the whole file".to_owned(), |size| format!("at {} bytes", format::count(size)));
    let less = match plain {
        Some((times, plain)) if *times > 1.0 => format!(", {} of {plain}", share(1.0 / times)),
        _ => String::new(),
    };
    let next = match next {
        Some((next, cost)) if *close => format!("; {next} ({}) is as good within the noise", small(*cost)),
        Some((next, cost)) => format!("; next is {next} ({})", small(*cost)),
        None => String::new(),
    };
    format!(" {purpose}: {path}, {} s/GiB {size}{less}{next}\n", small(*cost))
}

fn share(share: f64) -> String {
    super::percent(share)
}
