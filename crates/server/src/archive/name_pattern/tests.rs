//! Names with times, and patterns that are refused.

use super::*;
use proptest::prelude::*;

fn pattern(text: &str) -> NamePattern {
    NamePattern::parse(text, TimeZone::Utc).unwrap()
}

/// Promise: Times of recordings are parsed from their names by a strftime pattern, and from their folders' names.
#[test]
fn names_have_times() {
    const TEN: i64 = 1_795_428_000_000_000; // 2026-11-23T10:00:00Z
    const DAYS: &str = "%Y-%m-%d/%H-%M-%S";
    const FRIGATE: &str = "%Y-%m-%d/%H/front_door/%M.%S";
    const MEDIAMTX: &str = "%Y-%m-%d_%H-%M-%S-%f";
    for (form, name, expected) in [
        (NamePattern::USUAL, "2026-11-23T10-00-00.mp4", Some(TEN)),
        (NamePattern::USUAL, "2026-11-23T10-00-00.TS", Some(TEN)),
        (NamePattern::USUAL, "2026-11-23T10-00-00.txt", None),
        (NamePattern::USUAL, "2026-11-23T10-00-00.mp4.part", None),
        (NamePattern::USUAL, "2026-11-23T10-00.mp4", None),
        (NamePattern::USUAL, "2026-02-30T10-00-00.mp4", None),
        (NamePattern::USUAL, "1969-11-23T10-00-00.mp4", None),
        (NamePattern::USUAL, ".2026-11-23T10-00-00.mp4", None),
        ("cam-%Y%m%d-%H%M", "cam-20261123-1000.mkv", Some(TEN)),
        ("%Y%m%d_%H%M%S%.f", "20261123_100000.250.ts", Some(TEN + 250_000)),
        ("%Y%m%dT%H%M%S%z", "20261123T120000+0200.ts", Some(TEN)),
        ("%Y%m%dT%H%M%S%z", "20261123T100000Z.ts", Some(TEN)),
        ("%s", "1795428000.ts", Some(TEN)),
        (MEDIAMTX, "2026-11-23_10-00-00-000250.mp4", Some(TEN + 250)),
        (MEDIAMTX, "2026-11-23_10-00-00-250000.mp4", Some(TEN + 250_000)),
        (MEDIAMTX, "2026-11-23_10-00-00-25.mp4", None),
        (MEDIAMTX, "2026-11-23_10-00-00-2500000.mp4", None),
        ("%s-%f%%f", "1795428000-000001%f.ts", Some(TEN + 1)),
        (DAYS, "2026-11-23/10-00-00.ts", Some(TEN)),
        (DAYS, "2026-11-23/10-00-00/10-00-00.ts", None),
        (DAYS, "2026-11-23T10-00-00.ts", None),
        (DAYS, "./2026-11-23/10-00-00.ts", None),
        (DAYS, "../10-00-00.ts", None),
        ("%Y/%m/%d/%H-%M-%S", "2026/11/23/10-00-00.ts", Some(TEN)),
        // As recorders write that do not pad.
        ("%Y/%m/%d/%H-%M-%S", "2026/1/1/0-0-0.ts", Some(1_767_225_600_000_000)),
        (FRIGATE, "2026-11-23/10/front_door/00.00.mp4", Some(TEN)),
        (FRIGATE, "2026-11-23/10/back_door/00.00.mp4", None),
        ("cam 1/%s/video", "cam 1/1795428000/video.mkv", Some(TEN)),
        ("%Y-%m-%d/%s", "2026-11-23/1795428000.mp4", Some(TEN)),
        // Other fields that come twice agree.
        ("%Y-%m-%d/%Y%m%d%H%M%S", "2026-11-23/20261123100000.ts", Some(TEN)),
        ("%Y-%m-%d/%Y%m%d%H%M%S", "2026-11-23/20261124100000.ts", None),
        // The parser of fields skips white space.
        (NamePattern::USUAL, " 2026-11-23T10-00-00.mp4", None),
        (DAYS, "\u{3000}2026-11-23/10-00-00.ts", None),
        (DAYS, "2026-11-23/\n10-00-00.ts", None),
        (DAYS, "2026-11-\t23/10-00-00.ts", None),
        ("cam %s", "cam 1795428000.ts", Some(TEN)),
        ("cam %s", "cam\n1795428000.ts", None),
        ("%Y-%m-%d_%k.%M", "2026-01-02_ 3.04.ts", Some(1_767_323_040_000_000)),
    ] {
        assert_eq!(pattern(form).time_us(name.as_bytes()), expected, "{form} {name}");
    }
    assert_eq!(pattern(NamePattern::USUAL).time_us(b"2026-11-23T10-00-\xff.ts"), None);
    assert_eq!(pattern(DAYS).time_us(b"2026-11-\xff/10-00-00.ts"), None);
}

/// Promise: A pattern of an archive that cannot be used is refused with the reason and what to write instead.
#[test]
fn patterns_without_a_time_are_refused() {
    for text in ["", "cam", "%Y-%m-%d", "%H-%M-%S", "%Q", "%Y%m%d%H%M%#z", "%Y/%m/%d", "%s%f"] {
        assert!(NamePattern::parse(text, TimeZone::Utc).is_err(), "{text}");
    }
    for (text, instead) in [
        ("%path/%s", "write the path of its folder in URLs before `=`"),
        ("/srv/cam/%s", "expected names with single slashes"),
        ("%Y//%s", "expected names with single slashes"),
        ("%s/", "expected names with single slashes"),
        ("../%s", "begins with a dot"),
        ("%Y/./%s", "begins with a dot"),
        ("%Y/.%s", "begins with a dot"),
        ("%D/%s", "write %m/%d/%y"),
        ("a/b/c/d/e/f/g/h/i/%s", "at most 8"),
        ("%Y/%Q/%s", "unknown conversion"),
        ("%Y-%m-%d/%H-%M-%S.mp4", "remove it"),
        ("%Y-%m-%d/%H", "names would have no time"),
        ("%s_%Y-%m-%d", "without fields of the date and time"),
        ("%s/%H-%M", "without fields of the date and time"),
        ("%b/%s_%d", "without fields of the date and time"),
        ("%Y-%m-%d_%H-%M-%S_%Z", "write %z"),
        // 3:04:05 would be 30:4:05.
        ("%Y%m%d_%-H%M%S", "all their digits"),
        ("%Y%-m%-d_%H%M%S", "all their digits"),
        ("%k.%M.%S %Y-%m-%d", "expected %d, %H or %I"),
        ("%Y-%m-%d/%e_%H%M%S", "expected %d, %H or %I"),
        ("%Y-%m-%d%t%H%M%S", "no %n or %t"),
        ("cam\u{7}/%s", "no %n or %t"),
    ] {
        let refused = NamePattern::parse(text, TimeZone::Utc).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{text}: ")) && refused.contains(instead), "{refused}");
    }
}

#[test]
fn folders_of_fixed_names_are_no_level() {
    let pattern = pattern("cam/%Y-%m-%d/%H/front door/main/%M.%S");
    assert_eq!(pattern.levels(), 3);
    let within: Vec<_> = (0..4).map(|level| pattern.within(level)).collect();
    assert_eq!(within, ["cam/", "", "front door/main/", ""]);
}

proptest! {
    #[test]
    fn no_name_panics(name in prop::collection::vec(any::<u8>(), 0..60), form in "[%YmdHMSzsf#/.-]{0,20}") {
        _ = pattern(NamePattern::USUAL).time_us(&name);
        _ = pattern("%Y/%m-%d/%H/%M%S%f").time_us(&name);
        if let Ok(pattern) = NamePattern::parse(&form, TimeZone::Local) {
            _ = pattern.time_us(&name);
        }
    }

    /// Promise: A time that a pattern writes into the names of a file and its folders is read from these names.
    #[test]
    fn a_time_that_is_written_in_a_name_is_read(us in 0_i64..4_102_444_800_000_000) {
        const MICROSECOND: i64 = 1;
        const SECOND: i64 = 1_000_000;
        for (form, unit) in [
            (NamePattern::USUAL, SECOND),
            ("%Y-%m-%d/%H-%M-%S", SECOND),
            ("%Y/%m/%d/%H-%M-%S", SECOND),
            ("%Y-%m-%d/%H/front_door/%M.%S", SECOND),
            ("%Y%m%d/%H/%M", 60 * SECOND),
            ("%G-W%V/%u/%H-%M-%S", SECOND),
            ("%Y-%m-%d_%H-%M-%S-%f", MICROSECOND),
            ("cam/%s-%f", MICROSECOND),
            ("%Y%m%d/%-H.%-M.%-S", SECOND),
            ("%d.%m.%Y %I.%M.%S %p%.3f", 1000),
            ("%Y-%m-%d_%k.%M.%S%.f", MICROSECOND),
            ("%Y-%m-%d/%H/%Y-%m-%d_%H-%M-%S%.6f", MICROSECOND),
            ("%Y%m%d/%I%p/%M%S%z", SECOND),
        ] {
            let time = DateTime::from_timestamp_micros(us).unwrap();
            let pattern = pattern(form);
            let name = format!("{}.mkv", pattern.name(time).unwrap());
            prop_assert_eq!(pattern.time_us(name.as_bytes()), Some(us - us % unit), "{} {}", form, name);
        }
    }
}
