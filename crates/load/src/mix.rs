//! Choice of an asset for each session.

use wirepath_media::random::Random;

/// Distribution of sessions over assets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mix {
    /// Equal numbers of sessions, by taking the assets in turn.
    Even,
    /// Zipf's law: the asset at rank k is played in proportion to 1 / k^s.
    Zipf(f64),
}

/// Largest exponent of Zipf's law. With it, the first of two assets is played a thousand times more often.
const MOST_EXPONENT: f64 = 10.0;

/// Mix for a number of assets.
#[derive(Clone, Debug)]
pub(crate) enum Chooser {
    /// Takes the assets in turn; the value is their number. With a random choice, some of several servers
    /// with a session limit each would get more sessions than others.
    InTurn(u64),
    /// Cumulative share of each asset and all assets before it.
    Shares(Vec<f64>),
}

impl std::str::FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let exponent = |digits: &str| digits.parse().ok().filter(|s| (0.0..=MOST_EXPONENT).contains(s));
        match (text, text.strip_prefix("zipf:")) {
            ("even", _) => Ok(Mix::Even),
            ("zipf", _) => Ok(Mix::Zipf(1.0)),
            (_, Some(digits)) if exponent(digits).is_some() => Ok(Mix::Zipf(exponent(digits).unwrap_or(1.0))),
            _ => Err(format!("expected even, or zipf:S with S from 0 to {MOST_EXPONENT}, such as zipf:1.1")),
        }
    }
}

impl std::fmt::Display for Mix {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mix::Even => formatter.write_str("even"),
            Mix::Zipf(exponent) => write!(formatter, "zipf:{exponent}"),
        }
    }
}

impl Chooser {
    pub(crate) fn new(mix: Mix, assets: usize) -> Chooser {
        let Mix::Zipf(exponent) = mix else { return Chooser::InTurn(assets.max(1) as u64) };
        let weights: Vec<f64> = (1..=assets).map(|place| (place as f64).powf(-exponent)).collect();
        let sum: f64 = weights.iter().sum();
        let mut before = 0.0;
        let cumulative = weights.into_iter().map(|weight| {
            before += weight / sum;
            before
        });
        Chooser::Shares(cumulative.collect())
    }

    /// Index of the asset for the session with this number.
    pub(crate) fn choose(&self, number: u64, random: &mut Random) -> usize {
        match self {
            Chooser::InTurn(assets) => (number % assets) as usize,
            Chooser::Shares(cumulative) => {
                let place = share(random);
                let chosen = cumulative.partition_point(|end| *end <= place);
                chosen.min(cumulative.len().saturating_sub(1))
            }
        }
    }
}

/// Random number from 0 to 1, excluding 1.
pub(crate) fn share(random: &mut Random) -> f64 {
    const STEPS: u64 = 1 << 53;
    random.below(STEPS) as f64 / STEPS as f64
}

/// Random time with an exponential distribution and this mean, at most ten times the mean.
pub(crate) fn waiting_time(random: &mut Random, mean: std::time::Duration) -> std::time::Duration {
    mean.mul_f64((-(1.0 - share(random)).ln()).min(10.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn mixes_are_read_and_written() {
        for (text, mix) in [("even", Mix::Even), ("zipf:1.1", Mix::Zipf(1.1)), ("zipf:0", Mix::Zipf(0.0))] {
            assert_eq!((text.parse(), mix.to_string().as_str()), (Ok(mix), text));
        }
        for text in ["", "zipf:", "zipf:-1", "zipf:11", "zipf:NaN", "uniform"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }

    /// Promise: `wirepath load --mix zipf:S` plays the k-th asset in proportion to 1 / k^S.
    #[test]
    fn popular_assets_are_chosen_more() {
        let counts = |mix| {
            let (chooser, mut random) = (Chooser::new(mix, 3), Random::new(7));
            let mut counts = [0u32; 3];
            (0..11_000).for_each(|number| counts[chooser.choose(number, &mut random)] += 1);
            counts
        };
        let near = |count: u32, expected: u32| count.abs_diff(expected) < 250;
        assert_eq!(counts(Mix::Even), [3_667, 3_667, 3_666]);
        let [first, second, third] = counts(Mix::Zipf(1.0));
        assert!(near(first, 6_000) && near(second, 3_000) && near(third, 2_000), "{first} {second} {third}");
    }

    #[test]
    fn waiting_times_have_their_mean() {
        let mut random = Random::new(7);
        let mean = Duration::from_secs(2);
        let sum: Duration = (0..10_000).map(|_| waiting_time(&mut random, mean)).sum();
        assert!((1.9..2.1).contains(&(sum.as_secs_f64() / 10_000.0)), "{sum:?}");
    }
}
