//! Random numbers that a seed repeats.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// From a seed; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The generator of case `index`, so that each case can be repeated without those before it.
    pub fn of_case(seed: u64, index: u64) -> Random {
        Random { state: mix(seed ^ mix(index)) }
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// One below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// One of those.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number from which nothing of `from` can be seen.
pub(crate) fn mix(from: u64) -> u64 {
    let from = (from ^ (from >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let from = (from ^ (from >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    from ^ (from >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_paper() {
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [random.number(), random.number()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }
}
