//! Where a report must not go: over what the streams read or write, which it would replace at their end.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::Configuration;
use crate::identity::Identity;

impl Configuration {
    /// What of all this has the place where a report is to be written, in words: an input, an output, a key or the configuration file.
    /// `-` is standard output.
    pub fn user_of(&self, report: &Path) -> Option<String> {
        let wirings = || self.streams.iter().map(|stream| &stream.wiring);
        if report == Path::new("-") {
            let mut outputs = wirings().flat_map(|wiring| &wiring.outputs);
            return outputs
                .any(|output| output.is_standard())
                .then(|| "an output: standard output (-)".to_owned());
        }
        let report = identity(report)?;
        let is_taken = |path: &Path| identity(path).as_ref() == Some(&report);
        for wiring in wirings() {
            if let Some(input) = wiring.inputs.iter().find(|input| input.path(false).is_some_and(is_taken)) {
                return Some(format!("the input {input}"));
            }
            if let Some(output) = wiring.outputs.iter().find(|output| output.path(true).is_some_and(is_taken))
            {
                return Some(format!("the output {output}"));
            }
            if let Some(key) =
                wiring.handlers.iter().filter_map(|handler| handler.key_file()).find(|key| is_taken(key))
            {
                return Some(format!("the key {}", key.display()));
            }
        }
        let file = self.file.as_deref().filter(|file| is_taken(file));
        file.map(|file| format!("the configuration file {}", file.display()))
    }
}

/// None of a device such as /dev/null, of which each may have a part.
fn identity(path: &Path) -> Option<Identity> {
    Identity::of(path, |kind| !kind.is_char_device())
}
