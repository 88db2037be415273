use std::time::Duration;

use super::*;
use wirepath_relay::{Rates, StreamState};
use wirepath_streams::{Dropped, Object, OutputPattern, StreamBuilder, StreamStatus};

fn row(name: &str, bits_in: u64) -> StreamSnapshot {
    let status = StreamStatus { bytes_in: 1 << 20, ..StreamStatus::default() };
    let rates = Rates { bits_in, bits_out: bits_in, ..Rates::default() };
    StreamSnapshot {
        name: name.to_owned(),
        state: StreamState::Running,
        status,
        rates,
        ..StreamSnapshot::default()
    }
}

/// Stream with so many outputs, the last of which has dropped bytes.
fn mirror(outputs: usize) -> StreamSnapshot {
    let builder = StreamBuilder::default().pattern(OutputPattern::Mirror);
    let builder = (0..outputs).fold(builder, |builder, place| {
        builder.output(Object::collect(&format!("udp://10.0.0.{place}:5000"), 1).0)
    });
    let mut status = builder.build().status();
    let last = status.outputs.last_mut().expect("there is one");
    (last.bytes, last.waiting_bytes) = (5000, 300);
    last.dropped = Dropped { records: 1, bytes: 2048 };
    let rates =
        Rates { bits_in: 7_000_000, bits_out: 9_000_000, outputs: vec![4_500_000; outputs], processor: None };
    StreamSnapshot { status, rates, ..row("mirror", 0) }
}

/// Stream of a class that measures processor time, with so many thousandths of a processor.
fn measured(name: &str, class: &str, processor: u64) -> StreamSnapshot {
    let status =
        StreamStatus { bytes_in: 1 << 20, processor_time: Some(Duration::ZERO), ..StreamStatus::default() };
    let rates = Rates { bits_in: 1_000_000, processor: Some(processor), ..Rates::default() };
    StreamSnapshot { class: class.to_owned(), status, rates, ..row(name, 0) }
}

/// Promise: `resource = "cpu"` shares processor time, and the status shows the share of each class.
#[test]
fn classes_that_share_processor_time_stand_first_with_what_they_got() {
    let rows = [measured("one", "gold", 400), measured("two", "rest", 195), measured("three", "gold", 205)];
    let text = render(&rows, 90, 24, false);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "stream     class          in         out     cpu      moved    waiting state",
            "------------------------------------------------------------------------------",
            "class gold       2.00 Mbit/s     0 bit/s  60.5 %    2.0 MiB",
            "class rest       1.00 Mbit/s     0 bit/s  19.5 %    1.0 MiB",
            "one        gold  1.00 Mbit/s     0 bit/s  40.0 %    1.0 MiB            running",
            "two        rest  1.00 Mbit/s     0 bit/s  19.5 %    1.0 MiB            running",
            "three      gold  1.00 Mbit/s     0 bit/s  20.5 %    1.0 MiB            running",
        ]
    );
    let many: Vec<StreamSnapshot> = (0..64).map(|number| measured("s", &format!("{number}"), 1)).collect();
    let text = render(&many, 80, 23, false);
    assert!(
        text.lines().count() <= 23 && text.ends_with("and 54 streams more\n"),
        "half the lines are streams: {text}"
    );
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn rows_keep_their_order_and_empty_columns_are_left_out() {
    let text = render(&[row("slow", 10), row("fast", 1_915_000), row("also slow", 10)], 80, 24, false);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "stream             in         out      moved    waiting state",
            "---------------------------------------------------------------",
            "slow         10 bit/s    10 bit/s    1.0 MiB            running",
            "fast      1.92 Mbit/s 1.92 Mbit/s    1.0 MiB            running",
            "also slow    10 bit/s    10 bit/s    1.0 MiB            running",
        ]
    );
}

#[test]
fn outputs_have_lines_of_their_own_where_there_are_several() {
    let text = render(&[mirror(2)], 100, 24, true);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + 3, "{text}");
    assert!(lines[0].contains("dropped") && !lines[0].contains("lost"), "{text}");
    assert!(lines[3].starts_with("  udp://10.0.0.0:5000") && lines[3].contains("4.50 Mbit/s"), "{text}");
    assert!(lines[4].contains("2.0 KiB") && lines[4].contains("300 B"), "{text}");
}

/// Promise: The table of streams fits the terminal, says what it omits, and is removed at the end.
#[test]
fn it_fits_any_width_and_height() {
    let long = "a name that is longer than the terminal is wide, and then goes on for a while";
    let mut rows: Vec<StreamSnapshot> =
        (0..50).map(|number| row(&format!("{number} {long}"), number)).collect();
    rows.push(mirror(3));
    rows.iter_mut().for_each(|row| row.class = "class with a long name".to_owned());
    for width in 40..160 {
        for height in [1, 5, 10, 60] {
            let text = render(&rows, width, height, true);
            assert!(widest(&text) <= width, "{width}:\n{text}");
            assert!(text.lines().count() < height.max(OTHER_LINES + 1), "{height}:\n{text}");
        }
    }
}

/// Promise: The table of streams fits the terminal, says what it omits, and is removed at the end.
#[test]
fn what_is_cut_is_said() {
    let rows: Vec<StreamSnapshot> = (0..50).map(|number| row(&format!("s{number}"), number)).collect();
    let text = render(&rows, 80, 14, false);
    assert!(text.contains("\ns0 ") && text.contains("\ns9 ") && !text.contains("\ns10 "), "{text}");
    assert!(text.ends_with("\nand 40 streams more\n"), "{text}");
    let text = render(&[mirror(64)], 80, 14, false);
    assert!(text.ends_with("\nand 55 outputs more\n"), "{text}");
    let crowd = render(&[mirror(10), row("other", 1)], 80, 10, false);
    assert!(crowd.contains("\nother ") && !crowd.contains("10.0.0.0"), "{crowd}");
    assert!(crowd.ends_with("\nand 10 outputs more\n"), "{crowd}");
    let crowd = render(&[mirror(10), row("other", 1)], 80, 5, false);
    assert!(crowd.ends_with("\nand 1 stream and 10 outputs more\n"), "{crowd}");
}

#[test]
fn names_cannot_command_the_terminal() {
    let text = render(&[row("\u{1b}[2J", 1)], 80, 24, true);
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[2J"), "{text}");
}

#[test]
fn a_narrow_terminal_keeps_names_rates_and_states() {
    let text = render(&[StreamSnapshot { class: "live".to_owned(), ..mirror(2) }], 40, 24, false);
    let head: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["stream", "in", "out", "state"], "{text}");
    let text = render(&[StreamSnapshot { class: "live".to_owned(), ..mirror(2) }], 54, 24, false);
    let head: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["stream", "in", "out", "dropped", "state"], "{text}");
}

#[test]
fn names_are_told_apart_before_other_columns_are_shown() {
    let named = |name: &str, class: &str| StreamSnapshot { class: class.to_owned(), ..row(name, 5_000_000) };
    let text = render(&[named("camera-1-north", "archive"), named("camera-1-south", "live")], 80, 24, false);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "stream         class            in         out      moved    waiting state",
            "----------------------------------------------------------------------------",
            "camera-1-north archive 5.00 Mbit/s 5.00 Mbit/s    1.0 MiB            running",
            "camera-1-south live    5.00 Mbit/s 5.00 Mbit/s    1.0 MiB            running",
        ]
    );
    let text = render(&[named("camera-1-north", "archive"), named("camera-1-south", "live")], 60, 24, false);
    assert!(text.contains("\ncamera-1-north 5.00 Mbit/s"), "{text}");
}
