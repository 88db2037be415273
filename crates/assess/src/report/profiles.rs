//! Profiles of paths: table 1 of the assessment papers.

use wirepath_report::plot::{Stack, StackRow};
use wirepath_report::{Cell, Detail, Panel, Section, Table, number};

use crate::result::{Assessment, Profile, Shares};

/// Names of the shares; the last one is the rest.
const PARTS: [&str; 5] = ["copying", "entering", "network", "user", "other"];

pub(super) fn section(assessment: &Assessment) -> Section {
    let mut section = Section::new("profiles", "Where the time goes");
    let profiles = &assessment.profiles;
    if profiles.is_empty() {
        return section;
    }
    section.paragraph(
        "Samples of the processor while a path runs: in functions that copy payload, in entering and leaving the kernel, \
         in the network stack, in user space, and elsewhere in the kernel (the page cache, mostly).",
    );
    let rows =
        profiles.iter().map(|profile| StackRow { name: name(profile), shares: shares(profile).into() });
    let stack = Stack { title: "Shares of processor time by data path", parts: &PARTS, rows: rows.collect() };
    let panels = stack.scene().into_iter().map(|scene| Panel { title: String::new(), scene });
    section.figure("Shares of processor time by data path.", panels.collect());
    section.table(shares_table(profiles));
    section.table(functions(profiles));
    section
}

fn name(profile: &Profile) -> String {
    let Profile { experiment, path, transport: protocol, size, .. } = profile;
    format!("{path} ({experiment}, {}, {})", protocol, number::size(*size))
}

fn shares(profile: &Profile) -> [f64; 5] {
    let Shares { copying, entering, network, user, .. } = profile.shares;
    let known = [copying, entering, network, user];
    let other = (1.0 - known.iter().sum::<f64>()).max(0.0);
    [known[0], known[1], known[2], known[3], other]
}

fn shares_table(profiles: &[Profile]) -> Table {
    let heads = [
        "path",
        "experiment",
        "size",
        "#samples",
        "#lost",
        "#copying",
        "#entering",
        "#network",
        "#user",
        "#other",
    ];
    let mut table = Table::new("Shares of samples.", &heads);
    for profile in profiles {
        let shares = shares(profile).map(|share| Cell::plain(number::percent(share)));
        let head = [
            Cell::code(profile.path.name()),
            Cell::plain(format!("{} {}", profile.experiment, profile.transport)),
            Cell::plain(number::size(profile.size)),
            Cell::plain(number::count(profile.shares.samples)),
            Cell::plain(number::count(profile.shares.lost)),
        ];
        table.row(head.into_iter().chain(shares));
    }
    table
}

fn functions(profiles: &[Profile]) -> Table {
    let heads = ["path", "experiment", "size", "functions"];
    let caption = "The most expensive functions of each path, and their shares (table 1 of [1]).";
    let mut table = Table::new(caption, &heads).with_detail(Detail::Full);
    for profile in profiles {
        let functions = profile.shares.functions.iter();
        let shares = functions.map(|one| format!("{} {}", one.function, number::percent(one.share)));
        table.row([
            Cell::code(profile.path.name()),
            Cell::plain(format!("{} {}", profile.experiment, profile.transport)),
            Cell::plain(number::size(profile.size)),
            Cell::plain(shares.collect::<Vec<_>>().join(", ")),
        ]);
    }
    table
}
