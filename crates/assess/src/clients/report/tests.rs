//! Tests of the report of a made-up result.

use wirepath_report::terminal::Terminal;
use wirepath_report::{csv, html};

use super::*;
use crate::clients::{ClientCase, Conditions, Dimensions, SCHEMA};

fn step(clients: usize, p99_ms: f64, limit: Option<Limit>) -> Step {
    let figures = Figures {
        data_path: Some("wire_sendfile".to_owned()),
        window_s: 8.0,
        user_s: 1.0,
        system_s: 3.0,
        bits_per_second: clients as f64 * 4.2e6,
        lateness_p99_ms: Some(p99_ms),
        ..Figures::default()
    };
    Step { clients, limit, reason: "a burst late".to_owned(), figures: Some(figures) }
}

fn search(server: &str, case: &ClientCase, largest: usize) -> ClientSearch {
    ClientSearch {
        server: server.to_owned(),
        case: case.clone(),
        largest: Some(largest),
        failed: Some(largest * 2),
        limit: Limit::Processor,
        steps: vec![
            step(largest, 12.0, None),
            step(largest * 2, 300.0, Some(Limit::Lateness)),
            step(largest * 2, 250.0, Some(Limit::Processor)),
        ],
    }
}

fn result(peers: &[&str]) -> Clients {
    let cases = Dimensions::usual(false).cases();
    let mut searches: Vec<ClientSearch> = cases.iter().map(|case| search("wirepath", case, 10_000)).collect();
    searches.extend(peers.iter().map(|name| search(name, &cases[0], 40)));
    if !peers.is_empty() {
        // The own server with the number of clients that the peers carry.
        let mut few = step(40, 3.0, None);
        few.figures.iter_mut().for_each(|figures| figures.system_s = 0.0);
        searches[0].steps.push(few);
    }
    Clients {
        schema: SCHEMA.to_owned(),
        program: "wirepath 0.1.0".to_owned(),
        started: "2026-11-23T16:00:00Z".to_owned(),
        seconds: 100.0,
        partial: false,
        host: crate::example::full().host,
        conditions: Conditions::default(),
        searches,
        left_out: Vec::new(),
    }
}

/// Conditions that were never set are not shown as if they had been measured under.
#[test]
fn a_result_without_a_step_shows_no_conditions() {
    let mut result = Clients { partial: true, ..result(&[]) };
    let terminal = Terminal { width: 80, utf8: true };
    let partial = terminal.document(&document(&result));
    assert!(partial.contains("Clients start at") && partial.contains("the result is partial"), "{partial}");
    result.searches.clear();
    let empty = terminal.document(&document(&result));
    assert_eq!(empty.trim(), "Ended before the first step: nothing was measured.");
}

/// Promise: The result of `assess clients` fits 80 columns, names the loads of other servers, and reads back
/// from JSON.
#[test]
fn a_result_is_shown_and_kept() {
    for peers in [&[][..], &["gstreamer", "mediamtx"]] {
        let result = result(peers);
        let text = Terminal { width: 80, utf8: true }.document(&document(&result));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("10,000"), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("where the case names none: wire_sendfile."), "{text}");
        assert!(
            text.contains("20,000") && text.contains("a burst late"),
            "why the next number failed: {text}"
        );
        assert_eq!(text.contains("250 times"), !peers.is_empty(), "{text}");
        assert_eq!(
            text.contains("0.250 (1/4.0)"),
            !peers.is_empty(),
            "costs are those with 40 clients: {text}"
        );
        let page = html(document(&result)).unwrap();
        assert!(page.matches("<svg").count() >= 2 * result.searches.len().min(10), "plots of every case");
        let all: usize = result.searches.iter().map(|search| search.steps.len()).sum();
        assert_eq!(csv(&steps(&result)).unwrap().lines().count(), 1 + all);
        let json = serde_json::to_string(&result).unwrap();
        assert_eq!(Clients::from_json(&json).unwrap(), result);
    }
}

#[test]
fn a_number_that_was_tried_twice_is_one_point() {
    let result = result(&[]);
    let line = line(&result.searches[0].steps[1]);
    assert!(
        line.starts_with("clients 20,000, not timely: lateness: a burst late (0.50 processors"),
        "{line}"
    );
    let page = html(document(&result)).unwrap();
    assert!(page.contains("250 ms") && !page.contains("wirepath, 20,000: 300 ms"), "the second time counts");
}

/// Promise: The report of `assess clients` says for how many steps the media rate was not judged.
#[test]
fn steps_without_a_judged_rate_are_named() {
    let mut result = result(&[]);
    let said =
        |result: &Clients| document(result).warnings.iter().any(|text| text.contains("was not judged in"));
    assert!(said(&result));
    let steps = result.searches.iter_mut().flat_map(|search| &mut search.steps);
    steps.filter_map(|step| step.figures.as_mut()).for_each(|figures| figures.least_pace = Some(1.0));
    assert!(!said(&result));
}

/// Promise: `assess clients` shows the gain by a further processor, and says that the load client shares it.
#[test]
fn a_second_processor_is_compared_with_the_first() {
    let mut result = result(&[]);
    (result.conditions.client_processors, result.host.processors) = (1, 2);
    let all = result.searches.iter_mut().find(|search| search.case.processors == Processors::All).unwrap();
    all.largest = Some(19_500);
    all.steps.push(step(19_500, 12.0, None));
    let one = &result.searches[0];
    let all = result.searches.iter().find(|search| search.case.processors == Processors::All).unwrap();
    assert_eq!(all.gain_by_processor(one, 2), Some(0.95));
    assert_eq!(all.gain_by_processor(one, 1), None);
    let text = Terminal { width: 80, utf8: true }.document(&document(&result));
    assert!(text.contains("0.95 of the first"), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("the server shares them with the load client"), "{text}");
}

/// Promise: `assess clients` shows joules per client-hour, or says once that the machine has no energy
/// counters.
#[test]
fn energy_is_told_or_said_to_be_unknown() {
    let mut result = result(&[]);
    let text = |result: &Clients| {
        let text = Terminal { width: 80, utf8: true }.document(&document(result));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(text(&result).matches("Energy was not measured").count(), 1);
    assert!(!text(&result).contains("per client-hour"));
    result.conditions.energy_packages = vec!["package-0".to_owned()];
    // 80 W for 10,000 clients.
    result.searches[0].steps[0].figures.as_mut().unwrap().joules = Some(640.0);
    assert_eq!(result.searches[0].best().unwrap().joules_per_client_hour(), Some(28.8));
    let text = text(&result);
    assert!(text.contains("28.8") && text.contains("package-0"), "{text}");
    assert!(!text.contains("Energy was not measured"), "{text}");
}
