use pulldown_cmark::{Event, Options, Parser, Tag};
use wirepath_report::csv;

use super::*;
use crate::example;
use crate::result::Assessment;
use crate::statistics::Summary;

mod terminal;

fn html(assessment: &Assessment) -> String {
    wirepath_report::html(document(assessment)).unwrap()
}

fn markdown(assessment: &Assessment) -> String {
    wirepath_report::markdown(&document(assessment))
}

/// Promise: No text of a result becomes markup, a formula or a control sequence of the terminal.
#[test]
fn no_text_of_a_result_becomes_markup() {
    let hostile =
        "</text></svg></style><script>alert(1)</script>\" onload='x' --><!-- end -->&amp;[a](b)`|\u{1b}[2J";
    let page = html(&example::with_texts(hostile));
    let plain = html(&example::with_texts("plain"));
    for tag in ["<script", "<svg", "</svg", "<style", "<table", "</text", "<!--"] {
        let found = (page.matches(tag).count(), plain.matches(tag).count());
        assert_eq!(found.0, found.1, "{tag}");
    }
    assert!(!page.contains('\u{1b}') && !page.contains("\" onload"));
    let markdown = markdown(&example::with_texts(hostile));
    assert!(!markdown.contains('\u{1b}'));
    let marks_up = |event: &Event<'_>| {
        matches!(
            event,
            Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Link { .. } | Tag::Image { .. })
        )
    };
    let found = Parser::new_ext(&markdown, Options::ENABLE_TABLES).find(marks_up);
    assert!(found.is_none(), "{found:?}");
}

/// Promise: `wirepath assess report` makes a single page that needs neither network nor script.
#[test]
fn a_page_needs_nothing_else() {
    let page = html(&example::full());
    for loads in ["<script", "<link", "<img", "<iframe", "src=", "url(", "@import", "http://", "https://"] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src 'none'") && page.contains("<html lang=\"en\">"));
}

/// Promise: The page shows every figure of a result; noisy, partial or unverified figures are marked.
#[test]
fn every_figure_of_a_result_is_shown() {
    let assessment = example::full();
    let page = html(&assessment);
    let markdown = markdown(&assessment);
    for figure in quantities(&assessment).iter().filter(|figure| !figure.runs.is_empty()) {
        let median = Summary::of(figure.runs.iter().copied()).unwrap().median;
        let shown = figure.unit.text(median).replace(" s/GiB", "");
        assert!(page.contains(&format!(">{shown}<")), "{}: {shown}", figure.name);
        assert!(markdown.contains(&shown), "{}: {shown}", figure.name);
        if figure.runs.len() > 1 {
            assert!(page.contains(&figure.every_run().1.join(" ")), "{}", figure.name);
        }
    }
    for left_out in &assessment.left_out {
        let why = left_out.why.replace('\'', "&#39;");
        assert!(page.contains(&left_out.what) && page.contains(&why), "{why}");
    }
    assert!(page.contains(&assessment.host.advice[0].remedy));
}

#[test]
fn plots_have_titles_descriptions_and_names_of_their_own() {
    let page = html(&example::full());
    let plots = page.matches("<svg").count();
    assert!(plots > 20, "{plots}");
    assert_eq!(page.matches("role=\"img\"").count(), plots);
    let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is there twice");
    assert_eq!(page.matches("<desc id=").count(), plots);
    assert_eq!(
        page.matches("<th scope=\"col\"").count(),
        page.split("<thead>").skip(1).map(columns).sum::<usize>()
    );
}

fn columns(table: &str) -> usize {
    table.split("</thead>").next().unwrap_or_default().matches("<th").count()
}

/// Promise: The page shows every figure of a result; noisy, partial or unverified figures are marked.
#[test]
fn what_is_partial_quick_or_not_verified_says_so_first() {
    let mut assessment = example::partial();
    assessment.settings.quick = true;
    assessment.measurements[0].verified = false;
    for report in [html(&assessment), markdown(&assessment)] {
        let first = &report[..report.find("In short</h2>").or(report.find("## In short")).unwrap()];
        for warning in ["Partial: ", "Quick: ", "Not verified: "] {
            assert!(first.contains(warning), "{warning}");
        }
    }
}

/// Promise: No text of a result becomes markup, a formula or a control sequence of the terminal.
///
/// All figures of a result are untrusted input, too.
#[test]
fn any_figures_make_a_report() {
    fn replace(value: &mut serde_json::Value, float: f64, whole: u64) {
        match value {
            serde_json::Value::Number(number) if number.is_f64() => *value = float.into(),
            // Some integers have 32 bits.
            serde_json::Value::Number(_) => *value = whole.into(),
            serde_json::Value::Array(values) => {
                values.iter_mut().for_each(|value| replace(value, float, whole))
            }
            serde_json::Value::Object(fields) => {
                fields.values_mut().for_each(|value| replace(value, float, whole));
            }
            _ => {}
        }
    }
    let whole = serde_json::to_value(example::full()).unwrap();
    for float in [0.0, -1.0, 1e-300, 1e300, f64::MAX, f64::MIN_POSITIVE] {
        for count in [0, 1, u64::from(u32::MAX)] {
            let mut value = whole.clone();
            replace(&mut value, float, count);
            let assessment: Assessment = serde_json::from_value(value).unwrap();
            let page = html(&assessment);
            for wrong in ["=\"NaN", "=\"inf", "=\"-inf", "NaN,", "inf,"] {
                assert!(!page.contains(wrong), "{float} {count}: {wrong}");
            }
            assert!(markdown(&assessment).len() > 1000 && csv(&runs(&assessment)).unwrap().len() > 1000);
            crate::compare::compare(&assessment, &example::full());
        }
    }
    for assessment in [example::nothing(), example::partial()] {
        assert!(html(&assessment).contains("What was not measured"));
    }
}

/// Promise: A report of one experiment has no sections of other experiments.
#[test]
fn a_report_of_one_experiment_has_no_sections_of_others() {
    let mut assessment = example::full();
    assessment.settings.experiments = vec![Experiment::Relay];
    assessment.measurements.clear();
    (assessment.profiles, assessment.counts) = (Vec::new(), Vec::new());
    (assessment.loan, assessment.costs) = (None, None);
    let document = document(&assessment);
    let ids: Vec<&str> = document.sections().map(|section| section.id.as_str()).collect();
    let expected = ["summary", "machine", "advice", "relay", "noise", "runs", "papers", "left-out"];
    assert_eq!(ids, expected);
    assert!(!markdown(&assessment).contains("not measured |"));
}
