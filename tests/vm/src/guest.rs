//! A guest: what is in it, and its way from start to end.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cpio::Archive;
use crate::drivers;
use crate::init;
use crate::kernels::Kernel;
use crate::libraries;
use crate::plan::{self, Module, Plan, Program};
use crate::progress::Progress;
use crate::qemu::{self, Machine, Qemu};
use crate::report::Report;

/// Modules that others find by the name of an algorithm, so that `modules.dep` does not name them: libcrc32c,
/// and so ext4 and xfs, need this one in kernels that do not have it built in.
const ALGORITHMS: &[&str] = &["crc32c_generic"];

/// Modules that every guest loads: network devices and the disk.
const DRIVERS: &[&str] = &["virtio_pci", "virtio_blk", "ext4", "dummy", "veth", "ifb", "loop"];

/// More file systems to send from.
const FILE_SYSTEMS: &[&str] = &["xfs", "overlay", "fuse"];

/// Tools that tests call.
const TOOLS: &[&str] = &[
    "tc", "ethtool", "mke2fs", "mkfs.xfs", "losetup", "mount", "umount", "unshare", "setpriv", "nft", "ping",
    "timeout",
];

/// The disk's size; what is not written takes no room on the host.
const DISK_MEBIBYTES: u32 = 1024;

/// A guest that is being put together.
pub struct Guest {
    name: String,
    kernel: Kernel,
    archive: Archive,
    plan: Plan,
    memory: u32,
    processors: u32,
    limit: Duration,
    options: String,
    prints_progress: bool,
}

impl Guest {
    /// A guest with nothing in it but its first process: `machine`, this crate's program. Its logs will have
    /// its name.
    ///
    /// # Errors
    /// If the kernel or the program cannot be read.
    pub fn new(name: &str, kernel: &Kernel, machine: &Path) -> Result<Self> {
        let mut archive = Archive::default();
        for folder in ["/proc", "/sys", "/dev", "/tmp", "/run", "/disk", "/etc", "/var"] {
            archive.folder(folder)?;
        }
        archive.file(
            "/etc/passwd",
            *b"root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n",
        )?;
        archive.file("/etc/group", *b"root:x:0:\nnogroup:x:65534:\n")?;
        archive.file("/etc/hosts", *b"127.0.0.1 localhost\n::1 localhost\n")?;
        libraries::add_program(&mut archive, machine, Path::new(init::NAME))?;
        libraries::add_tool(&mut archive, "ip")?;
        let names = [&drivers::known(kernel, ALGORITHMS)?, DRIVERS].concat();
        let drivers = drivers::add(&mut archive, kernel, &names)?;
        let plan = Plan { drivers, ..Plan::default() };
        let limit = Duration::from_secs(300);
        Ok(Self {
            name: name.to_owned(),
            kernel: kernel.clone(),
            archive,
            plan,
            memory: 512,
            processors: 1,
            limit,
            options: String::new(),
            prints_progress: false,
        })
    }

    /// Loads more of the distribution's modules.
    ///
    /// # Errors
    /// If the kernel has none of such a name.
    pub fn drivers(mut self, names: &[&str]) -> Result<Self> {
        let files = drivers::add(&mut self.archive, &self.kernel, names)?;
        let new: Vec<PathBuf> = files.into_iter().filter(|file| !self.plan.drivers.contains(file)).collect();
        self.plan.drivers.extend(new);
        Ok(self)
    }

    /// Loads those of the distribution's modules that the kernel has: tests skip what they find missing.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn drivers_if_there(self, names: &[&str]) -> Result<Self> {
        let known = drivers::known(&self.kernel, names)?;
        self.drivers(&known)
    }

    /// Loads a module of our own before the programs run, and unloads it after them.
    ///
    /// # Errors
    /// If it is no module.
    pub fn module(mut self, file: &Path, parameters: &str) -> Result<Self> {
        let name = drivers::name_of(file)?;
        let path = PathBuf::from(format!("/{name}.ko"));
        self.archive.file(&path, std::fs::read(file).with_context(|| file.display().to_string())?)?;
        self.plan.module = Some(Module { file: path, name, parameters: parameters.to_owned() });
        Ok(self)
    }

    /// Makes what was planned so far a rehearsal, after which the module is unloaded and loaded again: when
    /// all is done, the kernel must not keep more memory than after the rehearsal.
    #[must_use]
    pub fn rehearse(mut self) -> Self {
        self.plan.rehearsal.append(&mut self.plan.programs);
        self
    }

    /// Adds file systems to send from, the shell's tools, and those that tests call, where they are
    /// installed.
    ///
    /// # Errors
    /// If the kernel has not these file systems, busybox is not installed, or a tool is there and cannot be
    /// read.
    pub fn for_tests(mut self) -> Result<Self> {
        for name in TOOLS {
            libraries::add_tool(&mut self.archive, name)?;
        }
        self.shell_tools()?.drivers(FILE_SYSTEMS)
    }

    /// Sets an environment variable of all programs.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.plan.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Tells the kernel more at its start (Documentation/admin-guide/kernel-parameters.rst).
    #[must_use]
    pub fn options(mut self, options: &str) -> Self {
        self.options = options.to_owned();
        self
    }

    /// Runs a program of this machine.
    ///
    /// # Errors
    /// If it or one of its libraries cannot be read.
    pub fn program(mut self, name: &str, program: &Path, path: &Path, arguments: &[String]) -> Result<Self> {
        libraries::add_program(&mut self.archive, program, path)?;
        let arguments = arguments.to_vec();
        self.plan.programs.push(Program { name: name.to_owned(), file: path.to_owned(), arguments });
        Ok(self)
    }

    /// Runs a line of the guest's shell.
    ///
    /// # Errors
    /// If busybox is not installed.
    pub fn script(mut self, name: &str, line: &str) -> Result<Self> {
        self = self.shell_tools()?;
        let arguments = vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()];
        self.plan.programs.push(Program { name: name.to_owned(), file: "/bin/busybox".into(), arguments });
        Ok(self)
    }

    /// Adds a program that others start, or data that they read.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn file(mut self, file: &Path, path: &Path) -> Result<Self> {
        let content = std::fs::read(file).with_context(|| file.display().to_string())?;
        // Modules and eBPF objects are for the kernel.
        let is_object = path.extension().is_some_and(|ending| ending == "ko" || ending == "o");
        if content.starts_with(b"\x7fELF") && !is_object {
            libraries::add_program(&mut self.archive, file, path)?;
        } else {
            self.archive.file(path, content)?;
        }
        Ok(self)
    }

    /// Gives it memory, in MiB, and processors, and ends it when it hangs.
    #[must_use]
    pub fn size(mut self, memory: u32, processors: u32, limit: Duration) -> Self {
        (self.memory, self.processors, self.limit) = (memory, processors, limit);
        self
    }

    /// Prints each of its tests when it ends.
    #[must_use]
    pub fn printing_progress(mut self) -> Self {
        self.prints_progress = true;
        self
    }

    /// Boots it and answers what came of it. Its logs are kept in `logs`.
    ///
    /// # Errors
    /// If QEMU cannot be run. What goes wrong in the guest is in the report.
    pub fn boot(self, qemu: &Qemu, logs: &Path) -> Result<Report> {
        std::fs::create_dir_all(logs).with_context(|| logs.display().to_string())?;
        let console = logs.join(format!("{}.kernel.log", self.name));
        let report = logs.join(format!("{}.tests.log", self.name));
        // Not that of an earlier guest.
        std::fs::remove_file(&report).or_else(is_missing).with_context(|| report.display().to_string())?;
        let ended = self.run(qemu, Some(&console), &report)?;
        let read = |path: &Path| match std::fs::read(path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).replace('\r', "")),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        };
        Ok(Report::new(&self.name, &read(&report)?, &read(&console)?, &ended))
    }

    /// Boots it with a shell on this terminal.
    ///
    /// # Errors
    /// If QEMU cannot be run.
    pub fn shell(self, qemu: &Qemu) -> Result<()> {
        let mut guest = self.shell_tools()?;
        guest.plan.shell = true;
        guest.run(qemu, None, Path::new("/dev/null")).map(drop)
    }

    fn shell_tools(mut self) -> Result<Self> {
        let busybox =
            crate::command::find("busybox").context("busybox is not installed (package busybox-static)")?;
        libraries::add_program(&mut self.archive, &busybox, Path::new("/bin/busybox"))?;
        Ok(self)
    }

    /// Runs it to its end, and says how QEMU ended.
    fn run(&self, qemu: &Qemu, console: Option<&Path>, report: &Path) -> Result<String> {
        let folder = tempfile::tempdir().context("making a temporary folder")?;
        let disk = qemu::disk(folder.path(), DISK_MEBIBYTES)?;
        let image = folder.path().join("archive");
        self.write(&image).context("writing the guest's first file system")?;
        let machine = Machine {
            kernel: &self.kernel.image(),
            options: &self.options,
            archive: &image,
            disk: &disk,
            console,
            report,
            memory: self.memory,
            processors: self.processors,
            limit: self.limit,
        };
        let mut command = qemu.command(&machine);
        if console.is_some() {
            command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        }
        let child = command.spawn().context("cannot run QEMU (setpriv, timeout)")?;
        let done = std::thread::scope(|scope| {
            let (_ends_with_the_guest, end) = mpsc::channel();
            if self.prints_progress {
                scope.spawn(move || Progress::new(&self.name).follow(report, &end));
            }
            child.wait_with_output().context("waiting for QEMU")
        })?;
        let complaint = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Ok(match done.status.code() {
            Some(0) => String::new(),
            Some(124) => format!("it was still running after {} s", self.limit.as_secs()),
            _ => format!("QEMU ended with {}: {complaint}", done.status),
        })
    }

    fn write(&self, image: &Path) -> Result<()> {
        let plan = serde_json::to_vec(&self.plan).context("writing the plan")?;
        let mut plan_only = Archive::default();
        plan_only.file(plan::FILE, plan)?;
        // The kernel reads archives one after another.
        let mut out = io::BufWriter::new(File::create(image)?);
        self.archive.write(&mut out)?;
        plan_only.write(&mut out)?;
        Ok(())
    }
}

fn is_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Folder of guests' logs in the cache folder.
pub fn logs(cache: &Path) -> PathBuf {
    cache.join("logs")
}
