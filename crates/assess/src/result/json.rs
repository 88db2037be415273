//! Results as JSON.

use serde::Deserialize;

use super::{Assessment, SCHEMA};

/// Error of reading a result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// JSON of another schema.
    #[error(
        "schema {found:?} is not supported, expected {SCHEMA:?}: use the version of wirepath that wrote it, or assess again"
    )]
    OtherSchema {
        /// Its schema.
        found: String,
    },
    /// No result, or a damaged one.
    #[error("not a result of `wirepath assess`: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Error of writing a result.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// JSON has no word for a figure, which is named.
    #[error("a figure is not finite: {0}")]
    NotFinite(String),
    /// Error of the writer.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl Assessment {
    /// Reads a result.
    ///
    /// # Errors
    /// [`ReadError`] for text that is none, or of another version.
    pub fn from_json(text: &str) -> Result<Assessment, ReadError> {
        /// The one field that every version has.
        #[derive(Deserialize)]
        struct AnySchema {
            schema: String,
        }
        let AnySchema { schema } = serde_json::from_str(text)?;
        if schema != SCHEMA {
            return Err(ReadError::OtherSchema { found: schema });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The result as JSON, with a newline at its end.
    ///
    /// # Errors
    /// [`WriteError::NotFinite`] for a figure that is infinite or not a number: as null it could not be read
    /// back.
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
            matches!(&other, ReadError::OtherSchema { found } if found == "wirepath-assessment/99"),
            "{other}"
        );
        for text in ["", "{}", "[1]", r#"{"schema": "wirepath-assessment/1"}"#] {
            assert!(matches!(Assessment::from_json(text), Err(ReadError::Malformed(_))), "{text}");
        }
    }
}
