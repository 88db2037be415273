//! Framings, orders, patterns and handlers, parsed from strings.

pub(super) mod handler;
mod order;
mod parse;

use std::str::FromStr;
use std::time::Duration;

use wirepath_streams::{Framing, OutputPattern, WhenFull};

pub use handler::{HandlerSpec, OutputHandlerSpec};
pub use order::OrderSpec;
use parse::{number, seed_of, size, split, unknown};

/// Maximum record size, where the framing has no limit.
const MAX_RECORD: usize = 1 << 20;

const MAX_DEADLINE: Duration = Duration::from_secs(3600);

/// Invalid setting of a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub(crate) String);

/// Division of inputs into records.
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
    /// Makes the framing of a single input.
    pub fn framing(&self) -> Framing {
        match self {
            FramingSpec::Whole => Framing::Whole,
            FramingSpec::Fixed(bytes) => Framing::Fixed(*bytes),
            FramingSpec::TransportStream => Framing::transport_stream(),
            FramingSpec::Rtp => Framing::rtp(),
            FramingSpec::Line => Framing::lines(MAX_RECORD),
            FramingSpec::Length32 => Framing::length32(MAX_RECORD),
        }
    }
}

impl FromStr for FramingSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<FramingSpec, SpecError> {
        match split(text) {
            ("whole", None) => Ok(FramingSpec::Whole),
            ("fixed", Some(bytes)) => Ok(FramingSpec::Fixed(size(bytes)?)),
            ("fixed" | "fixed:", None) => {
                Err(SpecError("fixed needs a size, such as fixed:64KiB".to_owned()))
            }
            ("ts", None) => Ok(FramingSpec::TransportStream),
            ("rtp", None) => Ok(FramingSpec::Rtp),
            ("line", None) => Ok(FramingSpec::Line),
            ("length32", None) => Ok(FramingSpec::Length32),
            _ => unknown(text, "framing", "whole, fixed:BYTES, ts, rtp, line, length32"),
        }
    }
}

/// Distribution of records over outputs.
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

/// Reaction to an output that falls behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WhenFullSpec(pub WhenFull);

impl FromStr for WhenFullSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<WhenFullSpec, SpecError> {
        let rule = WhenFull::ALL.into_iter().find(|rule| rule.name() == text);
        let unknown = || unknown(text, "reaction", "block, drop-newest, drop-oldest, disconnect");
        rule.map_or_else(unknown, |rule| Ok(WhenFullSpec(rule)))
    }
}

/// Deadline of a stream's turns: `20ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineSpec(pub Duration);

impl FromStr for DeadlineSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<DeadlineSpec, SpecError> {
        let time =
            humantime::parse_duration(text).ok().filter(|time| !time.is_zero() && *time <= MAX_DEADLINE);
        let words = || format!("invalid deadline {text}: expected a time up to 1h, such as 20ms");
        time.map(DeadlineSpec).ok_or_else(|| SpecError(words()))
    }
}

#[cfg(test)]
mod tests {
    use wirepath_streams::{InputOrder, Trust};

    use super::order::{WAITING_BYTES, WINDOW};
    use super::*;

    #[test]
    fn strings_are_parsed() {
        assert_eq!("fixed:4KiB".parse(), Ok(FramingSpec::Fixed(4096)));
        assert_eq!("length32".parse(), Ok(FramingSpec::Length32));
        assert_eq!("random:7".parse(), Ok(OrderSpec::Plain(InputOrder::Random { seed: 7 })));
        let tag = |window, waiting_bytes| Ok(OrderSpec::Tag { offset: 4, bytes: 8, window, waiting_bytes });
        assert_eq!("tag:4:8".parse(), tag(WINDOW, WAITING_BYTES));
        assert_eq!("tag:4:8:16".parse(), tag(16, WAITING_BYTES));
        assert_eq!("tag:4:8:16:4MiB".parse(), tag(16, 4 << 20));
        let join = |key, window, waiting_bytes| Ok(OrderSpec::Join { key, window, waiting_bytes });
        assert_eq!("join".parse(), join(None, WINDOW, WAITING_BYTES));
        assert_eq!("join:16:4MiB".parse(), join(None, 16, 4 << 20));
        assert_eq!("join-key:4:8".parse(), join(Some((4, 8)), WINDOW, WAITING_BYTES));
        assert_eq!("join-key:4:8:16".parse(), join(Some((4, 8)), 16, WAITING_BYTES));
        let shares = |window, waiting_bytes| Ok(OrderSpec::Shares { threshold: 2, window, waiting_bytes });
        assert_eq!("shares:2".parse(), shares(WINDOW, WAITING_BYTES));
        assert_eq!("shares:2:8".parse(), shares(8, WAITING_BYTES));
        assert_eq!("shares:2:8:4MiB".parse(), shares(8, 4 << 20));
        assert_eq!("stripe:1316".parse(), Ok(PatternSpec(OutputPattern::StripeBytes(1316))));
        assert_eq!("shares:3".parse(), Ok(PatternSpec(OutputPattern::Shares { threshold: 3 })));
        assert_eq!("drop-oldest".parse(), Ok(WhenFullSpec(WhenFull::DropOldest)));
        assert_eq!("ts:pids=0,256".parse(), Ok(HandlerSpec::Pids(vec![0, 256])));
        assert_eq!("ts:programme=2".parse(), Ok(HandlerSpec::Programme(2)));
        assert_eq!("match:a:b".parse(), Ok(HandlerSpec::Match("a:b".to_owned())));
        assert_eq!("touch".parse(), Ok(HandlerSpec::Touch(0)));
        assert_eq!("begins:GET ".parse(), Ok(HandlerSpec::Begins("GET ".to_owned())));
        assert!("begins:".parse::<HandlerSpec>().is_err());
        let handler = HandlerSpec::Begins("a:b".to_owned());
        let spec = |below| Ok(OutputHandlerSpec { output: 2, below, handler: handler.clone() });
        assert_eq!("2:begins:a:b".parse(), spec(None));
        assert_eq!("2:trust<50:begins:a:b".parse(), spec(Trust::new(50)));
    }

    #[test]
    fn errors_say_what_is_expected() {
        let said = [
            "fixed".parse::<FramingSpec>().unwrap_err(),
            "fixed:0".parse::<FramingSpec>().unwrap_err(),
            "tag:1".parse::<OrderSpec>().unwrap_err(),
            "tag:1:9".parse::<OrderSpec>().unwrap_err(),
            "tag:1:8:16:0".parse::<OrderSpec>().unwrap_err(),
            "join:16:4MiB:2".parse::<OrderSpec>().unwrap_err(),
            "join-key:4".parse::<OrderSpec>().unwrap_err(),
            "shares".parse::<PatternSpec>().unwrap_err(),
            "shares:2:8:0".parse::<OrderSpec>().unwrap_err(),
            "shares".parse::<OrderSpec>().unwrap_err(),
            "shares:0".parse::<OrderSpec>().unwrap_err(),
            "ts:x".parse::<HandlerSpec>().unwrap_err(),
            "ts:pids=9000".parse::<HandlerSpec>().unwrap_err(),
            "match:".parse::<HandlerSpec>().unwrap_err(),
            "0:meter".parse::<OutputHandlerSpec>().unwrap_err(),
            "1:trust<0:meter".parse::<OutputHandlerSpec>().unwrap_err(),
            "1:trust<101:meter".parse::<OutputHandlerSpec>().unwrap_err(),
            "1:trust<50".parse::<OutputHandlerSpec>().unwrap_err(),
            HandlerSpec::Seal("/nowhere/key".into()).handler().unwrap_err(),
        ];
        let expected = [
            "fixed needs a size, such as fixed:64KiB",
            "invalid size 0: expected 1 B to 1 GiB",
            "expected tag:OFFSET:BYTES",
            "invalid value 9: expected 1 to 8",
            "invalid size 0",
            "expected join[:WINDOW[:SIZE]] or join-key:OFFSET:BYTES[:WINDOW[:SIZE]]",
            "invalid order join-key:4: expected join-key:OFFSET:BYTES",
            "unknown pattern \"shares\": expected mirror",
            "invalid size 0",
            "shares needs the threshold with which they were made: shares:THRESHOLD[:WINDOW[:SIZE]]",
            "invalid value 0: expected 1 to 255",
            "expected ts:pids=",
            "invalid value 9000: expected 0 to 8191",
            "unknown handler \"match:\"",
            "invalid handler of an output 0:meter: expected NUMBER:HANDLER",
            "invalid value 0: expected 1 to 100",
            "invalid value 101: expected 1 to 100",
            "invalid handler of an output 1:trust<50: expected NUMBER:trust<VALUE:HANDLER",
            "cannot read the key /nowhere/key: No such file",
        ];
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.to_string().contains(expected), "{said}");
        }
    }
}
