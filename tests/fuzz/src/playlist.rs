//! The reader of playlists: no bytes make it panic, errors name a line of the list, and every entry comes from a line.

use std::path::Path;

use wirepath_server::{ListForm, Playlist, PlaylistError};

/// Most entries of a list, as the reader has it.
const ENTRY_LIMIT: usize = 10_000;

/// Reads `data` in both forms of a list.
pub fn fuzz(data: &[u8]) {
    let line_count = data.iter().filter(|byte| **byte == b'\n').count() + 1;
    let list = Path::new("/media/list");
    for form in [ListForm::M3u, ListForm::Toml] {
        match Playlist::parse(list, form, data.to_vec()) {
            Ok(playlist) => {
                assert!((1..=ENTRY_LIMIT).contains(&playlist.entries.len()));
                let mut last = 1;
                for entry in playlist.entries {
                    let (source, line) = entry.source.expect("a list names it");
                    assert_eq!(source, list);
                    assert!((last..=line_count).contains(&line), "line {line} after {last} of {line_count}");
                    last = line;
                }
            }
            Err(PlaylistError::Line(_, line, reason)) => {
                assert!((1..=line_count).contains(&line), "line {line} of {line_count}: {reason}");
            }
            Err(PlaylistError::Empty(_) | PlaylistError::Many) => {}
            Err(error) => panic!("nothing was read from a file: {error}"),
        }
    }
}
