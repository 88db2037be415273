//! The Debian package, of the programs that these tests run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use wirepath_tests::process::find;
use wirepath_tests::{require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![a_package_has_programs_pages_completions_and_the_unit, the_service_is_confined]
}

/// Promise: The exposure of the systemd service is at most 2.0 by `systemd-analyze security`.
fn the_service_is_confined() -> Result<()> {
    require!(find("systemd-analyze").is_some(), "systemd-analyze is not installed");
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/wirepath.service");
    let analyze = |threshold: &str| {
        let mut command = Command::new("systemd-analyze");
        command.args(["--no-pager", "security", "--offline=true", threshold, unit]);
        command.output().context("systemd-analyze")
    };
    let output = analyze("--threshold=20")?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    require!(!error.contains("unrecognized option"), "systemd-analyze is older than version 250");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && table.contains("Overall exposure level"), "{error}{table}");
    // The exit code tells.
    ensure!(!analyze("--threshold=0")?.status.success(), "an exposure of 0.0 was accepted");
    Ok(())
}

/// Promise: `make deb` makes a Debian package of the programs, the service, man pages and completions.
fn a_package_has_programs_pages_completions_and_the_unit() -> Result<()> {
    for tool in ["dpkg-deb", "gzip", "strip", "zstd"] {
        require!(find(tool).is_some(), "`{tool}` is not installed");
    }
    let programs = server::binary()?.parent().context("a folder")?.to_owned();
    for program in ["wirepath-images", "wirepath-records"] {
        require!(programs.join(program).exists(), "{program} is not built");
    }
    let home = tempfile::tempdir()?;
    let package = made_of(&programs, home.path())?;
    let control = text(Command::new("dpkg-deb").arg("--field").arg(&package))?;
    ensure!(control.contains("Package: wirepath") && control.contains("libc6 (>="), "{control}");

    let root = home.path().join("root");
    text(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root))?;
    text(Command::new("dpkg-deb").arg("--control").arg(&package).arg(root.join("DEBIAN")))?;
    let share = root.join("usr/share");
    for (program, about) in [
        ("wirepath", "Serves stored media"),
        ("wirepath-images", "Serves stored pictures"),
        ("wirepath-records", "Serves Arrow records"),
    ] {
        let version = text(Command::new(root.join("usr/bin").join(program)).arg("--version"))?;
        let commit = version.strip_prefix(&format!("{program} {} (", env!("CARGO_PKG_VERSION")));
        ensure!(commit.is_some_and(|commit| commit.ends_with(")\n")), "{version}");
        let page = share.join(format!("man/man1/{program}.1.gz"));
        let page = text(Command::new("gzip").arg("-dc").arg(page))?;
        ensure!(page.starts_with(".ie") && page.contains("SYNOPSIS"), "no man page: {page}");
        ensure!(page.contains(about), "{page}");
        text(Command::new("bash").arg("-n").arg(share.join("bash-completion/completions").join(program)))?;
        for file in [
            format!("zsh/vendor-completions/_{program}"),
            format!("fish/vendor_completions.d/{program}.fish"),
        ] {
            ensure!(std::fs::read_to_string(share.join(&file))?.contains(program), "{file}");
        }
    }
    let unit = std::fs::read_to_string(root.join("usr/lib/systemd/system/wirepath.service"))?;
    ensure!(
        unit.contains("ExecStart=/usr/bin/wirepath serve --config /etc/wirepath/wirepath.toml"),
        "{unit}"
    );
    for name in ["rtsp", "http"] {
        let unit = root.join(format!("usr/lib/systemd/system/wirepath-{name}.socket"));
        ensure!(std::fs::read_to_string(unit)?.contains(&format!("FileDescriptorName={name}")));
    }
    ensure!(std::fs::read_to_string(root.join("DEBIAN/conffiles"))? == "/etc/wirepath/wirepath.toml\n");
    let page = text(Command::new("gzip").arg("-dc").arg(share.join("man/man1/wirepath-serve.1.gz")))?;
    ensure!(page.contains("burst"), "no man page: {page}");
    for script in ["postinst", "prerm", "postrm"] {
        text(Command::new("sh").arg("-n").arg(root.join("DEBIAN").join(script)))?;
    }
    Ok(())
}

/// Makes the package and returns its place.
fn made_of(programs: &Path, home: &Path) -> Result<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/deb.sh");
    let said = text(Command::new(script).arg(programs).arg(home.join("deb")))?;
    let package = PathBuf::from(said.trim_end());
    ensure!(package.is_file(), "no package at {said}");
    Ok(package)
}

/// Standard output of a command that succeeds.
fn text(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
