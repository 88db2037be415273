//! Configuration file of `wirepath serve`: its keys are the names of the flags, which take precedence.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches, Id};
use toml::de::{DeTable, DeValue};
use wirepath_net::program::unknown_key;

use crate::serve_options::ServeOptions;

/// Options from a configuration file and from flags. Flags take precedence.
pub(crate) struct FileOptions {
    /// Parsed options.
    pub(crate) options: ServeOptions,
    /// The same options as they were written.
    matches: ArgMatches,
}

impl FileOptions {
    /// Reads a configuration file. `flags` are the flags of `A`. Relative paths in the file are relative to
    /// its folder.
    pub(crate) fn read<A: Args>(
        path: &Path,
        flags: impl IntoIterator<Item = OsString>,
    ) -> Result<FileOptions> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
        let (arguments, paths) = arguments(&text, path.parent().unwrap_or(Path::new(".")))
            .with_context(|| format!("in the configuration file {}", path.display()))?;
        let command = A::augment_args(command()).args_override_self(true);
        let matches = command.try_get_matches_from(arguments.into_iter().chain(flags))?;
        let mut options = ServeOptions::from_arg_matches(&matches)?;
        if options.paths.is_empty() {
            options.paths = paths;
        }
        Ok(FileOptions { options, matches })
    }

    /// Names of the options that differ from the options `before`.
    pub(crate) fn changed_since(&self, before: &FileOptions) -> Vec<String> {
        let command = ServeOptions::augment_args(command());
        let options =
            command.get_arguments().filter_map(|option| Some((option.get_long()?, option.get_id())));
        let written = |of: &FileOptions, id: &Id| {
            let values = of.matches.get_raw(id.as_str());
            values.map(|values| values.map(OsStr::to_owned).collect::<Vec<_>>())
        };
        let changed = options.filter(|(_, id)| written(self, id) != written(before, id));
        let mut changed: Vec<String> = changed.map(|(name, _)| name.to_owned()).collect();
        if self.options.paths != before.options.paths {
            changed.push("paths".to_owned());
        }
        changed
    }
}

fn command() -> Command {
    Command::new("serve").no_binary_name(true)
}

/// Keys whose values are paths, relative to the folder of the configuration file.
const PATH_KEYS: &[&str] =
    &["cache", "calibration", "users", "url-key", "tls-certificate", "tls-key", "handover"];

/// Converts the keys of a configuration file to arguments, and checks each of them. Returns the arguments and
/// the paths to serve.
fn arguments(text: &str, folder: &Path) -> Result<(Vec<OsString>, Vec<PathBuf>)> {
    let command = ServeOptions::augment_args(command());
    let name = |option: &clap::Arg| option.get_long().unwrap_or(option.get_id().as_str()).to_owned();
    let known: Vec<String> = command.get_arguments().map(name).collect();
    let is_list = |key: &str| {
        let option = command.get_arguments().find(|option| option.get_long() == Some(key));
        option.is_some_and(|option| matches!(option.get_action(), ArgAction::Append))
    };
    let (mut arguments, mut paths) = (Vec::new(), Vec::new());
    for (key, value) in DeTable::parse(text)?.get_ref() {
        let (line, key) = (text[..key.span().start].matches('\n').count() + 1, key.get_ref().as_ref());
        if !known.iter().any(|name| name == key) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            bail!("line {line}: {}", unknown_key(key, &known));
        }
        let values: Vec<OsString> = match value.get_ref() {
            DeValue::Array(list) if key == "paths" => {
                let path = list.iter().map(|path| Some(folder.join(path.get_ref().as_str()?)));
                let all: Option<Vec<PathBuf>> = path.collect();
                paths = all.with_context(|| format!("line {line}: paths: expected a list of strings"))?;
                continue;
            }
            DeValue::Array(list) if is_list(key) => {
                let texts = list.iter().map(|text| Some(located(key, text.get_ref().as_str()?, folder)));
                let texts: Option<Vec<OsString>> = texts.collect();
                texts.with_context(|| format!("line {line}: {key}: expected a list of strings"))?
            }
            DeValue::String(text) if key == "paths" => {
                bail!("line {line}: expected a list: write paths = [{text:?}]")
            }
            DeValue::String(path) if PATH_KEYS.contains(&key) => {
                vec![folder.join(&**path).into()]
            }
            DeValue::String(text) => vec![located(key, text, folder)],
            _ if key == "paths" => bail!("line {line}: paths: expected a list of strings"),
            DeValue::Integer(number) => {
                let number = i128::from_str_radix(number.as_str(), number.radix());
                vec![
                    number
                        .with_context(|| format!("line {line}: {key}: number too large"))?
                        .to_string()
                        .into(),
                ]
            }
            _ => bail!("line {line}: {key}: expected a string or a whole number"),
        };
        for value in values {
            let mut argument = OsString::from(format!("--{key}="));
            argument.push(value);
            ensure_valid(&command, &argument, line)?;
            arguments.push(argument);
        }
    }
    Ok((arguments, paths))
}

/// Value of a key. The playlist path of a channel is relative to the folder of the configuration file.
fn located(key: &str, text: &str, folder: &Path) -> OsString {
    match text.split_once('=').filter(|(_, list)| key == "channel" && !list.is_empty()) {
        Some((name, list)) => format!("{name}={}", folder.join(list).display()).into(),
        None => text.into(),
    }
}

/// Checks that the command accepts an argument; `line` is its line in the configuration file.
fn ensure_valid(command: &Command, argument: &OsString, line: usize) -> Result<()> {
    let parsed = command.clone().try_get_matches_from([argument]);
    parsed.map(drop).map_err(|error| {
        let message = error.to_string();
        let words: Vec<&str> = message.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
        anyhow!("line {line}: {}", words.join(" ").trim_start_matches("error: "))
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::time::Duration;

    use super::*;
    use crate::serve_options::PathChoice;
    use crate::values::BurstOption;

    fn from_text(text: &str, flags: &[&str]) -> Result<ServeOptions> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wirepath.toml");
        std::fs::write(&path, text).unwrap();
        let flags = flags.iter().map(OsString::from);
        FileOptions::read::<ServeOptions>(&path, flags).map(|file| file.options)
    }

    #[test]
    fn options_that_changed_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wirepath.toml");
        let read = |text: &str, flags: &[&str]| {
            std::fs::write(&path, text).unwrap();
            FileOptions::read::<ServeOptions>(&path, flags.iter().map(OsString::from)).unwrap()
        };
        let before = read("threads = 1\npaths = [\"a\"]\ncors = [\"*\"]", &["--burst", "20ms"]);
        let changed = |text| read(text, &["--burst", "20ms"]).changed_since(&before);
        let none: [&str; 0] = [];
        assert_eq!(changed("cors = [\"*\"]\npaths = [\"a\"]\nthreads = 1"), none);
        // The flag takes precedence, so nothing has changed.
        assert_eq!(changed("cors = [\"*\"]\npaths = [\"a\"]\nthreads = 1\nburst = \"30ms\""), ["burst"; 0]);
        assert_eq!(changed("paths = [\"a\", \"b\"]\nthreads = 2"), ["threads", "cors", "paths"]);
    }

    #[test]
    fn flags_take_precedence_over_the_file() {
        let file =
            "threads = 3\nburst = \"30ms\"\npath = \"sendmmsg\"\ncache-size = \"5GB\"\npaths = [\"a\"]";
        let options = from_text(file, &["--threads", "1", "b"]).unwrap();
        assert_eq!(options.paths, [Path::new("b")]);
        assert_eq!(options.threads, NonZeroUsize::new(1));
        assert_eq!(options.burst, Some(BurstOption::Time(Duration::from_millis(30))));
        assert_eq!(options.path, Some(PathChoice::Named(wirepath_server::DataPath::Sendmmsg)));
        assert_eq!(options.images.cache_size, Some(bytesize::ByteSize::gb(5)));
        let options = from_text("threads = 0x10", &[]).unwrap();
        assert_eq!(options.threads, NonZeroUsize::new(16));
    }

    #[test]
    fn a_list_gives_an_option_several_times() {
        let text = "folder-burst-max = [\"/cams/=20ms\", \"a=b=50ms\"]";
        let options = from_text(text, &["--folder-burst-max", "c=1ms"]).unwrap();
        let folders: Vec<_> =
            options.folder_burst_max.iter().map(|folder| (folder.path.as_str(), folder.most_us)).collect();
        assert_eq!(folders, [("cams", 20_000), ("a=b", 50_000), ("c", 1000)]);
    }

    #[test]
    fn paths_in_the_file_are_relative_to_it() {
        let text = "paths = [\"films\", \"/srv\"]\ncalibration = \"costs\"\ntls-key = \"key.pem\"\nchannel = [\"a=b.m3u\"]";
        let options = from_text(text, &[]).unwrap();
        assert!(options.paths[0].is_absolute() && options.paths[0].ends_with("films"));
        assert_eq!(options.paths[1], Path::new("/srv"));
        assert_eq!(options.calibration, Some(options.paths[0].with_file_name("costs")));
        assert_eq!(options.tls_key, Some(options.paths[0].with_file_name("key.pem")));
        assert_eq!(options.channel[0].playlist, options.paths[0].with_file_name("b.m3u"));
    }

    /// Promise: Flags override the configuration file; an unknown key is an error with its line and a similar key.
    #[test]
    fn errors_in_the_file_have_their_line() {
        for (text, words) in [
            ("threads = 1\nport = 5", ["unknown key `port`: expected ", "line 2"]),
            ("\ncache_size = 5", ["line 2", "unknown key `cache_size`: did you mean `cache-size`?"]),
            ("path = \"fastest\"", ["fastest", "line 1"]),
            ("\n\nrtp-ports = \"9-5\"", ["9-5", "line 3"]),
            ("rtp-ports = \"3000-2000\"", ["line 1", "the first port, 3000, is greater than the last, 2000"]),
            ("rtp-ports = \"29201-29202\"", ["line 1", "no even port before an odd one"]),
            ("threads = 0", ["line 1", "expected a whole number from 1 to 1024"]),
            ("threads = 1025", ["line 1", "expected a whole number from 1 to 1024"]),
            (
                "burst = \"1ms\"\ncache-size = \"63KiB\"",
                ["line 2", "63.0 KiB is too small: expected at least 64.0 KiB"],
            ),
            ("cache-size = 10", ["line 1", "10 B is too small"]),
            ("images = \"some\"", ["line 1", "auto, all, none"]),
            ("image-rate = 10", ["line 1", "10 B is too small"]),
            ("packing-memory = \"1MiB\"", ["line 1", "expected at least 4.0 MiB"]),
            ("burst = 20", ["burst", "line 1"]),
            ("burst = \"2s\"", ["line 1", "expected a time from 1ms to 500ms"]),
            ("\npaths = \"../media\"", ["line 2", "expected a list: write paths = [\"../media\"]"]),
            ("rtsp = \"8554\"", ["line 1", "expected ADDRESS:PORT"]),
            ("access-log = \"xml\"", ["line 1", "text, json"]),
            ("paths = 3", ["line 1", "expected a list of strings"]),
            ("\nfolder-burst-max = [\"a=9s\"]", ["line 2", "expected a time from 1ms to 500ms"]),
            ("folder-users = [\"cams\"]", ["line 1", "expected PATH=USERS"]),
            ("folder-burst-max = [20]", ["line 1", "expected a list of strings"]),
            ("burst = 0.5", ["line 1", "expected a string or a whole number"]),
        ] {
            let error = format!("{:#}", from_text(text, &[]).unwrap_err());
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
