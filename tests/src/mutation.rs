//! Requests made wrong at random, the same way for the same seed.

/// Most bytes that one damaged message has, however it was blown up.
const LENGTH_LIMIT: usize = 64 << 10;

/// Numbers at which readers of numbers break.
const EDGES: [&str; 10] = [
    "0",
    "-1",
    "65535",
    "65536",
    "4294967296",
    "9223372036854775808",
    "18446744073709551616",
    "1e309",
    "nan",
    "",
];

/// A source of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The dice of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`; 0 where there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.any() % (bound as u64).max(1)) as usize
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A stretch of something `length` long, perhaps empty, at most `limit` long.
    fn stretch(&mut self, length: usize, limit: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        start..(start + self.below(limit + 1)).min(length)
    }
}

/// Leaves messages out, says them twice, changes their order, joins them.
pub fn disorder(dice: &mut Dice, messages: &mut Vec<Vec<u8>>) {
    for _ in 0..dice.below(4) {
        if messages.is_empty() {
            return;
        }
        let (one, other) = (dice.below(messages.len()), dice.below(messages.len()));
        match dice.below(4) {
            0 => drop(messages.remove(one)),
            1 => messages.insert(other, messages[one].clone()),
            2 => messages.swap(one, other),
            _ if one != other => {
                let joined = messages[other].clone();
                messages[one].extend(joined);
            }
            _ => {}
        }
    }
}

/// Makes one message wrong.
pub fn damage(dice: &mut Dice, message: &mut Vec<u8>) {
    for _ in 0..=dice.below(3) {
        let length = message.len();
        match dice.below(8) {
            0 => message.truncate(dice.below(length + 1)),
            1 => dice.stretch(length, 8).for_each(|at| message[at] = dice.any() as u8),
            2 => drop(message.drain(dice.stretch(length, 64))),
            3 => repeat(dice, message),
            4 => replace_number(dice, message),
            5 => announce_length(dice, message),
            6 => insert_frame(dice, message),
            _ => message.insert(dice.below(length + 1), *dice.pick(b"\0\r\n $%:;,/=-\x7f\xff")),
        }
        message.truncate(LENGTH_LIMIT);
    }
}

/// A stretch, said again up to 2,000 times.
fn repeat(dice: &mut Dice, message: &mut Vec<u8>) {
    let stretch = dice.stretch(message.len(), 64);
    let times = 1 + if dice.one_in(4) { dice.below(2000) } else { dice.below(4) };
    let again = message[stretch.clone()].repeat(times);
    message.splice(stretch.end..stretch.end, again);
}

fn replace_number(dice: &mut Dice, message: &mut Vec<u8>) {
    let from = dice.below(message.len());
    let Some(start) = message.iter().skip(from).position(u8::is_ascii_digit) else { return };
    let start = from + start;
    let digits = message[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let edge = dice.pick(&EDGES);
    message.splice(start..start + digits, edge.bytes());
}

/// A length that is not that of what follows, at the head's end.
fn announce_length(dice: &mut Dice, message: &mut Vec<u8>) {
    let Some(end) = message.windows(4).position(|window| window == b"\r\n\r\n") else { return };
    let length = if dice.one_in(2) { dice.below(5000).to_string() } else { (*dice.pick(&EDGES)).to_owned() };
    message.splice(end..end, format!("\r\nContent-Length: {length}").into_bytes());
}

/// An interleaved frame (RFC 2326 section 10.12) in front or in between, its length right or wrong.
fn insert_frame(dice: &mut Dice, message: &mut Vec<u8>) {
    let data = vec![dice.any() as u8; dice.below(100)];
    let length = if dice.one_in(2) { data.len() } else { dice.below(1 << 16) };
    let at = if dice.one_in(2) { 0 } else { dice.below(message.len() + 1) };
    let header = [b'$', dice.any() as u8, (length >> 8) as u8, length as u8];
    message.splice(at..at, header.into_iter().chain(data));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"PLAY rtsp://a/b RTSP/1.0\r\nCSeq: 7\r\n\r\n";

    fn damaged(seed: u64) -> Vec<u8> {
        let mut message = MESSAGE.to_vec();
        damage(&mut Dice::new(seed), &mut message);
        message
    }

    #[test]
    fn the_same_seed_does_the_same_damage() {
        assert!((0..1000).all(|seed| damaged(seed) == damaged(seed)));
    }

    #[test]
    fn damage_is_done_and_bounded() {
        let all: Vec<_> = (0..1000).map(damaged).collect();
        assert!(all.iter().filter(|message| *message != MESSAGE).count() > 900);
        assert!(all.iter().all(|message| message.len() <= LENGTH_LIMIT));
        assert!(all.iter().any(|message| message.first() == Some(&b'$')));
    }

    #[test]
    fn what_is_empty_stays_harmless() {
        for seed in 0..1000 {
            damage(&mut Dice::new(seed), &mut Vec::new());
            disorder(&mut Dice::new(seed), &mut Vec::new());
        }
    }

    #[test]
    fn order_changes_and_messages_come_and_go() {
        let lengths: std::collections::BTreeSet<usize> = (0..100)
            .map(|seed| {
                let mut messages = vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
                disorder(&mut Dice::new(seed), &mut messages);
                messages.len()
            })
            .collect();
        assert!(lengths.contains(&2) && lengths.contains(&3) && lengths.contains(&4), "{lengths:?}");
    }
}
