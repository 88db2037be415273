//! Which path to use, in a sentence for each purpose.

use wirepath_assess::Assessment;
use wirepath_assess::verdict::{Verdict, verdicts};

use super::measurements::small;
use super::percent;
use crate::format;
use crate::table::{lines, new_table, section};

/// The verdict on the sink of a result; empty where nothing was measured.
pub(super) fn part(result: &Assessment, width: usize, utf8: bool) -> String {
    let mut table = new_table(width, utf8);
    table.add_rows(verdicts(result).iter().map(row));
    section(&format!("Verdict (sink {})", result.settings.sink), &lines(&mut table))
}

fn row(verdict: &Verdict) -> [String; 3] {
    let Verdict { purpose, path, size, cost, plain, next, close } = verdict;
    let size =
        size.map_or("for the whole file".to_owned(), |size| format!("at {} bytes", format::count(size)));
    let less = match plain {
        Some((times, plain)) if *times > 1.0 => format!(", {} of {plain}", percent(1.0 / times)),
        _ => String::new(),
    };
    let next = match next {
        Some((next, cost)) if *close => format!("; {next} ({}) is as good within the noise", small(*cost)),
        Some((next, cost)) => format!("; next is {next} ({})", small(*cost)),
        None => String::new(),
    };
    [format!("{purpose}:"), path.clone(), format!("{} s/GiB {size}{less}{next}", small(*cost))]
}
