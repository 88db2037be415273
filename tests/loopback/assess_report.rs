//! Results of `wirepath assess`, shown: pages in a real browser, comparisons.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::process::{self, Process, as_ordinary_user, find};
use wirepath_tests::{Deadline, assessment, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_page_is_legible_on_a_phone,
        a_page_is_legible_on_a_screen,
        a_result_becomes_a_page_markdown_and_csv,
        files_are_written_if_standard_output_is_closed,
        a_result_is_never_written_over,
        two_results_are_compared,
        what_is_no_result_is_refused,
    ]
}

/// Promise: In a browser of 360 or 1,200 pixels width no label overlaps, is clipped or is smaller than 10
/// pixels.
fn a_page_is_legible_on_a_phone() -> Result<()> {
    legible(360)
}

/// Promise: In a browser of 360 or 1,200 pixels width no label overlaps, is clipped or is smaller than 10
/// pixels.
fn a_page_is_legible_on_a_screen() -> Result<()> {
    legible(1200)
}

/// A page that shows the report in a frame, which can be narrower than a browser's window, and looks at it
/// once it is laid out for what a reader would stumble over.
const EXAMINATION: &str = r#"<!doctype html><meta charset="utf-8"><body style="margin: 0">
<iframe style="width: WIDTHpx; height: 800px; border: 0" srcdoc="REPORT"></iframe>
<script>
onload = () => {
  const frame = document.querySelector('iframe').contentWindow, page = frame.document;
  const problems = [], shown = element => element.textContent.trim().slice(0, 40);
  if (frame.innerWidth !== WIDTH) problems.push(`the frame is ${frame.innerWidth} wide`);
  const width = page.documentElement.scrollWidth;
  if (width > frame.innerWidth) problems.push(`the page scrolls: it is ${width} wide`);
  let texts = 0;
  for (const svg of page.querySelectorAll('svg')) {
    const edge = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map(text => [text, text.getBoundingClientRect()]);
    texts += boxes.length;
    boxes.forEach(([text, box], index) => {
      const size = parseFloat(frame.getComputedStyle(text).fontSize) * edge.width / svg.viewBox.baseVal.width;
      if (size < 10) problems.push(`too small: ${shown(text)}, ${size.toFixed(1)} px`);
      if (box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1 || box.bottom > edge.bottom + 1)
        problems.push(`clipped: ${shown(text)} in ${shown(svg)}`);
      for (const [other, its] of boxes.slice(index + 1))
        if (box.left < its.right && its.left < box.right && box.top < its.bottom && its.top < box.bottom)
          problems.push(`overlap: ${shown(text)} and ${shown(other)} in ${shown(svg)}`);
    });
  }
  const plots = page.querySelectorAll('svg').length;
  document.body.textContent = `verdict of ${plots} plots, ${texts} texts: ${problems.join('; ') || 'legible'} (end)`;
};
</script>"#;

/// Opens the page so wide, and asks what a reader would see.
fn legible(width: u32) -> Result<()> {
    require!(find("chromium").is_some(), "chromium is not installed");
    let bed = TestBed::new()?;
    bed.run(["report", "full.json"])?;
    let report = std::fs::read_to_string(bed.path("full.html"))?.replace('&', "&amp;").replace('"', "&quot;");
    let examination = EXAMINATION.replace("WIDTH", &width.to_string()).replace("REPORT", &report);
    std::fs::write(bed.path("examination.html"), examination)?;
    let mut command = as_ordinary_user("chromium", bed.folder.path());
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
    ]);
    command.args(["--window-size=1280,900", "--dump-dom"]);
    command.arg(format!("file://{}", bed.path("examination.html").display()));
    let dump = Process::start(&command, true)?.succeed(Deadline::seconds(60.0))?;
    let verdict = dump.split_once(">verdict of ").and_then(|(_, rest)| rest.split_once(" (end)"));
    let (verdict, _) = verdict.with_context(|| format!("no verdict: {dump}"))?;
    ensure!(verdict.ends_with(": legible"), "{verdict}");
    let plots: u32 = verdict.split(' ').next().context("a number of plots")?.parse()?;
    ensure!(plots > 20, "{verdict}");
    Ok(())
}

/// Promise: `wirepath assess report` makes a single page that needs neither network nor script.
fn a_result_becomes_a_page_markdown_and_csv() -> Result<()> {
    let bed = TestBed::new()?;
    let said = bed.run(["report", "full.json"])?;
    ensure!(said == "full.html\n", "{said}");
    let page = std::fs::read_to_string(bed.path("full.html"))?;
    ensure!(page.starts_with("<!doctype html>") && page.contains("wire_uring"));
    let markdown = bed.run(["report", "full.json", "--markdown", "-", "--csv", "runs.csv"])?;
    ensure!(markdown.starts_with("# ") && markdown.contains("| `wire_uring` |"), "{markdown}");
    let csv = std::fs::read_to_string(bed.path("runs.csv"))?;
    ensure!(csv.starts_with("experiment,what,transport,size,") && csv.lines().count() > 1000);
    let both = bed.refused(["report", "full.json", "--markdown", "-", "--csv", "-"])?;
    ensure!(both.contains("only one of"), "{both}");
    Ok(())
}

/// Promise: Report files are written even if standard output is closed.
///
/// As with `head`, which has seen enough. The code is that of a program which SIGPIPE ends.
fn files_are_written_if_standard_output_is_closed() -> Result<()> {
    let bed = TestBed::new()?;
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let mut command = Command::new(server::binary()?);
    command.args(["assess", "report", "full.json", "--markdown", "-", "--csv", "runs.csv"]);
    let output = command.current_dir(bed.path("")).stdout(writer).output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(141) && said.is_empty(), "{}: {said}", output.status);
    ensure!(std::fs::read_to_string(bed.path("runs.csv"))?.lines().count() > 1000);
    Ok(())
}

/// Promise: A file that is not a result is refused with the reason; a result is never overwritten.
fn a_result_is_never_written_over() -> Result<()> {
    let bed = TestBed::new()?;
    let before = std::fs::read(bed.path("full.json"))?;
    for name in ["full.json", "./full.json"] {
        let error = bed.refused(["report", "full.json", "--csv", name])?;
        ensure!(error.contains("is the result itself"), "{error}");
    }
    ensure!(std::fs::read(bed.path("full.json"))? == before);
    let error = bed.refused(["report", "full.json", "--html", "no/such/folder.html"])?;
    ensure!(error.contains("cannot write no/such/folder.html: No such file"), "{error}");
    Ok(())
}

/// Promise: `wirepath assess compare` shows improvements as in table 2 of the papers, and noise as no
/// difference.
fn two_results_are_compared() -> Result<()> {
    let bed = TestBed::new()?;
    let same = bed.run(["compare", "full.json", "full.json"])?;
    ensure!(
        same.contains("relative figures agree within 10 %") && same.starts_with("A: full.json"),
        "{same}"
    );
    let mut slower = assessment::full();
    slower.host.kernel = "2.4.21".to_owned();
    let uring =
        slower.measurements.iter_mut().filter(|measurement| measurement.path.to_string() == "wire_uring");
    uring.flat_map(|measurement| &mut measurement.runs).for_each(|run| run.system_s *= 2.0);
    std::fs::write(bed.path("slower.json"), slower.to_json()?)?;
    let text = bed.run(["compare", "full.json", "slower.json"])?;
    ensure!(text.contains("2.4.21") && text.contains("do not: see above"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&bed.run(["compare", "--json", "full.json", "slower.json"])?)?;
    ensure!(
        json["differences"]
            == serde_json::json!([{"what": "kernel", "first": "6.18.44", "second": "2.4.21"}])
    );
    let figures = json["figures"].as_array().context("figures")?;
    let worse = |figure: &&serde_json::Value| figure["verdict"] == "worse";
    let worse: Vec<_> = figures.iter().filter(worse).collect();
    ensure!(worse.len() == 4 && worse.iter().all(|figure| figure["what"] == "wire_uring"), "{worse:?}");
    Ok(())
}

/// Promise: A file that is not a result is refused with the reason; a result is never overwritten.
fn what_is_no_result_is_refused() -> Result<()> {
    let bed = TestBed::new()?;
    std::fs::write(bed.path("other.json"), r#"{"schema": "wirepath-assessment/99"}"#)?;
    std::fs::write(bed.path("text.json"), "no JSON at all")?;
    let cases = [
        ("gone.json", "gone.json: No such file"),
        (".", "is a folder; name the JSON file"),
        ("other.json", "other.json: schema \"wirepath-assessment/99\""),
        ("text.json", "text.json: not a result of `wirepath assess`"),
    ];
    for (file, reason) in cases {
        for arguments in
            [vec!["report", file], vec!["compare", file, "full.json"], vec!["compare", "full.json", file]]
        {
            let error = bed.refused(&arguments)?;
            ensure!(error.contains(reason) && error.lines().count() == 1, "{arguments:?}: {error}");
        }
    }
    Ok(())
}

/// A folder with a result in it.
struct TestBed {
    folder: tempfile::TempDir,
}

impl TestBed {
    fn new() -> Result<Self> {
        let bed = Self { folder: process::open_folder()? };
        std::fs::write(bed.path("full.json"), assessment::full().to_json()?)?;
        Ok(bed)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn assess<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Output> {
        let mut command = Command::new(server::binary()?);
        command.arg("assess").args(arguments).current_dir(self.folder.path());
        command.env("LC_ALL", "C.UTF-8").env("COLUMNS", "100");
        Ok(command.output()?)
    }

    /// Runs the command; returns its standard output.
    fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String> {
        let output = self.assess(arguments)?;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs the command, which must fail; returns its error.
    fn refused<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String> {
        let output = self.assess(arguments)?;
        ensure!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
        Ok(String::from_utf8(output.stderr)?)
    }
}
