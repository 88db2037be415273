//! Pseudorandom numbers, the same for the same seed on every machine and in every version. Synthetic samples
//! are made from them, and both ends of a stream that is spread at random draw the same numbers. Not for
//! secrets.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Generator with the state `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Returns the next number, less than `bound`, which has to be at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Upper half of a 128-bit product: less biased than a remainder, by at most bound in 2^64.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the first outputs for seed 1234567, as published with the reference implementation
    /// (Rosetta Code, "Splitmix64").
    #[test]
    fn it_is_splitmix64() {
        let mut random = Random::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0; 3].map(|_| random.next()), expected);
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
