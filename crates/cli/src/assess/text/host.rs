//! The machine.

use wirepath_assess::result::{Advice, Device, Feature, Host, PathState, Transport};

use crate::format;
use crate::table::{lines, new_table, section};

/// Its parts, each with a title.
pub(super) fn parts(host: &Host, width: usize, utf8: bool) -> Vec<String> {
    vec![
        section("Machine", &machine(host, width, utf8)),
        section("Network devices", &devices(&host.devices, width, utf8)),
        section("Features of network devices", &features(&host.devices, width, utf8)),
        section("Limits and privileges", &limits(host, width, utf8)),
        section("Data paths, tried over loopback", &paths(&host.paths, width, utf8)),
        section("Advice", &advice(&host.advice, width, utf8)),
    ]
}

fn machine(host: &Host, width: usize, utf8: bool) -> String {
    let processors = format::counted(host.processors.into(), "processor", "processors");
    let mut table = new_table(width, utf8);
    table.add_rows([
        ["kernel", &host.kernel],
        ["processor", &format!("{}, {processors}", host.processor)],
        ["memory", &format::size(host.memory)],
        ["load", &host.load],
    ]);
    lines(&mut table)
}

fn devices(devices: &[Device], width: usize, utf8: bool) -> String {
    if devices.is_empty() {
        return "none that can be asked\n".to_owned();
    }
    let mut table = new_table(width, utf8);
    table.set_header(["device", "driver", "state", "MTU", "speed", "transmit ring", "receive ring"]);
    table.add_rows(devices.iter().map(|device| {
        [
            device.name.clone(),
            device.driver.clone().unwrap_or_default(),
            if device.up { "up" } else { "down" }.to_owned(),
            device.mtu.to_string(),
            device.speed_mbps.map_or(String::new(), |speed| format::bit_rate(u64::from(speed) * 1_000_000)),
            device.rings.map_or(String::new(), |rings| ring(rings.transmit, rings.transmit_most)),
            device.rings.map_or(String::new(), |rings| ring(rings.receive, rings.receive_most)),
        ]
    }));
    lines(&mut table)
}

fn ring(size: u32, most: u32) -> String {
    format!("{size} of {most}")
}

/// Features below the names of their devices, as many devices beside each other as there is room for.
fn features(devices: &[Device], width: usize, utf8: bool) -> String {
    const FEATURE_WIDTH: usize = 30;
    const DEVICE_WIDTH: usize = 17; // the longest name of a device, and room between two
    let telling: Vec<&Device> = devices.iter().filter(|device| !device.features.is_empty()).collect();
    let beside = (width.saturating_sub(FEATURE_WIDTH) / DEVICE_WIDTH).max(1);
    let tables = telling.chunks(beside).map(|devices| {
        let mut table = new_table(width, utf8);
        table.set_header(["feature"].into_iter().chain(devices.iter().map(|device| &device.name[..])));
        let names = devices.iter().flat_map(|device| &device.features).map(|feature| &feature.name);
        let mut known: Vec<&String> = Vec::new();
        names.for_each(|name| {
            if !known.contains(&name) {
                known.push(name)
            }
        });
        table.add_rows(known.into_iter().map(|name| {
            let states =
                devices.iter().map(|device| device.features.iter().find(|feature| feature.name == *name));
            [name.clone()].into_iter().chain(states.map(|feature| feature.map_or(String::new(), state)))
        }));
        lines(&mut table)
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// As ethtool shows it.
fn state(feature: &Feature) -> String {
    let state = if feature.on { "on" } else { "off" };
    if feature.changeable { state.to_owned() } else { format!("{state} [fixed]") }
}

fn limits(host: &Host, width: usize, utf8: bool) -> String {
    let mut table = new_table(width, utf8);
    table.add_rows(host.limits.iter().map(|limit| [&limit.name, &limit.value]));
    lines(&mut table)
}

fn paths(paths: &[PathState], width: usize, utf8: bool) -> String {
    let mut table = new_table(width, utf8);
    table.set_header(["path", "for", "runs", "missing", "remedy"]);
    table.add_rows(paths.iter().map(|path| {
        let transport = if path.transport == Transport::Udp { "UDP" } else { "TCP" };
        [
            path.path.clone(),
            format!("{}, {transport}", path.experiment),
            if path.runs { "yes" } else { "NO" }.to_owned(),
            path.missing.clone().unwrap_or_default(),
            path.remedy.clone().unwrap_or_default(),
        ]
    }));
    lines(&mut table)
}

fn advice(advice: &[Advice], width: usize, utf8: bool) -> String {
    if advice.is_empty() {
        return "none: nothing that is known of could be better\n".to_owned();
    }
    let mut table = new_table(width, utf8);
    for (index, advice) in advice.iter().enumerate() {
        table.add_row([format!("{}.", index + 1), "found".to_owned(), advice.finding.clone()]);
        table.add_row(["", "means", &advice.consequence]);
        table.add_row(["", "remedy", &advice.remedy]);
    }
    lines(&mut table)
}
