//! RFC 9110 section 11.4: parameters of a challenge or of credentials.

/// Most parameters of a header; the longest that clients send has eleven.
const MOST: usize = 32;

/// Splits the parameters behind the word `Digest`, in any case; none if another scheme is meant.
pub(crate) fn after_scheme(value: &str) -> Option<&str> {
    let (scheme, rest) = value.trim().split_once([' ', '\t'])?;
    scheme.eq_ignore_ascii_case("Digest").then_some(rest)
}

/// Parameters by name, quotes and escapes removed.
#[derive(Debug)]
pub(crate) struct Parameters<'a>(Vec<(&'a str, String)>);

impl<'a> Parameters<'a> {
    /// Reads `name=value, name="value"`; blanks and commas may be missing or too many. None for anything else,
    /// and for a name that comes twice, of which two readers may take different ones.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let mut found: Vec<(&str, String)> = Vec::new();
        let mut rest = text;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                return Some(Self(found));
            }
            let (name, value) = rest.split_once('=')?;
            let name = name.trim_end();
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_*.".contains(&byte);
            let known = found.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            if name.is_empty() || !name.bytes().all(is_token) || known || found.len() == MOST {
                return None;
            }
            let value = value.trim_start_matches([' ', '\t']);
            let (value, after) = match value.strip_prefix('"') {
                Some(quoted) => unquote(quoted)?,
                None => {
                    let (token, after) = value.split_once(',').unwrap_or((value, ""));
                    (token.trim_end().to_owned(), after)
                }
            };
            found.push((name, value));
            rest = after;
        }
    }

    /// Value of a parameter.
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// The value before the closing quote, and what is behind it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let (mut value, mut is_escaped) = (String::new(), false);
    for (offset, character) in text.char_indices() {
        match character {
            _ if is_escaped => {
                value.push(character);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return Some((value, &text[offset + 1..])),
            _ => value.push(character),
        }
    }
    None
}

/// A value as a quoted string.
pub(crate) fn quote(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_tolerable_forms() {
        let text = " a = \"x, \\\"y\\\"\\\\\" ,,b=c\t,\tD=,e=\"\"";
        let parameters = Parameters::parse(text).expect("readable");
        let value = |name| parameters.find(name);
        assert_eq!((value("A"), value("b"), value("d")), (Some("x, \"y\"\\"), Some("c"), Some("")));
        assert_eq!((value("e"), value("f")), (Some(""), None));
        assert_eq!(Parameters::parse(&format!("q={}", quote("a\"b\\"))).unwrap().find("q"), Some("a\"b\\"));
        for text in ["a", "a=\"x", "=x", "a=1,A=2", "a b=1", "a=\"x\\"] {
            assert!(Parameters::parse(text).is_none(), "{text}");
        }
        assert!(Parameters::parse(&"a=1,".repeat(2)).is_none());
        let many: String = (0..=MOST).map(|number| format!("n{number}=1,")).collect();
        assert!(Parameters::parse(&many).is_none());
    }

    #[test]
    fn only_digest_is_read() {
        assert_eq!(after_scheme("digest a=b"), Some("a=b"));
        assert_eq!(after_scheme("Basic YTpi"), None);
        assert_eq!(after_scheme("Digest"), None);
    }
}
