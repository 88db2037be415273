//! Distribution packages: found, downloaded and unpacked by apt and dpkg, without root and without installing
//! any.
//!
//! Lists and archives are kept in a folder of ours, so that the machine's own configuration of apt stays as
//! it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{Command, output};

/// Source of packages.
pub(crate) struct Apt {
    folder: PathBuf,
    /// In place of the machine's own sources.
    sources: Option<PathBuf>,
}

impl Apt {
    /// The machine's own sources, or `suite` from the same servers, as packages are listed there now.
    ///
    /// # Errors
    /// If apt cannot be run, has no source, or does not reach it.
    pub(crate) fn open(cache: &Path, suite: Option<&str>) -> Result<Self> {
        let folder = cache.join("apt").join(suite.unwrap_or("own"));
        for part in ["lists/partial", "archives/partial"] {
            std::fs::create_dir_all(folder.join(part)).with_context(|| folder.display().to_string())?;
        }
        let mut apt = Self { folder, sources: None };
        if let Some(suite) = suite {
            // Only what has been listed has a server.
            let own = Self::open(cache, None)?;
            let targets = output(own.command("apt-get").args(["indextargets", "Created-By: Packages"]))?;
            let file = apt.folder.join("sources.list");
            std::fs::write(&file, sources_of(&targets, suite)?)
                .with_context(|| file.display().to_string())?;
            apt.sources = Some(file);
        }
        output(apt.command("apt-get").arg("update")).context("listing packages")?;
        Ok(apt)
    }

    /// The named packages and those among what they depend on that belong to a kernel, as `name=version`.
    ///
    /// # Errors
    /// If one is not there.
    pub(crate) fn kernel_packages(&self, names: &[&str]) -> Result<Vec<Package>> {
        let mut todo: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        while let Some(name) = todo.pop() {
            if seen.insert(name.clone()) {
                let text = output(self.command("apt-cache").args(["show", "--no-all-versions", &name]))?;
                let package = Package::read(&text).with_context(|| format!("what apt says of {name}"))?;
                todo.extend(package.depends.iter().filter(|name| is_of_a_kernel(name)).cloned());
                found.push(package);
            }
        }
        Ok(found)
    }

    /// Downloads packages and unpacks them into `root`.
    ///
    /// # Errors
    /// If one cannot be had or is damaged.
    pub(crate) fn unpack(&self, packages: &[Package], root: &Path) -> Result<()> {
        let folder = tempfile::tempdir_in(&self.folder).context("making a folder for packages")?;
        let names = packages.iter().map(|package| format!("{}={}", package.name, package.version));
        output(self.command("apt-get").arg("download").args(names).current_dir(folder.path()))
            .context("downloading packages")?;
        let files = std::fs::read_dir(folder.path()).context("listing what was downloaded")?;
        let files: Vec<PathBuf> = files.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        ensure!(files.len() == packages.len(), "{} of {} packages came", files.len(), packages.len());
        for file in files {
            output(Command::new("dpkg-deb").arg("-x").arg(file).arg(root)).context("unpacking a package")?;
        }
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let folder = self.folder.display();
        for option in [
            format!("Dir::State::lists={folder}/lists"),
            format!("Dir::Cache={folder}"),
            // Its own user may not write into this folder.
            "APT::Sandbox::User=root".to_owned(),
            // A list that cannot be had is an error, not an old list.
            "APT::Update::Error-Mode=any".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        if let Some(file) = &self.sources {
            command.args(["-o", &format!("Dir::Etc::sourcelist={}", file.display())]);
            command.args(["-o", "Dir::Etc::sourceparts=-"]);
        }
        command
    }
}

/// Lines for `suite` from each server that has the distribution itself: the first index of `main`.
fn sources_of(targets: &str, suite: &str) -> Result<String> {
    let release = suite.split('-').next().unwrap_or(suite);
    let mut lines = BTreeSet::new();
    for target in targets.split("\n\n") {
        let field = |name: &str| {
            target.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::trim))
        };
        if field("Codename") == Some(release) && field("Component") == Some("main") {
            let server = field("Site").context("apt names no server")?;
            let key = field("Signed-By").map(|key| format!("[signed-by={key}] ")).unwrap_or_default();
            lines.insert(format!("deb {key}{server} {suite} main\n"));
        }
    }
    if lines.is_empty() {
        bail!("apt has no source of {release}");
    }
    Ok(lines.into_iter().collect())
}

/// A package as apt describes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    depends: Vec<String>,
}

impl Package {
    fn read(text: &str) -> Result<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::trim))
        };
        let first_choice = |dependency: &str| dependency.split_whitespace().next().map(str::to_owned);
        Ok(Self {
            name: field("Package").context("no Package")?.to_owned(),
            version: field("Version").context("no Version")?.to_owned(),
            depends: field("Depends").unwrap_or_default().split(',').filter_map(first_choice).collect(),
        })
    }
}

/// Image, modules, headers, and the programs that build modules.
fn is_of_a_kernel(name: &str) -> bool {
    ["linux-image-", "linux-modules-", "linux-headers-", "linux-kbuild-"]
        .iter()
        .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Guest kernels come from the distribution's packages, unpacked once and not installed.
    #[test]
    fn a_suite_comes_from_the_server_of_its_distribution() {
        let target = |site: &str, codename: &str, component: &str| {
            format!("Site: {site}\nCodename: {codename}\nComponent: {component}\nTarget-Of: deb")
        };
        let targets = [
            target("http://one/debian", "bookworm", "main"),
            target("http://one/debian", "bookworm", "contrib"),
            target("http://one/security", "bookworm-security", "main"),
            target("http://other/tool", "stable", "main"),
        ];
        let sources = sources_of(&targets.join("\n\n"), "bookworm-backports").unwrap();
        assert_eq!(sources, "deb http://one/debian bookworm-backports main\n");
        assert!(sources_of(&targets[3], "bookworm-backports").is_err());
    }

    #[test]
    fn the_key_of_the_distribution_is_asked_for() {
        let target = "Site: http://one/debian\nCodename: trixie\nComponent: main\nSigned-By: /keys/a.gpg\n";
        assert_eq!(
            sources_of(target, "trixie-backports").unwrap(),
            "deb [signed-by=/keys/a.gpg] http://one/debian trixie-backports main\n"
        );
    }

    #[test]
    fn what_a_package_needs_is_read() {
        let text = "Package: linux-headers-a\nVersion: 6.12.95-1~bpo12+1\nDepends: linux-base (>= 4), \
                    linux-headers-common (= 6), linux-image-a (= 6) | linux-image-a-unsigned (= 6), gcc-12\nSize: 1\n";
        let package = Package::read(text).unwrap();
        let of_a_kernel: Vec<_> = package.depends.iter().filter(|name| is_of_a_kernel(name)).collect();
        assert_eq!(of_a_kernel, ["linux-headers-common", "linux-image-a"]);
        assert_eq!(package.version, "6.12.95-1~bpo12+1");
        assert!(Package::read("").is_err());
    }
}
