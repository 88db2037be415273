//! Tables and keys of the configuration file.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bytesize::ByteSize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, de};
use toml::{Spanned, Value};

use super::Invalid;
use crate::address::Address;
use crate::streams::rate::RateSpec;
use crate::streams::spec::{
    DeadlineSpec, FramingSpec, HandlerSpec, OrderSpec, OutputHandlerSpec, PatternSpec, WhenFullSpec,
};
use crate::streams::stream_config::StreamConfig;

/// Root table of the file.
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
    /// Length of a round, in the unit of the resource.
    pub(super) round: Option<Spanned<String>>,
    pub(super) carry: Option<Spanned<Value>>,
}

/// Names of policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PolicyWord {
    #[default]
    BestEffort,
    Priority,
    FairShare,
    Deadline,
}

/// Resources that classes may share.
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
    pub(super) priority: Option<Spanned<Value>>,
    pub(super) share: Option<Spanned<Value>>,
    pub(super) rate: Option<Word<RateSpec>>,
    pub(super) burst: Option<Spanned<Word<ByteSize>>>,
}

/// `[[stream]]`: the flags of the command, and `name`, `class`, `rate` and `deadline`.
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
    output_handlers: Option<Spanned<Words>>,
    handler_folder: Option<PathBuf>,
    when_full: Option<Word<WhenFullSpec>>,
}

/// List of strings. A single string without brackets is a variant of its own, so that the error can name its
/// key.
enum Words {
    List(Vec<Spanned<String>>),
    Alone(String),
}

/// Value parsed from a string by the value's own parser.
pub(super) struct Word<T>(pub(super) T);

impl StreamTable {
    /// Configuration of the stream. Relative paths are relative to `folder`.
    pub(super) fn config(&self, folder: &Path) -> Result<StreamConfig, Invalid> {
        let default = StreamConfig::default();
        let StreamTable { framing, order, pattern, when_full, .. } = self;
        let handlers = self.handlers.as_ref().map_or(Ok(&[][..]), |handlers| list("handlers", handlers))?;
        let output_handlers = self.output_handlers.as_ref();
        let output_handlers = output_handlers.map_or(Ok(&[][..]), |words| list("output-handlers", words))?;
        Ok(StreamConfig {
            inputs: words(addresses("in", &self.inputs)?, Address::to_read, |input| input.within(folder))?,
            outputs: words(addresses("out", &self.outputs)?, Address::to_write, |output| {
                output.within(folder)
            })?,
            framing: framing.as_ref().map_or(default.framing, |word| word.0.clone()),
            order: order.as_ref().map_or(default.order, |word| word.0.clone()),
            pattern: pattern.as_ref().map_or(default.pattern, |word| word.0),
            handlers: words(handlers, HandlerSpec::from_str, |handler| handler.within(folder))?,
            output_handlers: words(output_handlers, OutputHandlerSpec::from_str, |handler| {
                handler.within(folder)
            })?,
            handler_folder: self.handler_folder.as_ref().map(|named| folder.join(named)),
            when_full: when_full.as_ref().map_or(default.when_full, |word| word.0),
            lending: default.lending,
        })
    }
}

/// The addresses of a key, at least one.
fn addresses<'a>(key: &str, words: &'a Spanned<Words>) -> Result<&'a [Spanned<String>], Invalid> {
    let addresses = list(key, words)?;
    if addresses.is_empty() {
        let what = format!("{key} is empty: expected at least one address");
        return Err(Invalid::new(words.span(), what));
    }
    Ok(addresses)
}

fn list<'a>(key: &str, words: &'a Spanned<Words>) -> Result<&'a [Spanned<String>], Invalid> {
    match words.get_ref() {
        Words::List(list) => Ok(list),
        Words::Alone(word) => {
            Err(Invalid::new(words.span(), format!("{key}: expected a list: write {key} = [{word:?}]")))
        }
    }
}

/// Parses each string of a list. A list may span lines, so an error has the line of its string.
fn words<T, E: Display>(
    list: &[Spanned<String>],
    parse: impl Fn(&str) -> Result<T, E>,
    then: impl Fn(T) -> T,
) -> Result<Vec<T>, Invalid> {
    let word = |word: &Spanned<String>| {
        parse(word.get_ref()).map(&then).map_err(|error| Invalid::new(word.span(), error))
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

/// Whole number of a key, within a range.
pub(super) fn number(key: &str, value: &Spanned<Value>, range: RangeInclusive<u32>) -> Result<u32, Invalid> {
    let number = value.get_ref().as_integer().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let is = match value.get_ref() {
            Value::Array(_) | Value::Table(_) => format!("of type {}", value.get_ref().type_str()),
            plain => plain.to_string(),
        };
        let (least, most) = (range.start(), range.end());
        Invalid::new(value.span(), format!("{key} is {is}: expected a whole number from {least} to {most}"))
    })
}
