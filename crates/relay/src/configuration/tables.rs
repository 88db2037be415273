//! The configuration file as it is written.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::Path;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::Wrong;
use crate::address::Address;
use crate::rate::RateSpec;
use crate::spec::{DeadlineSpec, FramingSpec, HandlerSpec, OrderSpec, PatternSpec, WhenFullSpec};
use crate::wiring::Wiring;

/// All of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigurationFile {
    pub(super) sharing: Option<SharingTable>,
    #[serde(rename = "class", default)]
    pub(super) classes: Vec<Spanned<ClassTable>>,
    #[serde(rename = "stream", default)]
    pub(super) streams: Vec<Spanned<StreamTable>>,
}

/// `[sharing]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SharingTable {
    pub(super) policy: PolicyWord,
    pub(super) resource: Option<Spanned<ResourceWord>>,
    /// In the unit of the resource.
    pub(super) round: Option<Spanned<String>>,
    pub(super) carry: Option<Spanned<u8>>,
}

/// The names of policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PolicyWord {
    #[default]
    BestEffort,
    Priority,
    FairShare,
    Deadline,
}

/// What classes may share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ResourceWord {
    #[default]
    Volume,
    Cpu,
}

/// `[[class]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) priority: u8,
    #[serde(default = "one", deserialize_with = "share")]
    pub(super) share: NonZeroU32,
    pub(super) rate: Option<Word<RateSpec>>,
    pub(super) burst: Option<Spanned<Word<ByteSize>>>,
}

/// `[[stream]]`: but for `name`, `class`, `rate` and `deadline`, the flags of the command.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StreamTable {
    pub(super) name: Spanned<String>,
    pub(super) class: Option<Spanned<String>>,
    pub(super) rate: Option<Word<RateSpec>>,
    pub(super) deadline: Option<Word<DeadlineSpec>>,
    #[serde(rename = "in")]
    pub(super) inputs: Spanned<Vec<Spanned<String>>>,
    #[serde(rename = "out")]
    pub(super) outputs: Spanned<Vec<Spanned<String>>>,
    framing: Option<Word<FramingSpec>>,
    order: Option<Word<OrderSpec>>,
    pattern: Option<Word<PatternSpec>>,
    #[serde(default)]
    handlers: Vec<Spanned<String>>,
    when_full: Option<Word<WhenFullSpec>>,
}

/// A value that is written as one of our words, which say themselves what is wrong with them.
pub(super) struct Word<T>(pub(super) T);

impl StreamTable {
    /// What is to be wired, with relative paths taken to be in `folder`.
    pub(super) fn wiring(&self, folder: &Path) -> Result<Wiring, Wrong> {
        let usual = Wiring::default();
        let StreamTable { framing, order, pattern, when_full, .. } = self;
        Ok(Wiring {
            inputs: words(self.inputs.get_ref(), Address::to_read, |input| input.within(folder))?,
            outputs: words(self.outputs.get_ref(), Address::to_write, |output| output.within(folder))?,
            framing: framing.as_ref().map_or(usual.framing, |word| word.0.clone()),
            order: order.as_ref().map_or(usual.order, |word| word.0.clone()),
            pattern: pattern.as_ref().map_or(usual.pattern, |word| word.0),
            handlers: words(&self.handlers, HandlerSpec::from_str, |handler| handler.within(folder))?,
            when_full: when_full.as_ref().map_or(usual.when_full, |word| word.0),
        })
    }
}

/// Each word of a list, which may go over many lines: what is wrong with one is said with its own.
fn words<T, E: Display>(
    list: &[Spanned<String>],
    parse: impl Fn(&str) -> Result<T, E>,
    then: impl Fn(T) -> T,
) -> Result<Vec<T>, Wrong> {
    let word = |word: &Spanned<String>| {
        parse(word.get_ref()).map(&then).map_err(|error| Wrong::new(word.span(), error))
    };
    list.iter().map(word).collect()
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Word<T>, D::Error> {
        let text = String::deserialize(value)?;
        text.parse().map(Word).map_err(de::Error::custom)
    }
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn share<'de, D: Deserializer<'de>>(value: D) -> Result<NonZeroU32, D::Error> {
    let share = i64::deserialize(value)?;
    let positive = u32::try_from(share).ok().and_then(NonZeroU32::new);
    positive.ok_or_else(|| de::Error::custom(format!("share is {share}, and must be from 1 to {}", u32::MAX)))
}
