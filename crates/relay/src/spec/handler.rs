//! Handlers, as words.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use wirepath_streams::Handler;
use wirepath_streams::handlers::{
    Checksum, Filter, Key, Meter, Open, Prefix, Seal, Touch, TransportStreamFilter, Unprefix,
};

use super::words::{number, split, unknown};
use super::{RECORD, SpecError};

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
                Handler::Read(Box::new(Filter::new(RECORD, contains).named("match")))
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
    /// Reads its key, if it has one.
    ///
    /// # Errors
    /// If that cannot be read or is none.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        match self {
            HandlerSpec::Seal(file) | HandlerSpec::Open(file) => key(file).map(drop),
            _ => Ok(()),
        }
    }

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

/// Bytes of a key.
const KEY: usize = 32;

/// Reads a key. Whoever gave another file as a key must not be told to make one over it; a device may have no end.
fn key(file: &PathBuf) -> Result<Key, SpecError> {
    let (name, mut bytes) = (file.display(), Vec::new());
    let read = File::open(file).and_then(|file| file.take(KEY as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::NotFound => format!("; make one with: head -c 32 /dev/urandom > {name}"),
            _ => String::new(),
        };
        SpecError(format!("{name}: the key cannot be read: {error}{hint}"))
    })?;
    let bytes: [u8; KEY] = bytes.try_into().map_err(|bytes: Vec<u8>| {
        let has = if bytes.len() > KEY { "more".to_owned() } else { bytes.len().to_string() };
        SpecError(format!("{name} is no key: a key is a file of {KEY} random bytes, and this one has {has}"))
    })?;
    Ok(Key::new(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_32_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 31]).unwrap();
        let error = HandlerSpec::Open(file.path().into()).handler().unwrap_err();
        assert!(error.to_string().ends_with("32 random bytes, and this one has 31"), "{error}");
        let endless = HandlerSpec::Open("/dev/zero".into()).handler().unwrap_err();
        assert!(endless.to_string().ends_with("32 random bytes, and this one has more"), "{endless}");
        let missing = HandlerSpec::Seal("/nowhere/key".into()).handler().unwrap_err();
        assert!(
            missing.to_string().ends_with("make one with: head -c 32 /dev/urandom > /nowhere/key"),
            "{missing}"
        );
        std::fs::write(file.path(), [7; 32]).unwrap();
        assert_eq!(HandlerSpec::Open(file.path().into()).handler().unwrap().name(), "open");
    }
}
