//! Formats of images that follow each other in one stream.
//!
//! Receivers know payload types, codecs and clock rates from the session description, and the configuration of
//! sound. Parameters of pictures may differ: each random access point has its own
//! ([`ParameterSets`](wirepath_media::payload::ParameterSets)).

use wirepath_media::image::Description;
use wirepath_media::payload::TrackDescription;

/// End of a configuration of AAC that says that there is no spectral band replication, which some encoders add
/// (ISO/IEC 14496-3 section 1.6.6.1).
const WITHOUT_REPLICATION: &str = "56E500";

/// Formats of the tracks of an image, as far as they cannot change within a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Formats(Vec<TrackFormat>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct TrackFormat {
    /// Value of `a=rtpmap`.
    map: String,
    /// Value of `a=fmtp` of sound.
    parameters: Option<String>,
}

impl Formats {
    /// Formats of the tracks of a description.
    pub(crate) fn of(description: &Description) -> Formats {
        Formats(match description {
            Description::TransportStream(_) => {
                vec![TrackFormat { map: "MP2T".to_owned(), parameters: None }]
            }
            Description::Movie(movie) => movie.tracks.iter().map(TrackFormat::of).collect(),
        })
    }

    /// Reason why an image of other formats cannot follow in a stream of these; `None` if it can.
    pub(crate) fn difference(&self, other: &Formats) -> Option<String> {
        let (expected, found) = (self.names(), other.names());
        if expected != found {
            return Some(format!("tracks differ: expected {expected}, found {found}"));
        }
        let (expected, found) = self.0.iter().zip(&other.0).find(|(expected, found)| expected != found)?;
        Some(format!(
            "parameters of track {} differ: expected {}, found {}; they cannot change within a stream: encode both alike",
            found.map,
            expected.parameters_without(found),
            found.parameters_without(expected),
        ))
    }

    fn names(&self) -> String {
        self.0.iter().map(|track| track.map.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl TrackFormat {
    fn of(track: &TrackDescription) -> TrackFormat {
        let parameters = track.parameters.as_deref().filter(|_| !track.video).map(|parameters| {
            let (before, config) = parameters.split_once("config=").unwrap_or((parameters, ""));
            match config.strip_suffix(WITHOUT_REPLICATION) {
                Some(config) => format!("{before}config={config}"),
                None => parameters.to_owned(),
            }
        });
        TrackFormat { map: track.map.clone(), parameters }
    }

    /// Parameters that another track does not have.
    fn parameters_without(&self, other: &TrackFormat) -> String {
        let all = |format: &TrackFormat| -> Vec<String> {
            let parameters = format.parameters.as_deref().and_then(|all| all.split_once(' '));
            parameters.map_or_else(Vec::new, |(_, all)| all.split(';').map(str::to_owned).collect())
        };
        let known = all(other);
        let own: Vec<String> = all(self).into_iter().filter(|parameter| !known.contains(parameter)).collect();
        if own.is_empty() { "no parameters".to_owned() } else { own.join(" and ") }
    }
}

#[cfg(test)]
mod tests {
    use wirepath_media::image::MovieDescription;

    use super::*;

    fn formats(tracks: &[(bool, &str, Option<&str>)]) -> Formats {
        let track = |(video, map, parameters): &(bool, &str, Option<&str>)| TrackDescription {
            video: *video,
            payload_type: 96,
            map: (*map).to_owned(),
            parameters: parameters.map(str::to_owned),
            frame_rate: None,
            language: None,
            bits_per_second: None,
        };
        let tracks = tracks.iter().map(track).collect();
        Formats::of(&Description::Movie(MovieDescription { tracks, ..MovieDescription::default() }))
    }

    #[test]
    fn parameters_of_pictures_may_differ() {
        let film = |picture, config: &str| {
            let sound = format!("97 streamtype=5;mode=AAC-hbr;config={config}");
            formats(&[
                (true, "96 H264/90000", Some(picture)),
                (false, "97 MPEG4-GENERIC/48000/2", Some(&sound)),
            ])
        };
        let one = film("96 profile-level-id=42C01E", "1190");
        assert_eq!(one.difference(&film("96 profile-level-id=640028", "1190")), None);
        assert_eq!(one, film("96 profile-level-id=640028", "119056E500"), "another way to write the same");
        let why = one.difference(&film("96 profile-level-id=42C01E", "1188")).unwrap();
        assert_eq!(
            why,
            "parameters of track 97 MPEG4-GENERIC/48000/2 differ: expected config=1190, found config=1188; they cannot \
             change within a stream: encode both alike"
        );
    }

    #[test]
    fn other_codecs_cannot_follow() {
        let one =
            formats(&[(true, "96 H264/90000", None), (false, "97 opus/48000/2", Some("97 sprop-stereo=1"))]);
        let why = one.difference(&formats(&[(true, "96 H265/90000", None)])).unwrap();
        assert_eq!(why, "tracks differ: expected 96 H264/90000, 97 opus/48000/2, found 96 H265/90000");
        let mono = formats(&[(true, "96 H264/90000", None), (false, "97 opus/48000/2", None)]);
        assert!(one.difference(&mono).unwrap().contains("expected sprop-stereo=1, found no parameters"));
        let stream = Formats::of(&Description::default());
        assert!(
            one.difference(&stream)
                .unwrap()
                .starts_with("tracks differ: expected 96 H264/90000, 97 opus/48000/2, found MP2T")
        );
    }
}
