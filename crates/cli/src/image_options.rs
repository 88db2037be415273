//! Options of wire images, for both `serve` and `pack`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use bytesize::ByteSize;
use clap::Args;

use crate::values;

/// Name of the calibration file in the cache folder.
pub(crate) const CALIBRATION: &str = "calibration.json";

/// Options of wire images: each is a flag, and a key of the configuration file.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImageOptions {
    /// Folder of wire images [default: /var/cache/wirepath for root, else ~/.cache/wirepath]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,

    /// Maximum size of all wire images; the least recently used are evicted [default: 20GiB]
    #[arg(long, value_name = "SIZE", value_parser = values::cache_size)]
    pub(crate) cache_size: Option<ByteSize>,
}

impl ImageOptions {
    /// Adds the options of `other` that are not set here.
    pub(crate) fn or(self, other: ImageOptions) -> ImageOptions {
        ImageOptions { cache: self.cache.or(other.cache), cache_size: self.cache_size.or(other.cache_size) }
    }

    pub(crate) fn cache_folder(&self) -> Result<PathBuf> {
        self.cache.clone().map_or_else(default_cache_folder, Ok)
    }

    pub(crate) fn cache_bytes(&self) -> u64 {
        self.cache_size.unwrap_or(ByteSize::gib(20)).as_u64()
    }
}

/// Default folder of wire images and of the calibration.
pub(crate) fn default_cache_folder() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/cache/wirepath".into());
    }
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match (folder("XDG_CACHE_HOME"), folder("HOME")) {
        (Some(cache), _) => Ok(cache.join("wirepath")),
        (None, Some(home)) => Ok(home.join(".cache/wirepath")),
        (None, None) => {
            bail!("no cache folder: neither XDG_CACHE_HOME nor HOME is set; use --cache DIR")
        }
    }
}
