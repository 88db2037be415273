//! Scales and ticks of axes.

use super::scene::width_of;
use crate::number;

/// Kind of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Equal ratios are equally far apart. Only figures above nothing have a place.
    Logarithmic,
    /// Equal differences are equally far apart, from zero on.
    Linear,
}

/// Unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Plain figures; the axis' title names the unit.
    Plain,
    /// Seconds, written with a unit.
    Time,
    /// Bytes per second, written in bits.
    Rate,
    /// Bytes, in powers of two.
    Bytes,
}

/// An axis.
pub(super) struct Scale {
    kind: Axis,
    unit: Unit,
    /// The least and greatest figure, for [`Axis::Logarithmic`] as logarithms (of two for bytes, else of
    /// ten).
    from: f64,
    to: f64,
    /// True if no figure is above nothing.
    is_nothing: bool,
    /// Their positions.
    begin: f64,
    end: f64,
}

/// A figure that is written beside an axis.
pub(super) struct Tick {
    pub(super) place: f64,
    pub(super) text: String,
}

impl Unit {
    pub(super) fn text(self, value: f64) -> String {
        match self {
            _ if value == 0.0 => "0".to_owned(),
            Unit::Plain => plain(value),
            Unit::Time => short(number::time(value)),
            Unit::Rate => short(number::bit_rate(value)),
            Unit::Bytes => binary(value),
        }
    }
}

impl Scale {
    /// An axis from `begin` to `end` on which these figures have room; nothing if none of them has a place.
    pub(super) fn of(
        kind: Axis,
        unit: Unit,
        values: impl Iterator<Item = f64>,
        (begin, end): (f64, f64),
    ) -> Option<Scale> {
        let placed = values.filter(|value| value.is_finite() && (kind == Axis::Linear || *value > 0.0));
        let range = |range: Option<(f64, f64)>, value: f64| {
            Some(range.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
        };
        let (least, most) = placed.fold(None, range)?;
        let (from, to) = match (kind, unit) {
            (Axis::Linear, _) => (0.0, if most > 0.0 { most * 1.05 } else { 1.0 }),
            (Axis::Logarithmic, Unit::Bytes) => (least.log2() - 0.3, most.log2() + 0.3),
            // Room for at least a factor of two, and a little on both sides.
            (Axis::Logarithmic, _) => {
                let (least, most) = (least.log10(), most.log10());
                let lacking = (0.35 - (most - least)).max(0.0) / 2.0;
                (least - lacking - 0.06, most + lacking + 0.06)
            }
        };
        Some(Scale { kind, unit, from, to, is_nothing: most <= 0.0, begin, end })
    }

    /// Position of a figure, if it has one.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let value = match (self.kind, self.unit) {
            (Axis::Linear, _) => value,
            (Axis::Logarithmic, Unit::Bytes) => value.log2(),
            (Axis::Logarithmic, _) => value.log10(),
        };
        let share = (value - self.from) / (self.to - self.from);
        (-0.001..=1.001).contains(&share).then_some(self.begin + share * (self.end - self.begin))
    }

    /// Round figures, as many as have room beside each other (`upright`: above each other).
    pub(super) fn ticks(&self, upright: bool) -> Vec<Tick> {
        let mut best = Vec::new();
        for values in self.choices() {
            let tick = |value: f64| Some(Tick { place: self.place(value)?, text: self.unit.text(value) });
            let ticks: Vec<Tick> = values.into_iter().filter_map(tick).collect();
            if ticks.len() > best.len() && ticks.windows(2).all(|pair| are_apart(pair, upright)) {
                best = ticks;
            }
        }
        best
    }

    /// Sets of round figures, any of which would do.
    fn choices(&self) -> Vec<Vec<f64>> {
        match (self.kind, self.unit) {
            (Axis::Linear, _) if self.is_nothing => vec![vec![0.0]],
            (Axis::Linear, unit) => {
                // Rates are written in bits: they shall be round as such.
                let factor = if unit == Unit::Rate { 8.0 } else { 1.0 };
                let magnitude = 10f64.powf((self.to * factor).log10().floor());
                let steps = [5.0, 2.0, 1.0, 0.5, 0.25, 0.2].map(|step| step * magnitude / factor);
                steps.map(|step| (0..=20).map(|count| f64::from(count) * step).collect()).into()
            }
            (Axis::Logarithmic, Unit::Bytes) => {
                let powers = |step: i32| {
                    let first = (self.from / f64::from(step)).ceil() as i32;
                    (first..first + 64).map(|count| 2f64.powi(count * step)).collect()
                };
                [1, 2, 3, 4, 5, 6, 8, 10, 16].map(powers).into()
            }
            (Axis::Logarithmic, unit) => {
                let factor = if unit == Unit::Rate { 8.0 } else { 1.0 };
                let decades = |multiples: &'static [f64], step: i32| {
                    let first = self.from.floor() as i32;
                    let decades = (first..first + 40).filter(|decade| decade.rem_euclid(step) == 0);
                    decades
                        .flat_map(|decade| {
                            multiples.iter().map(move |multiple| multiple * 10f64.powi(decade))
                        })
                        .map(|value| value / factor)
                        .collect()
                };
                let halves: &[f64] = &[1.0, 2.0, 5.0];
                let thirds: &[f64] = &[1.0, 3.0];
                let whole: &[f64] = &[1.0];
                let fine: &[f64] = &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0];
                vec![
                    decades(whole, 4),
                    decades(whole, 3),
                    decades(whole, 2),
                    decades(whole, 1),
                    decades(thirds, 1),
                    decades(halves, 1),
                    decades(fine, 1),
                ]
            }
        }
    }
}

/// Returns whether two neighbours do not touch.
fn are_apart(pair: &[Tick], upright: bool) -> bool {
    let [one, other] = pair else { return true };
    let needed = if upright { 21.0 } else { (width_of(&one.text) + width_of(&other.text)) / 2.0 + 7.0 };
    (other.place - one.place).abs() >= needed
}

/// A round figure as it is written beside an axis.
fn plain(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e6).contains(&value.abs()) {
        return format!("{value:e}");
    }
    // Twelve digits hide the sum of rounding in 0.1 + 0.2.
    let rounded: f64 = format!("{value:.11e}").parse().unwrap_or(value);
    match rounded >= 1000.0 && rounded.fract() == 0.0 {
        true => number::count(rounded as u64),
        false => rounded.to_string(),
    }
}

/// Removes trailing zeros: `1.00 µs` is `1 µs`.
fn short(text: String) -> String {
    match text.split_once(' ') {
        Some((figure, unit)) if figure.contains('.') && !figure.contains('e') => {
            format!("{} {unit}", figure.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

fn binary(value: f64) -> String {
    let (unit, name) = match value {
        ..1024.0 => (1.0, "B"),
        ..1_048_576.0 => (1024.0, "KiB"),
        ..1_073_741_824.0 => (1_048_576.0, "MiB"),
        _ => (1_073_741_824.0, "GiB"),
    };
    format!("{} {name}", plain(value / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(kind: Axis, unit: Unit, values: &[f64], width: f64) -> Vec<String> {
        let scale = Scale::of(kind, unit, values.iter().copied(), (0.0, width)).unwrap();
        scale.ticks(false).into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn ticks_are_round_and_have_room() {
        assert_eq!(
            ticks(Axis::Logarithmic, Unit::Plain, &[0.01, 1.1], 230.0),
            ["0.01", "0.03", "0.1", "0.3", "1"]
        );
        assert_eq!(
            ticks(Axis::Logarithmic, Unit::Bytes, &[8.0, 33_554_432.0], 250.0),
            ["16 B", "256 B", "4 KiB", "64 KiB", "1 MiB", "16 MiB"]
        );
        assert_eq!(ticks(Axis::Linear, Unit::Rate, &[1.1e9], 150.0), ["0", "5 Gb/s"]);
        assert_eq!(ticks(Axis::Logarithmic, Unit::Time, &[2e-8, 4e-3], 200.0), ["1 µs", "1 ms"]);
    }

    #[test]
    fn what_has_no_place_is_not_placed() {
        assert!(
            Scale::of(Axis::Logarithmic, Unit::Plain, [0.0, -1.0, f64::NAN].into_iter(), (0.0, 1.0))
                .is_none()
        );
        let scale = Scale::of(Axis::Logarithmic, Unit::Plain, [1.0, 0.0].into_iter(), (0.0, 1.0)).unwrap();
        assert!(scale.place(0.0).is_none() && scale.place(1.0).is_some());
    }
}
