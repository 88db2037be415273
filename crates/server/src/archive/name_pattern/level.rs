//! Names of one level in a pattern: those of the files, or of the folders at one depth.

use std::fmt::Write as _;

use chrono::format::{Fixed, Item, Parsed, StrftimeItems, parse};
use chrono::{DateTime, Utc};

/// Names of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// Folders of fixed names around the names of this level, each with a slash behind it: `front_door/`.
    pub(super) within: String,
    pub(super) items: Vec<Item<'static>>,
}

impl Level {
    /// Returns whether its names can differ.
    pub(super) fn has_fields(&self) -> bool {
        let is_field = |item: &Item<'_>| matches!(item, Item::Numeric(..) | Item::Fixed(_) | Item::Error);
        self.items.iter().any(is_field)
    }

    /// Fields of the time in a name, in addition to those of the folders above, which they may not contradict.
    pub(super) fn parse(&self, above: &Parsed, name: &str) -> Option<Parsed> {
        let mut parsed = above.clone();
        // Hidden names are not served.
        (!name.starts_with('.') && parse(&mut parsed, name, self.items.iter()).is_ok()).then_some(parsed)
    }
}

/// Text and conversions of a name; none if a conversion is unknown.
pub(super) fn items(text: &str) -> Option<Vec<Item<'static>>> {
    // Recorders write a fraction as microseconds. Chrono's `%f` is a number of nanoseconds.
    let text = text.split("%%").map(|part| part.replace("%f", "%6f")).collect::<Vec<_>>().join("%%");
    let items = StrftimeItems::new(&text).parse_to_owned().ok()?;
    // MediaMTX writes `Z` instead of +0000.
    let with_z = |item| match item {
        Item::Fixed(Fixed::TimezoneOffset) => Item::Fixed(Fixed::TimezoneOffsetZ),
        item => item,
    };
    Some(items.into_iter().map(with_z).collect())
}

/// The name that items give to a time; none if they can only be parsed.
pub(super) fn written(items: &[Item<'static>], time: DateTime<Utc>) -> Option<String> {
    let mut name = String::new();
    write!(name, "{}", time.format_with_items(items.iter())).ok()?;
    Some(name)
}
