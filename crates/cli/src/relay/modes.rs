//! Options of each mode of `wirepath relay`. An option that the mode would ignore is refused: a user who asks
//! for a seal must not get an unencrypted stream.

use clap::{Arg, Args, Command, Id};

use super::cache::CacheOptions;
use super::proxy::ProxyOptions;
use super::stream_options::StreamOptions;
use super::{Listening, Showing};

struct Mode {
    /// Options that select this mode.
    selectors: &'static [&'static str],
    /// All options of this mode, by their field names.
    options: Vec<Id>,
}

/// The modes: streams, TCP proxy, HTTP cache.
fn modes() -> [Mode; 3] {
    let with = |own: Vec<Id>, more: Vec<Id>| [own, more, ids::<Showing>()].concat();
    let of_streams = ["config", "check", "threads", "remote_control", "lend"].map(Id::from).to_vec();
    [
        Mode { selectors: &["inputs", "config"], options: with(ids::<StreamOptions>(), of_streams) },
        Mode { selectors: &["to"], options: with(ids::<ProxyOptions>(), ids::<Listening>()) },
        Mode { selectors: &["cache"], options: with(ids::<CacheOptions>(), ids::<Listening>()) },
    ]
}

fn ids<A: Args>() -> Vec<Id> {
    A::augment_args(Command::new("")).get_arguments().map(|option| option.get_id().clone()).collect()
}

/// Makes an option conflict with the selectors of all modes to which it does not belong. `requires` would not
/// suffice, since clap drops a requirement if another option conflicts with it.
pub(super) fn keep_apart(option: Arg) -> Arg {
    let id = option.get_id().clone();
    let others = modes().into_iter().filter(|mode| !mode.options.contains(&id));
    option.conflicts_with_all(others.flat_map(|mode| mode.selectors))
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::super::Relay;
    use super::*;

    /// Complete arguments of each mode, with its selector.
    const COMPLETE: [(&str, &[&str]); 4] = [
        ("--in", &["--in", "-", "--out", "-"]),
        ("--config", &["--config", "relay.toml"]),
        ("--to", &["--listen", ":80", "--to", "storage:80"]),
        ("--cache", &["--listen", ":80", "--cache", "kept", "--origin", "http://storage"]),
    ];

    /// Promise: An option that the chosen mode would ignore is refused by name.
    #[test]
    fn every_option_works_where_it_belongs_and_is_refused_by_name_elsewhere() {
        let command = Relay::augment_args(Command::new("relay"));
        for option in command.get_arguments() {
            let (id, long) = (option.get_id().as_str(), option.get_long().unwrap());
            let modes = modes();
            let is_in = |mode: &Mode| mode.options.iter().any(|own| own == id);
            assert!(modes.iter().any(is_in), "--{long} belongs to no mode: add it to the table");
            for (selector, arguments) in
                COMPLETE.iter().filter(|(_, complete)| !complete.contains(&&*format!("--{long}")))
            {
                let mode = modes.iter().find(|mode| mode.selectors.contains(&id_of(&command, selector)));
                let mode = mode.expect("every mode is in the table");
                let words = ["relay"].iter().chain(*arguments).map(|word| word.to_string());
                let words = words.chain(given(option));
                let result = command.clone().try_get_matches_from(words);
                let belongs = is_in(mode);
                match result {
                    Ok(_) => assert!(belongs, "--{long} is ignored beside {selector}"),
                    // For example, a handler beside --config lacks --in.
                    Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
                        assert!(belongs, "--{long} {selector}: {error}");
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "--{long} {selector}: {error}");
                        assert!(!belongs, "--{long} is refused beside {selector}: {error}");
                        let said = error.to_string();
                        assert!(said.contains(&format!("--{long}")) && said.contains(selector), "{said}");
                    }
                }
            }
        }
    }

    fn id_of<'a>(command: &'a Command, long: &str) -> &'a str {
        let of_name = |option: &&Arg| option.get_long() == long.strip_prefix("--");
        command.get_arguments().find(of_name).unwrap().get_id().as_str()
    }

    /// Arguments for an option with a valid value.
    fn given(option: &Arg) -> Vec<String> {
        let long = format!("--{}", option.get_long().unwrap());
        let value = match option.get_id().as_str() {
            _ if !option.get_action().takes_values() => return vec![long],
            "outputs" => "-",
            "addresses" => ":80",
            "framing" => "line",
            "order" => "arrival",
            "pattern" => "mirror",
            "handlers" => "meter",
            "output_handlers" => "1:meter",
            "when_full" => "block",
            "lend" => "safe",
            "rate" => "1MB/s",
            "metrics" => "127.0.0.1:0",
            "balance" => "random",
            "connect_timeout" | "idle_timeout" | "health_interval" | "drain" | "origin_timeout"
            | "client_timeout" => "1s",
            "inputs" => "-",
            "origin" => "http://storage",
            "cache_size" => "1GiB",
            "to" => "storage:80",
            _ => "1",
        };
        vec![long, value.to_owned()]
    }
}
