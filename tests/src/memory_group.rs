//! A control group whose memory is limited, for a process that is to be short of it.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A control group; removed when it is dropped, after its processes.
pub struct MemoryGroup {
    folder: PathBuf,
}

/// Where control groups are mounted, and the files of a limit: version 2, and version 1.
const KINDS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

impl MemoryGroup {
    /// A group of so many bytes of memory, page cache included.
    ///
    /// # Errors
    /// If this user may not make one, or this machine has none.
    pub fn new(bytes: u64) -> Result<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
        let own = groups.lines().find_map(|line| line.split_once(":memory:/").or(line.split_once("0::/")));
        let own = own.map_or("", |(_, path)| path);
        let mut errors = Vec::new();
        for (mounted, file) in KINDS {
            for parent in [Path::new(mounted).join(own), PathBuf::from(mounted)] {
                match Self::below(&parent, file, bytes) {
                    Ok(group) => return Ok(group),
                    Err(error) => errors.push(format!("{error:#}")),
                }
            }
        }
        bail!("no control group with a limit of memory: {}", errors.join("; "))
    }

    fn below(parent: &Path, file: &str, bytes: u64) -> Result<Self> {
        let folder = parent.join(format!("wirepath-test-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let group = Self { folder };
        let limit = group.folder.join(file);
        // Where version 1 is mounted on a tmpfs, that would take a folder and a new file as well.
        let file = std::fs::File::options().write(true).open(&limit);
        let written = file.and_then(|mut file| file.write_all(bytes.to_string().as_bytes()));
        written.with_context(|| limit.display().to_string())?;
        Ok(group)
    }

    /// The command that starts another one in this group.
    pub fn command(&self) -> [String; 4] {
        let enter = format!("echo $$ > '{}/cgroup.procs' && exec \"$@\"", self.folder.display());
        ["sh".to_owned(), "-c".to_owned(), enter, "sh".to_owned()]
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Its processes were killed a moment ago; there is nobody left to tell of an error.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
    }
}
