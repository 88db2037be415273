//! Framings, orders, patterns and handlers, as words.

mod handler;
mod order;
mod words;

use std::str::FromStr;
use std::time::Duration;

use wirepath_streams::{Framing, OutputPattern, WhenFull};

pub use handler::HandlerSpec;
pub use order::OrderSpec;
use words::{number, seed_of, size, split, unknown};

/// Longest record where the words do not say.
const RECORD: usize = 1 << 20;

/// Whoever can wait longer has no deadline.
const LONGEST_DEADLINE: Duration = Duration::from_secs(3600);

/// What is wrong with words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub(crate) String);

/// How inputs are divided into records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FramingSpec {
    /// `whole`
    Whole,
    /// `fixed:BYTES`
    Fixed(usize),
    /// `ts`
    TransportStream,
    /// `rtp`
    Rtp,
    /// `line`
    Line,
    /// `length32`
    Length32,
}

impl FramingSpec {
    /// One for an input.
    pub fn framing(&self) -> Framing {
        match self {
            FramingSpec::Whole => Framing::Whole,
            FramingSpec::Fixed(bytes) => Framing::Fixed(*bytes),
            FramingSpec::TransportStream => Framing::transport_stream(),
            FramingSpec::Rtp => Framing::rtp(),
            FramingSpec::Line => Framing::lines(RECORD),
            FramingSpec::Length32 => Framing::length32(RECORD),
        }
    }
}

impl FromStr for FramingSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<FramingSpec, SpecError> {
        match split(text) {
            ("whole", None) => Ok(FramingSpec::Whole),
            ("fixed", Some(bytes)) => Ok(FramingSpec::Fixed(size(bytes)?)),
            ("fixed" | "fixed:", None) => Err(SpecError("fixed needs a size, as fixed:64KiB".to_owned())),
            ("ts", None) => Ok(FramingSpec::TransportStream),
            ("rtp", None) => Ok(FramingSpec::Rtp),
            ("line", None) => Ok(FramingSpec::Line),
            ("length32", None) => Ok(FramingSpec::Length32),
            _ => unknown(text, "framing", "whole, fixed:BYTES, ts, rtp, line, length32"),
        }
    }
}

/// How records are spread over outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternSpec(pub OutputPattern);

impl FromStr for PatternSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<PatternSpec, SpecError> {
        Ok(PatternSpec(match split(text) {
            ("mirror", None) => OutputPattern::Mirror,
            ("stripe", None) => OutputPattern::Stripe,
            ("stripe", Some(bytes)) => OutputPattern::StripeBytes(size(bytes)?),
            ("random", seed) => OutputPattern::Random { seed: seed_of(seed)? },
            ("capacity", None) => OutputPattern::Capacity,
            ("shares", Some(threshold)) => {
                OutputPattern::Shares { threshold: number(threshold, 1, 255)? as u8 }
            }
            _ => {
                return unknown(
                    text,
                    "pattern",
                    "mirror, stripe, stripe:BYTES, random[:SEED], capacity, shares:THRESHOLD",
                );
            }
        }))
    }
}

/// What happens when an output takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WhenFullSpec(pub WhenFull);

impl FromStr for WhenFullSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<WhenFullSpec, SpecError> {
        Ok(WhenFullSpec(match text {
            "block" => WhenFull::Block,
            "drop-newest" => WhenFull::DropNewest,
            "drop-oldest" => WhenFull::DropOldest,
            "disconnect" => WhenFull::Disconnect,
            _ => return unknown(text, "choice", "block, drop-newest, drop-oldest, disconnect"),
        }))
    }
}

/// How long after a stream can go on it should have done so: `20ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineSpec(pub Duration);

impl FromStr for DeadlineSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<DeadlineSpec, SpecError> {
        let time =
            humantime::parse_duration(text).ok().filter(|time| !time.is_zero() && *time <= LONGEST_DEADLINE);
        let words = || format!("{text} is no deadline; a deadline is for instance 20ms, up to an hour");
        time.map(DeadlineSpec).ok_or_else(|| SpecError(words()))
    }
}

#[cfg(test)]
mod tests {
    use wirepath_streams::InputOrder;

    use super::order::{WAITING, WINDOW};
    use super::*;

    #[test]
    fn words_mean_what_they_say() {
        assert_eq!("fixed:4KiB".parse(), Ok(FramingSpec::Fixed(4096)));
        assert_eq!("length32".parse(), Ok(FramingSpec::Length32));
        assert_eq!("random:7".parse(), Ok(OrderSpec::Plain(InputOrder::Random { seed: 7 })));
        let tag = |window, waiting_bytes| Ok(OrderSpec::Tag { offset: 4, bytes: 8, window, waiting_bytes });
        assert_eq!("tag:4:8".parse(), tag(WINDOW, WAITING));
        assert_eq!("tag:4:8:16".parse(), tag(16, WAITING));
        assert_eq!("tag:4:8:16:4MiB".parse(), tag(16, 4 << 20));
        assert_eq!("shares".parse(), Ok(OrderSpec::Shares { window: WINDOW, waiting_bytes: WAITING }));
        assert_eq!("shares:8".parse(), Ok(OrderSpec::Shares { window: 8, waiting_bytes: WAITING }));
        assert_eq!("shares:8:4MiB".parse(), Ok(OrderSpec::Shares { window: 8, waiting_bytes: 4 << 20 }));
        assert_eq!("stripe:1316".parse(), Ok(PatternSpec(OutputPattern::StripeBytes(1316))));
        assert_eq!("shares:3".parse(), Ok(PatternSpec(OutputPattern::Shares { threshold: 3 })));
        assert_eq!("drop-oldest".parse(), Ok(WhenFullSpec(WhenFull::DropOldest)));
        assert_eq!("ts:pids=0,256".parse(), Ok(HandlerSpec::Pids(vec![0, 256])));
        assert_eq!("ts:programme=2".parse(), Ok(HandlerSpec::Programme(2)));
        assert_eq!("match:a:b".parse(), Ok(HandlerSpec::Match("a:b".to_owned())));
        assert_eq!("touch".parse(), Ok(HandlerSpec::Touch(0)));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_there_is() {
        let said = [
            "fixed".parse::<FramingSpec>().unwrap_err(),
            "fixed:0".parse::<FramingSpec>().unwrap_err(),
            "tag:1".parse::<OrderSpec>().unwrap_err(),
            "tag:1:9".parse::<OrderSpec>().unwrap_err(),
            "tag:1:8:16:0".parse::<OrderSpec>().unwrap_err(),
            "shares".parse::<PatternSpec>().unwrap_err(),
            "shares:8:0".parse::<OrderSpec>().unwrap_err(),
            "ts:x".parse::<HandlerSpec>().unwrap_err(),
            "ts:pids=9000".parse::<HandlerSpec>().unwrap_err(),
            "match:".parse::<HandlerSpec>().unwrap_err(),
            HandlerSpec::Seal("/nowhere/key".into()).handler().unwrap_err(),
        ];
        let expected = [
            "fixed needs a size, as fixed:64KiB",
            "0 is no size",
            "it is tag:OFFSET:BYTES",
            "9 is no number from 1 to 8",
            "0 is no size",
            "shares is no pattern",
            "0 is no size",
            "it is ts:pids=",
            "9000 is no number from 0 to 8191",
            "match: is no handler",
            "/nowhere/key: the key cannot be read: No such file",
        ];
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.to_string().contains(expected), "{said}");
        }
    }
}
