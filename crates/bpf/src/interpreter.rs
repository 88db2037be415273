//! Interpreter of handlers: no allocation, and no access to memory but the record and the stack of the program.

use crate::instructions::{
    ADD, ALU, ALU64, AND, ARSH, DIV, END, EXIT, FRAME, Instruction, JA, JEQ, JGE, JGT, JLE, JLT, JMP, JMP32,
    JNE, JSET, JSGE, JSGT, JSLE, JSLT, LD, LDX, LSH, MOD, MOV, MUL, NEG, OR, Program, RSH, ST, SUB, XOR,
};

/// Bytes of the stack (RFC 9669 leaves it open; the kernel's `MAX_BPF_STACK`).
const STACK: usize = 512;

/// Addresses where programs find the record and the stack. They are no addresses of the process.
const RECORD_AT: u64 = 1 << 32;
const STACK_AT: u64 = 2 << 32;

/// Access to memory that is neither the record nor the stack, or a store to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it uses memory beyond the record and its stack, or writes to the record")]
pub(crate) struct Fault;

struct Machine<'a> {
    registers: [u64; FRAME as usize + 1],
    record: &'a [u8],
    stack: [u8; STACK],
}

impl Program {
    /// Runs it on a record, whose address is in its first register; returns its value.
    pub(crate) fn run(&self, record: &[u8]) -> Result<u64, Fault> {
        let mut machine = Machine { registers: [0; FRAME as usize + 1], record, stack: [0; STACK] };
        machine.registers[1] = RECORD_AT;
        machine.registers[usize::from(FRAME)] = STACK_AT + STACK as u64;
        let instructions = self.instructions();
        let mut place = 0;
        while let Some(&instruction) = instructions.get(place) {
            place += 1;
            match instruction.class() {
                ALU64 => machine.calculate_64(instruction),
                ALU => machine.calculate_32(instruction),
                LDX => machine.load(instruction)?,
                LD => {
                    let high = instructions.get(place).map_or(0, |half| half.constant);
                    machine.registers[usize::from(instruction.to)] =
                        u64::from(high as u32) << 32 | u64::from(instruction.constant as u32);
                    place += 1;
                }
                JMP if instruction.operation() == EXIT => break,
                JMP | JMP32 if machine.jumps(instruction) => place += usize::from(instruction.offset as u16),
                JMP | JMP32 => {}
                _ => machine.store(instruction)?,
            }
        }
        Ok(machine.registers[0])
    }
}

impl Machine<'_> {
    fn register(&self, number: u8) -> u64 {
        self.registers[usize::from(number)]
    }

    /// Second operand; a constant with its sign.
    fn operand(&self, instruction: Instruction) -> u64 {
        let constant = i64::from(instruction.constant) as u64;
        if instruction.has_source() { self.register(instruction.from) } else { constant }
    }

    fn calculate_64(&mut self, instruction: Instruction) {
        let (left, right) = (self.register(instruction.to), self.operand(instruction));
        self.registers[usize::from(instruction.to)] = match instruction.operation() {
            ADD => left.wrapping_add(right),
            SUB => left.wrapping_sub(right),
            MUL => left.wrapping_mul(right),
            DIV => left.checked_div(right).unwrap_or(0),
            OR => left | right,
            AND => left & right,
            LSH => left.wrapping_shl(right as u32),
            RSH => left.wrapping_shr(right as u32),
            NEG => left.wrapping_neg(),
            MOD => left.checked_rem(right).unwrap_or(left),
            XOR => left ^ right,
            MOV => right,
            ARSH => (left as i64).wrapping_shr(right as u32) as u64,
            _ => left,
        };
    }

    fn calculate_32(&mut self, instruction: Instruction) {
        let whole = self.register(instruction.to);
        let (left, right) = (whole as u32, self.operand(instruction) as u32);
        let result = match instruction.operation() {
            ADD => left.wrapping_add(right),
            SUB => left.wrapping_sub(right),
            MUL => left.wrapping_mul(right),
            DIV => left.checked_div(right).unwrap_or(0),
            OR => left | right,
            AND => left & right,
            LSH => left.wrapping_shl(right),
            RSH => left.wrapping_shr(right),
            NEG => left.wrapping_neg(),
            MOD => left.checked_rem(right).unwrap_or(left),
            XOR => left ^ right,
            MOV => right,
            ARSH => (left as i32).wrapping_shr(right) as u32,
            END => {
                let ordered = in_order(whole, instruction);
                self.registers[usize::from(instruction.to)] = ordered;
                return;
            }
            _ => left,
        };
        self.registers[usize::from(instruction.to)] = result.into();
    }

    fn jumps(&self, instruction: Instruction) -> bool {
        let (mut left, mut right) = (self.register(instruction.to), self.operand(instruction));
        let mut signed = (left as i64, right as i64);
        if instruction.class() == JMP32 {
            signed = ((left as i32).into(), (right as i32).into());
            (left, right) = ((left as u32).into(), (right as u32).into());
        }
        match instruction.operation() {
            JA => true,
            JEQ => left == right,
            JGT => left > right,
            JGE => left >= right,
            JSET => left & right != 0,
            JNE => left != right,
            JSGT => signed.0 > signed.1,
            JSGE => signed.0 >= signed.1,
            JLT => left < right,
            JLE => left <= right,
            JSLT => signed.0 < signed.1,
            JSLE => signed.0 <= signed.1,
            _ => false,
        }
    }

    fn load(&mut self, instruction: Instruction) -> Result<(), Fault> {
        let width = instruction.width();
        let address = self.register(instruction.from).wrapping_add_signed(instruction.offset.into());
        let bytes = part(address, RECORD_AT, self.record.len(), width).map(|range| &self.record[range]);
        let on_stack = || part(address, STACK_AT, STACK, width).map(|range| &self.stack[range]);
        let bytes = bytes.or_else(on_stack).ok_or(Fault)?;
        let mut value = [0; 8];
        value[..width].copy_from_slice(bytes);
        self.registers[usize::from(instruction.to)] = u64::from_le_bytes(value);
        Ok(())
    }

    fn store(&mut self, instruction: Instruction) -> Result<(), Fault> {
        let constant = i64::from(instruction.constant) as u64;
        let value =
            if instruction.class() == ST { constant } else { self.register(instruction.from) }.to_le_bytes();
        let width = instruction.width();
        let address = self.register(instruction.to).wrapping_add_signed(instruction.offset.into());
        let range = part(address, STACK_AT, STACK, width).ok_or(Fault)?;
        self.stack[range].copy_from_slice(&value[..width]);
        Ok(())
    }
}

/// Part of memory of this length that `width` bytes at an address are.
fn part(address: u64, begin: u64, length: usize, width: usize) -> Option<std::ops::Range<usize>> {
    let at = usize::try_from(address.checked_sub(begin)?).ok()?;
    let end = at.checked_add(width).filter(|end| *end <= length)?;
    Some(at..end)
}

/// The lower bits of a value in the order of bytes that an `END` wants.
fn in_order(value: u64, instruction: Instruction) -> u64 {
    match (instruction.constant, instruction.has_source()) {
        (16, false) => (value as u16).to_le().into(),
        (16, true) => (value as u16).to_be().into(),
        (32, false) => (value as u32).to_le().into(),
        (32, true) => (value as u32).to_be().into(),
        (_, false) => value.to_le(),
        (_, true) => value.to_be(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rbpf::EbpfVmMbuff;

    /// Instructions that use registers and memory as a compiler's do: pointers are in registers 1 and 10, numbers
    /// in the others. Most addresses are within the record or the stack.
    fn instruction() -> impl Strategy<Value = [u8; 8]> {
        let number = || prop_oneof![Just(0_u8), 2_u8..10];
        let constant = || prop_oneof![-3..70_i32, any::<i32>()];
        let arithmetic = (0_u8..14, any::<bool>(), any::<bool>()).prop_map(|(operation, source, wide)| {
            match operation << 4 {
                END => END | u8::from(source) << 3 | ALU,
                // The other one panics if the least number is negated.
                NEG => NEG | ALU,
                // It keeps the upper half for a remainder by zero; RFC 9669 (4.1) clears it.
                MOD => MOD | u8::from(source) << 3 | ALU64,
                operation => operation | u8::from(source) << 3 | if wide { ALU64 } else { ALU },
            }
        });
        let arithmetic =
            (arithmetic, number(), number(), constant()).prop_map(|(opcode, to, from, constant)| {
                let size = [16, 32, 64][constant.unsigned_abs() as usize % 3];
                let constant = if opcode & 0xf0 == END { size } else { constant };
                encoded(opcode, to, from, 0, constant)
            });
        let jump = (1_u8..14, any::<bool>(), any::<bool>(), number(), number(), 0_i16..6, constant());
        let jump = jump.prop_map(|(operation, source, wide, to, from, offset, constant)| {
            // The other one takes the sign of a constant away (rbpf 0.4.1); a test below has them.
            let constant = if wide { constant & i32::MAX } else { constant };
            let operation = if matches!(operation << 4, 0x80 | 0x90) { JEQ } else { operation << 4 };
            encoded(
                operation | u8::from(source) << 3 | if wide { JMP } else { JMP32 },
                to,
                from,
                offset,
                constant,
            )
        });
        let width = || prop::sample::select(vec![0x60_u8, 0x68, 0x70, 0x78]);
        let load =
            (width(), number(), any::<bool>(), -3_i16..140).prop_map(|(width, to, on_stack, offset)| {
                encoded(
                    width | LDX,
                    to,
                    if on_stack { 10 } else { 1 },
                    if on_stack { -offset } else { offset },
                    0,
                )
            });
        let store = (width(), any::<bool>(), number(), 1_i16..520, constant());
        let store = store.prop_map(|(width, from_register, from, offset, constant)| {
            encoded(width | if from_register { 3 } else { ST }, FRAME, from, -offset, constant)
        });
        prop_oneof![4 => arithmetic, 2 => jump, 3 => load, 1 => store]
    }

    fn encoded(opcode: u8, to: u8, from: u8, offset: i16, constant: i32) -> [u8; 8] {
        let mut bytes = [opcode, from << 4 | to, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_le_bytes());
        bytes[4..].copy_from_slice(&constant.to_le_bytes());
        bytes
    }

    proptest! {
        /// Promise: A handler in user space gives the same result as in another interpreter.
        #[test]
        fn another_interpreter_agrees(
            body in prop::collection::vec(instruction(), 1..60),
            record in prop::collection::vec(any::<u8>(), 132),
        ) {
            // Jumps that leave the body end at one of these.
            let end = [encoded(0xb7, 3, 0, 0, 1), encoded(0x95, 0, 0, 0, 0)];
            let program = [body, end.repeat(4)].concat().concat();
            let ours = Program::read(&program).expect("a checked program").run(&record).ok();
            let other = EbpfVmMbuff::new(Some(&program)).expect("a program").execute_program(&[], &record).ok();
            prop_assert_eq!(ours, other);
        }

        /// Promise: No object makes user space read beyond a record or run for ever.
        #[test]
        fn any_program_ends(
            program in prop::collection::vec(prop_oneof![4 => instruction(), 1 => any::<[u8; 8]>()], 1..40),
            record in prop::collection::vec(any::<u8>(), 0..140),
        ) {
            let program = [program, vec![encoded(0x95, 0, 0, 0, 0); 8]].concat().concat();
            if let Ok(program) = Program::read(&program) {
                // A fault ends the stream; there is nothing else to tell of a program at random.
                program.run(&record).ok();
            }
        }
    }

    /// Promise: A handler in user space compares with negative constants as the kernel does.
    #[test]
    fn constants_keep_their_sign() {
        // r2 = -1; r0 = 1; if r2 OPERATION -1, skip one; r0 = 0
        let taken = |operation: u8| {
            let program = [
                encoded(0xb7, 2, 0, 0, -1),
                encoded(0xb7, 0, 0, 0, 1),
                encoded(operation | JMP, 2, 0, 1, -1),
                encoded(0xb7, 0, 0, 0, 0),
                encoded(0x95, 0, 0, 0, 0),
            ];
            Program::read(&program.concat()).unwrap().run(&[]).unwrap() == 1
        };
        assert!([JEQ, JGE, JLE, JSGE, JSLE, JSET].into_iter().all(taken));
        assert!(![JNE, JGT, JLT, JSGT, JSLT].into_iter().any(taken));
        let negated = [encoded(0xb7, 0, 0, 0, 5), encoded(0x87, 0, 0, 0, 0), encoded(0x95, 0, 0, 0, 0)];
        assert_eq!(Program::read(&negated.concat()).unwrap().run(&[]), Ok(5_u64.wrapping_neg()));
    }

    #[test]
    fn memory_of_others_is_a_fault() {
        let run = |instruction: [u8; 8]| {
            Program::read(&[instruction, encoded(0x95, 0, 0, 0, 0)].concat()).unwrap().run(&[7; 10])
        };
        assert_eq!(run(encoded(0x71, 0, 1, 9, 0)), Ok(7));
        assert_eq!(run(encoded(0x71, 0, 1, 10, 0)), Err(Fault));
        assert_eq!(run(encoded(0x79, 0, 1, 3, 0)), Err(Fault));
        assert_eq!(run(encoded(0x71, 0, 1, -1, 0)), Err(Fault));
        assert_eq!(run(encoded(0x71, 0, 0, 0, 0)), Err(Fault));
        assert_eq!(run(encoded(0x79, 0, 10, -512, 0)), Ok(0));
        assert_eq!(run(encoded(0x79, 0, 10, -7, 0)), Err(Fault));
        assert_eq!(run(encoded(0x7b, 10, 0, -513, 0)), Err(Fault));
        assert_eq!(run(encoded(0x73, 1, 0, 0, 0)), Err(Fault), "a record is not written");
    }
}
