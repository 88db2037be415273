//! Options of the experiment.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::case::Dimensions;

/// Options of the experiment.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Dimensions that are varied.
    pub dimensions: Dimensions,
    /// An asset to play instead of those that are made.
    pub file: Option<PathBuf>,
    /// Time that a step is measured.
    pub window: Duration,
    /// Time from the start of the last session to the window.
    pub settle: Duration,
    /// Sessions started each second.
    pub ramp: f64,
    /// Clients of the first step.
    pub first: usize,
    /// Most clients.
    pub most: usize,
    /// Media that a player holds back.
    pub buffer: Duration,
    /// Processor of the server; the last that may be used without one.
    pub cpu: Option<u32>,
    /// Processes of `wirepath serve`, which share its processors, and clients evenly.
    pub processes: usize,
    /// Further arguments for `wirepath serve`.
    pub server_arguments: Vec<String>,
    /// Other servers.
    pub peers: Vec<Peer>,
    /// Folder for assets, images and logs.
    pub scratch: PathBuf,
    /// The server's calibration of its data paths.
    pub calibration: PathBuf,
}

/// Another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name in the result.
    pub name: String,
    /// Command for `sh` that starts it.
    pub command: String,
}

/// Longest name of a peer.
const LONGEST_NAME: usize = 20;

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let (name, command) = text.split_once('=').ok_or("expected NAME=COMMAND")?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
            return Err(format!(
                "invalid name {name:?}: expected up to {LONGEST_NAME} letters, digits, dots and dashes"
            ));
        }
        if name == "wirepath" {
            return Err("invalid name: wirepath is the server that others are compared with".to_owned());
        }
        if command.trim().is_empty() {
            return Err(format!("no command for {name}: expected NAME=COMMAND"));
        }
        Ok(Peer { name: name.to_owned(), command: command.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_names_and_commands() {
        let peer: Peer = "gst=bench/peers/gstreamer --port=1".parse().unwrap();
        assert_eq!((peer.name.as_str(), peer.command.as_str()), ("gst", "bench/peers/gstreamer --port=1"));
        for wrong in ["", "gst", "=x", "gst= ", "a/b=x", "wirepath=x", "averyverylongnameindeed=x"] {
            assert!(wrong.parse::<Peer>().is_err(), "{wrong}");
        }
    }
}
