//! Programs of this workspace that guests run.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Artifact, Message, MetadataCommand, Package};

use crate::command::Command;

/// The programs that guests run, built.
pub struct Programs {
    /// `wirepath`.
    pub wirepath: PathBuf,
    /// `wirepath-vm`, the guests' first process.
    pub machine: PathBuf,
    /// Tests in network namespaces.
    pub netns: PathBuf,
    /// Tests of the module: every test target of the workspace that is called `module`.
    pub module: Vec<Tests>,
}

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tests {
    /// The package that it belongs to: several packages call their tests the same.
    pub package: String,
    /// The program. Cargo gives each a file name of its own.
    pub file: PathBuf,
}

/// The workspace's folder.
pub fn folder() -> &'static Path {
    let member = Path::new(env!("CARGO_MANIFEST_DIR"));
    member.ancestors().nth(2).expect("this crate is two folders below")
}

/// Builds the programs that guests run, unless `tests/check` has built them.
///
/// # Errors
/// If it does not build.
pub fn build() -> Result<Programs> {
    let artifacts = match std::env::var_os(ARTIFACTS) {
        Some(file) => artifacts(BufReader::new(File::open(&file).context(ARTIFACTS)?))?,
        None => built()?,
    };
    programs(&artifacts)
}

/// The environment variable that names the file with cargo's messages of a whole build.
const ARTIFACTS: &str = "WIREPATH_ARTIFACTS";

fn artifacts(messages: impl BufRead) -> Result<Vec<Artifact>> {
    let mut artifacts = Vec::new();
    for message in Message::parse_stream(messages) {
        if let Message::CompilerArtifact(artifact) = message.context("reading what cargo says")? {
            artifacts.push(artifact);
        }
    }
    Ok(artifacts)
}

/// Builds what guests run, as a part of the workspace, so that what others built is used.
fn built() -> Result<Vec<Artifact>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args([
            "build",
            "--workspace",
            "--bin=wirepath",
            "--bin=wirepath-vm",
            "--test=netns",
            "--test=module",
            "--locked",
            "--message-format=json-render-diagnostics",
        ])
        .current_dir(folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let artifacts = artifacts(BufReader::new(child.stdout.take().context("no standard output")?))?;
    ensure!(child.wait().context("waiting for cargo")?.success(), "the workspace does not build");
    Ok(artifacts)
}

fn programs(artifacts: &[Artifact]) -> Result<Programs> {
    let packages = packages()?;
    let one = |name: &str, kind: &str| {
        let [program]: [Tests; 1] = called(artifacts, &packages, name, kind)
            .try_into()
            .map_err(|found| anyhow::anyhow!("not one {kind} is called {name}, but {found:?}"))?;
        anyhow::Ok(program.file)
    };
    let module = called(artifacts, &packages, "module", "test");
    ensure!(!module.is_empty(), "the workspace has no tests of the module");
    Ok(Programs {
        wirepath: one("wirepath", "bin")?,
        machine: one("wirepath-vm", "bin")?,
        netns: one("netns", "test")?,
        module,
    })
}

fn packages() -> Result<Vec<Package>> {
    let locked = ["--locked".to_owned()];
    let asked = MetadataCommand::new().no_deps().current_dir(folder()).other_options(locked).exec();
    Ok(asked.context("asking cargo for the workspace's packages")?.packages)
}

/// The programs of this name and kind.
fn called(artifacts: &[Artifact], packages: &[Package], name: &str, kind: &str) -> Vec<Tests> {
    let wanted = |artifact: &&Artifact| {
        // The unit tests of a program have its name, too.
        let is_test = kind == "test";
        artifact.target.name == name
            && artifact.target.kind.iter().any(|one| one.to_string() == kind)
            && artifact.profile.test == is_test
    };
    let program = |artifact: &Artifact| {
        let package = packages.iter().find(|package| package.id == artifact.package_id)?;
        let file = artifact.executable.clone()?.into();
        Some(Tests { package: package.name.to_string(), file })
    };
    artifacts.iter().filter(wanted).filter_map(program).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(package: &str, name: &str, kind: &str, is_test: bool) -> Artifact {
        let folder = format!("/w/{package}");
        let artifact = serde_json::json!({
            "package_id": format!("path+file://{folder}#0.1.0"),
            "manifest_path": format!("{folder}/Cargo.toml"),
            "target": {
                "kind": [kind], "crate_types": ["bin"], "name": name, "src_path": format!("{folder}/main.rs"),
                "edition": "2024", "doc": false, "doctest": false, "test": true,
            },
            "profile": {
                "opt_level": "0", "debuginfo": 2, "debug_assertions": true, "overflow_checks": true, "test": is_test,
            },
            "features": [],
            "filenames": [],
            "executable": format!("/w/target/debug/deps/{name}-{package}"),
            "fresh": true,
        });
        serde_json::from_value(artifact).unwrap()
    }

    fn package(name: &str) -> Package {
        let package = serde_json::json!({
            "name": format!("wirepath-{name}"), "version": "0.1.0", "id": format!("path+file:///w/{name}#0.1.0"),
            "dependencies": [], "targets": [], "features": {}, "manifest_path": format!("/w/{name}/Cargo.toml"),
        });
        serde_json::from_value(package).unwrap()
    }

    /// Promise: Module tests with the same name all run; no file of a guest replaces another.
    #[test]
    fn tests_of_one_name_are_all_run_and_told_apart_by_their_packages() {
        let artifacts = [
            artifact("datapath", "module", "test", true),
            artifact("model", "module", "test", true),
            artifact("datapath", "other", "test", true),
            artifact("command", "module", "bin", false),
            // The unit tests of a program called so.
            artifact("command", "module", "bin", true),
        ];
        let packages = ["datapath", "model", "command"].map(package);
        let found = called(&artifacts, &packages, "module", "test");
        let names: Vec<(&str, &str)> =
            found.iter().map(|one| (one.package.as_str(), one.file.to_str().unwrap())).collect();
        assert_eq!(
            names,
            [
                ("wirepath-datapath", "/w/target/debug/deps/module-datapath"),
                ("wirepath-model", "/w/target/debug/deps/module-model"),
            ]
        );
    }

    #[test]
    fn the_tests_of_a_program_are_not_the_program() {
        let artifacts = [artifact("a", "a", "bin", true), artifact("a", "a", "bin", false)];
        let found = called(&artifacts, &[package("a")], "a", "bin");
        assert_eq!(found.len(), 1);
    }
}
