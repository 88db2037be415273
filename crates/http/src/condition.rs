//! Conditional requests (RFC 9110 section 13) and entity tags (section 8.8.3).

use std::fmt;

use http::header;

use crate::fields::{self, Fields};

/// Entity tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityTag {
    weak: bool,
    opaque: String,
}

/// Conditions of one request: field values, and dates in seconds since 1970. Malformed dates are ignored, as
/// sections 13.1.3 and 13.1.4 require.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    if_match: Option<String>,
    if_unmodified_since_s: Option<u64>,
    if_none_match: Option<String>,
    if_modified_since_s: Option<u64>,
    if_range: Option<String>,
}

/// Outcome of the conditions of a GET or HEAD request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Respond as without conditions.
    Go,
    /// 304: the client has the current version.
    NotModified,
    /// 412: the client means another version.
    Failed,
}

impl EntityTag {
    /// Strong tag. Characters that are not allowed in a tag (section 8.8.3) are left out.
    pub fn strong(opaque: &str) -> Self {
        Self { weak: false, opaque: opaque.chars().filter(|&c| is_tag_character(c)).collect() }
    }

    /// The same tag, weak.
    pub fn weakened(&self) -> Self {
        Self { weak: true, opaque: self.opaque.clone() }
    }

    /// Strong comparison (section 8.8.3.2): both tags are strong and equal.
    pub fn matches_strongly(&self, other: &Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Weak comparison (section 8.8.3.2): the tags are equal, whether strong or weak.
    pub fn matches_weakly(&self, other: &Self) -> bool {
        self.opaque == other.opaque
    }

    /// Parses a field value, such as that of `ETag`.
    pub fn read(value: &str) -> Option<Self> {
        Self::parse(value.trim()).filter(|(_, rest)| rest.is_empty()).map(|(tag, _)| tag)
    }

    /// First tag of a list, and the rest of the list.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let (weak, text) = text.strip_prefix("W/").map_or((false, text), |rest| (true, rest));
        let (opaque, rest) = text.strip_prefix('"')?.split_once('"')?;
        let tag = Self { weak, opaque: opaque.to_owned() };
        opaque.chars().all(is_tag_character).then_some((tag, rest))
    }
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\"{}\"", if self.weak { "W/" } else { "" }, self.opaque)
    }
}

impl Conditions {
    /// Conditions in these fields.
    pub fn of(fields: &impl Fields) -> Self {
        Self {
            if_match: fields::joined(fields, &header::IF_MATCH),
            if_unmodified_since_s: fields::date_s(fields, &header::IF_UNMODIFIED_SINCE),
            if_none_match: fields::joined(fields, &header::IF_NONE_MATCH),
            if_modified_since_s: fields::date_s(fields, &header::IF_MODIFIED_SINCE),
            if_range: fields::joined(fields, &header::IF_RANGE),
        }
    }

    /// Returns whether there is no condition.
    pub fn is_empty(&self) -> bool {
        let Self { if_match, if_unmodified_since_s, if_none_match, if_modified_since_s, if_range } = self;
        let has_date = if_unmodified_since_s.is_some() || if_modified_since_s.is_some();
        !has_date && if_match.is_none() && if_none_match.is_none() && if_range.is_none()
    }

    /// Conditions for a cached response: conditions that only an origin can evaluate are left out.
    #[must_use]
    pub fn without_preconditions(self) -> Self {
        Self { if_match: None, if_unmodified_since_s: None, ..self }
    }

    /// Evaluates steps 1 to 4 of RFC 9110 section 13.2.2. Without a date, conditions on dates are ignored;
    /// without a tag, conditions on tags do not match.
    pub fn verdict(&self, tag: Option<&EntityTag>, modified_s: Option<u64>) -> Verdict {
        let until = |since_s: u64| modified_s.map(|modified_s| modified_s <= since_s);
        let holds = match (&self.if_match, self.if_unmodified_since_s) {
            (Some(list), _) => matches(list, tag, EntityTag::matches_strongly),
            (None, Some(since_s)) => until(since_s).unwrap_or(true),
            (None, None) => true,
        };
        if !holds {
            return Verdict::Failed;
        }
        let unchanged = match (&self.if_none_match, self.if_modified_since_s) {
            (Some(list), _) => matches(list, tag, EntityTag::matches_weakly),
            (None, Some(since_s)) => until(since_s).unwrap_or(false),
            (None, None) => false,
        };
        if unchanged { Verdict::NotModified } else { Verdict::Go }
    }

    /// Returns whether a `Range` applies: step 5 of section 13.2.2. Both comparisons are strong (section
    /// 13.1.5); `settled` is true if the file can no longer change without a change of its date.
    pub fn range_applies(&self, tag: Option<&EntityTag>, modified_s: Option<u64>, settled: bool) -> bool {
        let Some(value) = &self.if_range else { return true };
        match EntityTag::read(value) {
            Some(other) => tag.is_some_and(|tag| other.matches_strongly(tag)),
            None => settled && modified_s.is_some() && fields::parse_date_s(value) == modified_s,
        }
    }
}

/// Compares a tag with the value of `If-Match` or `If-None-Match`; `*` matches any file.
fn matches(list: &str, tag: Option<&EntityTag>, compare: fn(&EntityTag, &EntityTag) -> bool) -> bool {
    list.trim() == "*" || tags(list).any(|other| tag.is_some_and(|tag| compare(&other, tag)))
}

/// Tags of a list; tags after a malformed member are left out, so they match nothing.
fn tags(list: &str) -> impl Iterator<Item = EntityTag> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let (tag, after) = EntityTag::parse(rest.trim_start_matches([' ', '\t', ',']))?;
        rest = after;
        Some(tag)
    })
}

/// `etagc` of section 8.8.3, without the obsolete bytes above ASCII.
fn is_tag_character(c: char) -> bool {
    c == '!' || ('#'..='~').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tag_lists() {
        for (value, expected) in [
            ("*", vec![]),
            (r#""a""#, vec![r#""a""#]),
            (r#" "a" ,, W/"b,c","" "#, vec![r#""a""#, r#"W/"b,c""#, r#""""#]),
            (r#""a", b, "c""#, vec![r#""a""#]),
            (r#""a"#, vec![]),
            (r#"w/"a""#, vec![]),
            ("", vec![]),
            ("\"a b\"", vec![]),
        ] {
            let read: Vec<String> = tags(value).map(|tag| tag.to_string()).collect();
            assert_eq!(read, expected, "{value}");
        }
    }

    #[test]
    fn reads_if_range() {
        let tag = EntityTag::strong("a");
        let applies = |value: &str| {
            let conditions = Conditions { if_range: Some(value.to_owned()), ..Conditions::default() };
            conditions.range_applies(Some(&tag), Some(60), true)
        };
        assert!(applies(r#""a""#) && !applies(r#""b""#) && !applies(r#"W/"a""#));
        assert!(applies("Thu, 01 Jan 1970 00:01:00 GMT") && !applies("Thu, 01 Jan 1970 00:02:00 GMT"));
        assert!(applies("Thursday, 01-Jan-70 00:01:00 GMT") && applies("Thu Jan  1 00:01:00 1970"));
        for unreadable in [r#""a", "b""#, "yesterday", "", "Thu, 01 Jan 1960 00:00:00 GMT"] {
            assert!(!applies(unreadable), "{unreadable}");
        }
    }

    #[test]
    fn a_made_tag_is_a_valid_one() {
        assert_eq!(EntityTag::strong("a \"b\"\n1").to_string(), "\"ab1\"");
    }
}
