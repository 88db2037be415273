//! Confinement of a server to its folders (Landlock, Linux 5.13) and to its system calls (seccomp): who takes a server
//! over by a fault in it reaches no other file and starts no program.

mod calls;
mod files;

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

/// Folders and files that a confined server reaches. What does not exist is left out.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// To be read.
    pub readable: Vec<PathBuf>,
    /// To be read, written, and have files made and removed in.
    pub writable: Vec<PathBuf>,
}

/// Extent to which the kernel confines files; system calls are confined in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All that the server asks for.
    Whole,
    /// As much as this kernel knows.
    Part,
    /// Nothing: the kernel has no Landlock, or does not use it.
    Nothing,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Extent::Whole => "to its folders by Landlock, to its system calls by seccomp",
            Extent::Part => {
                "to its folders by Landlock as far as this kernel can, to its system calls by seccomp"
            }
            Extent::Nothing => {
                "to its system calls by seccomp, not to its folders: this kernel has no Landlock, or does not let it be used"
            }
        })
    }
}

/// Confinement failed. The process may be confined in part.
#[derive(Debug, Error)]
pub enum ConfinementError {
    /// Landlock refused.
    #[error("cannot confine to folders: {0}")]
    Files(#[from] landlock::RulesetError),
    /// A folder cannot be opened.
    #[error("cannot confine to folders: {0}")]
    Folder(#[from] landlock::PathFdError),
    /// seccomp refused.
    #[error("cannot confine to system calls: {0}")]
    Calls(#[from] seccompiler::Error),
    /// The filter of system calls cannot be built.
    #[error("cannot confine to system calls: {0}")]
    Filter(#[from] seccompiler::BackendError),
}

/// Confines the calling thread, and those that it starts from now on, for good. To be called before the process has
/// other threads.
pub fn confine(reach: &Reach) -> Result<Extent, ConfinementError> {
    let extent = files::confine(reach)?;
    calls::confine()?;
    Ok(extent)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::path::Path;
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Promise: A confined server reaches its folders only, and starts no program.
    #[test]
    fn a_confined_thread_reaches_its_folders_only() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for folder in ["media", "cache", "secret"] {
            fs::create_dir(path(folder)).unwrap();
            fs::write(path(folder).join("file"), "x").unwrap();
        }
        std::os::unix::fs::symlink("../secret/file", path("media/link")).unwrap();
        let reach = Reach {
            readable: vec![path("media"), path("missing")],
            writable: vec![path("cache"), Path::new("/dev/null").to_owned()],
        };
        let fails = |result: std::io::Result<()>| result.err().map(|error| error.kind());
        thread::scope(|scope| {
            scope.spawn(|| {
                let extent = confine(&reach).unwrap();
                // The kernel of a guest may have no Landlock; system calls are confined everywhere.
                assert!(Command::new("/bin/true").status().is_err(), "a program started");
                if extent == Extent::Nothing {
                    return println!("this kernel has no Landlock");
                }
                let inherits = thread::spawn({
                    let secret = path("secret/file");
                    move || fs::read(secret).map(drop).map_err(|error| error.kind())
                });
                let denied = Some(ErrorKind::PermissionDenied);
                assert_eq!(inherits.join().unwrap().err(), denied);
                assert_eq!(fs::read(path("media/file")).unwrap(), b"x");
                assert_eq!(fails(fs::read(path("media/link")).map(drop)), denied);
                assert_eq!(fails(fs::read("/etc/passwd").map(drop)), denied);
                assert_eq!(fails(fs::write(path("media/new"), "x")), denied);
                assert_eq!(fails(fs::remove_file(path("media/file"))), denied);
                fs::write(path("cache/new"), "x").unwrap();
                fs::rename(path("cache/new"), path("cache/old")).unwrap();
                fs::write("/dev/null", "x").unwrap();
            });
        });
    }
}
