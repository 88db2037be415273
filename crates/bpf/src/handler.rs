//! The handler of an object in user space, and the counts of both places.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rbpf::EbpfVmMbuff;
use wirepath_streams::{Common, HandlerError, Peek, Verdict};

use crate::place::Place;
use crate::program::HandlerObject;

/// Bytes of a record that a handler sees (`WIREPATH_SEES`), behind their number.
const SEES: usize = 128;
const NUMBER: usize = 4;

/// Value of a handler that drops a record (`WIREPATH_DROP`).
const DROP: u64 = 0;

thread_local! {
    /// Machines by the address of their program: they cannot change threads, as streams may.
    static MACHINES: RefCell<HashMap<*const u8, EbpfVmMbuff<'static>>> = RefCell::default();
}

/// Handler of an object file. Reports `passed` and `dropped` records of both places, and `in_kernel`, those
/// of them that the kernel handled.
pub struct BpfHandler {
    program: &'static [u8],
    /// `struct wirepath_record`.
    record: [u8; NUMBER + SEES],
    passed: u64,
    dropped: u64,
    place: Arc<Place>,
}

impl BpfHandler {
    /// The handler of an object, which reports what the kernel did in this place, too.
    ///
    /// # Errors
    /// Instructions that user space does not know.
    pub fn new(object: &HandlerObject, place: Arc<Place>) -> Result<BpfHandler, HandlerError> {
        // Machines borrow programs, which are few and live as long as the process.
        let program: &'static [u8] = Box::leak(object.program().to_vec().into_boxed_slice());
        EbpfVmMbuff::new(Some(program)).map_err(|error| failed("cannot run", error))?;
        Ok(BpfHandler { program, record: [0; NUMBER + SEES], passed: 0, dropped: 0, place })
    }
}

impl BpfHandler {
    fn execute(&self) -> Result<u64, HandlerError> {
        MACHINES.with_borrow_mut(|machines| {
            let machine = match machines.entry(self.program.as_ptr()) {
                Entry::Occupied(machine) => machine.into_mut(),
                Entry::Vacant(place) => {
                    let machine = EbpfVmMbuff::new(Some(self.program));
                    place.insert(machine.map_err(|error| failed("cannot run", error))?)
                }
            };
            machine.execute_program(&[], &self.record).map_err(|error| failed("failed", error))
        })
    }
}

fn failed(verb: &str, error: std::io::Error) -> HandlerError {
    HandlerError::Failed(format!("the handler {verb}: {error}"))
}

impl Common for BpfHandler {
    fn name(&self) -> &'static str {
        "bpf"
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        let counts = self.place.counts();
        let (passed, dropped) = (self.passed + counts.passed, self.dropped + counts.dropped);
        vec![("passed", passed), ("dropped", dropped), ("in_kernel", counts.passed + counts.dropped)]
    }
}

impl Peek for BpfHandler {
    fn length(&self) -> usize {
        SEES
    }

    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError> {
        let seen = head.len().min(SEES);
        self.record[..NUMBER].copy_from_slice(&(seen as u32).to_ne_bytes());
        self.record[NUMBER..][..seen].copy_from_slice(&head[..seen]);
        self.record[NUMBER + seen..].fill(0);
        match self.execute()? {
            DROP => {
                self.dropped += 1;
                Ok(Verdict::Drop)
            }
            _ => {
                self.passed += 1;
                Ok(Verdict::Pass)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A handler of these instructions, if they pass the checks.
    fn handler(program: &[u8]) -> Option<BpfHandler> {
        BpfHandler::new(&HandlerObject::of_program(program).ok()?, Arc::default()).ok()
    }

    /// Passes records whose first byte is at least 5: opcode, registers, offset and constant from the lowest bits up.
    const LEAST_5: [u64; 5] = [
        0x0000_0000_0004_1271, // r2 = byte 4 of r1, the first of the record
        0x0000_0001_0000_00b7, // r0 = 1
        0x0000_0005_0001_0235, // if r2 >= 5, skip one
        0x0000_0000_0000_00b7, // r0 = 0
        0x0000_0000_0000_0095, // exit
    ];

    fn bytes(program: &[u64]) -> Vec<u8> {
        program.iter().flat_map(|instruction| instruction.to_le_bytes()).collect()
    }

    #[test]
    fn a_program_decides_and_counts() {
        let mut handler = handler(&bytes(&LEAST_5)).unwrap();
        assert_eq!(handler.peek(&[5, 1]), Ok(Verdict::Pass));
        assert_eq!(handler.peek(&[4]), Ok(Verdict::Drop));
        assert_eq!(handler.peek(&[]), Ok(Verdict::Drop), "bytes behind the end are zero");
        assert_eq!(handler.peek(&[200; 500]), Ok(Verdict::Pass));
        assert_eq!(handler.report(), [("passed", 2), ("dropped", 2), ("in_kernel", 0)]);
    }

    proptest! {
        /// Promise: No object makes user space read beyond a record, or run for ever.
        #[test]
        fn any_program_ends(program in prop::collection::vec(any::<u64>(), 1..40), record in prop::collection::vec(any::<u8>(), 0..200)) {
            // Operations of the classes, behind which the rest of an instruction is any.
            let opcodes = [0x07, 0x0f, 0x61, 0x71, 0x79, 0x7b, 0x15, 0x2d, 0xb7, 0xbf, 0x18, 0x95, 0x3f, 0x6f];
            let mut program = program;
            for instruction in &mut program {
                let opcode = opcodes[(*instruction >> 8) as usize % opcodes.len()];
                *instruction = *instruction & !0xffff | (*instruction >> 16 & 0x0808) << 8 & 0x9900 | opcode;
            }
            program.push(0x95);
            if let Some(mut handler) = handler(&bytes(&program)) {
                // An error ends the stream; there is nothing else to tell of a program at random.
                handler.peek(&record).ok();
            }
        }
    }
}
