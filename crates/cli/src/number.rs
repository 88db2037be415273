//! Numbers and sizes as options take them, with words of our own for what is wrong.

use std::num::NonZeroUsize;

use bytesize::ByteSize;

/// Least that a cache may keep: with less it would keep next to nothing, and who writes so forgot the unit.
const LEAST_CACHE: ByteSize = ByteSize::kib(64);

/// Most threads that may be asked for: more than there are cores only wait for each other.
const MOST_THREADS: usize = 1024;

/// Engine threads.
pub(crate) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= MOST_THREADS);
    threads.ok_or_else(|| format!("wanted is a whole number from 1 to {MOST_THREADS}"))
}

/// A count of something of which there has to be one.
pub(crate) fn at_least_one(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "wanted is a whole number from 1 on")
}

/// A size with its unit; no unit means bytes.
fn size(text: &str) -> Result<ByteSize, &'static str> {
    text.parse().map_err(|_| "wanted is a size, such as 500MB or 20GiB")
}

/// What a cache may keep.
pub(crate) fn cache_size(text: &str) -> Result<ByteSize, String> {
    enough_to_keep(size(text)?)
}

/// A size, if a cache may have it.
pub(crate) fn enough_to_keep(size: ByteSize) -> Result<ByteSize, String> {
    if size < LEAST_CACHE {
        return Err(format!(
            "{size} is next to nothing; wanted is a size from {LEAST_CACHE} on, such as 500MB or 20GiB"
        ));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_said_in_words() {
        assert_eq!(at_least_one("2").map(NonZeroUsize::get), Ok(2));
        for text in ["0", "-1", "many", "1.5", ""] {
            assert_eq!(at_least_one(text), Err("wanted is a whole number from 1 on"));
        }
        for text in ["0", "many", "1025"] {
            assert_eq!(threads(text), Err("wanted is a whole number from 1 to 1024".to_owned()));
        }
        assert_eq!(threads("1024").map(NonZeroUsize::get), Ok(1024));
        assert_eq!(size("lots"), Err("wanted is a size, such as 500MB or 20GiB"));
        assert_eq!(cache_size("5GB"), Ok(ByteSize::gb(5)));
        let error = cache_size("10").unwrap_err();
        assert!(error.starts_with("10 B is next to nothing; wanted is a size from 64.0 KiB on"), "{error}");
    }
}
