//! `[sharing]`: the policy between classes, and the resource that they share.

use std::time::Duration;

use bytesize::ByteSize;
use toml::Spanned;
use wirepath_engine::{Policy, Round};

use super::Invalid;
use super::file::{PolicyWord, ResourceWord, SharingTable, number};

pub(super) const DEFAULT_ROUND_BYTES: u64 = 4 << 20;

/// Default processor time of a round: enough for a dozen turns of handlers that encrypt, and too short for a
/// noticeable delay.
pub(super) const DEFAULT_ROUND_US: u64 = 10_000;

/// Maximum length of a round, for which a class may delay the other classes.
const MAX_ROUND: Duration = Duration::from_secs(10);

/// Default percentage of an unused share that a class carries over.
pub(super) const DEFAULT_CARRY_PERCENT: u8 = 50;

impl SharingTable {
    pub(super) fn policy(self) -> Result<Policy, Invalid> {
        let SharingTable { policy, resource, round, carry } = self;
        let set = [
            resource.as_ref().map(Spanned::span),
            round.as_ref().map(Spanned::span),
            carry.as_ref().map(Spanned::span),
        ];
        if let (Some(at), true) = (set.into_iter().flatten().next(), policy != PolicyWord::FairShare) {
            return Err(Invalid::new(at, "resource, round and carry need policy = \"fair-share\""));
        }
        let resource = resource.map(Spanned::into_inner).unwrap_or_default();
        let round =
            round.map_or_else(|| Ok(default_round(resource)), |round| parse_round(resource, &round))?;
        let carry_percent = match carry {
            Some(carry) => number("carry", &carry, 0..=100)? as u8,
            None => DEFAULT_CARRY_PERCENT,
        };
        Ok(match policy {
            PolicyWord::BestEffort => Policy::BestEffort,
            PolicyWord::Priority => Policy::Priority,
            PolicyWord::FairShare => Policy::FairShare { round, carry_percent },
            PolicyWord::Deadline => Policy::Deadline,
        })
    }
}

fn default_round(resource: ResourceWord) -> Round {
    match resource {
        ResourceWord::Volume => Round::Volume(DEFAULT_ROUND_BYTES),
        ResourceWord::Cpu => Round::ProcessorTime(DEFAULT_ROUND_US),
    }
}

/// Parses a round, in the unit of its resource.
fn parse_round(resource: ResourceWord, round: &Spanned<String>) -> Result<Round, Invalid> {
    let text = round.get_ref();
    let volume = text.parse::<ByteSize>().ok().map(|size| size.as_u64());
    let time = humantime::parse_duration(text).ok();
    let is_valid = |time: &Duration| (Duration::from_micros(1)..=MAX_ROUND).contains(time);
    let what = match (resource, volume, time) {
        (ResourceWord::Volume, Some(0), _) => "invalid round 0: expected a volume such as 4MiB".to_owned(),
        (ResourceWord::Volume, Some(bytes), _) => return Ok(Round::Volume(bytes)),
        (ResourceWord::Volume, None, Some(_)) => format!(
            "invalid round {text}: expected a volume such as 4MiB; to share processor time, add resource = \"cpu\""
        ),
        (ResourceWord::Volume, None, None) => format!("invalid round {text}: expected a volume such as 4MiB"),
        (ResourceWord::Cpu, _, Some(time)) if is_valid(&time) => {
            return Ok(Round::ProcessorTime(time.as_micros() as u64));
        }
        (ResourceWord::Cpu, Some(_), None) => format!(
            "invalid round {text}: expected a time such as 10ms; to share volume, remove resource = \"cpu\""
        ),
        (ResourceWord::Cpu, ..) => {
            format!("invalid round {text}: expected a time from 1us to 10s, such as 10ms")
        }
    };
    Err(Invalid::new(round.span(), what))
}
