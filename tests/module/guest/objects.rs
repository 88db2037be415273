//! Objects that the kernel has allocated, by who did: where it keeps count (`slub_debug=U`), no leak is too
//! small to be seen.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

/// Folder with a subfolder for each slab cache.
const FOLDER: &str = "/sys/kernel/debug/slab";

/// Number of allocated objects of each cache, by allocating function.
#[derive(Debug)]
pub(crate) struct Objects(BTreeMap<String, u64>);

impl Objects {
    /// As it is now; nothing where the kernel does not keep count.
    pub(crate) fn now() -> Result<Option<Objects>> {
        if !Path::new(FOLDER).exists() {
            return Ok(None);
        }
        let mut counts = BTreeMap::new();
        for cache in std::fs::read_dir(FOLDER).context(FOLDER)? {
            let cache = cache?;
            let file = cache.path().join("alloc_traces");
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            for (count, place) in text.lines().filter_map(allocated) {
                *counts.entry(format!("{} {place}", cache.file_name().display())).or_default() += count;
            }
        }
        Ok(Some(Objects(counts)))
    }

    /// Functions that allocated `times` objects or more since `before` that are not freed.
    pub(crate) fn grown(&self, before: &Objects, times: u64) -> Vec<String> {
        let more = |(place, count): (&String, &u64)| {
            let grown = count.saturating_sub(before.0.get(place).copied().unwrap_or_default());
            (grown >= times).then(|| format!("{grown} objects of {place}"))
        };
        self.0.iter().filter_map(more).collect()
    }

    /// Number of all objects.
    pub(crate) fn sum(&self) -> u64 {
        self.0.values().sum()
    }
}

/// `     12 alloc_foo+0x3/0x40 age=7 pid=1 cpus=0`; stacks and empty lines follow.
fn allocated(line: &str) -> Option<(u64, &str)> {
    let (count, rest) = line.trim_start().split_once(' ')?;
    Some((count.parse().ok()?, rest.trim_start().split(' ').next()?))
}
