//! Where each path spends its time.

use comfy_table::CellAlignment;
use wirepath_assess::result::{FunctionShare, Profile, Transport};

use super::percent;
use crate::format;
use crate::table::{lines, new_table, section};

/// All of them, with titles; empty where there are none.
pub(super) fn part(profiles: &[Profile], width: usize, utf8: bool) -> String {
    if profiles.is_empty() {
        return String::new();
    }
    let shares = section("Where time goes, in shares of samples", &shares(profiles, width, utf8));
    let functions = section("The functions that cost most", &functions(profiles, width, utf8));
    format!("{shares}\n{functions}")
}

fn shares(profiles: &[Profile], width: usize, utf8: bool) -> String {
    let mut table = new_table(width, utf8);
    table.set_header(["path", "sends", "copying", "entering", "network", "user", "samples"]);
    table.add_rows(profiles.iter().map(|profile| {
        let shares = [profile.copying, profile.entering, profile.network, profile.user].map(percent);
        [profile.path.clone(), sends(profile)]
            .into_iter()
            .chain(shares)
            .chain([format::count(profile.samples)])
    }));
    for index in 2..=6 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&mut table)
}

fn functions(profiles: &[Profile], width: usize, utf8: bool) -> String {
    let mut table = new_table(width, utf8);
    table.add_rows(profiles.iter().map(|profile| {
        let share =
            |function: &FunctionShare| format!("{} {:.1}%", function.function, function.share * 100.0);
        let functions: Vec<String> = profile.functions.iter().map(share).collect();
        [profile.path.clone(), sends(profile), functions.join(", ")]
    }));
    lines(&mut table)
}

fn sends(profile: &Profile) -> String {
    let transport = if profile.transport == Transport::Udp { "UDP" } else { "TCP" };
    format!("{transport} {}", profile.size.map_or("file".to_owned(), format::count))
}
