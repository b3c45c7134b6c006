/// A source of random bytes.
pub trait Entropy: Send {
    /// Fills `buffer`.
    fn fill(&mut self, buffer: &mut [u8]);

    /// A number below `bound`, each as likely as the other.
    ///
    /// # Panics
    /// If `bound` is zero.
    fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "no number is below zero");
        // Numbers in the last, incomplete stretch of `bound` values would favour the low ones: draw again.
        let fair = u32::MAX - u32::MAX % bound;
        loop {
            let mut bytes = [0; 4];
            self.fill(&mut bytes);
            let drawn = u32::from_le_bytes(bytes);
            if drawn < fair {
                return drawn % bound;
            }
        }
    }
}

/// The operating system's generator, fit for secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system for randomness")]
impl Entropy for SystemEntropy {
    fn fill(&mut self, buffer: &mut [u8]) {
        // Without the kernel's generator nothing secret can be made: there is no sensible way to go on.
        getrandom::fill(buffer).expect("the operating system has a random number generator");
    }
}

/// The same bytes for the same seed, for tests and simulation. Never for secrets.
#[derive(Clone, Debug)]
pub struct SeededEntropy {
    state: u64,
}

impl SeededEntropy {
    /// A generator that always starts the same way for `seed`.
    pub fn new(seed: u64) -> Self {
        SeededEntropy { state: seed }
    }

    /// SplitMix64: tiny, well distributed, every seed is a good one.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays() {
        let draw = |seed| {
            let mut entropy = SeededEntropy::new(seed);
            (0..100).map(|_| entropy.below(27)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn draws_stay_below_the_bound_and_reach_every_value() {
        let mut entropy = SeededEntropy::new(1);
        let mut seen = [false; 27];
        for _ in 0..10_000 {
            seen[entropy.below(27) as usize] = true;
        }
        assert!(seen.iter().all(|&value| value));
    }

    #[test]
    fn the_system_gives_bytes() {
        let mut bytes = [0; 32];
        SystemEntropy.fill(&mut bytes);
        assert_ne!(bytes, [0; 32]);
    }
}
