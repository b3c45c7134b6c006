//! What a program writes, kept within limits: of a long output the beginning and the end, with a line between that
//! says how much is left out.
//!
//! Line ends are as Rancher's agent leaves them: no carriage return before a line feed, a line feed at the very end.
//! Lines may be of any length.

use std::collections::VecDeque;

use plan::output::{self, Outputs, PeriodicOutputs};

/// What is kept of one stream of one program.
pub const LIMIT: usize = 1 << 20;

/// What a Secret may hold in all.
const SECRET: usize = 1 << 20;
/// What is left free for keys that are small, and for what others write.
const SPARE: usize = 64 << 10;
/// What outputs get however large the plan is.
const LEAST: usize = 4 << 10;

/// Bytes as they come.
#[derive(Debug)]
pub struct Capture {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
    carriage_return: bool,
    last: Option<u8>,
}

impl Default for Capture {
    fn default() -> Self {
        Capture::up_to(LIMIT)
    }
}

impl Capture {
    /// Keeps about this many bytes.
    pub fn up_to(limit: usize) -> Self {
        let (head, tail) = (Vec::new(), VecDeque::new());
        Capture { half: limit / 2, head, tail, left_out: 0, carriage_return: false, last: None }
    }

    /// More of it.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // A carriage return counts unless a line feed follows.
            if std::mem::take(&mut self.carriage_return) && byte != b'\n' {
                self.keep(b'\r');
            }
            match byte {
                b'\r' => self.carriage_return = true,
                byte => self.keep(byte),
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        self.last = Some(byte);
        if self.head.len() < self.half {
            return self.head.push(byte);
        }
        self.tail.push_back(byte);
        if self.tail.len() > self.half {
            self.tail.pop_front();
            self.left_out += 1;
        }
    }

    /// All that was kept.
    pub fn finish(mut self) -> Vec<u8> {
        // As Go's line scanner: the last line ends too, and a carriage return at its end goes.
        if self.carriage_return || self.last.is_some_and(|last| last != b'\n') {
            self.keep(b'\n');
        }
        join(self.head, &self.tail.into_iter().collect::<Vec<_>>(), self.left_out)
    }
}

fn join(mut head: Vec<u8>, tail: &[u8], left_out: u64) -> Vec<u8> {
    if left_out > 0 {
        head.extend(format!("\n[{left_out} bytes left out]\n").bytes());
    }
    head.extend(tail);
    head
}

/// Cuts what is longer than a limit, in its middle.
pub fn cut(bytes: Vec<u8>, limit: usize) -> Vec<u8> {
    if bytes.len() <= limit {
        return bytes;
    }
    let half = limit / 2;
    let left_out = bytes.len() - 2 * half;
    join(bytes[..half].to_vec(), &bytes[bytes.len() - half..], left_out as u64)
}

/// What each of the three outputs in a Secret (of the applied plan, the failed one, the periodic instructions) may
/// take there. The plan is in the Secret twice once the orchestrator has copied it.
pub fn budget(plan: usize) -> usize {
    (SECRET.saturating_sub(SPARE).saturating_sub(plan.saturating_mul(2)) / 3).max(LEAST)
}

/// Cuts outputs until they take no more than `budget` packed.
pub fn fit(outputs: Outputs, budget: usize) -> Outputs {
    shrink(outputs, budget, output::encode, |outputs, limit| {
        outputs.into_iter().map(|(name, bytes)| (name, cut(bytes, limit))).collect()
    })
}

/// Cuts outputs of periodic instructions until they take no more than `budget` packed.
pub fn fit_periodic(outputs: PeriodicOutputs, budget: usize) -> PeriodicOutputs {
    shrink(outputs, budget, output::encode_periodic, |mut outputs, limit| {
        for output in outputs.values_mut() {
            output.stdout = cut(std::mem::take(&mut output.stdout), limit);
            output.stderr = cut(std::mem::take(&mut output.stderr), limit);
        }
        outputs
    })
}

fn shrink<T: Clone>(
    outputs: T,
    budget: usize,
    encode: impl Fn(&T) -> Vec<u8>,
    cut: impl Fn(T, usize) -> T,
) -> T {
    let mut fitting = outputs.clone();
    let mut limit = LIMIT + LIMIT;
    while limit > 0 && encode(&fitting).len() > budget {
        limit /= 2;
        // From the whole each time: one line that says what is left out, not several.
        fitting = cut(outputs.clone(), limit);
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: usize, chunks: &[&str]) -> String {
        let mut capture = Capture::up_to(limit);
        chunks.iter().for_each(|chunk| capture.push(chunk.as_bytes()));
        String::from_utf8(capture.finish()).unwrap()
    }

    #[test]
    fn lines() {
        for (chunks, kept) in [
            (vec![], ""),
            (vec!["a\n"], "a\n"),
            (vec!["a"], "a\n"),
            (vec!["a\r\nb\r\n"], "a\nb\n"),
            (vec!["a\r", "\nb\r"], "a\nb\n"),
            (vec!["a\rb"], "a\rb\n"),
            (vec!["\n"], "\n"),
        ] {
            assert_eq!(captured(100, &chunks), kept, "{chunks:?}");
        }
    }

    /// Lines as Go's scanner takes them, each with its end again.
    fn as_go(bytes: &[u8]) -> Vec<u8> {
        let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        lines
            .into_iter()
            .flat_map(|line| [line.strip_suffix(b"\r").unwrap_or(line), b"\n"].concat())
            .collect()
    }

    proptest::proptest! {
        #[test]
        fn chunks_do_not_matter(chunks in proptest::collection::vec("[ab\r\n]{0,6}", 0..20)) {
            let all = chunks.concat();
            let chunks: Vec<_> = chunks.iter().map(String::as_str).collect();
            proptest::prop_assert_eq!(captured(1000, &chunks).into_bytes(), as_go(all.as_bytes()));
            proptest::prop_assert_eq!(captured(10, &chunks), captured(10, &[&all]));
        }
    }

    #[test]
    fn what_is_long_is_cut_and_said() {
        assert_eq!(captured(8, &["12345678901234567890"]), "1234\n[13 bytes left out]\n890\n");
        assert_eq!(captured(8, &["1234567\n"]), "1234567\n", "just fits");
        assert_eq!(cut(b"1234567890".to_vec(), 4), b"12\n[6 bytes left out]\n90");
    }

    /// Bytes that no packing makes smaller.
    fn noise(length: usize) -> Vec<u8> {
        use clock::{Entropy as _, SeededEntropy};
        let mut bytes = vec![0; length];
        SeededEntropy::new(1).fill(&mut bytes);
        bytes
    }

    #[test]
    fn outputs_fit_into_the_secret() {
        let outputs: Outputs = (0..4).map(|n| (n.to_string(), noise(64 << 10))).collect();
        for plan in [450 << 10, 900 << 10] {
            let budget = budget(plan);
            let fitted = fit(outputs.clone(), budget);
            assert!(output::encode(&fitted).len() <= budget, "{plan}");
            assert_eq!(fitted.len(), 4, "each says something");
            assert!(String::from_utf8_lossy(&fitted["3"]).contains("bytes left out"));
        }
        let small = Outputs::from([("a".into(), b"b".to_vec())]);
        assert_eq!(fit(small.clone(), LEAST), small);
    }
}
