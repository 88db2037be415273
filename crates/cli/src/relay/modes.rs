//! Which options belong to which way of relaying. Whoever gives one that does nothing where it stands means something that would not
//! happen, such as a seal: it is refused.

use clap::Arg;

/// A way of relaying.
struct Mode {
    /// Options of which each alone says that this is meant.
    told_by: &'static [&'static str],
    /// What it takes besides.
    takes: &'static [&'static str],
}

/// Options by their names within the program: those of fields.
const MODES: [Mode; 3] = [
    // Streams.
    Mode {
        told_by: &["inputs", "config"],
        takes: &[
            "outputs",
            "framing",
            "order",
            "pattern",
            "handlers",
            "when_full",
            "class",
            "rate",
            "check",
            "threads",
            "metrics",
            "json",
        ],
    },
    // A TCP proxy.
    Mode {
        told_by: &["to"],
        takes: &[
            "addresses",
            "drain",
            "threads",
            "balance",
            "connect_timeout",
            "idle_timeout",
            "max_connections",
            "health_interval",
            "rise",
            "fall",
            "send_proxy",
            "accept_proxy",
            "metrics",
            "json",
        ],
    },
    // An HTTP cache.
    Mode {
        told_by: &["cache"],
        takes: &[
            "addresses",
            "drain",
            "threads",
            "origin",
            "cache_size",
            "origin_timeout",
            "client_timeout",
            "max_clients",
            "metrics",
            "json",
        ],
    },
];

/// Has an option refused beside those that say that a mode is meant to which it does not belong. That an option requires one of its
/// own mode is not enough: clap asks for nothing that something else rules out.
pub(super) fn keep_apart(option: Arg) -> Arg {
    let id = option.get_id().clone();
    let strangers = MODES.iter().filter(|mode| !mode.told_by.iter().chain(mode.takes).any(|own| id == *own));
    option.conflicts_with_all(strangers.flat_map(|mode| mode.told_by))
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::{Args, Command};

    use super::super::Relay;
    use super::*;

    /// What makes a mode whole, and what the option that says so is called.
    const WHOLE: [(&str, &[&str]); 4] = [
        ("--in", &["--in", "-", "--out", "-"]),
        ("--config", &["--config", "relay.toml"]),
        ("--to", &["--listen", ":80", "--to", "storage:80"]),
        ("--cache", &["--listen", ":80", "--cache", "kept", "--origin", "http://storage"]),
    ];

    /// Promise: An option that the chosen mode would ignore is refused by its name.
    #[test]
    fn every_option_works_where_it_belongs_and_is_refused_by_name_elsewhere() {
        let command = Relay::augment_args(Command::new("relay"));
        for option in command.get_arguments() {
            let (id, long) = (option.get_id().as_str(), option.get_long().unwrap());
            let homes =
                MODES.iter().filter(|mode| mode.told_by.contains(&id) || mode.takes.contains(&id)).count();
            assert!(homes > 0, "--{long} belongs to no mode: add it to the table");
            for (told_by, arguments) in
                WHOLE.iter().filter(|(_, whole)| !whole.contains(&&*format!("--{long}")))
            {
                let mode = MODES.iter().find(|mode| mode.told_by.contains(&id_of(&command, told_by)));
                let mode = mode.expect("every mode is in the table");
                let words = ["relay"].iter().chain(*arguments).map(|word| word.to_string());
                let words = words.chain(given(option));
                let result = command.clone().try_get_matches_from(words);
                let belongs = mode.takes.contains(&id) || mode.told_by.contains(&id);
                match result {
                    Ok(_) => assert!(belongs, "--{long} is ignored beside {told_by}"),
                    // A handler of the streams of a file, say: it lacks --in, of which it would be.
                    Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
                        assert!(belongs, "--{long} {told_by}: {error}");
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::ArgumentConflict, "--{long} {told_by}: {error}");
                        assert!(!belongs, "--{long} is refused beside {told_by}: {error}");
                        let said = error.to_string();
                        assert!(said.contains(&format!("--{long}")) && said.contains(told_by), "{said}");
                    }
                }
            }
        }
    }

    fn id_of<'a>(command: &'a Command, long: &str) -> &'a str {
        let of_name = |option: &&Arg| option.get_long() == long.strip_prefix("--");
        command.get_arguments().find(of_name).unwrap().get_id().as_str()
    }

    /// An option, with a value that it takes.
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
            "when_full" => "block",
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
