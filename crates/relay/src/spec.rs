//! Framings, orders, patterns and handlers, as words.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use wirepath_streams::handlers::{
    Checksum, Filter, Key, Meter, Open, Prefix, Seal, Touch, TransportStreamFilter, Unprefix,
};
use wirepath_streams::{Framing, Handler, InputOrder, Late, OutputPattern, StreamBuilder, WhenFull};

/// Longest record where the words do not say.
const RECORD: usize = 1 << 20;

/// Records that wait for one another where the words do not say.
const WINDOW: usize = 1024;

/// Bytes of shares that wait for others, unless said.
const SHARES: usize = 64 << 20;

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

/// The order of inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderSpec {
    /// `arrival`, `roundrobin`, `random` or `random:SEED`
    Plain(InputOrder),
    /// `tag:OFFSET:BYTES` or `tag:OFFSET:BYTES:WINDOW`: a number in the record, most significant byte first.
    Tag {
        /// Where it begins.
        offset: usize,
        /// Its bytes, 1 to 8.
        bytes: usize,
        /// Records that wait for one another.
        window: usize,
    },
    /// `shares`, `shares:WINDOW` or `shares:WINDOW:SIZE`
    Shares {
        /// Records that wait for their shares.
        window: usize,
        /// Bytes of shares that wait.
        waiting_bytes: usize,
    },
}

impl OrderSpec {
    /// Sets it.
    pub(crate) fn apply(&self, builder: StreamBuilder) -> StreamBuilder {
        match *self {
            OrderSpec::Plain(order) => builder.order(order),
            OrderSpec::Tag { offset, bytes, window } => {
                builder.order_by_tag(window, Late::Drop, move |record| {
                    let tag = record.get(offset..offset.checked_add(bytes)?)?;
                    Some(tag.iter().fold(0, |tag, byte| tag << 8 | u64::from(*byte)))
                })
            }
            OrderSpec::Shares { window, waiting_bytes } => builder.collect_shares(window, waiting_bytes),
        }
    }
}

impl FromStr for OrderSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<OrderSpec, SpecError> {
        let window = |text: Option<&&str>| text.map_or(Ok(WINDOW), |text| number(text, 1, 1 << 20));
        match split(text) {
            ("arrival", None) => Ok(OrderSpec::Plain(InputOrder::Arrival)),
            ("roundrobin", None) => Ok(OrderSpec::Plain(InputOrder::RoundRobin)),
            ("random", seed) => Ok(OrderSpec::Plain(InputOrder::Random { seed: seed_of(seed)? })),
            ("tag", Some(place)) => match &place.split(':').collect::<Vec<_>>()[..] {
                [offset, bytes, rest @ ..] if rest.len() <= 1 => {
                    let (offset, bytes) = (number(offset, 0, RECORD)?, number(bytes, 1, 8)?);
                    Ok(OrderSpec::Tag { offset, bytes, window: window(rest.first())? })
                }
                _ => Err(SpecError(format!("{text}: it is tag:OFFSET:BYTES or tag:OFFSET:BYTES:WINDOW"))),
            },
            ("shares", bounds) => {
                let bounds = bounds.map(split);
                let (records, bytes) = (bounds.map(|bounds| bounds.0), bounds.and_then(|bounds| bounds.1));
                let waiting_bytes = bytes.map_or(Ok(SHARES), size)?;
                Ok(OrderSpec::Shares { window: window(records.as_ref())?, waiting_bytes })
            }
            _ => unknown(
                text,
                "order",
                "arrival, roundrobin, random[:SEED], tag:OFFSET:BYTES[:WINDOW], shares[:WINDOW[:SIZE]]",
            ),
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

/// A handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerSpec {
    /// `crc32c`
    Checksum,
    /// `meter`
    Meter,
    /// `match:TEXT`: records that contain it pass.
    Match(String),
    /// `ts:pids=PID,PID…`
    Pids(Vec<u16>),
    /// `ts:programme=NUMBER`
    Programme(u16),
    /// `seal:KEYFILE`
    Seal(PathBuf),
    /// `open:KEYFILE`
    Open(PathBuf),
    /// `prefix`
    Prefix,
    /// `unprefix`
    Unprefix,
    /// `touch` or `touch:MASK`
    Touch(u8),
}

impl HandlerSpec {
    /// One for a stream.
    ///
    /// # Errors
    /// If a key cannot be read or is none, or the system has no random bytes.
    pub fn handler(&self) -> Result<Handler, SpecError> {
        Ok(match self {
            HandlerSpec::Checksum => Handler::Read(Box::new(Checksum::default())),
            HandlerSpec::Meter => Handler::Read(Box::new(Meter::default())),
            HandlerSpec::Match(text) => {
                let wanted = text.clone().into_bytes();
                let contains =
                    move |record: &[u8]| record.windows(wanted.len()).any(|window| window == wanted);
                Handler::Read(Box::new(Filter::new(RECORD, contains)))
            }
            HandlerSpec::Pids(pids) => {
                Handler::Select(Box::new(TransportStreamFilter::pids(pids.iter().copied())))
            }
            HandlerSpec::Programme(number) => {
                Handler::Select(Box::new(TransportStreamFilter::programme(*number)))
            }
            HandlerSpec::Seal(file) => {
                let seal = Seal::new(key(file)?, RECORD).map_err(|error| SpecError(error.to_string()))?;
                Handler::Rewrite(Box::new(seal))
            }
            HandlerSpec::Open(file) => Handler::Rewrite(Box::new(Open::new(key(file)?, RECORD + 28))),
            HandlerSpec::Prefix => Handler::Select(Box::new(Prefix::new(RECORD))),
            HandlerSpec::Unprefix => Handler::Select(Box::new(Unprefix::default())),
            HandlerSpec::Touch(mask) => Handler::Rewrite(Box::new(Touch::new(*mask))),
        })
    }
}

impl HandlerSpec {
    /// The same with the relative path of a key taken to be in `folder`.
    pub(crate) fn within(self, folder: &Path) -> HandlerSpec {
        match self {
            HandlerSpec::Seal(file) => HandlerSpec::Seal(folder.join(file)),
            HandlerSpec::Open(file) => HandlerSpec::Open(folder.join(file)),
            other => other,
        }
    }
}

impl FromStr for HandlerSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<HandlerSpec, SpecError> {
        let pid = |text: &str| number(text, 0, 8191).map(|pid| pid as u16);
        match split(text) {
            ("crc32c", None) => Ok(HandlerSpec::Checksum),
            ("meter", None) => Ok(HandlerSpec::Meter),
            ("match", Some(text)) => Ok(HandlerSpec::Match(text.to_owned())),
            ("ts", Some(what)) => match what.split_once('=') {
                Some(("pids", pids)) => {
                    pids.split(',').map(pid).collect::<Result<_, _>>().map(HandlerSpec::Pids)
                }
                Some(("programme" | "program", programme)) => {
                    number(programme, 1, 65_535).map(|programme| HandlerSpec::Programme(programme as u16))
                }
                _ => Err(SpecError(format!("{text}: it is ts:pids=PID,PID… or ts:programme=NUMBER"))),
            },
            ("seal", Some(file)) => Ok(HandlerSpec::Seal(file.into())),
            ("open", Some(file)) => Ok(HandlerSpec::Open(file.into())),
            ("prefix", None) => Ok(HandlerSpec::Prefix),
            ("unprefix", None) => Ok(HandlerSpec::Unprefix),
            ("touch", mask) => Ok(HandlerSpec::Touch(mask.map_or(Ok(0), |mask| number(mask, 0, 255))? as u8)),
            _ => unknown(
                text,
                "handler",
                "crc32c, meter, match:TEXT, ts:pids=PID,…, ts:programme=NUMBER, seal:KEYFILE, open:KEYFILE, prefix, unprefix, \
                 touch[:MASK]",
            ),
        }
    }
}

/// Reads a key of 32 bytes.
fn key(file: &PathBuf) -> Result<Key, SpecError> {
    let bytes = std::fs::read(file).map_err(|error| SpecError(format!("{}: {error}", file.display())))?;
    let length = bytes.len();
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| {
        let file = file.display();
        SpecError(format!("{file}: a key has 32 bytes, this file has {length}; make one with: head -c 32 /dev/urandom > {file}"))
    })?;
    Ok(Key::new(&bytes))
}

fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, value)) if !value.is_empty() => (name, Some(value)),
        _ => (text, None),
    }
}

fn unknown<T>(text: &str, what: &str, known: &str) -> Result<T, SpecError> {
    Err(SpecError(format!("{text} is no {what}; there are {known}")))
}

fn size(text: &str) -> Result<usize, SpecError> {
    let parsed = text.parse::<ByteSize>().ok().and_then(|size| usize::try_from(size.as_u64()).ok());
    parsed
        .filter(|size| (1..=1 << 30).contains(size))
        .ok_or_else(|| SpecError(format!("{text} is no size from 1 byte to 1 GiB")))
}

fn seed_of(text: Option<&str>) -> Result<u64, SpecError> {
    text.map_or(Ok(0), |text| {
        text.parse().map_err(|_| SpecError(format!("{text} is no seed; a seed is a number")))
    })
}

fn number<T: FromStr + PartialOrd + Display>(text: &str, least: T, most: T) -> Result<T, SpecError> {
    let parsed = text.parse().ok().filter(|number| *number >= least && *number <= most);
    parsed.ok_or_else(|| SpecError(format!("{text} is no number from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_say() {
        assert_eq!("fixed:4KiB".parse(), Ok(FramingSpec::Fixed(4096)));
        assert_eq!("length32".parse(), Ok(FramingSpec::Length32));
        assert_eq!("random:7".parse(), Ok(OrderSpec::Plain(InputOrder::Random { seed: 7 })));
        assert_eq!("tag:4:8".parse(), Ok(OrderSpec::Tag { offset: 4, bytes: 8, window: WINDOW }));
        assert_eq!("tag:4:8:16".parse(), Ok(OrderSpec::Tag { offset: 4, bytes: 8, window: 16 }));
        assert_eq!("shares".parse(), Ok(OrderSpec::Shares { window: WINDOW, waiting_bytes: SHARES }));
        assert_eq!("shares:8".parse(), Ok(OrderSpec::Shares { window: 8, waiting_bytes: SHARES }));
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
            "shares is no pattern",
            "0 is no size",
            "it is ts:pids=",
            "9000 is no number from 0 to 8191",
            "match: is no handler",
            "/nowhere/key: No such file",
        ];
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.to_string().contains(expected), "{said}");
        }
    }

    #[test]
    fn a_key_has_32_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 31]).unwrap();
        let error = HandlerSpec::Open(file.path().into()).handler().unwrap_err();
        assert!(error.to_string().contains("this file has 31; make one with: head -c 32"), "{error}");
        std::fs::write(file.path(), [7; 32]).unwrap();
        assert_eq!(HandlerSpec::Open(file.path().into()).handler().unwrap().name(), "open");
    }
}
