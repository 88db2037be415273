//! Description of an image in SDP.

use wirepath_media::image::Description as ImageDescription;
use wirepath_media::sdp::{Description, Track};

use crate::images::Image;

/// Bytes of IPv4 and UDP headers in front of each packet.
const HEADERS: u64 = 28;

/// Description of an image under a name.
pub(crate) fn describe(image: &Image, name: &str) -> Description {
    let (summary, plan) = (image.summary(), image.plan());
    let (identity, recipe) = (plan.identity, plan.recipe);
    let (packet, payload) = (u64::from(recipe.packet_size()), recipe.payload_length() as u64);
    // Shorter packets have a larger share of headers.
    let with_headers = |rate: u64| rate.saturating_mul(packet + HEADERS) / payload;
    let tracks = match &summary.description {
        ImageDescription::TransportStream(_) => {
            vec![Track::transport_stream(summary.bits_per_second().map(with_headers))]
        }
        ImageDescription::Movie(movie) => {
            let tracks = movie.tracks.iter().cloned().map(|description| Track {
                bits_per_second: description.bits_per_second.map(with_headers),
                description,
            });
            tracks.collect()
        }
    };
    Description {
        name: name.to_owned(),
        id: identity.inode,
        version: identity.mtime_ns.unsigned_abs(),
        duration_us: summary.duration_us,
        clock: None,
        is_live: false,
        has_replay: false,
        tracks,
    }
}
