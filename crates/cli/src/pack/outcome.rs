//! Outcome of packing a file, as text and as JSON.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use wirepath_media::ts::Warnings;

use crate::{format, warnings};

/// File and the result of packing it.
pub(super) struct Outcome {
    pub(super) file: PathBuf,
    pub(super) result: Result<Packed, NotPacked>,
}

/// Image of a file.
pub(super) struct Packed {
    /// It existed before.
    pub(super) already: bool,
    pub(super) image: PathBuf,
    pub(super) duration_us: u64,
    pub(super) packets: u64,
    pub(super) trains: u64,
    pub(super) image_bytes: u64,
    pub(super) seconds: f64,
    pub(super) warnings: Warnings,
}

/// Reason for no image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotPacked {
    /// The file is not to be packed.
    Skipped(String),
    /// Packing failed.
    Failed(String),
}

impl Outcome {
    /// Line for standard output, if there is an image.
    pub(super) fn line(&self) -> Option<String> {
        let packed = self.result.as_ref().ok()?;
        let contents = format!(
            "{}, {} in {}, image of {}",
            format::time(packed.duration_us),
            format::counted(packed.packets, "packet", "packets"),
            format::counted(packed.trains, "train", "trains"),
            format::size(packed.image_bytes),
        );
        let done = match packed.already {
            true => "already packed".to_owned(),
            false => format!("packed in {:.1} s", packed.seconds),
        };
        Some(format!("{}: {contents}, {done}\n", format::name(&self.file)))
    }

    /// Lines for standard error: damage, errors, and the reason for skipping.
    pub(super) fn remarks(&self) -> String {
        let name = format::name(&self.file);
        match &self.result {
            Ok(packed) => warnings::lines(&name, &packed.warnings),
            Err(NotPacked::Skipped(reason)) => format!("{name}: skipped: {reason}\n"),
            Err(NotPacked::Failed(reason)) => format!("{name}: error: {reason}\n"),
        }
    }

    /// One JSON object on one line.
    pub(super) fn json(&self) -> String {
        let mut object = Map::new();
        object.insert("file".into(), text(&self.file));
        match &self.result {
            Ok(packed) => packed.describe(&mut object),
            Err(NotPacked::Skipped(reason)) => {
                object.insert("status".into(), "skipped".into());
                object.insert("reason".into(), reason.as_str().into());
            }
            Err(NotPacked::Failed(reason)) => {
                object.insert("status".into(), "failed".into());
                object.insert("reason".into(), reason.as_str().into());
            }
        }
        format!("{}\n", Value::Object(object))
    }
}

impl Packed {
    fn describe(&self, object: &mut Map<String, Value>) {
        let fields = json!({
            "status": if self.already { "already_packed" } else { "packed" },
            "image": text(&self.image),
            "duration_us": self.duration_us,
            "packets": self.packets,
            "trains": self.trains,
            "image_bytes": self.image_bytes,
            "seconds": self.seconds,
            "warnings": warnings::json(&self.warnings),
            "warnings_omitted": self.warnings.omitted,
        });
        if let Value::Object(fields) = fields {
            object.extend(fields);
        }
    }
}

/// Path for JSON, which allows Unicode only.
fn text(path: &Path) -> Value {
    path.to_string_lossy().into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_media::ts::{Warning, WarningKind};

    fn packed() -> Outcome {
        let mut warnings = Warnings::default();
        warnings.push(Warning { offset: 188, kind: WarningKind::Truncated { bytes: 7 } });
        let packed = Packed {
            already: false,
            image: "/cache/1-2-7x20000.wpi".into(),
            duration_us: 60_032_000,
            packets: 22_866,
            trains: 1,
            image_bytes: 32_000_000,
            seconds: 0.44,
            warnings,
        };
        Outcome { file: "clip.ts".into(), result: Ok(packed) }
    }

    #[test]
    fn a_line_says_what_was_packed() {
        let line = packed().line().unwrap();
        assert_eq!(
            line,
            "clip.ts: 1:00.032, 22,866 packets in 1 train, image of 30.5 MiB, packed in 0.4 s\n"
        );
        let remarks = packed().remarks();
        assert!(remarks.starts_with("clip.ts: warning: byte 188: the last packet"), "{remarks}");
    }

    #[test]
    fn json_is_one_object_on_one_line() {
        let line = packed().json();
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(object["status"], "packed");
        assert_eq!(object["warnings"][0]["offset"], 188);
        let failed = Outcome { file: "x\n".into(), result: Err(NotPacked::Failed("no clock".into())) };
        let object: Value = serde_json::from_str(&failed.json()).unwrap();
        assert_eq!((&object["file"], &object["reason"]), (&"x\n".into(), &"no clock".into()));
        assert_eq!(failed.line(), None);
    }
}
