//! Results as JSON.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use wirepath_report::number::visible;

use super::{Assessment, SCHEMA};

/// Error of reading a result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// JSON of another schema.
    #[error(
        "schema {found:?} is not supported, expected {expected:?}: use the version of wirepath that wrote it, or assess again"
    )]
    OtherSchema {
        /// Schema of the JSON.
        found: String,
        /// Supported schema.
        expected: &'static str,
    },
    /// Result with a name or field that this version does not know.
    #[error("cannot read the result: {0}; another version of wirepath may have written it")]
    OtherVersion(String),
    /// Not a result, or a damaged result.
    #[error("not a result of `wirepath assess`: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Error of writing a result.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// JSON cannot represent a figure, which is named.
    #[error("a figure is not finite: {0}")]
    NotFinite(String),
    /// Error of the writer.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Reads a result of this schema.
pub(crate) fn read<T: DeserializeOwned>(text: &str, expected: &'static str) -> Result<T, ReadError> {
    /// Field that every version has.
    #[derive(Deserialize)]
    struct AnySchema {
        schema: String,
    }
    let AnySchema { schema: found } = serde_json::from_str(text)?;
    if found != expected {
        return Err(ReadError::OtherSchema { found, expected });
    }
    serde_json::from_str(text).map_err(|error| ReadError::OtherVersion(visible(&error.to_string())))
}

impl Assessment {
    /// Reads a result.
    ///
    /// # Errors
    /// [`ReadError`] for text that is not a result, or is of another version.
    pub fn from_json(text: &str) -> Result<Assessment, ReadError> {
        read(text, SCHEMA)
    }

    /// Formats the result as JSON, with a newline at its end.
    ///
    /// # Errors
    /// [`WriteError::NotFinite`] for a figure that is infinite or not a number: JSON would have null, which
    /// cannot be read back as a figure.
    pub fn to_json(&self) -> Result<String, WriteError> {
        if let Some(figure) = self.not_finite() {
            return Err(WriteError::NotFinite(figure));
        }
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_schema_and_no_schema_are_told_apart() {
        let other = Assessment::from_json(r#"{"schema": "wirepath-assessment/99"}"#).unwrap_err();
        assert!(
            matches!(&other, ReadError::OtherSchema { found, .. } if found == "wirepath-assessment/99"),
            "{other}"
        );
        for text in ["", "{}", "[1]", r#"{"schema": "wirepath-assessment/1""#] {
            assert!(matches!(Assessment::from_json(text), Err(ReadError::Malformed(_))), "{text}");
        }
    }

    /// Promise: A result with an unknown path or experiment is refused as one of another version, with the
    /// unknown name.
    #[test]
    fn an_unknown_name_is_said_to_be_of_another_version() {
        let text = crate::example::full().to_json().unwrap();
        for (known, unknown, named) in [
            ("\"path\": \"rtp_sendfile\"", "\"path\": \"gold\"", "unknown data path \"gold\""),
            ("\"path\": \"bare:read_writev\"", "\"path\": \"gold:read_writev\"", "\"gold:read_writev\""),
            ("\"experiment\": \"download\"", "\"experiment\": \"gold\"", "`gold`, expected one of `stream`"),
            ("\"experiment\": \"stream\"", "\"experiment\": \"\\u001b[2J\"", "`\\u{1b}[2J`"),
            ("\"way\": \"streams\"", "\"way\": \"gold\"", "unknown method \"gold\""),
            ("\"part\": \"crowd\"", "\"part\": \"gold\"", "`gold`"),
            ("\"transport\": \"tcp\"", "\"transport\": \"gold\"", "`gold`"),
            ("\"samples\"", "\"gold\"", "missing field `samples`"),
        ] {
            assert!(text.contains(known), "{known}");
            let error = Assessment::from_json(&text.replacen(known, unknown, 1)).unwrap_err().to_string();
            assert!(error.starts_with("cannot read the result: ") && error.contains(named), "{error}");
            assert!(error.ends_with("; another version of wirepath may have written it"), "{error}");
            assert!(error.contains(" at line "), "{error}");
        }
    }
}
