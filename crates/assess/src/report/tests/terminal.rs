//! Tests of reports on a terminal, and of their cells.

use std::path::{Path, PathBuf};

use unicode_width::UnicodeWidthStr;
use wirepath_datapath::DataPath;
use wirepath_datapath::calibration::{self, Calibration, DeviceKind, PathCost};
use wirepath_report::terminal::Terminal;
use wirepath_report::{Block, Kind};

use super::*;
use crate::confidence::MedianRatio;
use crate::result::{
    FunctionShare, Loan, LoanPoint, Loans, Measurement, Profile, Run, SCHEMA, Threshold, Transport,
};

/// Text with control sequences and markup.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\r\u{202e}\u{2066}`a` `</td></table><script>alert(1)</script>\
                       <!-- end -->\" onload='x' | **b** [a](b)";

fn terminal(assessment: &Assessment, width: usize, utf8: bool) -> String {
    Terminal { width, utf8 }.document(&document(assessment))
}

/// Stored results of assessments.
fn kept() -> Vec<(String, Assessment)> {
    let files = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results");
    let folders = files(&root).into_iter().filter(|path| path.is_dir());
    let of_json = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "json");
    let kept = folders.flat_map(|folder| files(&folder)).filter(of_json).filter_map(|file| {
        let text = std::fs::read_to_string(&file).ok().filter(|text| text.contains(SCHEMA))?;
        Some((file.display().to_string(), Assessment::from_json(&text).unwrap()))
    });
    kept.collect()
}

/// Results that are not stored: examples, this machine, long names of functions.
fn others() -> Vec<(String, Assessment)> {
    let mut long = example::full();
    let function = FunctionShare { function: "__list_del_entry_valid_or_report".to_owned(), share: 1.0 };
    long.profiles.iter_mut().for_each(|profile| profile.shares.functions = vec![function.clone(); 5]);
    let here = Assessment { host: crate::host::examine(), ..example::nothing() };
    let others = [example::full(), example::partial(), example::nothing(), long, here];
    others.into_iter().map(|one| ("no kept result".to_owned(), one)).collect()
}

/// Promise: Terminal reports of all kept results fit 80 columns.
#[test]
fn every_kept_result_fits_a_terminal_of_80_columns() {
    let kept = kept();
    assert!(kept.iter().filter(|(name, _)| name.ends_with("/assessment.json")).count() >= 3);
    for (name, mut assessment) in kept.into_iter().chain(others()) {
        for utf8 in [false, true] {
            let text = terminal(&assessment, 80, utf8);
            let wide: Vec<&str> = text.lines().filter(|line| line.width() > 80).collect();
            assert!(wide.is_empty() && (utf8 || text.is_ascii()), "{name}: {wide:#?}");
            // With all facts about the machine.
            assessment.settings.experiments.push(Experiment::Host);
        }
    }
}

/// Promise: No text of a result becomes markup, a formula or a control sequence of the terminal.
#[test]
fn a_whole_report_of_hostile_texts_commands_nothing() {
    let mut assessment = example::with_texts(HOSTILE);
    let cost = |path: DataPath| PathCost {
        path: path.to_string(),
        packets_per_train: calibration::USUAL_TRAIN,
        own_headers: false,
        cpu_ns_per_packet: 10.0,
    };
    assessment.server = Some(Calibration {
        host: calibration::Host::this(),
        device: DeviceKind::Named(HOSTILE.to_owned()),
        mtu: 1500,
        origin: HOSTILE.to_owned(),
        unix_s: 0,
        costs: DataPath::SERVING.map(cost).to_vec(),
    });
    let plain = html(&example::with_texts("plain"));
    let commands =
        |letter: char| (letter.is_control() && letter != '\n') || ('\u{202a}'..='\u{2069}').contains(&letter);
    for text in [terminal(&assessment, 80, false), terminal(&assessment, 80, true)] {
        assert!(text.contains("[2J") && !text.contains(commands), "{text}");
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    }
    let page = html(&assessment);
    assert!(page.contains("[2J") && !page.contains(commands) && !page.contains("\" onload"));
    for tag in ["<script", "<table", "</table", "</td", "<!--"] {
        assert_eq!(page.matches(tag).count(), plain.matches(tag).count(), "{tag}");
    }
}

/// Texts of a table's rows.
fn rows(table: &Table) -> Vec<Vec<&str>> {
    table.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect()
}

/// First table of a report whose caption begins with this text.
fn table(assessment: &Assessment, caption: &str) -> Option<Table> {
    let sections = document(assessment).sections;
    let mut blocks = sections.into_iter().flat_map(|section| section.blocks);
    blocks.find_map(|block| match block {
        Block::Table(table) if table.caption.starts_with(caption) => Some(table),
        _ => None,
    })
}

/// Measurement whose runs took this many processor seconds per GiB.
fn measured(path: &str, size: u64, seconds: &[f64]) -> Measurement {
    let example = example::full().measurements[0].clone();
    let run = |system_s: &f64| Run { user_s: 0.0, system_s: *system_s, bytes: 1 << 30, ..example.runs[0] };
    let runs = seconds.iter().map(run).collect();
    let calls_per_packet = Some(1.0 / 48.0);
    Measurement {
        path: path.parse().unwrap(),
        size: Some(size),
        packets_per_train: 48,
        calls_per_packet,
        calls_in_papers: Some(2),
        runs,
        ..example
    }
}

/// Promise: Costs are sorted and compared; noisy costs are marked.
#[test]
fn rows_are_sorted_compared_and_marked() {
    let mut profile = Profile { path: "read_writev".parse().unwrap(), ..example::full().profiles[0].clone() };
    profile.shares.copying = 0.31;
    let assessment = Assessment {
        measurements: vec![
            measured("read_writev", 1460, &[1.0, 1.0]),
            measured("wire_sendfile", 1460, &[0.05, 0.05]),
            measured("sendmmsg", 512, &[1.0, 2.0, 3.0]),
        ],
        profiles: vec![profile],
        ..example::nothing()
    };
    let table = table(&assessment, "Streaming over UDP, MTU 1,500.").unwrap();
    let rows = rows(&table);
    assert_eq!(rows[0][..3], ["sendmmsg", "512 B", "2.00"]);
    assert_eq!(table.rows[0][2].kind, Kind::Noisy);
    assert_eq!(
        rows[1],
        ["wire_sendfile", "1,460 B", "0.0500", "?", "0.0500 (1/20)", "0.0208", "2", "–", "48"],
        "no profile of that path"
    );
    assert_eq!(rows[2], ["read_writev", "1,460 B", "1.00", "?", "–", "0.0208", "2", "31 %", "48"]);
    assert!(table.notes[0].contains("Copying: its share"), "{:?}", table.notes);
}

/// Promise: Counts of lent and copied sends of each path are summed over all runs.
#[test]
fn lent_pages_of_all_runs_are_added_up() {
    let one = Loans { loans: 16_000, copies: 5, copied_by_kernel: 3, outstanding: 0, outstanding_most: 32 };
    let mut lending = measured("gso_zerocopy", 1460, &[1.0, 1.0]);
    lending.runs[0].loans = Some(one);
    lending.runs[1].loans = Some(Loans { outstanding_most: 7, ..one });
    let mut other = measured("rtp_sendfile", 1460, &[1.0]);
    other.runs[0].loans = None;
    let of = |measurements| table(&Assessment { measurements, ..example::nothing() }, "Sends that lent");
    let both = of(vec![other.clone(), lending]).unwrap();
    assert_eq!(rows(&both), [["gso_zerocopy", "1,460 B", "UDP", "1,500", "32,000", "10", "6", "32"]]);
    assert_eq!(of(vec![other]), None);
}

/// Point of sends that take this many seconds; the copy alone takes 100 ns.
fn point(size: u64, copied: f64, lent: Option<f64>) -> LoanPoint {
    LoanPoint {
        size,
        mtu: 1500,
        transport: Transport::Udp,
        aligned: true,
        copy_s: vec![100e-9],
        copied_send_s: vec![copied],
        lent_send_s: lent.into_iter().collect(),
        copied_throughput: 12_345_678_901.0,
        lent_throughput: lent.map(|_| 98_765_432_109.0),
        copied_errors: 12_345,
        lent_errors: 6,
        auto_send_s: Vec::new(),
        auto_lends: None,
        lent_to_copied: None,
        auto_to_best: None,
        fragments_send_s: Vec::new(),
        spliced_send_s: Vec::new(),
    }
}

fn with_loan(points: Vec<LoanPoint>, threshold: Threshold) -> Assessment {
    Assessment {
        loan: Some(Loan { points, thresholds: vec![threshold], queue: Vec::new() }),
        ..example::nothing()
    }
}

const NO_THRESHOLD: Threshold = Threshold {
    transport: Transport::Udp,
    mtu: 1500,
    aligned_bytes: None,
    unaligned_bytes: None,
    aligned_undecided: Vec::new(),
    unaligned_undecided: Vec::new(),
    kernel_copies: false,
};

/// Promise: The cost of the loan alone is the cost of a lending send minus that of a send without its copy.
#[test]
fn rows_of_the_loan_have_the_loan_alone_and_ratios() {
    let points =
        vec![point(65_507, 900e-9, Some(700e-9)), point(64, 500e-9, Some(650e-9)), point(128, 500e-9, None)];
    let tables = extract(&with_loan(points, NO_THRESHOLD), Extract::Loan);
    let rows = rows(&tables[1]);
    assert_eq!(rows[0][..7], ["64 B", "a page", "100 ns", "250 ns", "500 ns", "650 ns", "1.30"]);
    assert_eq!(rows[0][7..], ["98.8 Gb/s", "790 Gb/s", "+700.0 %", "12,345", "6"]);
    assert_eq!(rows[1][2..7], ["100 ns", "–", "500 ns", "–", "–"]);
    assert_eq!(rows[1][7..10], ["98.8 Gb/s", "–", "–"]);
    assert_eq!(rows[2][2..7], ["100 ns", "–", "900 ns", "700 ns", "0.778"], "a loan of less than nothing");
}

/// Promise: `assess loan` shows the cost of the automatic choice relative to the better kind, and undecided sizes.
#[test]
fn the_automatic_choice_is_shown_with_its_intervals() {
    let ratio = |lower, median, upper| {
        Some(MedianRatio { median, lower: Some(lower), upper: Some(upper), rounds: 10 })
    };
    let with = |size, lent_to_copied, auto_to_best, auto_lends| LoanPoint {
        auto_send_s: vec![500e-9],
        auto_lends: Some(auto_lends),
        lent_to_copied,
        auto_to_best,
        ..point(size, 500e-9, Some(650e-9))
    };
    let points = vec![
        with(64, ratio(1.2, 1.3, 1.4), ratio(0.99, 1.0, 1.01), false),
        with(128, ratio(0.9, 1.0, 1.1), ratio(1.0, 1.04, 1.06), false),
        with(256, ratio(0.7, 0.8, 0.9), ratio(1.1, 1.25, 1.4), false),
        with(512, None, Some(MedianRatio { median: 1.0, lower: None, upper: None, rounds: 7 }), true),
    ];
    let tables = extract(&with_loan(points, NO_THRESHOLD), Extract::Loan);
    let rows = rows(&tables[2]);
    assert_eq!(rows[0][2..], ["1", "1.30", "1.20 to 1.40", "copying", "copies", "1.00", "0.990 to 1.01"]);
    assert_eq!(rows[1][3..], ["1.00", "0.900 to 1.10", "undecided", "copies", "1.04", "1.00 to 1.06"]);
    assert_eq!(rows[2][3..], ["0.800", "0.700 to 0.900", "lending", "copies", "1.25", "1.10 to 1.40"]);
    assert_eq!(rows[3][3..], ["–", "–", "not lent", "lends", "1.00", "–"]);
    let note = &tables[2].notes[0];
    assert!(note.contains("at most 1.05 at 1 of 4") && note.contains("more at 1, undecided at 2"), "{note}");
    let old = extract(&with_loan(vec![point(64, 500e-9, None)], NO_THRESHOLD), Extract::Loan);
    assert_eq!(old.len(), 2, "a result without the automatic choice has no table of it");
}

#[test]
fn thresholds_say_whether_lending_is_ever_cheaper() {
    let row = |threshold: Threshold| {
        let tables = extract(&with_loan(Vec::new(), threshold), Extract::Loan);
        rows(&tables[0])[0].join("; ")
    };
    let cheaper = Threshold { aligned_bytes: Some(65_507), ..NO_THRESHOLD };
    assert_eq!(row(cheaper), "UDP; 1,500; 65,507 B; never cheaper");
    let copies = Threshold { kernel_copies: true, ..NO_THRESHOLD };
    assert_eq!(row(copies), "UDP; 1,500; the kernel copies; the kernel copies");
}

/// Promise: On a terminal no figure is split over two lines, and empty columns are left out.
#[test]
fn figures_of_the_loan_are_whole_at_80_columns() {
    let huge = LoanPoint { lent_errors: u64::MAX, ..point(1 << 20, 1234e-6, Some(1111e-6)) };
    let small = LoanPoint { copy_s: vec![1e-6, 2e-6, 3e-6], aligned: false, ..point(64, 500e-9, None) };
    let text = terminal(&with_loan(vec![huge, small], NO_THRESHOLD), 80, false);
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let figures =
        ["1 MiB", "elsewhere", "1.23 ms", "1.11 ms", "2.00 us ~", "98.8 Gb/s", "790 Gb/s", "12,345"];
    for figure in figures.into_iter().chain(["18,446,744,073,709,551,615"]) {
        assert!(text.contains(figure), "{figure}: {text}");
    }
    let copied = terminal(&with_loan(vec![point(64, 500e-9, None)], NO_THRESHOLD), 80, false);
    assert!(text.contains("lent/copied") && !copied.contains("lent/copied"), "{copied}");
}

/// Promise: The report calls no figure better if the difference is within the noise of the runs.
#[test]
fn the_summary_says_how_sure_it_is() {
    let cheapest = |best: &[f64], next: &[f64]| {
        let measurements = vec![
            measured("wire_uring", 1460, best),
            measured("wire_sendfile", 1460, next),
            measured("read_writev", 1460, &[1.0; 3]),
        ];
        extract(&Assessment { measurements, ..example::nothing() }, Extract::Cheapest).remove(0)
    };
    let sure = cheapest(&[0.25; 3], &[0.5; 3]);
    assert_eq!(
        rows(&sure)[0][1..],
        ["1,460 B", "wire_uring", "0.250", "wire_sendfile 0.500", "0.250 (1/4.0)", "read_writev"]
    );
    assert!(sure.notes[0].starts_with("wire_uring: it needs its files in memory"), "{:?}", sure.notes);
    let noisy = cheapest(&[0.2, 0.25, 0.5], &[0.3; 3]);
    assert_eq!(rows(&noisy)[0][4], "wire_sendfile 0.300 (either will do)");
    let kinds: Vec<_> = noisy.rows[0][3..].iter().map(|cell| cell.kind).collect();
    assert!(matches!(kinds[..], [Kind::Noisy, Kind::Plain, Kind::Noisy, Kind::Code]), "{kinds:?}");
    let few = cheapest(&[0.25], &[0.5]);
    assert_eq!(rows(&few)[0][4], "wire_sendfile 0.500 (too few runs to say which)");
}

/// Promise: The report shows the share of copying for each path, from its profile.
/// Promise: The report calls no figure better if the difference is within the noise of the runs.
/// Promise: Costs are sorted and compared; noisy costs are marked.
#[test]
fn a_terminal_shows_costs_sorted_compared_and_marked() {
    let assessment = example::full();
    let text = Terminal { width: 120, utf8: false }.document(&document(&assessment));
    assert!(text.is_ascii() && !text.contains('`'), "{text}");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let place = |row: &[&str]| rows.iter().position(|words| words.starts_with(row)).unwrap();
    let (cheap, dear) = (place(&["wire_uring", "1,460", "B"]), place(&["read_writev", "1,460", "B"]));
    assert!(cheap < dear && place(&["read_writev", "512", "B"]) < cheap, "smallest and cheapest first");
    let copying = number::percent(assessment.profiles[2].shares.copying);
    assert!(rows[dear].join(" ").contains(&copying), "{:?}", rows[dear]);
    let noisy = &rows[place(&["gso_zerocopy", "1,460", "B"])];
    assert_eq!(noisy[4], "~", "{noisy:?}");
    let verdict = text.find("The cheapest data path for each purpose").unwrap();
    assert!(verdict > text.find("What was not measured").unwrap(), "the end is what is seen");
    assert!(text[verdict..].contains("wire_uring: it needs its files in memory"), "{}", &text[verdict..]);
    let unprofiled = Assessment { profiles: Vec::new(), ..assessment };
    let text = Terminal { width: 500, utf8: false }.document(&document(&unprofiled));
    assert!(text.contains("Copying was not sampled"), "{text}");
}
