//! Folder of object files that requests may name as handlers.

use std::io;
use std::path::Path;
use std::sync::Arc;

use http::StatusCode;
use wirepath_bpf::HandlerObject;
use wirepath_http::AssetPath;
use wirepath_net::folder::{FindError, Folder, Found};

use super::Refusal;

/// Folder of object files, which symbolic links cannot leave.
#[derive(Clone)]
pub(in crate::streams) struct HandlerFolder(Arc<Folder>);

impl HandlerFolder {
    /// Opens a folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(in crate::streams) fn open(path: &Path) -> io::Result<HandlerFolder> {
        let folder = Folder::open(path);
        let folder = folder.map_err(|error| io::Error::other(format!("handler-folder: {error}")))?;
        Ok(HandlerFolder(Arc::new(folder)))
    }

    /// Reads the object of a file in the folder. May block.
    pub(super) fn read(&self, name: &Path) -> Result<HandlerObject, Refusal> {
        let shown = name.display();
        let bytes = name.as_os_str().as_encoded_bytes();
        let path = AssetPath::from_decoded(bytes).ok().filter(|path| path.as_bytes() == bytes);
        let path = path.filter(|path| path.segments().count() == 1 && !bytes.starts_with(b"."));
        let path = path.ok_or_else(|| {
            let words = format!(
                "invalid handler bpf:{shown}: expected the name of a file in the folder of --handler-folder, without \
                 a slash, and not beginning with a dot"
            );
            (StatusCode::BAD_REQUEST, words)
        })?;
        let found = self.0.find(&path).and_then(|found| match found {
            Found::File(stored) => Ok(stored.file),
            Found::Folder => Err(FindError::NotFound),
        });
        let file = found.map_err(|error| {
            (error.status(), format!("cannot open bpf:{shown} in the folder of --handler-folder: {error}"))
        })?;
        HandlerObject::read(file, name).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
    }
}
