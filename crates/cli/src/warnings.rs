//! Warnings about damaged files, in words and as JSON.

use serde_json::{Value, json};
use wirepath_media::ts::{Warning, Warnings};

use crate::format;

/// The warnings about the file called `name`, a line each.
pub(crate) fn lines(name: &str, warnings: &Warnings) -> String {
    let mut lines: String =
        warnings.first.iter().map(|warning| format!("{name}: warning: {warning}\n")).collect();
    if warnings.omitted > 0 {
        lines.push_str(&format!(
            "{name}: {}\n",
            format::counted(warnings.omitted, "more warning", "more warnings")
        ));
    }
    lines
}

/// The warnings that are listed: offset, kind and its figures, and the text for people.
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
            lines("a.ts", &warnings),
            format!("a.ts: warning: byte 188: {text}\na.ts: 2 more warnings\n")
        );
        assert_eq!(json(&warnings), json!([{"offset": 188, "kind": "truncated", "bytes": 7, "text": text}]));
    }
}
