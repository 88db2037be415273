//! Longest bursts of folders, for clients with little buffer and for links that many bursts share.

use parking_lot::RwLock;

/// Longest burst for the files in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderBurst {
    /// Path of the folder or file in URLs, not encoded, without slashes at its ends.
    pub path: String,
    /// Longest burst, in microseconds.
    pub most_us: u64,
}

/// Longest bursts of folders.
#[derive(Debug, Default)]
pub(crate) struct BurstLimits {
    folders: RwLock<Vec<FolderBurst>>,
}

impl BurstLimits {
    pub(crate) fn new(folders: Vec<FolderBurst>) -> BurstLimits {
        BurstLimits { folders: RwLock::new(folders) }
    }

    /// Replaces the limits, for sessions that begin from now on.
    pub(crate) fn replace(&self, folders: Vec<FolderBurst>) {
        *self.folders.write() = folders;
    }

    /// Longest burst of the asset at a path, in microseconds: the shortest limit of all folders that it is
    /// in.
    pub(crate) fn most_us(&self, path: &str) -> u64 {
        let holds = |folder: &&FolderBurst| {
            let rest = path.strip_prefix(folder.path.as_str());
            folder.path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.folders.read().iter().filter(holds).map(|folder| folder.most_us).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_the_folders_around_an_asset_holds() {
        let folder = |path: &str, most_us| FolderBurst { path: path.to_owned(), most_us };
        let limits =
            BurstLimits::new(vec![folder("cams", 20_000), folder("cams/door", 50_000), folder("a.ts", 10)]);
        let most_us = |path| limits.most_us(path);
        assert_eq!((most_us("cams/1.ts"), most_us("cams/door/1.ts"), most_us("a.ts")), (20_000, 20_000, 10));
        assert_eq!(
            (most_us("cams2/1.ts"), most_us("1.ts"), most_us("a.ts2")),
            (u64::MAX, u64::MAX, u64::MAX)
        );
        assert_eq!(BurstLimits::new(vec![folder("", 5)]).most_us("1.ts"), 5);
    }
}
