//! Progress bar for a file, on standard error.

use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{format, terminal};

/// Width of the file name in columns.
const NAME_WIDTH: usize = 24;

/// Progress bar. Dropping it removes it from the terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Progress bar for `bytes` of a file. Hidden if `shown` is false, or without a terminal.
    pub(crate) fn new(path: &Path, bytes: u64, shown: bool) -> Progress {
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(bytes), target).with_style(style());
        Progress(bar.with_message(ending(&format::name(path), NAME_WIDTH)))
    }

    pub(crate) fn done(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    let letters = if terminal::supports_utf8() { "█▉▊▋▌▍▎▏ " } else { "=> " };
    ProgressStyle::with_template(
        "{msg:24} {wide_bar} {percent:>3}%  {bytes:>10}  {binary_bytes_per_sec:>12}  {eta_precise} left",
    )
    .expect("the template is well formed")
    .progress_chars(letters)
}

/// The last characters of a name, since these distinguish files of the same folder.
fn ending(name: &str, letters: usize) -> String {
    let surplus = name.chars().count().saturating_sub(letters);
    match surplus {
        0 => name.to_owned(),
        _ => format!("...{}", name.chars().skip(surplus + 3).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_ends() {
        assert_eq!(ending("clip.ts", 8), "clip.ts");
        assert_eq!(ending("films/clip.ts", 10), "...clip.ts");
    }

    #[test]
    fn the_template_is_well_formed() {
        drop(Progress::new(Path::new("clip.ts"), 1, false));
    }
}
