//! The reference and `contrib` name what the server shows, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_tests::server::Server;
use wirepath_tests::{Deadline, clips, http, trials};

use crate::page::TestBed;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        the_reference_has_every_metric,
        the_reference_has_every_field_of_the_status,
        contrib_names_metrics_that_exist,
    ]
}

/// Text of a file of the project.
fn project_file(name: &str) -> Result<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&file).with_context(|| file.display().to_string())
}

/// A server with a session, and its `/metrics`.
fn metrics() -> Result<(Server, String)> {
    let folder = clips::folder(&[("clip.ts", &clips::constant(2)?)])?;
    let server = Server::of(folder.path()).start()?;
    // A thread names itself when it first runs.
    let text = Deadline::seconds(10.0).wait_for("engine threads in the metrics", || {
        let answer = http::get(server.http, "/metrics")?;
        let text = String::from_utf8(answer.body).context("/metrics is not text")?;
        Ok(text.contains("\nwirepath_thread_cpu_seconds_total{").then_some(text))
    })?;
    Ok((server, text))
}

/// Promise: The reference has a row for every metric of the server, with its kind and meaning.
fn the_reference_has_every_metric() -> Result<()> {
    let (_server, text) = metrics()?;
    let reference = project_file("docs/reference.md")?;
    let rows = rows(&text);
    ensure!(rows.len() > 40, "{text}");
    let is_metric = |line: &&str| line.starts_with("| `wirepath_") || line.starts_with("| `process_");
    let known: BTreeSet<&str> = reference.lines().filter(is_metric).collect();
    let missing: Vec<&str> = rows.iter().map(String::as_str).filter(|row| !known.contains(row)).collect();
    ensure!(missing.is_empty(), "rows that docs/reference.md lacks:\n{}", missing.join("\n"));
    // Hot memory is not to be had everywhere.
    let is_shown = |row: &&&str| row.contains("`wirepath_hot_") || rows.iter().any(|other| other == **row);
    let extra: Vec<&&str> = known.iter().filter(|row| !is_shown(row)).collect();
    ensure!(extra.is_empty(), "rows of docs/reference.md without a metric: {extra:#?}");
    Ok(())
}

/// Rows of the reference: `| name with its label | kind | help |`.
fn rows(text: &str) -> Vec<String> {
    let kind = |name: &str| {
        let prefix = format!("# TYPE {name} ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default()
    };
    let label = |name: &str| {
        let labels = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("_total{"));
        labels
            .and_then(|labels| labels.split_once('='))
            .map_or(String::new(), |(label, _)| format!("{{{label}}}"))
    };
    let described = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let row = |(name, help): (&str, &str)| {
        let total = if kind(name) == "counter" { "_total" } else { "" };
        format!("| `{name}{total}{}` | {} | {help} |", label(name), kind(name))
    };
    described.map(row).collect()
}

/// Promise: The reference has a row for every field of `/api/status`.
fn the_reference_has_every_field_of_the_status() -> Result<()> {
    let bed = TestBed::new()?;
    let reference = project_file("docs/reference.md")?;
    let mut fields = BTreeSet::new();
    collect("", &bed.server.status()?, &mut fields);
    let is_known = |field: &String| reference.contains(&format!("| `{field}` |"));
    let missing: Vec<&String> = fields.iter().filter(|field| !is_known(field)).collect();
    ensure!(missing.is_empty(), "fields that docs/reference.md lacks: {missing:#?}");
    Ok(())
}

/// Names of all fields: `sessions[].client`. Counters have their own table.
fn collect(prefix: &str, value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) if prefix != "counters" && prefix != "hot_memory" => {
            for (key, value) in object {
                let dot = if prefix.is_empty() { "" } else { "." };
                collect(&format!("{prefix}{dot}{key}"), value, fields);
            }
        }
        Value::Array(list) if list.iter().any(|item| item.is_object()) => {
            list.iter().for_each(|item| collect(&format!("{prefix}[]"), item, fields));
        }
        Value::Null => {}
        _ => _ = fields.insert(prefix.to_owned()),
    }
}

/// Promise: Every metric that the dashboard and the alert rules in `contrib` name is in `/metrics`.
fn contrib_names_metrics_that_exist() -> Result<()> {
    let (_server, text) = metrics()?;
    let samples: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let dashboard = project_file("contrib/grafana-dashboard.json")?;
    let parsed: Value = serde_json::from_str(&dashboard).context("contrib/grafana-dashboard.json")?;
    ensure!(parsed["panels"].as_array().is_some_and(|panels| panels.len() > 5), "no panels");
    for (file, text) in
        [("dashboard", dashboard), ("alert rules", project_file("contrib/prometheus-alerts.yml")?)]
    {
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let named: BTreeSet<&str> = text
            .split(|letter| !is_word(letter))
            .filter(|word| word.starts_with("wirepath_") || word.starts_with("process_"))
            .collect();
        ensure!(named.len() > 5, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&samples).filter(|name| !name.contains("_hot_")).collect();
        ensure!(unknown.is_empty(), "{file}: no such metric: {unknown:?}");
    }
    Ok(())
}
