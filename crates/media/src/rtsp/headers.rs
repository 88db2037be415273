//! Header fields as received (RFC 2326 section 12 and RFC 2068 section 4.2).

/// Header fields of a request, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

/// Line that is not a header field: its number in the head, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadLine(pub(super) usize);

impl Headers {
    /// Parses the lines after the request line. Bytes that are not UTF-8 are replaced.
    pub(super) fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Self, BadLine> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for (index, line) in lines.enumerate() {
            let bad = BadLine(index + 2);
            let line = String::from_utf8_lossy(line);
            if line.starts_with([' ', '\t']) {
                let (_, value) = fields.last_mut().ok_or(bad)?;
                continue_value(value, line.trim());
                continue;
            }
            let (name, value) = line.split_once(':').ok_or(bad)?;
            let name = name.trim_end();
            if name.is_empty() || !name.bytes().all(is_token_byte) {
                return Err(bad);
            }
            fields.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok(Self(fields))
    }

    /// First field with this name, case-insensitive.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All fields with this name, case-insensitive.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Elements of a comma-separated list, which may be divided into several fields (RFC 2068 section 4.2).
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.all(name)
            .flat_map(|value| split_outside_quotes(value, ','))
            .filter(|element| !element.is_empty())
    }
}

/// Appends a folded line to the value of the line before (RFC 2068 section 2.2).
fn continue_value(value: &mut String, more: &str) {
    if !value.is_empty() && !more.is_empty() {
        value.push(' ');
    }
    value.push_str(more);
}

/// Returns whether a byte may be in a `token` (RFC 2068 section 2.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte)
}

/// Splits a value at separators outside double quotes, and trims the parts.
pub(crate) fn split_outside_quotes(value: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    value
        .split(move |character| {
            quoted ^= character == '"';
            character == separator && !quoted
        })
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Headers, BadLine> {
        Headers::parse(text.lines().map(str::as_bytes))
    }

    #[test]
    fn names_are_found_in_any_case_and_values_are_trimmed() {
        let headers = parse("cseq:7\nTRANSPORT \t:  a , b\nTransport: \"c,d\"\nEmpty:").expect("valid");
        assert_eq!(headers.first("CSeq"), Some("7"));
        assert_eq!(headers.list("transport").collect::<Vec<_>>(), ["a", "b", "\"c,d\""]);
        assert_eq!(headers.first("empty"), Some(""));
        assert_eq!(headers.list("empty").count(), 0);
        assert_eq!(headers.first("Session"), None);
    }

    #[test]
    fn folded_lines_continue_the_value() {
        let headers = parse("Require: a,\n  b\n\t\n Session: no\nSession: 1").expect("valid");
        assert_eq!(headers.list("Require").collect::<Vec<_>>(), ["a", "b Session: no"]);
        assert_eq!(headers.first("session"), Some("1"));
    }

    #[test]
    fn lines_that_are_no_fields_are_named() {
        assert_eq!(parse("CSeq: 1\nnonsense"), Err(BadLine(3)));
        assert_eq!(parse(": 1"), Err(BadLine(2)));
        assert_eq!(parse(" folded from nowhere"), Err(BadLine(2)));
        assert_eq!(parse("two words: 1"), Err(BadLine(2)));
    }
}
