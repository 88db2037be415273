//! The papers' calls through the program: guests with the module, and with the one that counts copies.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Numbered, Suite, TOOLS, clips};
use crate::module;
use crate::report::Report;
use crate::workspace::folder;

/// Where the module that counts copies is in a guest.
pub(crate) const COPIES: &str = "/wirepath_copies.ko";

/// Tests in network namespaces that want the module.
const TESTS: &str = "by_the_module::";

impl Suite {
    /// The tests of paths by the module on one kernel.
    pub(super) fn by_module(&self, kernel: &Numbered) -> Result<Report> {
        let module = module::build(&folder().join("kernel/module"), &kernel.1, &self.cache.join("build"))?;
        let copies =
            module::build(&folder().join("kernel/copies"), &kernel.1, &self.cache.join("build-copies"))?;
        let mut guest = self
            .guest(kernel, "by the module")?
            .tools(TOOLS)?
            .module(&module, "")?
            .file(&copies, Path::new(COPIES))?
            .script("copies", &format!("insmod {COPIES}"))?
            .file(&self.programs.wirepath, &Path::new("/project").join("target/debug/wirepath"))?
            .program(
                "netns",
                &self.programs.netns,
                Path::new("/project/target/debug/deps/netns"),
                &[TESTS.to_owned()],
            )?
            .size(1536, 1, Duration::from_secs(1200));
        for clip in clips()? {
            let name = clip.file_name().context("a clip without a name")?.to_owned();
            guest = guest.file(&clip, &Path::new("/project/target/clips").join(name))?;
        }
        self.boot(guest)
    }
}
