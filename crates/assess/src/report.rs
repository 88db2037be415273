//! Report of a result, rendered by [`wirepath_report`], and a table of its runs.

mod appendix;
mod costs;
mod loan;
mod machine;
mod papers;
mod paths;
mod profiles;
mod relay;
mod runs;
mod summary;

use wirepath_report::{Block, Document, Section, Table, number};

pub use runs::runs;

use crate::count;
use crate::path_costs::{self, Group};
use crate::quantities::quantities;
use crate::result::{Assessment, Experiment, PathKind, Transport};

/// Papers, with the numbers that the report refers to.
const PAPERS: [&str; 4] = [
    "[1] P. Halvorsen, T. A. Dalseng, C. Griwodz: Assessment of Linux' Data Path Implementations for Download and \
     Streaming. International Journal of Software Engineering and Knowledge Engineering.",
    "[2] P. Halvorsen, T. A. Dalseng, C. Griwodz: Assessment of Data Path Implementations for Download and Streaming. \
     International Conference on Distributed Multimedia Systems, 2005.",
    "[3] K.-A. Skevik, T. Plagemann, V. Goebel, P. Halvorsen: Evaluation of a Zero-Copy Protocol Implementation.",
    "[4] J. Kong, K. Schwan: KStreams: Kernel Support for Efficient End-to-End Data Streaming.",
];

/// Complete report. Experiments that were not run have no sections.
pub fn document(assessment: &Assessment) -> Document {
    let host = &assessment.host;
    let groups = path_costs::groups(assessment);
    let figures = quantities(assessment);
    let mut sections: Vec<Section> = vec![machine::section(assessment), machine::advice(assessment)];
    sections.extend(assessment.costs.iter().map(costs::section));
    let of_paths = groups.iter().filter(|group| group.experiment != Experiment::Loan);
    sections.extend(of_paths.enumerate().map(|(index, group)| paths::section(assessment, index, group)));
    sections.extend([paths::lent(assessment), then_and_now(assessment, &groups), counted(assessment)]);
    sections.push(profiles::section(assessment));
    sections.extend(assessment.loan.iter().map(|loan| loan::section(assessment, loan)));
    sections.extend([
        relay::section(&assessment.relay),
        appendix::noise(&figures),
        appendix::measurements(&groups),
        appendix::every_run(&figures),
    ]);
    let summary = summary::section(assessment);
    let papers = references(sections.iter().chain([&summary]));
    sections.extend([papers, appendix::left_out(assessment)]);
    Document {
        title: "What moving media to the network costs".to_owned(),
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
        summary,
        sections,
    }
}

/// Part of a report that stands alone in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extract {
    /// Machine and settings.
    Machine,
    /// Cheapest path for each purpose.
    Cheapest,
    /// Costs of an experiment's paths by size.
    BySize(Experiment),
    /// One path in all sizes and variants.
    Path(PathKind),
    /// Profiles.
    Profiles,
    /// Page loan.
    Loan,
    /// Relay: data from sources to sinks.
    Relay,
    /// Gains claimed by the papers, and the gains on this machine.
    Claims,
    /// Kernel calls and copies.
    Counted,
}

/// Tables of a part; none if the result has no figures of it.
pub fn extract(assessment: &Assessment, what: Extract) -> Vec<Table> {
    let groups = path_costs::groups(assessment);
    let mut tables: Vec<Table> = match what {
        Extract::Machine => vec![machine::host(assessment), machine::settings(assessment)],
        Extract::Cheapest => vec![summary::cheapest(assessment)],
        Extract::BySize(experiment) => {
            groups.iter().filter(|group| group.experiment == experiment).map(paths::by_size).collect()
        }
        Extract::Path(path) => {
            let of_path = |group| paths::costs(assessment, group, |cost| cost.measurement.path.kind == path);
            groups.iter().filter(|group| group.experiment != Experiment::Loan).map(of_path).collect()
        }
        Extract::Profiles => profiles::section(assessment).into_tables().collect(),
        Extract::Loan => {
            let sections = assessment.loan.iter().map(|loan| loan::section(assessment, loan));
            sections.flat_map(Section::into_tables).collect()
        }
        Extract::Relay => relay::section(&assessment.relay).into_tables().collect(),
        Extract::Claims => vec![papers::claims(assessment, &groups)],
        Extract::Counted => count::tables(&assessment.counts),
    };
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Table 2 of the papers, and the same paths by results of one machine; of results of the same experiment and
/// transport, the first is shown. For each result the parts that the table takes from it.
pub fn table_2(assessments: &[&Assessment]) -> (Table, Vec<Vec<String>>) {
    let mut taken: Vec<(Experiment, Transport)> = Vec::new();
    let mut parts = Vec::new();
    for assessment in assessments {
        let mut names = Vec::new();
        for Group { experiment, transport, .. } in path_costs::groups(assessment) {
            if papers::has_part(experiment, transport) && !taken.contains(&(experiment, transport)) {
                taken.push((experiment, transport));
                names.push(name_of(experiment, transport));
            }
        }
        parts.push(names);
    }
    (papers::table_2(&groups_of(assessments)), parts)
}

/// Table 2 of the papers beside two kernels: the results that ran on the kernel of the first one, and the others.
/// Empty if they have no path of the table in common.
pub fn compare_kernels(assessments: &[&Assessment]) -> Table {
    let first = assessments.first().map_or("", |assessment| &assessment.host.kernel);
    let (before, after): (Vec<&Assessment>, Vec<&Assessment>) =
        assessments.iter().partition(|assessment| assessment.host.kernel == first);
    let second = after.first().map_or("", |assessment| &assessment.host.kernel);
    papers::table_2_of_kernels(&groups_of(&before), &groups_of(&after), [version(first), version(second)])
}

fn groups_of<'a>(assessments: &[&'a Assessment]) -> Vec<Group<'a>> {
    assessments.iter().copied().flat_map(path_costs::groups).collect()
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> &str {
    release.match_indices('.').nth(1).map_or(release, |(end, _)| &release[..end])
}

/// Title of figures of one experiment and transport, such as “Download over UDP”.
fn name_of(experiment: Experiment, transport: Transport) -> String {
    let experiment = match experiment {
        Experiment::Stream => "Streaming",
        Experiment::Download => "Download",
        Experiment::Loan => "The page loan",
        other => other.name(),
    };
    format!("{experiment} over {transport}")
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
    let measured = assessment.measurements.iter();
    let unverified = measured.filter(|measurement| !measurement.path.is_bare() && !measurement.verified);
    let mut names: Vec<String> = unverified.map(|measurement| measurement.path.to_string()).collect();
    names.sort();
    names.dedup();
    if !names.is_empty() {
        warnings.push(format!(
            "Not verified: what {} sent was not compared with what should arrive.",
            names.join(", ")
        ));
    }
    warnings
}

/// Figures of the papers, compared with this result.
fn then_and_now(assessment: &Assessment, groups: &[Group<'_>]) -> Section {
    let mut section = Section::new("then-and-now", "Then and now");
    section.table(papers::claims(assessment, groups));
    section.table(papers::table_2(groups));
    section
}

fn counted(assessment: &Assessment) -> Section {
    let mut section = Section::new("counted", "Kernel calls and copies");
    count::tables(&assessment.counts).into_iter().for_each(|table| section.table(table));
    section
}

/// Papers whose numbers the sections mention.
fn references<'a>(sections: impl Iterator<Item = &'a Section> + Clone) -> Section {
    let mut papers = Section::new("papers", "The papers");
    for (paper, number) in PAPERS.iter().zip(1..) {
        if sections.clone().any(|section| mentions(section, &format!("[{number}]"))) {
            papers.paragraph(*paper);
        }
    }
    papers
}

fn mentions(section: &Section, reference: &str) -> bool {
    section.blocks.iter().any(|block| match block {
        Block::Paragraph(text) => text.contains(reference),
        Block::Figure(figure) => figure.caption.contains(reference),
        Block::Table(table) => {
            table.caption.contains(reference) || table.notes.iter().any(|note| note.contains(reference))
        }
    })
}

#[cfg(test)]
mod tests;
