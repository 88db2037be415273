//! Many streams and their classes, from a file.

mod placement;
mod report;
mod sharing;
mod tables;

use std::collections::HashSet;
use std::fmt::Display;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use wirepath_engine::{Class, Rate, Sharing};

use crate::address::Claim;
use crate::spec::{HandlerSpec, SpecError};
use crate::wiring::Wiring;
use tables::{ClassTable, ConfigurationFile, StreamTable, number};

/// Streams that run at once, and how they share the machine.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// The classes, and how they are weighed against each other.
    pub sharing: Sharing,
    /// The streams, each with a name of its own.
    pub streams: Vec<StreamPlan>,
    /// What they have that nobody else can have, see [`Wiring::claims`].
    claims: HashSet<String>,
    /// Where it was read from.
    file: Option<PathBuf>,
}

/// A stream that is to run.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Its name.
    pub name: String,
    /// Its class, by the place in [`Sharing::classes`]; 0 also where there are none.
    pub class: usize,
    /// What it may read.
    pub rate: Option<Rate>,
    /// Under [`Policy::Deadline`](wirepath_engine::Policy::Deadline): how long after it can go on it should have done so.
    pub deadline: Option<Duration>,
    /// Its inputs, its outputs and what is between them.
    pub wiring: Wiring,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// It cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It says something that cannot be.
    #[error("in the configuration file {}, line {line}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What, and what would be right.
        what: String,
    },
}

/// Longest file that is read.
const MOST_BYTES: u64 = 16 << 20;

/// Most streams of a file: each takes descriptors and, until its connections have come about, a thread.
const MOST_STREAMS: usize = 4096;

/// Most classes of a file: all are looked at before each turn of a stream.
const MOST_CLASSES: usize = 64;

/// Longest name of a class or stream, so that tables stay legible.
const LONGEST_NAME: usize = 64;

/// Something wrong, and where in the text.
struct Wrong {
    at: Range<usize>,
    what: String,
}

impl Configuration {
    /// Reads a file; relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn from_file(path: &Path) -> Result<Configuration, ConfigurationError> {
        let text = read(path).map_err(|source| ConfigurationError::Read { path: path.to_owned(), source })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let configuration = Configuration::from_text(&text, folder).map_err(|Wrong { at, what }| {
            let before = text.get(..at.start).unwrap_or(&text);
            let line = before.matches('\n').count() + 1;
            ConfigurationError::Wrong { path: path.to_owned(), line, what }
        })?;
        Ok(Configuration { file: Some(path.to_owned()), ..configuration })
    }

    /// Adds a stream.
    ///
    /// # Errors
    /// If a stream before it has its name; if what only one can have would be had twice: standard input or output, a file that is
    /// written, an address at which connections are waited for.
    pub fn add(&mut self, plan: StreamPlan) -> Result<(), String> {
        if self.streams.iter().any(|stream| stream.name == plan.name) {
            return Err(format!("there is a stream {} already; give each its own name", plan.name));
        }
        for Claim { what, wrong } in plan.wiring.claims() {
            if !self.claims.insert(what) {
                return Err(wrong);
            }
        }
        self.streams.push(plan);
        Ok(())
    }

    /// Reads the keys of all handlers, which a stream reads when it begins.
    ///
    /// # Errors
    /// The first that cannot be read or is none, and the name of its stream.
    pub fn check_keys(&self) -> Result<(), (&str, SpecError)> {
        self.streams.iter().try_for_each(|stream| {
            let checked = stream.wiring.handlers.iter().try_for_each(HandlerSpec::check);
            checked.map_err(|error| (stream.name.as_str(), error))
        })
    }

    /// The place of a class.
    ///
    /// # Errors
    /// If there is none of this name, with those that there are.
    pub fn class(&self, name: &str) -> Result<usize, String> {
        let classes = &self.sharing.classes;
        classes.iter().position(|class| class.name == name).ok_or_else(|| {
            let known: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
            match &known[..] {
                [] => format!("there is no class {name}; declare it with [[class]] and name = \"{name}\""),
                known => format!("there is no class {name}; there are {}", known.join(", ")),
            }
        })
    }

    /// The name of a stream's class; empty where there are no classes.
    pub fn class_name(&self, plan: &StreamPlan) -> &str {
        self.sharing.classes.get(plan.class).map_or("", |class| &class.name)
    }

    fn from_text(text: &str, folder: &Path) -> Result<Configuration, Wrong> {
        let file: ConfigurationFile = toml::from_str(text).map_err(|error| Wrong {
            at: error.span().unwrap_or_default(),
            what: in_words(error.message()),
        })?;
        bounded("classes", &file.classes, MOST_CLASSES)?;
        bounded("streams", &file.streams, MOST_STREAMS)?;
        unique("class", file.classes.iter().map(|class| &class.get_ref().name))?;
        unique("stream", file.streams.iter().map(|stream| &stream.get_ref().name))?;
        let classes =
            file.classes.into_iter().map(|class| class.into_inner().class()).collect::<Result<_, _>>()?;
        let sharing = Sharing { policy: file.sharing.unwrap_or_default().policy()?, classes };
        let mut configuration = Configuration { sharing, ..Configuration::default() };
        for stream in file.streams {
            let at = stream.span();
            let plan = stream.get_ref().plan(at.clone(), folder, &configuration)?;
            configuration.add(plan).map_err(|what| Wrong::new(at, what))?;
        }
        Ok(configuration)
    }
}

impl ClassTable {
    fn class(self) -> Result<Class, Wrong> {
        if let (None, Some(burst)) = (&self.rate, &self.burst) {
            return Err(Wrong::new(burst.span(), "a burst is of a rate; give the class a rate too"));
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
    fn plan(&self, at: Range<usize>, folder: &Path, all: &Configuration) -> Result<StreamPlan, Wrong> {
        let class = self.class.as_ref().map_or(Ok(0), |class| {
            all.class(class.get_ref()).map_err(|what| Wrong::new(class.span(), what))
        })?;
        let wiring = self.wiring(folder)?;
        wiring.check().map_err(|error| Wrong::new(at, error))?;
        let rate = self.rate.as_ref().map(|rate| rate.0.rate(None));
        let deadline = self.deadline.as_ref().map(|deadline| deadline.0.0);
        Ok(StreamPlan { name: self.name.get_ref().clone(), class, rate, deadline, wiring })
    }
}

impl Wrong {
    fn new(at: Range<usize>, what: impl Display) -> Wrong {
        Wrong { at, what: what.to_string() }
    }
}

/// What the parser says in words of its own, in ours where they say what to do.
fn in_words(message: &str) -> String {
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    match (missing, message) {
        (Some(key), _) => {
            format!("{key} is missing here; a [[stream]] has a name, in and out, and a [[class]] a name")
        }
        (None, "invalid type: map, expected a sequence") => {
            "there may be many of these: write [[stream]] and [[class]], with two brackets".to_owned()
        }
        (None, message) => message.replace('\n', " "),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let length = std::fs::File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if length as u64 > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 16 MiB"));
    }
    Ok(text)
}

fn bounded<T>(what: &str, tables: &[Spanned<T>], most: usize) -> Result<(), Wrong> {
    let first_too_many = tables.get(most).map(Spanned::span);
    first_too_many.map_or(Ok(()), |at| Err(Wrong::new(at, format!("there are at most {most} {what}"))))
}

/// Names go to tables, metrics and lines for people.
fn unique<'a>(what: &str, names: impl Iterator<Item = &'a Spanned<String>>) -> Result<(), Wrong> {
    let mut seen = HashSet::new();
    for name in names {
        let letters = name.get_ref().chars().count();
        if letters == 0 || letters > LONGEST_NAME || name.get_ref().chars().any(char::is_control) {
            let what = format!("a name has 1 to {LONGEST_NAME} letters and no control characters");
            return Err(Wrong::new(name.span(), what));
        }
        if !seen.insert(name.get_ref()) {
            let what = format!("there is a {what} {} already; give each its own name", name.get_ref());
            return Err(Wrong::new(name.span(), what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
