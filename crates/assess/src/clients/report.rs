//! Report of the experiment `clients`, and its steps as one table.

use wirepath_load::LEAST_PACE;
use wirepath_report::plot::{Axis, Line, Lines, Point, Unit};
use wirepath_report::{Cell, Detail, Document, Kind, Panel, Section, Table, number};

use super::case::{ClientCase, MediaTransport, Processors};
use super::result::{ClientSearch, Clients, Conditions, Figures, Limit, Step};

/// Name of `wirepath serve` in results.
const OWN: &str = "wirepath";

/// Complete report.
pub fn document(result: &Clients) -> Document {
    let host = &result.host;
    let mut summary = Section::new("clients", "Timely clients");
    summary.table(without_servers(largest(result), result));
    summary.table(without_servers(times(result), result));
    summary.table(without_servers(limits(result), result));
    summary.table(without_servers(by_processors(result), result));
    summary.table(without_servers(energy(result), result));
    summary.table(beside(result));
    // Without a step the conditions are not known.
    let conditions = (!result.searches.is_empty()).then(|| method(&result.conditions));
    let others = [plots(result), all_steps(result), left_out(result)];
    Document {
        title: "How many clients this machine carries".to_owned(),
        facts: vec![
            format!(
                "{}, {} processors, {}",
                host.processor,
                host.processors,
                number::about_bytes(host.memory)
            ),
            format!("Linux {}; load at start {}", host.kernel, host.load),
            format!("{}, {}", result.started, result.program),
        ],
        warnings: warnings(result),
        summary,
        sections: conditions.into_iter().chain(others).collect(),
    }
}

/// Text of one step.
pub(super) fn line(step: &Step) -> String {
    let clients = number::count(step.clients as u64);
    let figures = step.figures.as_ref().map_or_else(String::new, |figures| {
        let late = figures.lateness_p99_ms.map_or_else(String::new, |ms| format!(", p99 {ms:.0} ms late"));
        format!(" ({:.2} processors{late})", figures.processors())
    });
    match step.limit {
        None => format!("clients {clients}, timely{figures}"),
        Some(limit) => format!("clients {clients}, not timely: {}: {}{figures}", limit.name(), step.reason),
    }
}

fn warnings(result: &Clients) -> Vec<String> {
    let mut warnings = Vec::new();
    match (result.partial, result.searches.is_empty()) {
        (true, true) => warnings.push("Ended before the first step: nothing was measured.".to_owned()),
        (true, false) => warnings.push("Ended before the last step: the result is partial.".to_owned()),
        (false, _) => {}
    }
    let bounded: Vec<String> = result
        .searches
        .iter()
        .filter(|search| search.largest.is_some() && search.is_lower_bound())
        .map(|search| format!("{} with {} ({})", search.server, search.case, search.limit.name()))
        .collect();
    if !bounded.is_empty() {
        warnings
            .push(format!("The limit was not the server's, which may carry more: {}.", bounded.join("; ")));
    }
    if result.searches.iter().any(|search| search.limit == Limit::Media) {
        warnings.push(
            "The length of the media limits the clients: all of them start before the first one's media are \
             over. Raise --ramp, or play a longer --file."
                .to_owned(),
        );
    }
    let timely = || every_step(result).filter(|(_, step)| step.limit.is_none());
    let has_no_rate = |search: &ClientSearch, step: &Step| {
        search.case.transport != MediaTransport::Http
            && step.figures.as_ref().is_none_or(|figures| figures.least_pace.is_none())
    };
    let unjudged = timely().filter(|(search, step)| has_no_rate(search, step)).count();
    if unjudged > 0 {
        warnings.push(format!(
            "The rate of the media was not judged in {} of {} timely steps: no session had 3 s of a \
             transport stream's clock (PCR) in packets of payload type 33.",
            number::count(unjudged as u64),
            number::count(timely().count() as u64)
        ));
    }
    if result.searches.iter().any(|search| search.limit == Limit::Descriptors) {
        warnings.push(format!(
            "Open files limit the clients: {} for each process. Raise it with `ulimit -n`, as root or by the \
             limits of your login, or share the clients between `--processes`.",
            number::count(result.conditions.descriptors)
        ));
    }
    warnings
}

/// Removes the column of servers if there is only one server.
fn without_servers(mut table: Table, result: &Clients) -> Table {
    const SERVER: usize = 1;
    if result.searches.iter().all(|search| search.server == OWN) {
        table.columns.remove(SERVER);
        table.rows.iter_mut().for_each(|row| drop(row.remove(SERVER)));
    }
    table
}

fn largest(result: &Clients) -> Table {
    let heads = ["case", "server", "#clients", "#CPU s/min", "#rate", "#p99 late", "limit"];
    let mut table = Table::new("Largest number of timely clients.", &heads);
    for search in &result.searches {
        let best = search.best();
        let figures = best.and_then(|step| step.figures.as_ref());
        table.row([
            Cell::plain(search.case.to_string()),
            Cell::plain(&search.server),
            Cell::new(bounded(search), if search.largest.is_some() { Kind::Plain } else { Kind::Bad }),
            Cell::figure(best.and_then(Step::seconds_per_client_minute), number::significant),
            Cell::figure(figures, |figures| number::bit_rate(figures.bits_per_second / 8.0)),
            Cell::figure(figures.and_then(|figures| figures.lateness_p99_ms), milliseconds),
            Cell::plain(search.limit.name()),
        ]);
    }
    if let Some(chosen) = chosen(result) {
        table.notes.push(chosen);
    }
    table.notes.push(
        "CPU s/min: processor seconds of the server for one minute of one client, at that number. Limit: what \
         the next larger number failed by."
            .to_owned(),
    );
    table
}

/// Data paths that were used with `auto`.
fn chosen(result: &Clients) -> Option<String> {
    let of_auto = result.searches.iter().filter(|search| search.case.path == "auto");
    let used = of_auto.flat_map(|search| &search.steps).filter_map(|step| step.figures.as_ref());
    let mut paths: Vec<&str> = used.filter_map(|figures| figures.data_path.as_deref()).collect();
    paths.sort_unstable();
    paths.dedup();
    (!paths.is_empty())
        .then(|| format!("Data path of most trains, where the case names none: {}.", paths.join(", ")))
}

fn times(result: &Clients) -> Table {
    let heads = ["case", "server", "#late p50", "#max", "#burst", "#set-ups/s", "#set-up p99", "#first p99"];
    let mut table = Table::new("Times at that number, in milliseconds.", &heads);
    for (search, figures) in with_figures(result) {
        table.row([
            Cell::plain(search.case.to_string()),
            Cell::plain(&search.server),
            Cell::figure(figures.lateness_p50_ms, number::significant),
            Cell::figure(figures.lateness_max_ms, number::significant),
            Cell::figure(figures.burst_p50_ms, number::significant),
            Cell::figure(Some(figures.setups_per_second).filter(|number| *number > 0.0), number::significant),
            Cell::figure(figures.setup_p99_ms, number::significant),
            Cell::figure(figures.first_packet_p99_ms, number::significant),
        ]);
    }
    table.notes.push(
        "Burst: media that come together. Set-ups a second are bounded by those asked for. First: from PLAY to \
         the first packet, over HTTP from a request to the first byte."
            .to_owned(),
    );
    table
}

/// Table of the reasons why searches ended.
fn limits(result: &Clients) -> Table {
    let heads = ["case", "server", "#clients", "limit", "reason"];
    let mut table = Table::new("The next number, which failed, and why.", &heads);
    for search in &result.searches {
        let failed = |step: &&Step| Some(step.clients) == search.failed && step.limit.is_some();
        let Some(step) = search.steps.iter().rev().find(failed) else { continue };
        table.row([
            Cell::plain(search.case.to_string()),
            Cell::plain(&search.server),
            Cell::plain(number::count(step.clients as u64)),
            Cell::plain(search.limit.name()),
            Cell::plain(&step.reason),
        ]);
    }
    table
}

/// Energy per client, where the machine counts it.
fn energy(result: &Clients) -> Table {
    let heads = ["case", "server", "#clients", "#J per client-hour", "#W of the packages"];
    let mut table = Table::new("Energy at that number.", &heads);
    for search in &result.searches {
        let Some(step) = search.best() else { continue };
        let Some((joules, figures)) = step.joules_per_client_hour().zip(step.figures.as_ref()) else {
            continue;
        };
        let watts = figures.joules.map(|joules| joules / figures.window_s);
        table.row([
            Cell::plain(search.case.to_string()),
            Cell::plain(&search.server),
            Cell::plain(number::count(step.clients as u64)),
            Cell::plain(number::significant(joules)),
            Cell::figure(watts, number::significant),
        ]);
    }
    table.notes.push(format!(
        "Energy of the processor packages ({}) by RAPL, that of the load client and of idle processors included.",
        result.conditions.energy_packages.join(", ")
    ));
    table
}

/// Clients with one processor, and with all of them.
fn by_processors(result: &Clients) -> Table {
    let heads = ["case", "server", "#one", "#all", "#each further", "#client CPU"];
    let mut table = Table::new("Clients with one processor and with all of them.", &heads);
    let processors = (result.conditions.client_processors + 1).min(result.host.processors as usize);
    for all in result.searches.iter().filter(|search| search.case.processors == Processors::All) {
        let case = ClientCase { processors: Processors::One, ..all.case.clone() };
        let is_one = |one: &&ClientSearch| one.server == all.server && one.case == case;
        let Some(one) = result.searches.iter().find(is_one) else { continue };
        let client =
            all.best().and_then(|step| step.figures.as_ref()).map(|figures| figures.client_processors);
        table.row([
            Cell::plain(case.to_string()),
            Cell::plain(&all.server),
            Cell::plain(bounded(one)),
            Cell::plain(bounded(all)),
            Cell::figure(all.gain_by_processor(one, processors), |gain| format!("{gain:.2} of the first")),
            Cell::figure(client, number::significant),
        ]);
    }
    table.notes.push(format!(
        "Each further: what each of the other {} processors adds, by what the first one carries. With all of them \
         the server shares them with the load client, whose use at that number is shown: alone, or with clients on \
         another host, it may carry more.",
        processors.saturating_sub(1)
    ));
    table
}

/// Number of timely clients, marked where the server may carry more.
fn bounded(search: &ClientSearch) -> String {
    let clients = search.largest.map_or_else(|| "0".to_owned(), |number| number::count(number as u64));
    let at_least = if search.is_lower_bound() && search.largest.is_some() { "≥ " } else { "" };
    format!("{at_least}{clients}")
}

/// Wirepath and its peers, in the cases that both were measured in.
fn beside(result: &Clients) -> Table {
    let heads = ["case", "server", "#clients", "wirepath carries", "#CPU s/min", "wirepath costs"];
    let mut table = Table::new("Beside other servers, in the same run.", &heads);
    table.notes.push(
        "CPU s/min of the other server at its number of clients, and what wirepath costs with as many clients."
            .to_owned(),
    );
    for search in result.searches.iter().filter(|search| search.server != OWN) {
        let own = result.searches.iter().find(|own| own.server == OWN && own.case == search.case);
        let Some((own, clients)) = own.zip(search.largest) else { continue };
        let cost = |search: &ClientSearch| search.timely(clients)?.seconds_per_client_minute();
        let times = own.largest.map(|own| own as f64 / clients as f64);
        let share = cost(own).zip(cost(search)).map(|(own, other)| own / other);
        table.row([
            Cell::plain(search.case.to_string()),
            Cell::plain(&search.server),
            Cell::plain(number::count(clients as u64)),
            Cell::figure(times, |times| format!("{} times as many", number::significant(times))),
            Cell::figure(cost(search), number::significant),
            Cell::figure(share, |share| format!("{} of that", number::ratio(share))),
        ]);
    }
    table
}

fn with_figures(result: &Clients) -> impl Iterator<Item = (&ClientSearch, &Figures)> {
    result.searches.iter().filter_map(|search| Some((search, search.best()?.figures.as_ref()?)))
}

fn method(conditions: &Conditions) -> Section {
    let mut section = Section::new("method", "Conditions");
    let Conditions { window_s, settle_s, ramp, buffer_ms, processor, client_processors, .. } = conditions;
    section.paragraph(format!(
        "Clients start at {ramp} a second; {settle_s} s after the last one a window of {window_s} s is measured. \
         All judged ones must play without an underrun of a buffer of {buffer_ms} ms, lose no packet, receive \
         {LEAST_PACE} of their rate at least (where that was judged), and 99 % of their bursts \
         may be late by a burst and 5 ms, all by a burst and 30 ms; the burst is what the case asks of `wirepath serve`, \
         100 ms for `auto`, and the same is allowed to every server. Over HTTP there are no bursts: players that read up to 10 s \
         ahead must have no underrun. No session may fail or be refused."
    ));
    section.paragraph(format!(
        "The server has processor {processor}, the load client the others ({client_processors}), unless the case says \
         all. Media over UDP of clients that are not judged go to a device that drops; the others cross a veth pair, \
         each end of which receives on its own processors (from Linux 6.3 on; not if the server may use all). Media \
         over TCP and HTTP are received and thrown away. `wirepath serve` runs with `--admission off`, unless an argument given for it \
         says otherwise; refused sessions count as a limit. A step that may have failed by chance is repeated once."
    ));
    if conditions.energy_packages.is_empty() {
        section.paragraph(
            "Energy was not measured: this machine shows no counters of processor packages (RAPL) in /sys/class/powercap."
                .to_owned(),
        );
    }
    if conditions.processes > 1 {
        section.paragraph(format!(
            "wirepath is {} processes of `wirepath serve`, which share its processors and have as many clients each, \
             since one process may have {} open files only; costs are those of all of them.",
            conditions.processes,
            number::count(conditions.descriptors)
        ));
    }
    if !conditions.server_arguments.is_empty() {
        section.paragraph(format!("Given to wirepath: `{}`", conditions.server_arguments.join(" ")));
    }
    for (name, command) in &conditions.peers {
        section.paragraph(format!("{name}: `{command}`"));
    }
    section
}

fn plots(result: &Clients) -> Section {
    let mut section = Section::new("plots", "By number of clients");
    let mut cases: Vec<&ClientSearch> = Vec::new();
    for search in &result.searches {
        if cases.iter().all(|known| known.case != search.case) {
            cases.push(search);
        }
    }
    let panels = |axis: &str, value: fn(&Step) -> Option<f64>, unit: Unit| -> Vec<Panel> {
        let of_case = |first: &&ClientSearch| {
            let searches: Vec<&ClientSearch> =
                result.searches.iter().filter(|search| search.case == first.case).collect();
            panel(&first.case.to_string(), axis, &searches, value, unit)
        };
        cases.iter().filter_map(of_case).collect()
    };
    let late = |step: &Step| step.figures.as_ref()?.lateness_p99_ms.map(|ms| ms.max(0.1) / 1000.0);
    section.figure(
        "Lateness that 99 % of the bursts did not exceed. Hollow: steps that were not timely.",
        panels("lateness, p99", late, Unit::Time),
    );
    section.figure(
        "Processor seconds of the server for one minute of one client. Hollow: steps that were not timely.",
        panels("CPU s per client-minute", Step::seconds_per_client_minute, Unit::Plain),
    );
    section
}

fn panel(
    title: &str,
    axis: &str,
    searches: &[&ClientSearch],
    value: fn(&Step) -> Option<f64>,
    unit: Unit,
) -> Option<Panel> {
    let line = |search: &&ClientSearch| {
        let point = |step: &Step| {
            let value = value(step)?;
            let noisy = step.limit.is_some();
            Some(Point { size: step.clients as u64, value, range: (value, value), noisy })
        };
        let mut points: Vec<Point> = search.steps.iter().filter_map(point).collect();
        // Of a number that was tried twice, the second attempt counts.
        points.reverse();
        points.sort_by_key(|point| point.size);
        points.dedup_by_key(|point| point.size);
        Line { name: search.server.clone(), points }
    };
    let scene = Lines {
        title,
        x_axis: "clients",
        x_unit: Unit::Plain,
        y_axis: axis,
        y_kind: Axis::Logarithmic,
        y_unit: unit,
        lines: searches.iter().map(line).filter(|line| !line.points.is_empty()).collect(),
    }
    .scene()?;
    Some(Panel { title: title.to_owned(), scene })
}

fn all_steps(result: &Clients) -> Section {
    let mut section = Section::new("steps", "All steps");
    let heads = ["case", "server", "#clients", "#processors", "#p99 late", "#client CPU", "verdict"];
    let mut table = Table::new("Every step, in the order of each search.", &heads).with_detail(Detail::Raw);
    for (search, step) in every_step(result) {
        let figures = step.figures.as_ref();
        let verdict = match step.limit {
            None => Cell::new("timely", Kind::Good),
            Some(limit) => Cell::plain(format!("{}: {}", limit.name(), step.reason)),
        };
        table.row([
            Cell::plain(search.case.to_string()),
            Cell::plain(&search.server),
            Cell::plain(number::count(step.clients as u64)),
            Cell::figure(figures, |figures| number::significant(figures.processors())),
            Cell::figure(figures.and_then(|figures| figures.lateness_p99_ms), milliseconds),
            Cell::figure(figures, |figures| number::significant(figures.client_processors)),
            verdict,
        ]);
    }
    section.table(table);
    section
}

fn every_step(result: &Clients) -> impl Iterator<Item = (&ClientSearch, &Step)> {
    result.searches.iter().flat_map(|search| search.steps.iter().map(move |step| (search, step)))
}

fn left_out(result: &Clients) -> Section {
    let mut section = Section::new("left-out", "What was not measured, and why");
    let mut table = Table::new("Left out.", &["what", "why"]);
    for left_out in &result.left_out {
        table.row([Cell::plain(&left_out.what), Cell::plain(&left_out.why)]);
    }
    section.table(table);
    section
}

fn milliseconds(ms: f64) -> String {
    number::time(ms / 1000.0)
}

/// Table of all steps, for plots and scripts.
pub fn steps(result: &Clients) -> Table {
    let heads = [
        "case",
        "server",
        "#clients",
        "verdict",
        "#seconds_per_client_minute",
        "#processors",
        "#user_s",
        "#system_s",
        "#window_s",
        "#bits_per_second",
        "#lateness_p50_ms",
        "#lateness_p99_ms",
        "#lateness_max_ms",
        "#judged",
        "#timely",
        "#lost",
        "#failed",
        "#refused",
        "#setups_per_second",
        "#setup_p99_ms",
        "#first_packet_p99_ms",
        "#client_processors",
        "#client_late_p99_ms",
        "#others",
        "#least_pace",
        "data_path",
        "#joules_per_client_hour",
        "#link_drops",
        "#descriptors",
        "reason",
    ];
    let mut table = Table::new("Steps.", &heads);
    let raw = |value: f64| value.to_string();
    for (search, step) in every_step(result) {
        let none = Figures::default();
        let figures = step.figures.as_ref().unwrap_or(&none);
        let optional = |value: Option<f64>| Cell::plain(value.map_or_else(String::new, raw));
        let counted = |value: u64| Cell::plain(value.to_string());
        table.row([
            Cell::plain(search.case.to_string()),
            Cell::plain(&search.server),
            counted(step.clients as u64),
            Cell::plain(step.limit.map_or("timely", Limit::name)),
            optional(step.seconds_per_client_minute()),
            Cell::plain(raw(figures.processors())),
            Cell::plain(raw(figures.user_s)),
            Cell::plain(raw(figures.system_s)),
            Cell::plain(raw(figures.window_s)),
            Cell::plain(raw(figures.bits_per_second)),
            optional(figures.lateness_p50_ms),
            optional(figures.lateness_p99_ms),
            optional(figures.lateness_max_ms),
            counted(figures.judged),
            counted(figures.timely),
            counted(figures.lost),
            counted(figures.failed),
            counted(figures.refused),
            Cell::plain(raw(figures.setups_per_second)),
            optional(figures.setup_p99_ms),
            optional(figures.first_packet_p99_ms),
            Cell::plain(raw(figures.client_processors)),
            optional(figures.client_late_p99_ms),
            optional(figures.others),
            optional(figures.least_pace),
            Cell::plain(figures.data_path.as_deref().unwrap_or_default()),
            optional(step.joules_per_client_hour()),
            counted(figures.link_drops),
            Cell::plain(figures.descriptors.map_or_else(String::new, |open| open.to_string())),
            Cell::plain(&step.reason),
        ]);
    }
    table
}

#[cfg(test)]
mod tests;
