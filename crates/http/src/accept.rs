//! `Accept` (RFC 9110 section 12.5.1), as needed for folder listings: HTML or JSON.

/// Form of a folder's listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Listing {
    /// HTML, for people.
    #[default]
    Html,
    /// JSON, for programs.
    Json,
}

impl Listing {
    /// Form that a field value prefers: HTML unless JSON is preferred. A client that accepts neither gets
    /// HTML, as section 12.5.1 allows. Of several matching ranges, the most specific range counts.
    pub(crate) fn preferred(accept: &str) -> Listing {
        let (html, json) = (quality(accept, "text", "html"), quality(accept, "application", "json"));
        if json > html { Listing::Json } else { Listing::Html }
    }
}

/// Quality of a media type, in thousandths.
fn quality(value: &str, kind: &str, subtype: &str) -> u16 {
    let matching = value.split(',').filter_map(|range| {
        let mut fields = range.split(';').map(str::trim);
        let (range_kind, range_subtype) = fields.next()?.split_once('/')?;
        let specific = match (range_kind, range_subtype) {
            ("*", "*") => 0,
            (k, "*") if k.eq_ignore_ascii_case(kind) => 1,
            (k, s) if k.eq_ignore_ascii_case(kind) && s.eq_ignore_ascii_case(subtype) => 2,
            _ => return None,
        };
        Some((specific, weight(fields)))
    });
    matching.max_by_key(|&(specific, _)| specific).map_or(0, |(_, weight)| weight)
}

/// `q` parameter in thousandths (RFC 9110 section 12.4.2); a malformed parameter counts as absent.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> u16 {
    let q = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then_some(value.trim())
    });
    let q = q.and_then(|value| value.parse::<f32>().ok()).filter(|q| (0.0..=1.0).contains(q));
    q.map_or(1000, |q| (q * 1000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses() {
        for (value, listing) in [
            ("", Listing::Html),
            ("*/*", Listing::Html),
            ("application/json", Listing::Json),
            ("Application/JSON, */*;q=0.1", Listing::Json),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Listing::Html),
            ("application/json;q=0.5, text/html;q=0.6", Listing::Html),
            ("application/json;q=0.5, text/html;q=0", Listing::Json),
            ("application/*", Listing::Json),
            ("application/json;q=0, application/*", Listing::Html),
            ("image/png", Listing::Html),
            ("application/json;q=NaN,;;=,/", Listing::Json),
        ] {
            assert_eq!(Listing::preferred(value), listing, "{value}");
        }
    }
}
