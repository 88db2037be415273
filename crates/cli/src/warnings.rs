//! Warnings about damaged files, as text and as JSON.

use serde_json::{Value, json};
use wirepath_media::ts::{Warning, Warnings};

use crate::format;

/// Lines with the listed warnings, and a line about the omitted ones, each with its prefix.
pub(crate) fn lines(prefix: &str, prefix_of_omitted: &str, warnings: &Warnings) -> String {
    let listed = warnings.first.iter().map(|warning| format!("{prefix}{warning}\n"));
    let more = format::counted(warnings.omitted, "more warning", "more warnings");
    let omitted = (warnings.omitted > 0).then(|| format!("{prefix_of_omitted}{more}\n"));
    listed.chain(omitted).collect()
}

/// Listed warnings as JSON: offset, kind with its figures, and text.
pub(crate) fn json(warnings: &Warnings) -> Value {
    warnings.first.iter().map(of).collect()
}

fn of(warning: &Warning) -> Value {
    let mut object = json!(warning);
    if let Value::Object(fields) = &mut object {
        fields.insert("text".into(), warning.kind.to_string().into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_media::ts::WarningKind;

    #[test]
    fn a_warning_says_where_and_what() {
        let mut warnings = Warnings { omitted: 2, ..Warnings::default() };
        warnings.push(Warning { offset: 188, kind: WarningKind::Truncated { bytes: 7 } });
        let text = "the last packet ends after 7 of 188 bytes and is left out";
        assert_eq!(
            lines("a.ts: warning: ", "a.ts: ", &warnings),
            format!("a.ts: warning: byte 188: {text}\na.ts: 2 more warnings\n")
        );
        assert_eq!(json(&warnings), json!([{"offset": 188, "kind": "truncated", "bytes": 7, "text": text}]));
    }
}
