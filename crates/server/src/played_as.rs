//! How an asset is played: as it is stored, or by its tracks.

/// Form in which an asset is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlayedAs {
    /// A transport stream as MP2T (RFC 2250); movies by their tracks.
    #[default]
    Stored,
    /// Each track in its own payload format, also those of a transport stream.
    Tracks,
}

impl PlayedAs {
    /// The form that the query of a URL asks for: `?demux` or `?demux=1`. Other parts are not looked at.
    pub(crate) fn of_query(query: &str) -> PlayedAs {
        match query.split('&').any(|part| matches!(part, "demux" | "demux=1")) {
            true => PlayedAs::Tracks,
            false => PlayedAs::Stored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_asks_for_tracks() {
        for (query, expected) in [
            ("demux=1", PlayedAs::Tracks),
            ("token=x&demux", PlayedAs::Tracks),
            ("demux=0", PlayedAs::Stored),
            ("xdemux=1", PlayedAs::Stored),
            ("", PlayedAs::Stored),
        ] {
            assert_eq!(PlayedAs::of_query(query), expected, "{query}");
        }
    }
}
