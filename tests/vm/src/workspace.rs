//! What this workspace builds, as far as guests run it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Artifact, Message};

use crate::command::Command;

/// The programs that guests run, built.
pub struct Programs {
    /// `wirepath`.
    pub wirepath: PathBuf,
    /// `wirepath-vm`, the guests' first process.
    pub machine: PathBuf,
    /// Tests in network namespaces.
    pub netns: PathBuf,
    /// Tests of the module.
    pub module: Option<PathBuf>,
}

/// The workspace's folder.
pub fn folder() -> &'static Path {
    let member = Path::new(env!("CARGO_MANIFEST_DIR"));
    member.ancestors().nth(2).expect("this crate is two folders below")
}

/// Builds what the other checks build, in the same way, so that it is built once.
///
/// # Errors
/// If it does not build.
pub fn build() -> Result<Programs> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args([
            "build",
            "--workspace",
            "--bins",
            "--tests",
            "--locked",
            "--message-format=json-render-diagnostics",
        ])
        .current_dir(folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let messages = std::io::BufReader::new(child.stdout.take().context("no standard output")?);
    let mut artifacts = Vec::new();
    for message in Message::parse_stream(messages) {
        if let Message::CompilerArtifact(artifact) = message.context("reading what cargo says")? {
            artifacts.push(artifact);
        }
    }
    ensure!(child.wait().context("waiting for cargo")?.success(), "the workspace does not build");
    let one = |name: &str, kind: &str| {
        let found = programs(&artifacts, name, kind).into_iter().next();
        found.with_context(|| format!("the workspace has no {kind} {name}"))
    };
    Ok(Programs {
        wirepath: one("wirepath", "bin")?,
        machine: one("wirepath-vm", "bin")?,
        netns: one("netns", "test")?,
        module: programs(&artifacts, "module", "test").into_iter().next(),
    })
}

/// Compares the module's calls with a model, and is run by hand until the faults are mended that it found (docs/module.md).
const FAULTY: &str = "/tests/module/";

fn programs(artifacts: &[Artifact], name: &str, kind: &str) -> Vec<PathBuf> {
    let wanted = |artifact: &&Artifact| {
        // The unit tests of a program have its name, too.
        let is_test = kind == "test";
        artifact.target.name == name
            && !artifact.target.src_path.as_str().contains(FAULTY)
            && artifact.target.kind.iter().any(|one| one.to_string() == kind)
            && artifact.profile.test == is_test
    };
    let path = |artifact: &Artifact| artifact.executable.clone().map(PathBuf::from);
    artifacts.iter().filter(wanted).filter_map(path).collect()
}
