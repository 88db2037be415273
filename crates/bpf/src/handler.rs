//! The handler of an object in user space, and the counts of both places.

use std::any::Any;
use std::sync::Arc;

use wirepath_streams::{Common, HandlerError, Peek, Verdict};

use crate::place::Place;
use crate::program::HandlerObject;

/// Bytes of a record that a handler sees (`WIREPATH_SEES`). The number of these bytes precedes them.
const SEES: usize = 128;
const NUMBER: usize = 4;

/// Value of a handler that drops a record (`WIREPATH_DROP`).
const DROP: u32 = 0;

/// Handler of an object file. Reports `passed` and `dropped` records of both places, and `in_kernel`, those
/// of them that the kernel handled.
pub struct BpfHandler {
    object: HandlerObject,
    /// `struct wirepath_record`.
    record: [u8; NUMBER + SEES],
    passed: u64,
    dropped: u64,
    place: Arc<Place>,
}

impl BpfHandler {
    /// The handler of an object, which reports what the kernel did in this place, too.
    pub fn new(object: &HandlerObject, place: Arc<Place>) -> BpfHandler {
        let object = object.clone();
        BpfHandler { object, record: [0; NUMBER + SEES], passed: 0, dropped: 0, place }
    }

    /// Object of the handler.
    pub fn object(&self) -> &HandlerObject {
        &self.object
    }

    /// Place of the handler.
    pub fn place(&self) -> &Arc<Place> {
        &self.place
    }
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

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
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
        let value = self.object.program().run(&self.record);
        // The value is an `int`: compilers leave anything in the upper half of its register.
        match value.map_err(|fault| HandlerError::Failed(fault.to_string()))? as u32 {
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

    /// A handler of these instructions, if they pass the checks.
    fn handler(program: &[u8]) -> Option<BpfHandler> {
        Some(BpfHandler::new(&HandlerObject::from_instructions(program).ok()?, Arc::default()))
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
    fn the_upper_half_of_a_value_does_not_count() {
        // r0 = 1 << 32; exit
        let program = [0x0000_0000_0000_0018, 0x0000_0001_0000_0000, 0x0000_0000_0000_0095];
        assert_eq!(handler(&bytes(&program)).unwrap().peek(&[5]), Ok(Verdict::Drop));
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
}
