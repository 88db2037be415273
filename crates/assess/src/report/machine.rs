//! Machine, settings, and possible improvements.

use wirepath_report::{Cell, Detail, Kind, Section, Table, number};

use crate::result::{Assessment, Cache, Experiment, Feature, Host, PathState, Rings};

pub(super) fn section(assessment: &Assessment) -> Section {
    let mut section = Section::new("machine", "The machine and the settings");
    section.table(host(assessment).with_detail(detail(assessment, Detail::Page)));
    section.table(settings(assessment).with_detail(Detail::Page));
    let Assessment { host, .. } = assessment;
    for table in [devices(host), features(host), limits(host), paths(host)] {
        section.table(table.with_detail(detail(assessment, Detail::Raw)));
    }
    section
}

/// Main level of detail if the experiment `host` was requested.
fn detail(assessment: &Assessment, otherwise: Detail) -> Detail {
    let asked = assessment.settings.experiments.contains(&Experiment::Host);
    if asked { Detail::Main } else { otherwise }
}

/// Advice on the machine.
pub(super) fn advice(assessment: &Assessment) -> Section {
    let mut section = Section::new("advice", "Advice");
    let heads = ["finding", "consequence", "remedy"];
    let mut table = Table::new("Findings on this machine that cost performance or figures.", &heads);
    for advice in &assessment.host.advice {
        table.row([
            Cell::plain(&advice.finding),
            Cell::plain(&advice.consequence),
            Cell::code(&advice.remedy),
        ]);
    }
    if table.rows.is_empty() {
        section.paragraph("No finding on this machine costs performance or figures.");
    }
    section.table(table.with_detail(detail(assessment, Detail::Raw)));
    section
}

pub(super) fn host(assessment: &Assessment) -> Table {
    let host = &assessment.host;
    pairs(
        "The machine.",
        &[
            ("processor", host.processor.clone()),
            ("processors that may be used", host.processors.to_string()),
            ("memory", number::about_bytes(host.memory)),
            ("kernel", host.kernel.clone()),
            ("load when it began", host.load.clone()),
            ("program", assessment.program.clone()),
            ("began", assessment.started.clone()),
            ("took", format!("{} s", number::significant(assessment.seconds))),
            ("ended", if assessment.partial { "before its end" } else { "complete" }.to_owned()),
            ("schema", assessment.schema.clone()),
        ],
    )
}

pub(super) fn settings(assessment: &Assessment) -> Table {
    let settings = &assessment.settings;
    let cache = match settings.cache {
        Cache::Warm => "in the page cache",
        Cache::Cold => "on storage",
    };
    pairs(
        "What was asked for.",
        &[
            ("experiments", settings.experiments.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")),
            ("volume of a run", number::about_bytes(settings.volume)),
            ("runs", settings.runs.to_string()),
            ("form", if settings.quick { "quick" } else { "full" }.to_owned()),
            ("sink", settings.sink.clone()),
            ("peer of TCP", assessment.tcp_peer().map_or_else(|| "none".to_owned(), |peer| peer.to_string())),
            ("MTU", number::bytes(settings.mtu.into())),
            ("payload", cache.to_owned()),
            ("pinned to processor", settings.cpu.map_or_else(|| "none".to_owned(), |cpu| cpu.to_string())),
        ],
    )
}

fn pairs(caption: &str, pairs: &[(&str, String)]) -> Table {
    let mut table = Table::new(caption, &["", "value"]);
    for (name, value) in pairs {
        table.row([Cell::plain(name), Cell::plain(value)]);
    }
    table
}

fn devices(host: &Host) -> Table {
    let heads = ["device", "driver", "up", "#MTU", "#Mb/s", "ring descriptors (maximum)"];
    let mut table = Table::new("Network devices.", &heads);
    for device in &host.devices {
        let rings = |Rings { transmit, transmit_most, receive, receive_most }| {
            format!("send {transmit} ({transmit_most}), receive {receive} ({receive_most})")
        };
        table.row([
            Cell::code(&device.name),
            Cell::plain(device.driver.as_deref().unwrap_or(number::NOTHING)),
            Cell::plain(if device.up { "yes" } else { "no" }),
            Cell::plain(number::count(device.mtu.into())),
            Cell::figure(device.speed_mbps, |speed| number::count(speed.into())),
            Cell::figure(device.rings, rings),
        ]);
    }
    table
}

fn features(host: &Host) -> Table {
    let heads = ["device", "features on", "features off"];
    let mut table = Table::new("Features of network devices that data paths need.", &heads);
    for device in host.devices.iter().filter(|device| !device.features.is_empty()) {
        let features = |on: bool| {
            let names = device.features.iter().filter(|feature| feature.on == on);
            let fixed = |feature: &Feature| if feature.changeable { "" } else { " (fixed)" };
            names.map(|feature| format!("{}{}", feature.name, fixed(feature))).collect::<Vec<_>>().join(", ")
        };
        table.row([Cell::code(&device.name), Cell::plain(features(true)), Cell::plain(features(false))]);
    }
    table
}

/// Data paths available on this machine, and the requirements of the other paths.
fn paths(host: &Host) -> Table {
    let heads = ["path", "experiment", "runs here", "what is missing", "remedy"];
    let mut table =
        Table::new("Data paths that run on this machine, tried over the loopback device.", &heads);
    for (index, path) in host.paths.iter().enumerate() {
        let lacks = |other: &&PathState| (&other.missing, &other.remedy) == (&path.missing, &path.remedy);
        let first = host.paths[..index].iter().find(lacks).filter(|_| path.remedy.is_some());
        let (missing, remedy) = match first {
            // Paths of the kernel module lack the same: the text is long, and is shown once.
            Some(first) => (Some(format!("as {}", first.path.name())), None),
            None => (path.missing.clone(), path.remedy.clone()),
        };
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| number::NOTHING.to_owned());
        table.row([
            Cell::code(path.path.name()),
            Cell::plain(format!("{} over {}", path.experiment, path.transport)),
            if path.runs { Cell::new("yes", Kind::Good) } else { Cell::new("no", Kind::Bad) },
            Cell::plain(or_nothing(missing)),
            Cell::plain(or_nothing(remedy)),
        ]);
    }
    table
}

fn limits(host: &Host) -> Table {
    let mut table = Table::new("Limits and settings of the kernel.", &["setting", "value"]);
    for limit in &host.limits {
        table.row([Cell::code(&limit.name), Cell::new(&limit.value, Kind::Plain)]);
    }
    table
}
