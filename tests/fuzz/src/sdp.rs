//! The writer of session descriptions: whatever a file says of itself, an independent reader finds the same tracks and
//! values, and no more lines.

use std::net::Ipv4Addr;

use sdp_types::Session;
use wirepath_media::payload::TrackDescription;
use wirepath_media::sdp::{Description, Track, track_name};

/// Most tracks of a description.
const MOST_TRACKS: usize = 16;

/// Describes a presentation whose name and tracks have the texts of `data`, which zero bytes separate.
pub fn fuzz(data: &[u8]) {
    let Some((&bits, data)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(data);
    let mut texts = text.split('\0').map(str::to_owned);
    let name = texts.next().unwrap_or_default();
    let texts: Vec<String> = texts.take(4 * MOST_TRACKS).collect();
    let tracks: Vec<Track> = texts.chunks(4).map(|texts| track(bits, texts)).collect();
    let description = Description {
        name: name.clone(),
        id: u64::from(bits),
        version: 1,
        duration_us: (bits & 1 == 0).then_some(u64::MAX),
        clock: None,
        is_live: bits & 2 == 0,
        has_replay: bits & 8 == 0,
        tracks: tracks.clone(),
    };
    let bytes = description.to_bytes(Ipv4Addr::LOCALHOST.into());
    let read = Session::parse(&bytes).expect("it is a description");
    assert_eq!(read.session_name, line(&name));
    assert_eq!(read.medias.len(), tracks.len(), "as many tracks");
    for (number, (media, track)) in (1..).zip(read.medias.iter().zip(&tracks)) {
        let TrackDescription { map, parameters, frame_rate, language, payload_type, .. } = &track.description;
        assert_eq!(media.fmt, payload_type.to_string());
        let control = track_name(number);
        let expected = [
            ("rtpmap", Some(map)),
            ("fmtp", parameters.as_ref()),
            ("framerate", frame_rate.as_ref()),
            ("lang", language.as_ref()),
            ("control", Some(&control)),
            ("x-onvif-track", description.has_replay.then_some(&control)),
        ];
        let expected = expected.into_iter().filter_map(|(name, value)| Some((name, line(value?))));
        let found = media.attributes.iter().map(|one| {
            let value = one.value.clone().expect("each has a value");
            (one.attribute.as_str(), value)
        });
        assert!(found.eq(expected), "other attributes: {:?}", media.attributes);
    }
}

/// A track whose texts are present or absent by `bits`.
fn track(bits: u8, texts: &[String]) -> Track {
    let text = |index: usize| texts.get(index).cloned();
    let description = TrackDescription {
        video: bits & 4 == 0,
        payload_type: 96 + (bits >> 3),
        map: text(0).unwrap_or_default(),
        parameters: text(1),
        frame_rate: text(2),
        language: text(3),
        bits_per_second: None,
    };
    Track { description, bits_per_second: (bits & 1 == 0).then_some(u64::MAX) }
}

/// A text as one line that is not empty.
fn line(text: &str) -> String {
    let line = text.replace(char::is_control, " ");
    if line.trim().is_empty() { "-".to_owned() } else { line }
}
