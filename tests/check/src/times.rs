//! Time of each step.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::step::Done;

/// The steps so far.
pub(crate) struct Times {
    begun: Instant,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    took: Duration,
    processor: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { begun: Instant::now(), rows: Vec::new() }
    }
}

/// A step that took less is not listed.
const LISTED: Duration = Duration::from_secs(2);

impl Times {
    /// Adds a step that has ended.
    pub(crate) fn add(&mut self, done: &Done) {
        self.rows.push(Row { name: done.name.clone(), took: done.took, processor: done.processor });
    }

    /// A line for each step in the order of their ends, and one for all.
    pub(crate) fn table(&self) -> String {
        self.table_after(self.begun.elapsed())
    }

    fn table_after(&self, whole: Duration) -> String {
        let mut text = format!("\n{:<24}{:>10}{:>12}\n", "step", "seconds", "processor");
        let mut row = |name: &str, took: Duration, processor: Duration| {
            let (took, processor) = (took.as_secs_f64(), processor.as_secs_f64());
            writeln!(text, "{name:<24}{took:>10.1}{processor:>12.1}").expect("a string takes all");
        };
        let (long, short): (Vec<&Row>, Vec<&Row>) = self.rows.iter().partition(|row| row.took >= LISTED);
        long.iter().for_each(|done| row(&done.name, done.took, done.processor));
        let sum = |rows: &[&Row], of: fn(&Row) -> Duration| rows.iter().map(|row| of(row)).sum();
        row(
            &format!("{} others", short.len()),
            sum(&short, |row| row.took),
            sum(&short, |row| row.processor),
        );
        let processor = self.rows.iter().map(|row| row.processor).sum();
        row("all, some side by side", whole, processor);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Tally;

    #[test]
    fn short_steps_are_one_line() {
        let mut times = Times::default();
        for (name, took) in [("build", 100), ("format", 1), ("lint", 1), ("loopback", 70)] {
            let (took, processor) = (Duration::from_secs(took), Duration::from_secs(took / 2));
            times.add(&Done { name: name.into(), tally: Tally::default(), took, processor });
        }
        let table = times.table_after(Duration::from_secs(120));
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[2..5],
            [
                vec!["build", "100.0", "50.0"],
                vec!["loopback", "70.0", "35.0"],
                vec!["2", "others", "2.0", "0.0"]
            ]
        );
        assert_eq!(rows[5][rows[5].len() - 2..], ["120.0", "85.0"]);
    }
}
