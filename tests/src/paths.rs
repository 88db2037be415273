//! The data paths that can be tried here.

use wirepath_datapath::{BlockPath, DataPath, SendContext};

/// All for streaming, those that need the kernel module only where it is loaded;
/// crates/datapath/tests/module.rs says aloud that it is not.
pub fn streams() -> impl Iterator<Item = DataPath> {
    let is_loaded = module_is_loaded();
    DataPath::ALL.into_iter().filter(move |path| is_loaded || !path.needs_module())
}

/// Paths of downloads.
pub fn blocks() -> impl Iterator<Item = BlockPath> {
    let is_loaded = module_is_loaded();
    BlockPath::ALL.into_iter().filter(move |path| is_loaded || !path.needs_module())
}

fn module_is_loaded() -> bool {
    SendContext::default().open_module().is_ok()
}
