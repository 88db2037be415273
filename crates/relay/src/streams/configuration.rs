//! Configuration of streams and their classes, from a file.

mod file;
mod path_use;
mod placement;
mod sharing;

use std::collections::HashSet;
use std::fmt::Display;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use wirepath_engine::{Class, Rate, Sharing};
use wirepath_net::program::unknown_field;
use wirepath_streams::LendingSwitch;

use super::spec::{HandlerSpec, SpecError};
use super::stream_config::StreamConfig;
use crate::address::ExclusiveUse;
use file::{ClassTable, ConfigurationFile, StreamTable, number};

/// Streams that run at the same time, and the way they share the machine.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Classes of streams and the policy between them.
    pub sharing: Sharing,
    /// Streams, each with a unique name.
    pub streams: Vec<StreamPlan>,
    /// Rule by which all streams lend pages of files.
    pub lending: LendingSwitch,
    /// Resources in use, see [`StreamConfig::exclusive_uses`].
    in_use: HashSet<String>,
    /// File that the configuration was read from.
    file: Option<PathBuf>,
}

/// Stream of a configuration.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Name of the stream.
    pub name: String,
    /// Index of its class in [`Sharing::classes`]; 0 without classes.
    pub class: usize,
    /// Limit of the stream's reading rate.
    pub rate: Option<Rate>,
    /// Deadline of the stream's turns, used under [`Policy::Deadline`](wirepath_engine::Policy::Deadline).
    pub deadline: Option<Duration>,
    /// Addresses of the stream and its settings.
    pub config: StreamConfig,
}

/// Error in a configuration file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// Invalid value, with its line, counted from 1.
    #[error("in the configuration file {path}, line {1}: {2}", path = .0.display())]
    Invalid(PathBuf, usize, String),
}

/// Maximum size of a configuration file.
const MAX_BYTES: u64 = 16 << 20;

/// Maximum number of streams. Each stream needs descriptors and, until its addresses are open, a thread.
const MAX_STREAMS: usize = 4096;

/// Maximum number of classes. The scheduler compares all classes before each turn of a stream.
const MAX_CLASSES: usize = 64;

/// Maximum length of a class or stream name, so that tables stay legible.
const MAX_NAME: usize = 64;

/// Invalid value, with its range in the text.
struct Invalid {
    at: Range<usize>,
    what: String,
}

impl Configuration {
    /// Reads a configuration file. Relative paths in the file are relative to its folder.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn from_file(path: &Path) -> Result<Configuration, ConfigurationError> {
        let text = read(path).map_err(|error| ConfigurationError::Read(path.to_owned(), error))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let configuration = Configuration::from_text(&text, folder).map_err(|Invalid { at, what }| {
            let before = text.get(..at.start).unwrap_or(&text);
            let line = before.matches('\n').count() + 1;
            ConfigurationError::Invalid(path.to_owned(), line, what)
        })?;
        Ok(Configuration { file: Some(path.to_owned()), ..configuration })
    }

    /// Adds a stream.
    ///
    /// # Errors
    /// The name is in use; or the stream uses a resource that only a single stream can use and that is in use
    /// already: standard input or output, a file that is written, or an address that is listened on.
    pub fn add(&mut self, plan: StreamPlan) -> Result<(), String> {
        if self.streams.iter().any(|stream| stream.name == plan.name) {
            return Err(format!("duplicate stream name {}; names must be unique", plan.name));
        }
        for ExclusiveUse { resource, conflict } in plan.config.exclusive_uses() {
            if !self.in_use.insert(resource) {
                return Err(conflict);
            }
        }
        self.streams.push(plan);
        Ok(())
    }

    /// Reads the keys of all handlers, as starting the streams does.
    ///
    /// # Errors
    /// The first key that cannot be used, with the name of its stream.
    pub fn check_keys(&self) -> Result<(), (&str, SpecError)> {
        self.streams.iter().try_for_each(|stream| {
            let checked = stream.config.all_handlers().try_for_each(HandlerSpec::check);
            checked.map_err(|error| (stream.name.as_str(), error))
        })
    }

    /// Index of the class with this name.
    ///
    /// # Errors
    /// The class is unknown; the message lists the known classes.
    pub fn class(&self, name: &str) -> Result<usize, String> {
        let classes = &self.sharing.classes;
        classes.iter().position(|class| class.name == name).ok_or_else(|| {
            let known: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
            match &known[..] {
                [] => format!("unknown class {name}; declare it with [[class]] and name = \"{name}\""),
                known => format!("unknown class {name}; expected one of {}", known.join(", ")),
            }
        })
    }

    /// Name of a stream's class; empty without classes.
    pub fn class_name(&self, plan: &StreamPlan) -> &str {
        self.sharing.classes.get(plan.class).map_or("", |class| &class.name)
    }

    fn from_text(text: &str, folder: &Path) -> Result<Configuration, Invalid> {
        let file: ConfigurationFile = toml::from_str(text).map_err(|error| Invalid {
            at: error.span().unwrap_or_default(),
            what: in_words(error.message()),
        })?;
        bounded("classes", &file.classes, MAX_CLASSES)?;
        bounded("streams", &file.streams, MAX_STREAMS)?;
        unique("class", file.classes.iter().map(|class| &class.get_ref().name))?;
        unique("stream", file.streams.iter().map(|stream| &stream.get_ref().name))?;
        let classes =
            file.classes.into_iter().map(|class| class.into_inner().class()).collect::<Result<_, _>>()?;
        let sharing = Sharing { policy: file.sharing.unwrap_or_default().policy()?, classes };
        let mut configuration = Configuration { sharing, ..Configuration::default() };
        for stream in file.streams {
            let at = stream.span();
            let plan = stream.get_ref().plan(at.clone(), folder, &configuration)?;
            configuration.add(plan).map_err(|what| Invalid::new(at, what))?;
        }
        Ok(configuration)
    }
}

impl ClassTable {
    fn class(self) -> Result<Class, Invalid> {
        if let (None, Some(burst)) = (&self.rate, &self.burst) {
            return Err(Invalid::new(burst.span(), "burst needs rate; add a rate to the class"));
        }
        let burst_bytes = self.burst.map(|burst| burst.into_inner().0.as_u64());
        Ok(Class {
            name: self.name.into_inner(),
            priority: self.priority.map_or(Ok(0), |priority| number("priority", &priority, 0..=255))? as u8,
            share: self.share.map_or(Ok(1), |share| number("share", &share, 1..=u32::MAX))?,
            rate: self.rate.map(|rate| rate.0.rate(burst_bytes)),
        })
    }
}

impl StreamTable {
    fn plan(&self, at: Range<usize>, folder: &Path, all: &Configuration) -> Result<StreamPlan, Invalid> {
        let class = self.class.as_ref().map_or(Ok(0), |class| {
            all.class(class.get_ref()).map_err(|what| Invalid::new(class.span(), what))
        })?;
        let config = self.config(folder)?;
        config.check().map_err(|error| Invalid::new(at, error))?;
        let rate = self.rate.as_ref().map(|rate| rate.0.rate(None));
        let deadline = self.deadline.as_ref().map(|deadline| deadline.0.0);
        Ok(StreamPlan { name: self.name.get_ref().clone(), class, rate, deadline, config })
    }
}

impl Invalid {
    fn new(at: Range<usize>, what: impl Display) -> Invalid {
        Invalid { at, what: what.to_string() }
    }
}

/// Message of the TOML parser, replaced by a clearer message where one is known.
fn in_words(message: &str) -> String {
    if let Some(unknown) = unknown_field(message) {
        return unknown;
    }
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    match (missing, message) {
        (Some(key), _) => {
            format!("missing key {key}; a [[stream]] needs name, in and out, a [[class]] needs name")
        }
        (None, "invalid type: map, expected a sequence") => {
            "expected a list: write [[stream]] and [[class]] with two brackets".to_owned()
        }
        (None, message) => message.replace('\n', " "),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if length as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 16 MiB"));
    }
    Ok(text)
}

fn bounded<T>(what: &str, tables: &[Spanned<T>], most: usize) -> Result<(), Invalid> {
    let first_too_many = tables.get(most).map(Spanned::span);
    first_too_many
        .map_or(Ok(()), |at| Err(Invalid::new(at, format!("too many {what}: at most {most} are allowed"))))
}

/// Checks the names of classes or streams, which appear in tables, metrics and messages.
fn unique<'a>(what: &str, names: impl Iterator<Item = &'a Spanned<String>>) -> Result<(), Invalid> {
    let mut seen = HashSet::new();
    for name in names {
        let letters = name.get_ref().chars().count();
        if letters == 0 || letters > MAX_NAME || name.get_ref().chars().any(char::is_control) {
            let what =
                format!("invalid name: expected 1 to {MAX_NAME} characters without control characters");
            return Err(Invalid::new(name.span(), what));
        }
        if !seen.insert(name.get_ref()) {
            let what = format!("duplicate {what} name {}; names must be unique", name.get_ref());
            return Err(Invalid::new(name.span(), what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
