//! Result of packing a file, as text and as JSON.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use wirepath_media::ts::Warnings;

use crate::{format, warnings};

/// File, and the result of packing it.
#[derive(Serialize)]
pub(super) struct Outcome {
    #[serde(serialize_with = "lossy")]
    pub(super) file: PathBuf,
    #[serde(flatten)]
    pub(super) result: PackResult,
}

/// Result of packing a file.
#[derive(Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(super) enum PackResult {
    Packed(Packed),
    /// The image existed already.
    AlreadyPacked(Packed),
    /// The file must not be packed.
    Skipped {
        reason: String,
    },
    Failed {
        reason: String,
    },
}

/// Image of a file.
#[derive(Serialize)]
pub(super) struct Packed {
    #[serde(serialize_with = "lossy")]
    pub(super) image: PathBuf,
    /// True if the file is an index, without packets.
    #[serde(rename = "index")]
    pub(super) is_index: bool,
    pub(super) duration_us: u64,
    pub(super) packets: u64,
    pub(super) trains: u64,
    pub(super) image_bytes: u64,
    pub(super) seconds: f64,
    #[serde(flatten, serialize_with = "listed")]
    pub(super) warnings: Warnings,
}

impl Outcome {
    /// Line for standard output, if there is an image.
    pub(super) fn line(&self) -> Option<String> {
        let (packed, done) = match &self.result {
            PackResult::Packed(packed) => (packed, format!("packed in {:.1} s", packed.seconds)),
            PackResult::AlreadyPacked(packed) => (packed, "already packed".to_owned()),
            PackResult::Skipped { .. } | PackResult::Failed { .. } => return None,
        };
        let contents = format!(
            "{}, {} in {}, {} of {}",
            format::time(packed.duration_us),
            format::counted(packed.packets, "packet", "packets"),
            format::counted(packed.trains, "train", "trains"),
            if packed.is_index { "index" } else { "image" },
            format::size(packed.image_bytes),
        );
        Some(format!("{}: {contents}, {done}\n", format::name(&self.file)))
    }

    /// Lines for standard error: damage, errors, and the reason why the file was skipped.
    pub(super) fn remarks(&self) -> String {
        let name = format::name(&self.file);
        match &self.result {
            PackResult::Packed(packed) | PackResult::AlreadyPacked(packed) => {
                warnings::lines(&format!("{name}: warning: "), &format!("{name}: "), &packed.warnings)
            }
            PackResult::Skipped { reason } => format!("{name}: skipped: {reason}\n"),
            PackResult::Failed { reason } => format!("{name}: error: {reason}\n"),
        }
    }
}

/// Path for JSON, which allows only Unicode.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

fn listed<S: Serializer>(warnings: &Warnings, serializer: S) -> Result<S::Ok, S::Error> {
    serializer
        .collect_map([("warnings", warnings::json(warnings)), ("warnings_omitted", warnings.omitted.into())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_media::ts::{Warning, WarningKind};

    fn packed() -> Outcome {
        let mut warnings = Warnings::default();
        warnings.push(Warning { offset: 188, kind: WarningKind::Truncated { bytes: 7 } });
        let packed = Packed {
            image: "/cache/1-2-7x20000.wpi".into(),
            is_index: false,
            duration_us: 60_032_000,
            packets: 22_866,
            trains: 1,
            image_bytes: 32_000_000,
            seconds: 0.44,
            warnings,
        };
        Outcome { file: "clip.ts".into(), result: PackResult::Packed(packed) }
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
    fn json_has_the_status_and_its_fields() {
        let object = serde_json::to_value(packed()).unwrap();
        assert_eq!(object["status"], "packed");
        assert_eq!(object["warnings"][0]["offset"], 188);
        let failed = Outcome { file: "x\n".into(), result: PackResult::Failed { reason: "no clock".into() } };
        let object = serde_json::to_value(&failed).unwrap();
        assert_eq!((&object["file"], &object["reason"]), (&"x\n".into(), &"no clock".into()));
        assert_eq!(object["status"], "failed");
        assert_eq!(failed.line(), None);
    }
}
