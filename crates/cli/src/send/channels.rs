//! Configuration file of channels, with a table for each channel.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;
use wirepath_net::program::unknown_field;
use wirepath_server::{ChannelOptions, Destination, Interface};

/// Maximum size of the file, enough for ten thousand channels.
const FILE_LIMIT: u64 = 16 << 20;

/// Maximum number of channels.
const CHANNEL_LIMIT: usize = 10_000;

/// Table of a channel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    /// Assets and playlists. Relative paths are relative to the folder of the file.
    assets: Vec<PathBuf>,
    to: Vec<Parsed<Destination>>,
    #[serde(default, rename = "loop")]
    repeats: bool,
    #[serde(default)]
    sdp: Vec<PathBuf>,
    #[serde(default)]
    sap: bool,
    #[serde(default)]
    interface: Option<Parsed<Interface>>,
}

/// Value parsed from a string.
struct Parsed<T>(T);

impl<'de, T: std::str::FromStr<Err = String>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Parsed<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Parsed).map_err(|error| de::Error::custom(format!("{text}: {error}")))
    }
}

/// Reads the channels of a file.
pub(super) fn read(file: &Path) -> Result<Vec<ChannelOptions>> {
    let cannot = || format!("cannot read the file of channels {}", file.display());
    let mut text = String::new();
    File::open(file)
        .with_context(cannot)?
        .take(FILE_LIMIT + 1)
        .read_to_string(&mut text)
        .with_context(cannot)?;
    ensure!(text.len() as u64 <= FILE_LIMIT, "{}: longer than {FILE_LIMIT} bytes", cannot());
    parse(&text, file.parent().unwrap_or(Path::new(""))).with_context(cannot)
}

fn parse(text: &str, folder: &Path) -> Result<Vec<ChannelOptions>> {
    let tables: BTreeMap<String, Spanned<Table>> = toml::from_str(text).map_err(|error| {
        let Some(unknown) = unknown_field(error.message()) else { return anyhow!(error) };
        let at = error.span().map_or(0, |span| span.start);
        anyhow!("line {}: {unknown}", line_of(text, at))
    })?;
    ensure!(tables.len() <= CHANNEL_LIMIT, "{} channels: at most {CHANNEL_LIMIT} can be sent", tables.len());
    let below = |paths: Vec<PathBuf>| paths.into_iter().map(|path| folder.join(path)).collect::<Vec<_>>();
    let channels = tables.into_iter().map(|(name, table)| {
        let line = line_of(text, table.span().start);
        let Table { assets, to, repeats, sdp, sap, interface } = table.into_inner();
        ensure!(!assets.is_empty(), "line {line}: channel {name} has no assets");
        ensure!(!to.is_empty(), "line {line}: channel {name} has no destination: add to = [\"rtp://…\"]");
        let destinations = to.into_iter().map(|Parsed(destination)| destination).collect();
        let interface = interface.map(|Parsed(interface)| interface);
        let options = ChannelOptions {
            name,
            assets: below(assets),
            repeats,
            destinations,
            is_announced: sap,
            descriptions: below(sdp),
        };
        Ok(super::leaving_by(options, interface.as_ref()))
    });
    channels.collect()
}

/// Number of the line, from 1, that has the byte at `at`.
fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_is_a_channel() {
        let text = "[news]\nassets = [\"news.m3u\"]\nto = [\"rtp://239.1.1.1:5004?ttl=4\", \"udp://239.1.1.2:1234\"]\n\
                    loop = true\nsdp = [\"news.sdp\"]\ninterface = \"eth0\"\n\
                    [films]\nassets = [\"/srv/a.ts\"]\nto = [\"rtp://239.1.1.3:5004?interface=eth1\"]\n";
        let channels = parse(text, Path::new("/etc")).unwrap();
        let [films, news] = &channels[..] else { panic!("{channels:?}") };
        assert_eq!((&news.name[..], news.repeats, news.destinations.len()), ("news", true, 2));
        assert_eq!(news.assets, [Path::new("/etc/news.m3u")]);
        assert_eq!(news.descriptions, [Path::new("/etc/news.sdp")]);
        let eth = |name: &str| Some(Interface::Name(name.to_owned()));
        assert_eq!(news.destinations[1].interface, eth("eth0"));
        assert_eq!(films.destinations[0].interface, eth("eth1"));
        assert_eq!(films.assets, [Path::new("/srv/a.ts")]);
    }

    /// Promise: An error in the channels file names its line.
    #[test]
    fn errors_have_their_line() {
        for (text, words) in [
            ("[a]\nassets = [\"a.ts\"]\nto = [\"rtp://1.2.3.4:5\"]", ["line 3", "port 5 is odd"]),
            ("[a]\nassets = [\"a.ts\"]\nto = []", ["line 1", "channel a has no destination"]),
            ("\n[a]\nassets = []\nto = [\"rtp://1.2.3.4:6\"]", ["line 2", "channel a has no assets"]),
            ("[a]\nasset = [\"a.ts\"]", ["line 2", "unknown key `asset`: did you mean `assets`?"]),
            ("[a]\nassets = [\"a.ts\"]", ["line 1", "missing field `to`"]),
            ("a = 3", ["line 1", "invalid type"]),
            ("[a\n", ["line 1", "[a"]),
        ] {
            let error = format!("{:#}", parse(text, Path::new("")).unwrap_err());
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }
}
