//! Where wire images are kept and how they are packed: the same for whoever serves them and whoever packs them ahead of time.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use bytesize::ByteSize;
use clap::Args;
use serde::{Deserialize, Deserializer};

use crate::number;

/// Name of the file in the cache folder that says what data paths cost on this machine.
pub(crate) const CALIBRATION: &str = "calibration.json";

/// Each field is a flag, and a key of the same name in the configuration file.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct ImageOptions {
    /// Folder to keep wire images in [default: /var/cache/wirepath for root, else ~/.cache/wirepath]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,

    /// How much the wire images may take; the least recently used go first [default: 20GiB]
    #[arg(long, value_name = "SIZE", value_parser = number::cache_size)]
    #[serde(deserialize_with = "cache_size")]
    pub(crate) cache_size: Option<ByteSize>,

    /// How much of a stream may leave in one go, from 1ms to 500ms [default: 20ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(deserialize_with = "time")]
    pub(crate) burst: Option<Duration>,
}

impl ImageOptions {
    /// These options, and where one is not given, that of `other`.
    pub(crate) fn or(self, other: ImageOptions) -> ImageOptions {
        ImageOptions {
            cache: self.cache.or(other.cache),
            cache_size: self.cache_size.or(other.cache_size),
            burst: self.burst.or(other.burst),
        }
    }

    /// The folder.
    pub(crate) fn cache_folder(&self) -> Result<PathBuf> {
        self.cache.clone().map_or_else(default_cache_folder, Ok)
    }

    /// How many bytes images may take.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.cache_size.unwrap_or(ByteSize::gib(20)).as_u64()
    }

    /// The longest burst.
    pub(crate) fn burst(&self) -> Result<Duration> {
        let burst = self.burst.unwrap_or(Duration::from_millis(20));
        ensure!(
            (Duration::from_millis(1)..=Duration::from_millis(500)).contains(&burst),
            "a burst of {} is not possible: 1ms to 500ms are",
            humantime::format_duration(burst)
        );
        Ok(burst)
    }
}

/// What images may take, as the option takes it.
fn cache_size<'de, D: Deserializer<'de>>(value: D) -> Result<Option<ByteSize>, D::Error> {
    number::enough_to_keep(ByteSize::deserialize(value)?).map(Some).map_err(serde::de::Error::custom)
}

/// A time as people write it: a number with a unit.
pub(crate) fn time<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(value)?;
    humantime::parse_duration(&text).map(Some).map_err(serde::de::Error::custom)
}

/// The folder for wire images, and whatever else is made once and kept, if none is named.
pub(crate) fn default_cache_folder() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/cache/wirepath".into());
    }
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match (folder("XDG_CACHE_HOME"), folder("HOME")) {
        (Some(cache), _) => Ok(cache.join("wirepath")),
        (None, Some(home)) => Ok(home.join(".cache/wirepath")),
        (None, None) => {
            bail!("no folder for wire images: neither XDG_CACHE_HOME nor HOME is set; use --cache DIR")
        }
    }
}
