//! What the report says, part by part.

mod appendix;
mod costs;
mod loan;
mod machine;
mod paths;
mod profiles;
mod relay;
mod summary;

pub(super) use paths::{by_size, of_every_size};
pub(super) use summary::cheapest;

use super::document::{Document, Part, Section};
use super::table::Table;
use super::{counted_tables, number, papers};
use crate::cost::{self, Group};
use crate::figures::figures;
use crate::result::{Assessment, RelayCost};

/// The papers, as the report refers to them.
const PAPERS: [&str; 4] = [
    "[1] P. Halvorsen, T. A. Dalseng, C. Griwodz: Assessment of Linux' Data Path Implementations for Download and \
     Streaming. International Journal of Software Engineering and Knowledge Engineering.",
    "[2] P. Halvorsen, T. A. Dalseng, C. Griwodz: Assessment of Data Path Implementations for Download and Streaming. \
     International Conference on Distributed Multimedia Systems, 2005.",
    "[3] K.-A. Skevik, T. Plagemann, V. Goebel, P. Halvorsen: Evaluation of a Zero-Copy Protocol Implementation.",
    "[4] J. Kong, K. Schwan: KStreams: Kernel Support for Efficient End-to-End Data Streaming.",
];

/// The whole report.
pub(super) fn document(assessment: &Assessment) -> Document {
    let host = &assessment.host;
    let groups = cost::groups(assessment);
    let figures = figures(assessment);
    let mut sections = vec![summary::section(assessment)];
    sections.extend(groups.iter().enumerate().map(|(index, group)| paths::section(index, group)));
    sections.push(then_and_now(assessment, &groups));
    sections.push(counted(assessment));
    sections.push(profiles::section(assessment));
    sections.extend(assessment.loan.iter().map(|loan| loan::section(assessment, loan)));
    sections.push(relay::section(&assessment.relay));
    sections.extend(assessment.costs.iter().map(costs::section));
    sections.extend([
        machine::section(assessment),
        machine::advice(host),
        appendix::left_out(assessment),
        appendix::noise(&figures),
        appendix::measurements(assessment, &groups),
        appendix::every_run(&figures),
        references(),
    ]);
    sections.retain(|section| !section.parts.is_empty());
    Document {
        title: "What moving stored media to the network costs".to_owned(),
        facts: vec![
            format!(
                "{}, {} processors, {}",
                host.processor,
                host.processors,
                number::about_bytes(host.memory)
            ),
            format!("Linux {}", host.kernel),
            format!("{}, {}", assessment.started, assessment.program),
        ],
        warnings: warnings(assessment),
        sections,
    }
}

/// What was measured, and what was asked for. Devices, limits and data paths of the machine are in the report.
pub(super) fn machine(assessment: &Assessment) -> Vec<Table> {
    vec![machine::host(assessment), machine::settings(&assessment.settings)]
}

/// The tables about where the time goes.
pub(super) fn profiles(assessment: &Assessment) -> Vec<Table> {
    tables(profiles::section(assessment))
}

/// The tables about the page loan.
pub(super) fn loan(assessment: &Assessment) -> Vec<Table> {
    assessment.loan.iter().flat_map(|loan| tables(loan::section(assessment, loan))).collect()
}

/// The tables about moving data from sources to sinks.
pub(super) fn relay(costs: &[RelayCost]) -> Vec<Table> {
    tables(relay::section(costs))
}

fn tables(section: Section) -> Vec<Table> {
    let table = |part| match part {
        Part::Table(table) => Some(table),
        Part::Paragraph(_) | Part::Figure(_) => None,
    };
    section.parts.into_iter().filter_map(table).collect()
}

/// What `download` over UDP is called, and so on.
pub(super) fn name_of(group: &Group<'_>) -> String {
    let experiment = match group.experiment {
        "stream" => "Streaming",
        "download" => "Download",
        "loan" => "The page loan",
        other => other,
    };
    format!("{experiment} over {}", group.transport)
}

fn warnings(assessment: &Assessment) -> Vec<String> {
    let mut warnings = Vec::new();
    if assessment.partial {
        warnings.push(
            "Partial: this assessment was stopped before its end. What it had measured until then is here; “Left out” \
             says why it ended."
                .to_owned(),
        );
    }
    if assessment.settings.quick {
        warnings.push(
            "Quick: small volumes and few runs. Good for choosing a path; for figures to be quoted, assess in full."
                .to_owned(),
        );
    }
    let wrong: Vec<String> = cost::groups(assessment)
        .iter()
        .flat_map(|group| &group.costs)
        .filter(|cost| !cost.is_bare() && !cost.measurement.verified)
        .map(|cost| cost.name.clone())
        .collect();
    if !wrong.is_empty() {
        let mut names = wrong;
        names.sort();
        names.dedup();
        warnings.push(format!(
            "Not verified: what {} sent was not compared with what should arrive.",
            names.join(", ")
        ));
    }
    warnings
}

/// What the papers measured, beside this result.
fn then_and_now(assessment: &Assessment, groups: &[Group<'_>]) -> Section {
    let mut section = Section::new("then-and-now", "Then and now");
    section.table(papers::claims(assessment, groups));
    section.table(papers::table_2(groups));
    section
}

fn counted(assessment: &Assessment) -> Section {
    let mut section = Section::new("counted", "Kernel calls and copies");
    counted_tables(&assessment.counts).into_iter().for_each(|table| section.table(table));
    section
}

fn references() -> Section {
    let mut section = Section::new("papers", "The papers");
    PAPERS.iter().for_each(|paper| section.say(*paper));
    section
}
