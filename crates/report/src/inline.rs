//! Code within text: what stands between two backticks.

use crate::number::visible;

/// A stretch of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) code: bool,
}

/// The stretches of a text. A backtick without a partner is a character like any other.
pub(crate) fn spans(text: &str) -> Vec<Span> {
    let text = visible(text);
    let mut parts: Vec<&str> = text.split('`').collect();
    let alone = if parts.len().is_multiple_of(2) { parts.pop() } else { None };
    let mut spans: Vec<Span> = parts
        .into_iter()
        .enumerate()
        .map(|(index, text)| Span { text: text.to_owned(), code: index % 2 == 1 })
        .filter(|span| !span.text.is_empty())
        .collect();
    spans.extend(alone.map(|text| Span { text: format!("`{text}"), code: false }));
    spans
}

/// The text without the backticks around its code.
pub(crate) fn plain(text: &str) -> String {
    spans(text).into_iter().map(|span| span.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stands_between_backticks() {
        let found = spans("run `a b` now");
        let found: Vec<(&str, bool)> = found.iter().map(|span| (span.text.as_str(), span.code)).collect();
        assert_eq!(found, [("run ", false), ("a b", true), (" now", false)]);
        assert_eq!(plain("`a` and `b"), "a and `b");
        assert_eq!(plain("\u{1b}`"), "\\u{1b}`");
    }
}
