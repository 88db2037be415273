//! `[sharing]`: how classes are weighed against each other, and what they share.

use std::time::Duration;

use bytesize::ByteSize;
use toml::Spanned;
use wirepath_engine::{Policy, Round};

use super::Wrong;
use super::tables::{PolicyWord, ResourceWord, SharingTable, number};

/// Volume of a round where the file does not say.
pub(super) const USUAL_ROUND_BYTES: u64 = 4 << 20;

/// Processor time of a round where the file does not say: a dozen turns of handlers that encrypt, and no delay that anybody feels.
pub(super) const USUAL_ROUND_US: u64 = 10_000;

/// Longest round: for its time a class may keep the others waiting.
const LONGEST_ROUND: Duration = Duration::from_secs(10);

/// What of its share a class carries over where the file does not say.
pub(super) const USUAL_CARRY_PERCENT: u8 = 50;

impl SharingTable {
    /// What is to hold.
    pub(super) fn policy(self) -> Result<Policy, Wrong> {
        let SharingTable { policy, resource, round, carry } = self;
        let set = [
            resource.as_ref().map(Spanned::span),
            round.as_ref().map(Spanned::span),
            carry.as_ref().map(Spanned::span),
        ];
        if let (Some(at), true) = (set.into_iter().flatten().next(), policy != PolicyWord::FairShare) {
            return Err(Wrong::new(at, "only policy = \"fair-share\" has rounds of a resource"));
        }
        let resource = resource.map(Spanned::into_inner).unwrap_or_default();
        let round = round.map_or_else(|| Ok(usual(resource)), |round| read(resource, &round))?;
        let carry_percent = match carry {
            Some(carry) => number("carry", &carry, 0..=100)? as u8,
            None => USUAL_CARRY_PERCENT,
        };
        Ok(match policy {
            PolicyWord::BestEffort => Policy::BestEffort,
            PolicyWord::Priority => Policy::Priority,
            PolicyWord::FairShare => Policy::FairShare { round, carry_percent },
            PolicyWord::Deadline => Policy::Deadline,
        })
    }
}

fn usual(resource: ResourceWord) -> Round {
    match resource {
        ResourceWord::Volume => Round::Volume(USUAL_ROUND_BYTES),
        ResourceWord::Cpu => Round::ProcessorTime(USUAL_ROUND_US),
    }
}

/// A round of a resource, in its unit.
fn read(resource: ResourceWord, round: &Spanned<String>) -> Result<Round, Wrong> {
    let text = round.get_ref();
    let volume = text.parse::<ByteSize>().ok().map(|size| size.as_u64());
    let time = humantime::parse_duration(text).ok();
    let may_be = |time: &Duration| (Duration::from_micros(1)..=LONGEST_ROUND).contains(time);
    let what = match (resource, volume, time) {
        (ResourceWord::Volume, Some(0), _) => "a round has at least one byte".to_owned(),
        (ResourceWord::Volume, Some(bytes), _) => return Ok(Round::Volume(bytes)),
        (ResourceWord::Volume, None, Some(_)) => format!(
            "{text} is a time, and what classes share is volume: a round is for instance 4MiB; to share processor time add \
             resource = \"cpu\""
        ),
        (ResourceWord::Volume, None, None) => format!("{text} is no volume; a round is for instance 4MiB"),
        (ResourceWord::Cpu, _, Some(time)) if may_be(&time) => {
            return Ok(Round::ProcessorTime(time.as_micros() as u64));
        }
        (ResourceWord::Cpu, Some(_), None) => format!(
            "{text} is a volume, and what classes share is processor time (resource = \"cpu\"): a round is for instance 10ms"
        ),
        (ResourceWord::Cpu, ..) => {
            format!("{text} is no round of processor time; one is for instance 10ms, from 1us up to 10s")
        }
    };
    Err(Wrong::new(round.span(), what))
}
