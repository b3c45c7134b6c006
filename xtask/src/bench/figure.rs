//! A measured number and what it should be.

use std::fmt;

/// What a value must be to be good enough.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

/// One line of a benchmark's result.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) bar: Bar,
}

impl Figure {
    /// Whether the value clears its bar. A value that is no number does not.
    pub(crate) fn is_ok(&self) -> bool {
        match self.bar {
            Bar::AtMost(target) => self.value <= target,
            Bar::AtLeast(target) => self.value >= target,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, target) = match self.bar {
            Bar::AtMost(target) => ("<=", target),
            Bar::AtLeast(target) => (">=", target),
        };
        let verdict = if self.is_ok() { "ok" } else { "short" };
        // Two decimals are more than a noisy machine can tell apart; whole numbers stay whole.
        let value = (self.value * 100.0).round() / 100.0;
        write!(f, "figure {} value={value} {} bar={operator}{target} {verdict}", self.name, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_prints_on_one_line() {
        let figure = |value, bar| Figure { name: "x".into(), value, unit: "ms", bar }.to_string();
        assert_eq!(figure(12.3456, Bar::AtMost(20.0)), "figure x value=12.35 ms bar=<=20 ok");
        assert_eq!(figure(21.0, Bar::AtMost(20.5)), "figure x value=21 ms bar=<=20.5 short");
        assert_eq!(figure(21.0, Bar::AtLeast(20.0)), "figure x value=21 ms bar=>=20 ok");
        assert_eq!(figure(f64::NAN, Bar::AtLeast(0.0)), "figure x value=NaN ms bar=>=0 short");
    }
}
