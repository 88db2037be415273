//! Runs of all sizes in turn.

use std::time::Duration;

use super::point::Point;
use super::series::{BEFORE, Series, go_on, of};
use super::supplies::Supplies;
use super::turned::Turned;
use crate::error::Error;
use crate::findings::Findings;
use crate::progress::Progress;
use crate::test_bed::TestBed;

/// Progress of the rounds.
struct Way<'a> {
    progress: &'a mut dyn Progress,
    doing: String,
    done: Duration,
    total: Duration,
}

/// True if a point goes on.
enum Outcome {
    Goes,
    /// Its earlier runs are no figure either.
    Ends,
}

impl Series<'_> {
    /// Runs as many rounds as were asked for. Measurements before an error stay.
    pub(super) fn rounds(
        &mut self,
        test_bed: &TestBed,
        supplies: &mut Supplies,
        found: &mut Findings,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let runs = self.options.runs;
        let total = self.points.iter().map(Point::estimate).sum::<Duration>() * runs;
        let mut way = Way { progress, doing: String::new(), done: Duration::ZERO, total };
        for round in 0..runs {
            way.doing = format!("round {} of {runs}:", round + 1);
            let mut index = 0;
            while index < self.points.len() {
                match self.once(index, test_bed, supplies, found, &mut way)? {
                    Outcome::Goes => index += 1,
                    Outcome::Ends => drop(self.points.remove(index)),
                }
            }
            self.is_whole = true;
        }
        Ok(())
    }

    /// Runs a point once, copied and lent.
    fn once(
        &mut self,
        index: usize,
        test_bed: &TestBed,
        supplies: &mut Supplies,
        found: &mut Findings,
        way: &mut Way<'_>,
    ) -> Result<Outcome, Error> {
        let volume = self.volume(&self.points[index].copied.sends);
        let point = &mut self.points[index];
        way.go_on(point)?;
        if let Some(copies) = &mut self.copies {
            point.copy_s.push(copies.seconds(point.copied.sends.size as usize));
        }
        let made = supplies.run(&point.copied.sends, volume, test_bed);
        let Some(made) = of(&point.copied.sends, self.mtu, made, found)? else { return Ok(Outcome::Ends) };
        point.copied.add(&made);
        way.done += point.copied.estimate;
        let Some(mut lent) = point.lent.take() else { return Ok(Outcome::Goes) };
        way.go_on(point)?;
        way.done += lent.estimate;
        match of(&lent.sends, self.mtu, supplies.run(&lent.sends, volume, test_bed), found)? {
            Some(made) if made.is_copied_after_all() => {
                self.turned.push(Turned { sends: lent.sends, loans: made.loans });
            }
            Some(made) => {
                lent.add(&made);
                point.lent = Some(lent);
            }
            None => {}
        }
        Ok(Outcome::Goes)
    }
}

impl Point {
    fn estimate(&self) -> Duration {
        self.copied.estimate + self.lent.as_ref().map_or(Duration::ZERO, |lent| lent.estimate)
    }
}

impl Way<'_> {
    fn go_on(&mut self, point: &Point) -> Result<(), Error> {
        let share = self.done.as_secs_f64() / self.total.as_secs_f64().max(1e-9);
        go_on(self.progress, BEFORE + (1.0 - BEFORE) * share.min(1.0), &self.doing, &point.copied.sends)
    }
}
