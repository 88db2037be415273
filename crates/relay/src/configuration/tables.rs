//! The configuration file as it is written.

use std::fmt::{self, Display};
use std::num::NonZeroU32;
use std::path::Path;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
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
    inputs: Spanned<Words>,
    #[serde(rename = "out")]
    outputs: Spanned<Words>,
    framing: Option<Word<FramingSpec>>,
    order: Option<Word<OrderSpec>>,
    pattern: Option<Word<PatternSpec>>,
    handlers: Option<Spanned<Words>>,
    when_full: Option<Word<WhenFullSpec>>,
}

/// A list of our words; one without its brackets is told from it, to be refused with the name of its key.
enum Words {
    List(Vec<Spanned<String>>),
    Alone(String),
}

/// A value that is written as one of our words, which say themselves what is wrong with them.
pub(super) struct Word<T>(pub(super) T);

impl StreamTable {
    /// What is to be wired, with relative paths taken to be in `folder`.
    pub(super) fn wiring(&self, folder: &Path) -> Result<Wiring, Wrong> {
        let usual = Wiring::default();
        let StreamTable { framing, order, pattern, when_full, .. } = self;
        let handlers = self.handlers.as_ref().map_or(Ok(&[][..]), |handlers| list("handlers", handlers))?;
        Ok(Wiring {
            inputs: words(addresses("in", &self.inputs)?, Address::to_read, |input| input.within(folder))?,
            outputs: words(addresses("out", &self.outputs)?, Address::to_write, |output| {
                output.within(folder)
            })?,
            framing: framing.as_ref().map_or(usual.framing, |word| word.0.clone()),
            order: order.as_ref().map_or(usual.order, |word| word.0.clone()),
            pattern: pattern.as_ref().map_or(usual.pattern, |word| word.0),
            handlers: words(handlers, HandlerSpec::from_str, |handler| handler.within(folder))?,
            when_full: when_full.as_ref().map_or(usual.when_full, |word| word.0),
        })
    }
}

/// The addresses of a key, of which there must be one.
fn addresses<'a>(key: &str, words: &'a Spanned<Words>) -> Result<&'a [Spanned<String>], Wrong> {
    let addresses = list(key, words)?;
    if addresses.is_empty() {
        let what = format!("{key} has no address; a stream takes at least one");
        return Err(Wrong::new(words.span(), what));
    }
    Ok(addresses)
}

fn list<'a>(key: &str, words: &'a Spanned<Words>) -> Result<&'a [Spanned<String>], Wrong> {
    match words.get_ref() {
        Words::List(list) => Ok(list),
        Words::Alone(word) => {
            Err(Wrong::new(words.span(), format!("{key} is a list; write {key} = [{word:?}], also for one")))
        }
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

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Words, D::Error> {
        value.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of strings")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Words, E> {
        Ok(Words::Alone(word.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, words: A) -> Result<Words, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(words)).map(Words::List)
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
