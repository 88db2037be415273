//! The kernel module's device as a sending thread has it.

use wirepath_sys::module::{Module, OpenError};

use crate::error::SendError;

/// The kernel module's device, opened when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct ModuleDevice(Option<Module>);

impl ModuleDevice {
    /// Opens it, if it is not open.
    pub(crate) fn open(&mut self) -> Result<&Module, OpenError> {
        if self.0.is_none() {
            self.0 = Some(Module::open()?);
        }
        self.0.as_ref().ok_or(OpenError::Missing)
    }

    /// As [`ModuleDevice::open`], for a path that is about to send.
    #[inline]
    pub(crate) fn module(&mut self) -> Result<&Module, SendError> {
        let failed =
            |error: OpenError| SendError::Unsupported { call: "open(/dev/wirepath)", errno: error.errno() };
        self.open().map_err(failed)
    }
}
