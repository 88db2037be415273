//! Reader of stored results.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use wirepath_assess::Assessment;
use wirepath_assess::clients::Clients;
use wirepath_assess::result::ReadError;

/// Maximum file size. A full run takes less than one megabyte.
const MOST_BYTES: u64 = 32 << 20;

/// Stored result of one of the commands.
pub(super) enum Kept {
    /// Result about data paths and the relay.
    Assessment(Box<Assessment>),
    /// Result about clients.
    Clients(Box<Clients>),
}

/// Reads a result written by `wirepath assess --json` or `wirepath assess clients --json`.
pub(super) fn kept(file: &Path) -> Result<Kept> {
    let text = text(file)?;
    match Clients::from_json(&text) {
        Ok(clients) => Ok(Kept::Clients(Box::new(clients))),
        Err(ReadError::OtherSchema { .. }) => {
            parse(&text, file).map(|result| Kept::Assessment(Box::new(result)))
        }
        Err(error) => Err(error).with_context(|| crate::format::name(file)),
    }
}

/// Reads a result written by `wirepath assess --json`.
pub(super) fn result(file: &Path) -> Result<Assessment> {
    parse(&text(file)?, file)
}

fn parse(text: &str, file: &Path) -> Result<Assessment> {
    Assessment::from_json(text).with_context(|| crate::format::name(file))
}

fn text(file: &Path) -> Result<String> {
    let name = crate::format::name(file);
    let opened = File::open(file).with_context(|| format!("cannot open {name}"))?;
    let metadata = opened.metadata().with_context(|| format!("cannot read the metadata of {name}"))?;
    let remedy = "name the JSON file that `wirepath assess --json FILE` wrote";
    ensure!(!metadata.is_dir(), "{name} is a folder; {remedy}");
    // Reading a FIFO or a device might never end.
    ensure!(metadata.is_file(), "{name} is not a regular file; {remedy}");
    let mut text = Vec::new();
    opened.take(MOST_BYTES + 1).read_to_end(&mut text).with_context(|| format!("cannot read {name}"))?;
    ensure!(text.len() as u64 <= MOST_BYTES, "{name} is larger than any result; {remedy}");
    String::from_utf8(text).with_context(|| format!("{name} is not a JSON result; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(file: &Path) -> String {
        format!("{:#}", result(file).unwrap_err())
    }

    #[test]
    fn what_is_no_result_is_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        assert!(refusal(&file).contains("a.json: No such file"), "{}", refusal(&file));
        assert!(
            refusal(folder.path()).contains("is a folder; name the JSON file"),
            "{}",
            refusal(folder.path())
        );
        assert!(refusal(Path::new("/dev/zero")).contains("not a regular file"));
        let cases: [(&[u8], &str); 5] = [
            (b"\xff\xfe", "is not a JSON result"),
            (b"", "not a result of `wirepath assess`"),
            (b"{\"figures\": []}", "not a result of `wirepath assess`"),
            (b"{\"schema\": \"wirepath-assessment/99\"}", "schema \"wirepath-assessment/99\""),
            (b"{\"schema\": \"wirepath-assessment/1\", \"program\": 7}", "another version of wirepath"),
        ];
        for (bytes, reason) in cases {
            std::fs::write(&file, bytes).unwrap();
            assert!(
                refusal(&file).contains("a.json: ") || refusal(&file).contains("a.json is"),
                "{}",
                refusal(&file)
            );
            assert!(refusal(&file).contains(reason), "{}", refusal(&file));
        }
    }
}
