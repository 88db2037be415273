//! Options of the experiment `clients`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::case::Dimensions;

/// Options of the experiment `clients`.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Dimensions to vary.
    pub dimensions: Dimensions,
    /// Asset to play instead of generated assets.
    pub file: Option<PathBuf>,
    /// Measured time of a step.
    pub window: Duration,
    /// Time from the start of the last session to the window.
    pub settle: Duration,
    /// Sessions started each second.
    pub ramp: f64,
    /// Clients of the first step.
    pub first: usize,
    /// Largest number of clients to try.
    pub most: usize,
    /// Media that a player buffers.
    pub buffer: Duration,
    /// Processor of the server; `None` for the last processor that may be used.
    pub cpu: Option<u32>,
    /// Processes of `wirepath serve`, which share its processors and get equal numbers of clients.
    pub processes: usize,
    /// Further arguments for `wirepath serve`.
    pub server_arguments: Vec<String>,
    /// Other servers.
    pub peers: Vec<Peer>,
    /// Folder for assets, images and logs.
    pub scratch: PathBuf,
    /// Calibration file of the server's data paths.
    pub calibration: PathBuf,
}

/// Peer: another server to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Name in the result.
    pub name: String,
    /// Shell command that starts the server.
    pub command: String,
}

/// Longest name of a peer, in bytes.
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
