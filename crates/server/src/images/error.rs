//! Errors of opening and packing images.

use std::fs::File;
use std::io;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use wirepath_media::image::Identity;

use super::image_folder::FolderError;
use super::progress::Failure;
use crate::library;

/// An asset cannot be played.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Its image cannot be kept.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A call on the asset or its image failed.
    #[error("{0}: {1}")]
    Io(&'static str, Arc<io::Error>),
    /// It is not a transport stream with a clock.
    #[error("{0}")]
    NotPlayable(String),
    /// Too many assets wait to be packed.
    #[error("too many assets are waiting to be packed; try again later")]
    Busy,
    /// The client's address has the maximum number of packings.
    #[error("too many files are being prepared for your address; try again when some of them are ready")]
    AddressBusy,
    /// `Store::stop_packing` was called, or nobody needs the image any more.
    #[error("packing was stopped")]
    Stopped,
    /// The packer panicked.
    #[error("packing panicked, which is a bug; report it with the panic's message in the log, and try again")]
    Panicked,
    /// The path is too narrow for even one transport stream packet.
    #[error("a path MTU of {0} bytes is too small for one transport stream packet")]
    Mtu(u32),
}

/// Kind of a failure: that of the error, that of an error of the folder, and the error number of a system call.
pub(super) type FailureKind = (Discriminant<StoreError>, Option<Discriminant<FolderError>>, Option<i32>);

impl StoreError {
    /// Kind, which does not depend on texts and numbers of bytes.
    pub(super) fn kind(&self) -> FailureKind {
        let (folder, source) = match self {
            StoreError::Io(_, source) => (None, Some(source)),
            StoreError::Folder(error @ FolderError::Io(_, source)) => {
                (Some(discriminant(error)), Some(source))
            }
            StoreError::Folder(error) => (Some(discriminant(error)), None),
            _ => (None, None),
        };
        (discriminant(self), folder, source.and_then(|source| source.raw_os_error()))
    }

    /// Returns whether the image is larger than the whole cache, so that another attempt fails too.
    pub(crate) fn exceeds_cache(&self) -> bool {
        matches!(self, StoreError::Folder(FolderError::Budget { needed, budget, .. }) if needed > budget)
    }

    /// Text for clients, without names of folders of this machine.
    pub fn public(&self) -> String {
        match self {
            StoreError::Folder(FolderError::Budget { needed, budget, .. }) if needed > budget => format!(
                "no space for its wire image: it needs {needed} bytes, and the server's cache has {budget}: \
                 raise --cache-size"
            ),
            StoreError::Folder(FolderError::Budget { needed, in_use, budget, .. }) => format!(
                "no space for its wire image: it needs {needed} bytes, and {in_use} of {budget} bytes of the server's \
                 cache are in use: try again later, or raise --cache-size"
            ),
            StoreError::Folder(FolderError::DiskFull(_, needed)) => format!(
                "no space for its wire image: it needs {needed} bytes, and the disk of the server's cache is full; \
                 see the server's log"
            ),
            StoreError::Folder(FolderError::Io(..)) | StoreError::Io(..) => {
                "it or its wire image cannot be read or written; see the server's log".to_owned()
            }
            StoreError::Panicked => "preparing it failed inside the server; see the server's log".to_owned(),
            StoreError::NotPlayable(_)
            | StoreError::Busy
            | StoreError::AddressBusy
            | StoreError::Stopped
            | StoreError::Mtu(_) => self.to_string(),
        }
    }

    /// The failure of an image whose asset cannot be packed.
    pub(super) fn failure(&self) -> Failure {
        let is_asset = matches!(self, StoreError::NotPlayable(_));
        Failure { reason: self.to_string().into(), public: self.public().into(), is_asset }
    }
}

/// Version and file of an open asset.
pub(super) fn identity(asset: &File) -> Result<Identity, StoreError> {
    let stat = rustix::fs::fstat(asset).map_err(|errno| io_error("fstat of the asset", errno.into()))?;
    Ok(library::identity(&stat))
}

pub(super) fn io_error(what: &'static str, source: io::Error) -> StoreError {
    StoreError::Io(what, source.into())
}

/// The packet limits of a path cannot be determined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LimitsError {
    /// The kernel does not report the path MTU.
    #[error("cannot determine the path MTU: {0}")]
    Mtu(#[from] io::Error),
    /// The path MTU is too small.
    #[error(transparent)]
    Store(#[from] StoreError),
}
