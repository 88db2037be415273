//! Names of one level in a pattern: those of the files, or of the folders at one depth.

use std::fmt::Write as _;

use chrono::format::{Fixed, Item, Numeric, Parsed, StrftimeItems, parse};
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
        let is_name = !name.starts_with('.') && is_printable(name);
        (is_name && parse(&mut parsed, name, self.items.iter()).is_ok()).then_some(parsed)
    }
}

/// Returns whether a name neither begins with white space, which the parser of fields skips, nor has control
/// characters.
pub(super) fn is_printable(name: &str) -> bool {
    !name.starts_with(char::is_whitespace) && !name.contains(char::is_control)
}

/// Returns whether an item is the number of seconds since 1970.
pub(super) fn is_timestamp(item: &Item<'_>) -> bool {
    matches!(item, Item::Numeric(Numeric::Timestamp, _))
}

/// Returns whether an item is a field of the date or time, other than a fraction of a second or an offset.
pub(super) fn is_date_or_time(item: &Item<'_>) -> bool {
    match item {
        Item::Numeric(number, _) => !matches!(number, Numeric::Timestamp | Numeric::Nanosecond),
        Item::Fixed(fixed) => matches!(
            fixed,
            Fixed::ShortMonthName
                | Fixed::LongMonthName
                | Fixed::ShortWeekdayName
                | Fixed::LongWeekdayName
                | Fixed::LowerAmPm
                | Fixed::UpperAmPm
                | Fixed::RFC2822
                | Fixed::RFC3339
        ),
        _ => false,
    }
}

/// Returns whether an item is the name of a time zone.
pub(super) fn is_zone_name(item: &Item<'_>) -> bool {
    matches!(item, Item::Fixed(Fixed::TimezoneName))
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
