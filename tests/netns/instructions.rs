//! Random eBPF programs that the verifier accepts: they read a record and their stack within bounds, and jump forward.

use proptest::prelude::*;
use proptest::sample::select;

/// Operations of arithmetic that take any register or constant (RFC 9669, 4.1), and those with less.
const ANY: [u8; 6] = [0x00, 0x10, 0x20, 0x40, 0x50, 0xa0];
const MOVE: u8 = 0xb0;
const DIVISIONS: [u8; 2] = [0x30, 0x90];
const SHIFTS: [u8; 3] = [0x60, 0x70, 0xc0];
const NEGATION: u8 = 0x80;
const ORDER: u8 = 0xd0;

/// Conditional jumps (4.3).
const JUMPS: [u8; 11] = [0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0, 0xd0];

/// Opcodes of access to memory by width in bytes (5.1), without their class.
const WIDTHS: [(u8, i16); 4] = [(0x60, 4), (0x68, 2), (0x70, 1), (0x78, 8)];

/// Bit of the second operand: a register, or of `ORDER` that of networks.
const SOURCE: u8 = 0x08;

/// Classes (3.2).
const LOAD: u8 = 0x01;
const STORE_CONSTANT: u8 = 0x02;
const STORE: u8 = 0x03;
const NARROW: u8 = 0x04;
const JUMP: u8 = 0x05;
const JUMP_NARROW: u8 = 0x06;
const WIDE: u8 = 0x07;

/// Registers of the record and of the stack; all others have numbers.
const RECORD: u8 = 1;
const STACK: u8 = 10;

/// Bytes of a record (`struct wirepath_record`), and those of the stack that are used.
const RECORD_BYTES: i16 = 132;
const STACK_BYTES: i16 = 64;

/// Longest jump.
const FAR: i16 = 6;

/// Odd number whose multiples spread over all bits.
const SPREAD: i32 = 0x9e37_79b1_u32 as i32;

pub(crate) const EXIT: [u8; 8] = encoded(0x95, 0, 0, 0, 0);

/// Instruction of an opcode: registers that are written and read, offset, constant.
pub(crate) const fn encoded(opcode: u8, to: u8, from: u8, offset: i16, constant: i32) -> [u8; 8] {
    let ([low, high], [a, b, c, d]) = (offset.to_le_bytes(), constant.to_le_bytes());
    [opcode, from << 4 | to, low, high, a, b, c, d]
}

/// Programs whose value, 0 or 1, depends on all bits of all numbers.
pub(crate) fn program() -> impl Strategy<Value = Vec<u8>> {
    let begin = (prop::collection::vec(wide_number(), 9), prop::collection::vec(constant(), 8));
    let body =
        prop::collection::vec(prop_oneof![4 => arithmetic(), 2 => jump(), 3 => load(), 1 => store()], 1..32);
    (begin, body).prop_map(|((numbers, stack), body)| {
        let mut program = Vec::new();
        for (register, number) in registers().zip(numbers) {
            // The only instruction of two halves.
            program.push(encoded(0x18, register, 0, 0, number as i32));
            program.push(encoded(0, 0, 0, 0, (number >> 32) as i32));
        }
        for (place, constant) in (0..).zip(stack) {
            program.push(encoded(0x78 | STORE_CONSTANT, STACK, 0, place * 8 - STACK_BYTES, constant));
        }
        program.extend(body);
        // Jumps out of the body end among these.
        program.extend([encoded(MOVE | SOURCE | WIDE, 9, 9, 0, 0); FAR as usize]);
        program.extend(end());
        program.concat()
    })
}

/// Makes one number of all, and one bit of it.
fn end() -> Vec<[u8; 8]> {
    let spread = encoded(0x20 | WIDE, 0, 0, 0, SPREAD);
    let fold = [
        encoded(MOVE | SOURCE | WIDE, 2, 0, 0, 0),
        encoded(0x70 | WIDE, 2, 0, 0, 32),
        encoded(0xa0 | SOURCE | WIDE, 0, 2, 0, 0),
        spread,
    ];
    let mut end: Vec<_> = registers()
        .skip(1)
        .flat_map(|register| [spread, encoded(SOURCE | WIDE, 0, register, 0, 0)])
        .collect();
    end.extend([fold, fold].concat());
    end.extend([encoded(0x70 | WIDE, 0, 0, 0, 63), EXIT]);
    end
}

/// Registers of numbers.
fn registers() -> impl Iterator<Item = u8> {
    std::iter::once(0).chain(2..STACK)
}

fn number() -> impl Strategy<Value = u8> {
    select(registers().collect::<Vec<_>>())
}

fn wide_number() -> impl Strategy<Value = u64> {
    let edges = vec![0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 31, u32::MAX.into(), 1 << 32];
    prop_oneof![any::<u64>(), select(edges)]
}

fn constant() -> impl Strategy<Value = i32> {
    prop_oneof![any::<i32>(), -3..70_i32, select(vec![i32::MIN, i32::MAX])]
}

fn arithmetic() -> impl Strategy<Value = [u8; 8]> {
    let all = [&ANY[..], &[MOVE, NEGATION, ORDER], &DIVISIONS, &SHIFTS].concat();
    let operands = (number(), number(), constant());
    (select(all), any::<bool>(), any::<bool>(), operands).prop_map(
        |(operation, is_wide, has_source, (to, from, constant))| {
            let opcode = operation | if is_wide { WIDE } else { NARROW };
            let constant = match operation {
                NEGATION => return encoded(opcode, to, 0, 0, 0),
                ORDER => {
                    let bits = [16, 32, 64][constant.unsigned_abs() as usize % 3];
                    return encoded(ORDER | NARROW | if has_source { SOURCE } else { 0 }, to, 0, 0, bits);
                }
                _ if has_source => return encoded(opcode | SOURCE, to, from, 0, 0),
                // The verifier refuses a constant of zero, and shifts by more bits than there are.
                operation if DIVISIONS.contains(&operation) => constant | 1,
                operation if SHIFTS.contains(&operation) => constant & if is_wide { 63 } else { 31 },
                _ => constant,
            };
            encoded(opcode, to, 0, 0, constant)
        },
    )
}

fn jump() -> impl Strategy<Value = [u8; 8]> {
    let operands = (number(), number(), 0..FAR, constant());
    (select(JUMPS.to_vec()), any::<bool>(), any::<bool>(), operands).prop_map(
        |(operation, is_wide, has_source, (to, from, offset, constant))| {
            let opcode = operation | if is_wide { JUMP } else { JUMP_NARROW };
            if has_source {
                encoded(opcode | SOURCE, to, from, offset, 0)
            } else {
                encoded(opcode, to, 0, offset, constant)
            }
        },
    )
}

/// Offset of aligned bytes: of the record, or of the stack.
fn place(width: i16, at: i16, is_on_stack: bool) -> i16 {
    let bytes = if is_on_stack { STACK_BYTES } else { RECORD_BYTES };
    let place = at % (bytes / width) * width;
    if is_on_stack { place - STACK_BYTES } else { place }
}

fn load() -> impl Strategy<Value = [u8; 8]> {
    (select(WIDTHS.to_vec()), number(), 0..RECORD_BYTES, any::<bool>()).prop_map(
        |((opcode, width), to, at, is_on_stack)| {
            let from = if is_on_stack { STACK } else { RECORD };
            encoded(opcode | LOAD, to, from, place(width, at, is_on_stack), 0)
        },
    )
}

fn store() -> impl Strategy<Value = [u8; 8]> {
    (select(WIDTHS.to_vec()), number(), 0..STACK_BYTES, any::<bool>(), constant()).prop_map(
        |((opcode, width), from, at, has_source, constant)| {
            let place = place(width, at, true);
            if has_source {
                encoded(opcode | STORE, STACK, from, place, 0)
            } else {
                encoded(opcode | STORE_CONSTANT, STACK, 0, place, constant)
            }
        },
    )
}
