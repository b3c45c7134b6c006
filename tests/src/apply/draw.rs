//! Random values, the same for a seed.

use clock::{Entropy, SeededEntropy};
use serde_json::{Map, Value, json};

/// Draws values.
#[derive(Debug)]
pub struct Draw(SeededEntropy);

impl Draw {
    /// Always the same for a seed.
    pub fn new(seed: u64) -> Self {
        Draw(SeededEntropy::new(seed))
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0.below(bound)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        let count = u32::try_from(choices.len()).unwrap_or(u32::MAX);
        choices[self.below(count) as usize]
    }

    /// One of a few words, so that managers say the same from time to time.
    pub fn word(&mut self) -> Value {
        json!(self.of(&["x", "y", "z"]))
    }

    /// Some of several, in any order.
    pub fn some<T: Copy>(&mut self, choices: &[T]) -> Vec<T> {
        let mut chosen: Vec<T> = choices.iter().copied().filter(|_| self.one_in(2)).collect();
        for last in (1..chosen.len()).rev() {
            let other = self.below(u32::try_from(last + 1).unwrap_or(1)) as usize;
            chosen.swap(last, other);
        }
        chosen
    }

    /// An object with some of the keys, each there once in so many times, and a word for each.
    pub fn words(&mut self, keys: &[&str], times: u32) -> Value {
        let mut object = Map::new();
        for key in keys {
            if self.one_in(times) {
                object.insert((*key).to_owned(), self.word());
            }
        }
        Value::Object(object)
    }
}
