//! Paths that streams use and that a report must not overwrite.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::Configuration;
use crate::file_identity::FileIdentity;

impl Configuration {
    /// Returns whether an output is standard output.
    pub fn uses_standard_output(&self) -> bool {
        self.user_of(Path::new("-")).is_some() || self.user_of(Path::new("/dev/stdout")).is_some()
    }

    /// Describes the use of a path by this configuration as a phrase: an input, an output, a key or the
    /// configuration file itself. `-` is standard output.
    pub fn user_of(&self, report: &Path) -> Option<String> {
        let configs = || self.streams.iter().map(|stream| &stream.config);
        if report == Path::new("-") {
            let mut outputs = configs().flat_map(|config| &config.outputs);
            return outputs
                .any(|output| output.is_standard())
                .then(|| "an output: standard output (-)".to_owned());
        }
        let report = identity(report)?;
        let is_taken = |path: &Path| identity(path).as_ref() == Some(&report);
        for config in configs() {
            if let Some(input) = config.inputs.iter().find(|input| input.path(false).is_some_and(is_taken)) {
                return Some(format!("the input {input}"));
            }
            if let Some(output) = config.outputs.iter().find(|output| output.path(true).is_some_and(is_taken))
            {
                return Some(format!("the output {output}"));
            }
            if let Some(key) =
                config.all_handlers().filter_map(|handler| handler.key_file()).find(|key| is_taken(key))
            {
                return Some(format!("the key {}", key.display()));
            }
        }
        let file = self.file.as_deref().filter(|file| is_taken(file));
        file.map(|file| format!("the configuration file {}", file.display()))
    }
}

/// Identity of a file. Devices such as /dev/null have none, since many may write to them.
fn identity(path: &Path) -> Option<FileIdentity> {
    FileIdentity::of(path, |kind| !kind.is_char_device())
}
