//! Names that differ from a requested name only in letter case.
//!
//! VLC as built by Debian and Ubuntu requests RTSP URLs in lower case (its SAT>IP code), whatever its user
//! entered.

use super::{FindError, LISTING_LIMIT, Library, is_hidden};
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
        let (mut similar, folded) = (None, fold(name));
        for other in self.names(folder, LISTING_LIMIT)? {
            if other == name {
                return Ok(other);
            }
            if !is_hidden(&other) && fold(&other) == folded && similar.replace(other).is_some() {
                return Err(FindError::NotFound);
            }
        }
        similar.ok_or(FindError::NotFound)
    }
}

/// A name in lower case.
fn fold(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(name) => name.to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
    }
}
