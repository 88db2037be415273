//! Handlers, parsed from strings.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use wirepath_bpf::{BpfHandler, HandlerObject, Place};
use wirepath_media::ts::PACKET_LENGTH;
use wirepath_streams::handlers::{
    Checksum, Filter, Key, Meter, Open, Prefix, PrefixFilter, Seal, Touch, TransportStreamFilter, Unprefix,
};
use wirepath_streams::{Handler, MAX_PEEK_BYTES, Trust};

use super::parse::{number, split, unknown};
use super::{FramingSpec, MAX_RECORD, SpecError};

/// Handler of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerSpec {
    /// `crc32c`
    Checksum,
    /// `meter`
    Meter,
    /// `match:TEXT`: keeps records that contain the text.
    Match(String),
    /// `begins:TEXT`: keeps records that begin with the text.
    Begins(String),
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
    /// `bpf:FILE`: an eBPF program, which runs in the kernel where possible.
    Bpf(PathBuf),
}

impl HandlerSpec {
    /// Makes the handler for a single stream.
    ///
    /// # Errors
    /// The key cannot be used, or the system has no random bytes.
    pub fn handler(&self) -> Result<Handler, SpecError> {
        Ok(match self {
            HandlerSpec::Checksum => Handler::Read(Box::new(Checksum::default())),
            HandlerSpec::Meter => Handler::Read(Box::new(Meter::default())),
            HandlerSpec::Match(text) => {
                let wanted = text.clone().into_bytes();
                let contains =
                    move |record: &[u8]| record.windows(wanted.len()).any(|window| window == wanted);
                Handler::Read(Box::new(Filter::new(MAX_RECORD, contains).named("match")))
            }
            HandlerSpec::Begins(text) => Handler::Peek(Box::new(PrefixFilter::new(text.as_bytes()))),
            HandlerSpec::Pids(pids) => {
                Handler::Select(Box::new(TransportStreamFilter::pids(pids.iter().copied())))
            }
            HandlerSpec::Programme(number) => {
                Handler::Select(Box::new(TransportStreamFilter::programme(*number)))
            }
            HandlerSpec::Seal(file) => {
                let seal =
                    Seal::new(read_key(file)?, MAX_RECORD).map_err(|error| SpecError(error.to_string()))?;
                Handler::Rewrite(Box::new(seal))
            }
            HandlerSpec::Open(file) => {
                Handler::Rewrite(Box::new(Open::new(read_key(file)?, MAX_RECORD + 28)))
            }
            HandlerSpec::Prefix => Handler::Select(Box::new(Prefix::new(MAX_RECORD))),
            HandlerSpec::Unprefix => Handler::Select(Box::new(Unprefix::default())),
            HandlerSpec::Touch(mask) => Handler::Modify(Box::new(Touch::new(*mask))),
            HandlerSpec::Bpf(file) => bpf_handler(&read_object(file)?, Arc::default()),
        })
    }

    /// Name of the handler and the framing that it needs, if `framing` is a different one.
    pub(crate) fn framing_other_than(&self, framing: &FramingSpec) -> Option<(&'static str, &'static str)> {
        match (self, framing) {
            (HandlerSpec::Pids(_) | HandlerSpec::Programme(_), FramingSpec::TransportStream) => None,
            (HandlerSpec::Pids(_) | HandlerSpec::Programme(_), FramingSpec::Fixed(bytes))
                if bytes.is_multiple_of(PACKET_LENGTH) =>
            {
                None
            }
            (HandlerSpec::Pids(_) | HandlerSpec::Programme(_), _) => Some(("ts", "ts")),
            (HandlerSpec::Unprefix, FramingSpec::Whole | FramingSpec::Line) => Some(("unprefix", "length32")),
            _ => None,
        }
    }

    /// Object file of a `bpf` handler.
    pub(in crate::streams) fn object_file(&self) -> Option<&PathBuf> {
        if let HandlerSpec::Bpf(file) = self { Some(file) } else { None }
    }

    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if let Some(file) = self.object_file() {
            return read_object(file).map(drop);
        }
        self.key_file().map_or(Ok(()), |file| read_key(file).map(drop))
    }

    pub(crate) fn key_file(&self) -> Option<&PathBuf> {
        match self {
            HandlerSpec::Seal(file) | HandlerSpec::Open(file) => Some(file),
            _ => None,
        }
    }

    /// Resolves the path of the handler's file against `folder`.
    pub(crate) fn within(self, folder: &Path) -> HandlerSpec {
        match self {
            HandlerSpec::Seal(file) => HandlerSpec::Seal(folder.join(file)),
            HandlerSpec::Open(file) => HandlerSpec::Open(folder.join(file)),
            HandlerSpec::Bpf(file) => HandlerSpec::Bpf(folder.join(file)),
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
            ("begins", Some(text)) if (1..=MAX_PEEK_BYTES).contains(&text.len()) => {
                Ok(HandlerSpec::Begins(text.to_owned()))
            }
            ("ts", Some(what)) => match what.split_once('=') {
                Some(("pids", pids)) => {
                    pids.split(',').map(pid).collect::<Result<_, _>>().map(HandlerSpec::Pids)
                }
                Some(("programme" | "program", programme)) => {
                    number(programme, 1, 65_535).map(|programme| HandlerSpec::Programme(programme as u16))
                }
                _ => Err(SpecError(format!(
                    "invalid handler {text}: expected ts:pids=PID,PID… or ts:programme=NUMBER"
                ))),
            },
            ("seal", Some(file)) => Ok(HandlerSpec::Seal(file.into())),
            ("open", Some(file)) => Ok(HandlerSpec::Open(file.into())),
            ("bpf", Some(file)) => Ok(HandlerSpec::Bpf(file.into())),
            ("prefix", None) => Ok(HandlerSpec::Prefix),
            ("unprefix", None) => Ok(HandlerSpec::Unprefix),
            ("touch", mask) => Ok(HandlerSpec::Touch(mask.map_or(Ok(0), |mask| number(mask, 0, 255))? as u8)),
            _ => unknown(
                text,
                "handler",
                "crc32c, meter, match:TEXT, begins:TEXT, ts:pids=PID,…, ts:programme=NUMBER, seal:KEYFILE, \
                 open:KEYFILE, prefix, unprefix, touch[:MASK], bpf:FILE",
            ),
        }
    }
}

/// Handler of a single output: `NUMBER:HANDLER`, or `NUMBER:trust<VALUE:HANDLER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputHandlerSpec {
    /// Number of the output, counted from 1 in the order of the outputs.
    pub output: usize,
    /// Trust in the output's peer below which the handler applies; None if it always applies.
    pub below: Option<Trust>,
    /// Handler of the output, which runs after the handlers of the stream.
    pub handler: HandlerSpec,
}

impl OutputHandlerSpec {
    /// Resolves the path of the handler's file against `folder`.
    pub(crate) fn within(self, folder: &Path) -> OutputHandlerSpec {
        OutputHandlerSpec { handler: self.handler.within(folder), ..self }
    }
}

impl FromStr for OutputHandlerSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<OutputHandlerSpec, SpecError> {
        let parts = text
            .split_once(':')
            .and_then(|(output, handler)| Some((output.parse().ok().filter(|output| *output > 0)?, handler)));
        let (output, handler) = parts.ok_or_else(|| {
            let words = "expected NUMBER:HANDLER, such as 2:begins:ERROR; outputs are counted from 1";
            SpecError(format!("invalid handler of an output {text}: {words}"))
        })?;
        let Some(guarded) = handler.strip_prefix("trust<") else {
            return Ok(OutputHandlerSpec { output, below: None, handler: handler.parse()? });
        };
        let (below, handler) = guarded.split_once(':').ok_or_else(|| {
            SpecError(format!("invalid handler of an output {text}: expected NUMBER:trust<VALUE:HANDLER"))
        })?;
        let below = number(below, 1, Trust::FULL.value().into())? as u8;
        Ok(OutputHandlerSpec { output, below: Trust::new(below), handler: handler.parse()? })
    }
}

/// Reads the object file of a `bpf` handler.
pub(in crate::streams) fn read_object(file: &Path) -> Result<HandlerObject, SpecError> {
    HandlerObject::from_file(file).map_err(|error| SpecError(error.to_string()))
}

/// `bpf` handler of an object, which runs in a place.
pub(in crate::streams) fn bpf_handler(object: &HandlerObject, place: Arc<Place>) -> Handler {
    Handler::Peek(Box::new(BpfHandler::new(object, place)))
}

const KEY_BYTES: usize = 32;

/// Reads a key. An existing file must not get the hint to create a key. Reading is limited, since a device
/// may have no end.
fn read_key(file: &PathBuf) -> Result<Key, SpecError> {
    let (name, mut bytes) = (file.display(), Vec::new());
    let read = File::open(file).and_then(|file| file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::NotFound => format!("; create it with: head -c 32 /dev/urandom > {name}"),
            _ => String::new(),
        };
        SpecError(format!("cannot read the key {name}: {error}{hint}"))
    })?;
    let bytes: [u8; KEY_BYTES] = bytes.try_into().map_err(|bytes: Vec<u8>| {
        let length = if bytes.len() > KEY_BYTES { "more".to_owned() } else { bytes.len().to_string() };
        SpecError(format!("invalid key {name}: expected a file of {KEY_BYTES} random bytes, found {length}"))
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
        assert!(error.to_string().ends_with("32 random bytes, found 31"), "{error}");
        let endless = HandlerSpec::Open("/dev/zero".into()).handler().unwrap_err();
        assert!(endless.to_string().ends_with("32 random bytes, found more"), "{endless}");
        let missing = HandlerSpec::Seal("/nowhere/key".into()).handler().unwrap_err();
        assert!(
            missing.to_string().ends_with("create it with: head -c 32 /dev/urandom > /nowhere/key"),
            "{missing}"
        );
        std::fs::write(file.path(), [7; 32]).unwrap();
        assert_eq!(HandlerSpec::Open(file.path().into()).handler().unwrap().name(), "open");
    }
}
