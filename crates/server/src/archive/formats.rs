//! Formats of recordings, by which they can follow each other in one stream.

use wirepath_media::image::Description;

/// Formats of the tracks of a recording, with their parameters. Clients know those of the first recording
/// that they play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Formats(Vec<(String, Option<String>)>);

impl Formats {
    pub(super) fn of(description: &Description) -> Formats {
        Formats(match description {
            Description::TransportStream(_) => vec![("MP2T".to_owned(), None)],
            Description::Movie(movie) => {
                movie.tracks.iter().map(|track| (track.map.clone(), track.parameters.clone())).collect()
            }
        })
    }
}
