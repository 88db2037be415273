//! The papers' calls through the program: guests with the module, and with the one that counts copies.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::guests::BY_MODULE;
use super::{Numbered, Suite};
use crate::report::Report;
use crate::{module, workspace};

/// Path of the module that counts copies, in a guest.
pub(crate) const COPIES: &str = "/wirepath_copies.ko";

impl Suite {
    /// The tests of paths by the module on one kernel.
    pub(super) fn by_module(&self, kernel: &Numbered) -> Result<Report> {
        let sources = workspace::folder().join("kernel/copies");
        let copies = module::build(&sources, &kernel.1, &self.cache.join("build-copies"))?;
        let guest = self
            .guest(kernel, "paths")?
            .for_tests()?
            .module(&self.built(&kernel.1)?, "")?
            .file(&copies, Path::new(COPIES))?
            .script("copies", &format!("insmod {COPIES}"))?;
        let guest = self.add_netns(guest, &[vec![BY_MODULE.to_owned()]])?;
        self.boot(guest.size(1536, 1, Duration::from_secs(1200)))
    }
}
