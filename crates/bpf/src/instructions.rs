//! Instructions of a handler (RFC 9669), those of `-mcpu=v3` without calls, atomics and backward jumps: such a
//! program ends, and all that can fail when it runs is access to memory.

use std::sync::Arc;

/// Bytes of an instruction, and most of a program (RFC 9669, section 3; the kernel's limit for programs
/// without privileges).
const BYTES: usize = 8;
const MOST: usize = 4096;

/// Classes (section 3.2).
pub(crate) const LD: u8 = 0x00;
pub(crate) const LDX: u8 = 0x01;
pub(crate) const ST: u8 = 0x02;
pub(crate) const STX: u8 = 0x03;
pub(crate) const ALU: u8 = 0x04;
pub(crate) const JMP: u8 = 0x05;
pub(crate) const JMP32: u8 = 0x06;
pub(crate) const ALU64: u8 = 0x07;

/// Operations of arithmetic (section 4.1).
pub(crate) const ADD: u8 = 0x00;
pub(crate) const SUB: u8 = 0x10;
pub(crate) const MUL: u8 = 0x20;
pub(crate) const DIV: u8 = 0x30;
pub(crate) const OR: u8 = 0x40;
pub(crate) const AND: u8 = 0x50;
pub(crate) const LSH: u8 = 0x60;
pub(crate) const RSH: u8 = 0x70;
pub(crate) const NEG: u8 = 0x80;
pub(crate) const MOD: u8 = 0x90;
pub(crate) const XOR: u8 = 0xa0;
pub(crate) const MOV: u8 = 0xb0;
pub(crate) const ARSH: u8 = 0xc0;
pub(crate) const END: u8 = 0xd0;

/// Operations of jumps (section 4.3).
pub(crate) const JA: u8 = 0x00;
pub(crate) const JEQ: u8 = 0x10;
pub(crate) const JGT: u8 = 0x20;
pub(crate) const JGE: u8 = 0x30;
pub(crate) const JSET: u8 = 0x40;
pub(crate) const JNE: u8 = 0x50;
pub(crate) const JSGT: u8 = 0x60;
pub(crate) const JSGE: u8 = 0x70;
pub(crate) const CALL: u8 = 0x80;
pub(crate) const EXIT: u8 = 0x90;
pub(crate) const JLT: u8 = 0xa0;
pub(crate) const JLE: u8 = 0xb0;
pub(crate) const JSLT: u8 = 0xc0;
pub(crate) const JSLE: u8 = 0xd0;

/// Modes of access to memory (section 5).
const IMM: u8 = 0x00;
const MEM: u8 = 0x60;
const MEMSX: u8 = 0x80;

/// Register of the stack, which is not written; there are none above it.
pub(crate) const FRAME: u8 = 10;

/// An instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instruction {
    opcode: u8,
    /// Number of the register that is written.
    pub(crate) to: u8,
    /// Number of the register that is read.
    pub(crate) from: u8,
    pub(crate) offset: i16,
    pub(crate) constant: i32,
}

/// Program that was checked: it jumps forward only and within itself, calls nothing, and ends with an exit.
#[derive(Clone, Debug)]
pub(crate) struct Program(Arc<[Instruction]>);

impl Instruction {
    fn read(bytes: [u8; BYTES]) -> Instruction {
        let [opcode, registers, low, high, constant @ ..] = bytes;
        let offset = i16::from_le_bytes([low, high]);
        let constant = i32::from_le_bytes(constant);
        Instruction { opcode, to: registers & 0x0f, from: registers >> 4, offset, constant }
    }

    pub(crate) fn class(self) -> u8 {
        self.opcode & 0x07
    }

    /// Operation of arithmetic or a jump.
    pub(crate) fn operation(self) -> u8 {
        self.opcode & 0xf0
    }

    /// Returns whether the second operand is a register; of `END`, whether the order is that of networks.
    pub(crate) fn has_source(self) -> bool {
        self.opcode & 0x08 != 0
    }

    /// Bytes that are loaded or stored.
    pub(crate) fn width(self) -> usize {
        [4, 2, 1, 8][usize::from(self.opcode >> 3 & 0x03)]
    }

    fn mode(self) -> u8 {
        self.opcode & 0xe0
    }

    fn is_wide_constant(self) -> bool {
        self.class() == LD && self.mode() == IMM && self.width() == 8
    }

    /// Instruction to which it may jump.
    fn target(self, place: usize) -> Option<usize> {
        let jumps = matches!(self.class(), JMP | JMP32) && self.operation() != EXIT;
        jumps.then(|| place + 1 + self.offset.unsigned_abs() as usize)
    }

    /// Checks what does not depend on other instructions.
    fn check(self) -> Result<(), &'static str> {
        const VERSION_4: &str = "the handler has instructions of version 4 (build it with -mcpu=v3)";
        const UNKNOWN: &str = "the handler has an instruction that user space does not know";
        if self.to > FRAME || self.from > FRAME {
            return Err(UNKNOWN);
        }
        match self.class() {
            LD if self.is_wide_constant() && self.from == 0 => {}
            ST | STX if self.mode() == MEM => return Ok(()),
            LDX if self.mode() == MEM => {}
            LDX if self.mode() == MEMSX => return Err(VERSION_4),
            // Versions before 4 have no offset there.
            ALU | ALU64 if self.offset != 0 => return Err(VERSION_4),
            ALU64 if self.operation() == END => return Err(VERSION_4),
            ALU if self.operation() == END && !matches!(self.constant, 16 | 32 | 64) => return Err(UNKNOWN),
            ALU | ALU64 if self.operation() == NEG && self.has_source() => return Err(UNKNOWN),
            ALU | ALU64 if self.operation() <= END => {}
            JMP | JMP32 if self.operation() == CALL => return Err("the handler calls a function"),
            JMP32 if self.operation() == JA => return Err(VERSION_4),
            JMP if self.operation() == EXIT => return Ok(()),
            JMP | JMP32 if self.operation() == EXIT || self.operation() > JSLE => return Err(UNKNOWN),
            JMP | JMP32 if self.offset < 0 => return Err("the handler has a loop (write #pragma unroll)"),
            JMP | JMP32 => return Ok(()),
            _ => return Err(UNKNOWN),
        }
        if self.to == FRAME { Err("the handler writes the register of its stack") } else { Ok(()) }
    }
}

impl Program {
    /// Reads and checks instructions.
    ///
    /// # Errors
    /// The reason why they are not those of a handler.
    pub(crate) fn read(bytes: &[u8]) -> Result<Program, String> {
        let (instructions, rest) = bytes.as_chunks::<BYTES>();
        if !rest.is_empty() || instructions.is_empty() || instructions.len() > MOST {
            return Err(format!("{} bytes of instructions", bytes.len()));
        }
        let program: Arc<[Instruction]> = instructions.iter().copied().map(Instruction::read).collect();
        // True for the second half of a constant of 64 bits.
        let mut is_half = vec![false; program.len() + 1];
        let mut place = 0;
        let mut last = Instruction::default();
        while let Some(instruction) = program.get(place) {
            instruction.check()?;
            place += 1;
            if instruction.is_wide_constant() {
                let half = program.get(place).ok_or("the handler ends within a constant")?;
                if (Instruction { constant: 0, ..*half }) != Instruction::default() {
                    return Err("the handler has a constant without its second half".to_owned());
                }
                is_half[place] = true;
                place += 1;
            }
            last = *instruction;
        }
        let ends = matches!(last.class(), JMP) && matches!(last.operation(), EXIT | JA);
        let mut targets = program.iter().enumerate().filter(|(place, _)| !is_half[*place]);
        let is_within = |target: usize| target < program.len() && !is_half[target];
        if !ends || !targets.all(|(place, from)| from.target(place).is_none_or(is_within)) {
            return Err("the handler leaves its instructions".to_owned());
        }
        Ok(Program(program))
    }

    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instruction: opcode, offset, constant.
    fn instruction(opcode: u8, offset: i16, constant: i32) -> Vec<u8> {
        let mut bytes = vec![opcode, 0];
        bytes.extend(offset.to_le_bytes());
        bytes.extend(constant.to_le_bytes());
        bytes
    }

    fn refusal(program: &[Vec<u8>]) -> Option<String> {
        Program::read(&program.concat()).err()
    }

    /// Promise: A handler in user space always ends: objects with loops or calls are refused.
    #[test]
    fn programs_that_may_not_end_are_refused() {
        let exit = instruction(0x95, 0, 0);
        assert_eq!(refusal(std::slice::from_ref(&exit)), None);
        assert_eq!(refusal(&[instruction(0x55, 0, 1), exit.clone()]), None);
        for (opcode, why) in [(0x55, "a loop"), (0x05, "a loop"), (0x56, "a loop"), (0x06, "version 4")] {
            let refused = refusal(&[instruction(opcode, -1, 0), exit.clone()]).unwrap();
            assert!(refused.contains(why), "{opcode:#x}: {refused}");
        }
        let other = [
            (0x85, 0, "calls"),       // a call
            (0xbf, 8, "version 4"),   // a move with sign
            (0xd7, 0, "version 4"),   // bswap
            (0xdb, 0, "not know"),    // an atomic operation
            (0x20, 0, "not know"),    // a load from packets
            (0xe5, 0, "not know"),    // no jump
            (0x55, 1, "leaves"),      // behind the end
            (0x18, 0, "second half"), // half a constant
        ];
        for (opcode, offset, why) in other {
            let refused = refusal(&[instruction(opcode, offset, 1), exit.clone()]).unwrap();
            assert!(refused.contains(why), "{opcode:#x}: {refused}");
        }
        // The second half of a constant is no instruction, and no target.
        let constant = [instruction(0x18, 0, 5), instruction(0, 0, -1), exit.clone()];
        assert_eq!(refusal(&constant), None);
        let into_constant = [&[instruction(0x55, 1, 0)], &constant[..]].concat();
        assert!(refusal(&into_constant).unwrap().contains("leaves"));
        assert!(refusal(&[instruction(0xb7, 0, 0)]).unwrap().contains("leaves"));
        assert!(refusal(&[]).is_some() && Program::read(&[0x95; 7]).is_err());
        assert!(Program::read(&exit.repeat(MOST + 1)).is_err());
    }
}
