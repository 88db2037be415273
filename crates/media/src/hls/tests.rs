use super::*;
use proptest::prelude::*;

fn at() -> Location {
    Location { authority: "h".to_owned(), path: "/hls/list.m3u8".to_owned() }
}

fn read_text(text: &str) -> Result<Playlist, PlaylistError> {
    read(text.as_bytes(), &at())
}

fn segment(path: &str, range: Option<(u64, u64)>, start_us: i64, duration_us: i64) -> Segment {
    let range =
        range.map(|(offset, length)| Range { offset, length: NonZeroU64::new(length).expect("not empty") });
    Segment { path: path.into(), range, start_us, duration_us }
}

#[test]
fn segments_follow_one_another() {
    let text = "\u{feff}#EXTM3U\r\n#EXT-X-VERSION:3\r\n#EXT-X-TARGETDURATION:6\r\n\r\n#EXTINF:6.5,a title, with a \
                comma\r\n1.ts\r\n# comment\n#EXT-X-SOMETHING:x=1\n#EXTINF:2\n../2.ts\n#EXT-X-ENDLIST";
    let expected =
        vec![segment("/hls/1.ts", None, 0, 6_500_000), segment("/2.ts", None, 6_500_000, 2_000_000)];
    assert_eq!(read_text(text), Ok(Playlist::Segments(expected)));
}

#[test]
fn ranges_continue_where_the_last_ended() {
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MAP:URI=\"a.mp4\",BYTERANGE=\"700@0\"\n#EXTINF:1,\n\
                #EXT-X-BYTERANGE:100@700\na.mp4\n#EXTINF:1,\n#EXT-X-BYTERANGE:50\na.mp4\n#EXT-X-ENDLIST\n";
    let expected = vec![
        segment("/hls/a.mp4", Some((0, 700)), 0, 0),
        segment("/hls/a.mp4", Some((700, 100)), 0, 1_000_000),
        segment("/hls/a.mp4", Some((800, 50)), 1_000_000, 1_000_000),
    ];
    assert_eq!(read_text(text), Ok(Playlist::Segments(expected)));
}

#[test]
fn the_variant_with_the_highest_bandwidth_is_chosen() {
    let text = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1000,CODECS=\"a,b\"\nlow.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=9000\n\
                high/a.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=9000\nhigh/b.m3u8\n\
                #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=99999,URI=\"frames.m3u8\"\n";
    assert_eq!(read_text(text), Ok(Playlist::Variant("/hls/high/a.m3u8".to_owned())));
}

#[test]
fn faults_are_named() {
    let media = |lines: &str| format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n{lines}\n#EXT-X-ENDLIST\n");
    for (text, error) in [
        (String::new(), PlaylistError::NotPlaylist),
        ("<html>".to_owned(), PlaylistError::NotPlaylist),
        ("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n1.ts\n".to_owned(), PlaylistError::Live),
        (media(""), PlaylistError::NoSegments),
        (media("#EXTINF:-1,\n1.ts"), PlaylistError::Duration),
        (media("#EXTINF:1e9,\n1.ts"), PlaylistError::Duration),
        (media("#EXTINF:3601,\n1.ts"), PlaylistError::Duration),
        (media("#EXTINF:,\n1.ts"), PlaylistError::Duration),
        (media("#EXTINF:1,\n#EXT-X-BYTERANGE:5\n1.ts"), PlaylistError::Range),
        (media("#EXTINF:1,\n#EXT-X-BYTERANGE:0@5\n1.ts"), PlaylistError::Range),
        (media("#EXTINF:1,\n#EXT-X-BYTERANGE:9@18446744073709551615\n1.ts"), PlaylistError::Range),
        (media("#EXTINF:1,\nhttp://other/1.ts"), PlaylistError::OtherServer("other".to_owned())),
        (media("#EXTINF:1,\nhttps://h/1.ts"), PlaylistError::Url),
        (media(&"\n".repeat(LINE_LIMIT)), PlaylistError::TooLong),
        ("#EXTM3U\n#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI=\"f\"\n".to_owned(), PlaylistError::NoVariant),
    ] {
        assert_eq!(read_text(&text), Err(error), "{text:.200}");
    }
}

/// Checks that a playlist of many segments with long URLs does not use more memory than the limits.
#[test]
fn urls_that_grow_are_bounded() {
    let folder = "f".repeat(PATH_LIMIT - 50);
    let at = Location { authority: "h".to_owned(), path: format!("/{folder}/list.m3u8") };
    let segments = "#EXTINF:1,\n1\n".repeat(10_000);
    let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n{segments}#EXT-X-ENDLIST\n");
    assert_eq!(read(text.as_bytes(), &at), Err(PlaylistError::TooLong));
    let text =
        format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n{}#EXT-X-ENDLIST\n", "#EXTINF:1,\n1.ts\n".repeat(40_000));
    assert!(matches!(read(text.as_bytes(), &self::at()), Ok(Playlist::Segments(all)) if all.len() == 40_000));
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("#EXTM3U".to_owned()),
        Just("#EXT-X-ENDLIST".to_owned()),
        "#EXTINF:[0-9.]{0,6},?[a-z,]{0,4}",
        "#EXT-X-BYTERANGE:[0-9@]{0,8}",
        "#EXT-X-(MAP|KEY|STREAM-INF|MEDIA|START|DATERANGE|PROGRAM-DATE-TIME|TARGETDURATION):[A-Z=\",0-9a-z@:-]{0,30}",
        "[a-z./:?#\\x00-\\xff]{0,12}",
    ]
}

proptest! {
    /// Promise: No playlist makes `wirepath load` panic or exceed its limits.
    #[test]
    fn no_playlist_breaks_the_reader(lines in prop::collection::vec(line(), 0..30)) {
        let text = format!("#EXTM3U\n{}\n", lines.join("\n"));
        if let Ok(Playlist::Segments(segments)) = read_text(&text) {
            let starts: Vec<i64> = segments.iter().map(|segment| segment.start_us).collect();
            prop_assert!(starts.is_sorted() && !segments.is_empty());
        }
    }
}
