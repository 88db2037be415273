//! The kernels that are booted: which, and the folder that keeps them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{Command, output};
use crate::packages::Apt;

/// A kernel that a distribution packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// As in the release's first two numbers.
    pub number: &'static str,
    /// Suite that packages it, if not the distribution's own.
    pub(crate) suite: Option<&'static str>,
    packages: [&'static str; 2],
    /// The package of its sources, which has them in an archive of its own name.
    pub(crate) source: Option<&'static str>,
}

// The flavours for virtual machines: small, and with drivers for what QEMU shows.
const DEBIAN: [&str; 2] = ["linux-image-cloud-amd64", "linux-headers-cloud-amd64"];
const DEBIAN_REALTIME: [&str; 2] = ["linux-image-rt-amd64", "linux-headers-rt-amd64"];
const UBUNTU: [&str; 2] = ["linux-image-virtual", "linux-headers-virtual"];

/// The kernels of a distribution, the newest first.
const DISTRIBUTIONS: &[(&str, &[Series])] = &[
    (
        "debian 12",
        &[
            Series {
                number: "6.12",
                suite: Some("bookworm-backports"),
                packages: DEBIAN,
                source: Some("linux-source-6.12"),
            },
            Series { number: "6.1", suite: None, packages: DEBIAN, source: Some("linux-source-6.1") },
        ],
    ),
    (
        "debian 13",
        &[Series { number: "6.12", suite: None, packages: DEBIAN, source: Some("linux-source-6.12") }],
    ),
    ("ubuntu 24.04", &[Series { number: "6.8", suite: None, packages: UBUNTU, source: None }]),
];

/// The kernel of a distribution with `PREEMPT_RT`, on which only the module is tested.
const REALTIME: &[(&str, Series)] = &[
    (
        "debian 12",
        Series {
            number: "6.12-rt",
            suite: Some("bookworm-backports"),
            packages: DEBIAN_REALTIME,
            source: None,
        },
    ),
    ("debian 13", Series { number: "6.12-rt", suite: None, packages: DEBIAN_REALTIME, source: None }),
];

/// The kernels that this machine's distribution has.
///
/// # Errors
/// If it is none of those known.
pub fn series() -> Result<&'static [Series]> {
    ensure!(cfg!(target_arch = "x86_64"), "kernels are booted on x86-64 only");
    let name = this_distribution()?;
    let known = DISTRIBUTIONS.iter().find(|(known, _)| *known == name);
    let names: Vec<&str> = DISTRIBUTIONS.iter().map(|(name, _)| *name).collect();
    Ok(known.with_context(|| format!("no kernels are known for {name:?}, only for {}", names.join(", ")))?.1)
}

/// The kernel with `PREEMPT_RT` of this machine's distribution, if it has one.
///
/// # Errors
/// If the distribution cannot be read.
pub fn realtime() -> Result<Option<&'static Series>> {
    let name = this_distribution()?;
    Ok(REALTIME.iter().find(|(known, _)| *known == name).map(|(_, series)| series))
}

fn this_distribution() -> Result<String> {
    let text = std::fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
    Ok(distribution(&text))
}

/// `debian 12`.
fn distribution(os_release: &str) -> String {
    let field = |name: &str| {
        let value = os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_default().trim_matches('"')
    };
    format!("{} {}", field("ID"), field("VERSION_ID"))
}

/// A kernel at hand, unpacked.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// `6.12.95+deb12-cloud-amd64`.
    pub release: String,
    /// The folder that its packages were unpacked in.
    root: PathBuf,
}

impl Kernel {
    /// The kernel of `series`: the one that `cache` has, else the newest one that is packaged. To get a newer
    /// one, remove its folder.
    ///
    /// # Errors
    /// If there is none, and none can be had.
    pub fn of(series: &Series, cache: &Path) -> Result<Self> {
        let kernels = cache.join("kernels");
        std::fs::create_dir_all(&kernels).with_context(|| kernels.display().to_string())?;
        // Two runs at the same time get it once.
        let lock = std::fs::File::create(cache.join("lock")).context("making a lock")?;
        lock.lock().context("waiting for another run that gets kernels")?;
        match kept(&kernels, series)? {
            Some(root) => Self::open(root),
            None => Self::fetch(series, cache, &kernels)
                .with_context(|| format!("getting Linux {}", series.number)),
        }
    }

    /// The folder that its packages were unpacked in.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether it was built with `PREEMPT_RT`.
    pub(crate) fn is_realtime(&self) -> bool {
        self.release.contains("-rt-")
    }

    /// Image to boot.
    pub fn image(&self) -> PathBuf {
        self.root.join(format!("boot/vmlinuz-{}", self.release))
    }

    /// The folder of its modules, with `modules.dep` in it.
    pub fn modules(&self) -> PathBuf {
        self.root.join("lib/modules").join(&self.release)
    }

    /// Its configuration.
    pub fn configuration(&self) -> PathBuf {
        self.root.join(format!("boot/config-{}", self.release))
    }

    /// Headers to build modules with.
    pub fn headers(&self) -> PathBuf {
        self.root.join(format!("usr/src/linux-headers-{}", self.release))
    }

    /// The kernel in a folder that is laid out as packages are.
    ///
    /// # Errors
    /// If something of it is missing.
    pub(crate) fn open(root: PathBuf) -> Result<Self> {
        let releases =
            std::fs::read_dir(root.join("lib/modules")).context("looking for the kernel's modules")?;
        let names: Vec<String> = releases
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        let [release] = &names[..] else { bail!("not one kernel in {}, but {names:?}", root.display()) };
        let kernel = Self { release: release.clone(), root };
        for part in [kernel.image(), kernel.modules().join("modules.dep"), kernel.headers().join("Makefile")]
        {
            ensure!(part.is_file(), "{} is not there; remove {}", part.display(), kernel.root.display());
        }
        Ok(kernel)
    }

    /// Under its name there is a whole kernel or none.
    fn fetch(series: &Series, cache: &Path, kernels: &Path) -> Result<Self> {
        eprintln!("getting Linux {} from the distribution's packages", series.number);
        let apt = Apt::open(cache, series.suite)?;
        let packages = apt.kernel_packages(&series.packages)?;
        let version = packages.first().context("no packages")?.version.clone();
        let unfinished = tempfile::tempdir_in(kernels).context("making a folder for the kernel")?;
        apt.unpack(&packages, unfinished.path())?;
        prepare(unfinished.path())?;
        Self::open(unfinished.path().to_owned())?;
        let root = kernels.join(format!("{}-{version}", series.number));
        std::fs::rename(unfinished.keep(), &root).with_context(|| root.display().to_string())?;
        Self::open(root)
    }
}

/// The newest kernel of `series` that is kept, by its name.
fn kept(kernels: &Path, series: &Series) -> Result<Option<PathBuf>> {
    let start = format!("{}-", series.number);
    // A version is behind the number, not the rest of another series' number.
    let is_of_series = |name: &str| {
        name.strip_prefix(&start).is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(kernels).with_context(|| kernels.display().to_string())? {
        let path = entry.context("listing kernels")?.path();
        if path.file_name().is_some_and(|name| is_of_series(&name.to_string_lossy())) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found.pop())
}

/// Does what installing the packages would have done.
fn prepare(root: &Path) -> Result<()> {
    // If /lib is a link to /usr/lib.
    if !root.join("lib/modules").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib")).context("linking /lib")?;
    }
    let sources = root.join("usr/src");
    for entry in std::fs::read_dir(&sources).with_context(|| sources.display().to_string())? {
        let file = entry.context("listing headers")?.path().join("Makefile");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let moved = text.replace("include /usr/src/", "include $(dir $(lastword $(MAKEFILE_LIST)))../");
        if moved != text {
            std::fs::write(&file, moved).with_context(|| file.display().to_string())?;
        }
    }
    let modules = std::fs::read_dir(root.join("lib/modules")).context("the packages hold no modules")?;
    for release in modules {
        let release = release.context("listing modules")?.file_name();
        let depmod = crate::command::find("depmod").context("depmod is not installed (package kmod)")?;
        output(Command::new(depmod).arg("-b").arg(root).arg(release))
            .context("listing the modules' needs")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_known_by_name_and_version() {
        let text = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(distribution(text), "debian 12");
        assert_eq!(distribution("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n"), "ubuntu 24.04");
        assert_eq!(distribution(""), " ");
    }

    /// Promise: Guest kernels come from the distribution's packages, unpacked once and not installed.
    #[test]
    fn a_series_is_not_taken_for_another() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["6.1-6.1.176-1", "6.1-6.1.192-2", "6.12-6.12.95-1~bpo12+1", "6.12-rt-6.12.95-1~bpo12+1", ".tmpx"]
        {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let debian_12 = DISTRIBUTIONS[0].1;
        let names: Vec<String> = debian_12
            .iter()
            .chain([&REALTIME[0].1])
            .map(|series| kept(folder.path(), series).unwrap().unwrap())
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["6.12-6.12.95-1~bpo12+1", "6.1-6.1.192-2", "6.12-rt-6.12.95-1~bpo12+1"]);
        assert_eq!(kept(folder.path(), &DISTRIBUTIONS[2].1[0]).unwrap(), None);
    }

    /// Promise: Guest kernels come from the distribution's packages, unpacked once and not installed.
    #[test]
    fn headers_are_found_where_they_were_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("usr/src/a")).unwrap();
        std::fs::create_dir_all(root.join("usr/lib/modules")).unwrap();
        std::fs::write(root.join("usr/src/a/Makefile"), "include /usr/src/b/Makefile\n").unwrap();
        prepare(root).unwrap();
        let text = std::fs::read_to_string(root.join("usr/src/a/Makefile")).unwrap();
        assert_eq!(text, "include $(dir $(lastword $(MAKEFILE_LIST)))../b/Makefile\n");
        assert!(root.join("lib/modules").is_dir());
    }
}
