//! Names that differ from a requested name only in letter case.
//!
//! VLC as built by Debian and Ubuntu requests RTSP URLs in lower case (its SAT>IP code), whatever its user
//! entered.

use super::{FindError, LISTING_LIMIT, Library, is_hidden};
use std::ops::ControlFlow;
use wirepath_http::AssetPath;

impl Library {
    /// The path whose names differ from those of `path` only in letter case, if each is the only such name in
    /// its folder. An exact match is preferred.
    pub(super) fn unfold(&self, path: &AssetPath) -> Result<AssetPath, FindError> {
        let mut found = AssetPath::from_decoded(b"").map_err(|_| FindError::NotFound)?;
        for name in path.segments() {
            let name = self.unfold_name(&found, name)?;
            let both = if found.is_root() { name } else { [found.as_bytes(), &name].join(&b'/') };
            found = AssetPath::from_decoded(&both).map_err(|_| FindError::NotFound)?;
        }
        Ok(found)
    }

    fn unfold_name(&self, folder: &AssetPath, name: &[u8]) -> Result<Vec<u8>, FindError> {
        let (mut is_exact, mut similar, mut left) = (false, Vec::new(), LISTING_LIMIT);
        let folded = fold(name);
        self.names(folder, &mut |other| {
            is_exact = other == name;
            if !is_hidden(other) && fold(other) == folded {
                similar.push(other.to_vec());
            }
            left -= 1;
            if is_exact || left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match &mut similar[..] {
            _ if is_exact => Ok(name.to_vec()),
            [similar] => Ok(std::mem::take(similar)),
            _ => Err(FindError::NotFound),
        }
    }
}

/// A name in lower case.
fn fold(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(name) => name.to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}
