//! Where each path spends its time.

use comfy_table::CellAlignment;
use wirepath_assess::result::{Profile, Transport};

use super::percent;
use crate::format;
use crate::table::{lines, new_table, section};

/// All of them, with a title; empty where there are none.
pub(super) fn part(profiles: &[Profile], width: usize, utf8: bool) -> String {
    if profiles.is_empty() {
        return String::new();
    }
    let mut table = new_table(width, utf8);
    table.set_header([
        "path",
        "for",
        "copying",
        "entering",
        "network",
        "user",
        "samples",
        "dearest functions",
    ]);
    table.add_rows(profiles.iter().map(|profile| {
        let transport = if profile.transport == Transport::Udp { "UDP" } else { "TCP" };
        let size = profile.size.map_or("whole file".to_owned(), format::count);
        let functions = profile
            .functions
            .iter()
            .map(|function| format!("{} {}", percent(function.share), function.function));
        [
            profile.path.clone(),
            format!("{}, {transport}, {size}", profile.experiment),
            percent(profile.copying),
            percent(profile.entering),
            percent(profile.network),
            percent(profile.user),
            format::count(profile.samples),
            functions.collect::<Vec<_>>().join("\n"),
        ]
    }));
    for index in 2..=6 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    section("Where time goes, in shares of samples", &lines(&mut table))
}
