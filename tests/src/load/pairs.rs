//! What was measured, of both servers.

use std::fmt;

/// A number of each server: the middle one of its rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// What it is.
    pub name: String,
    /// Ours.
    pub herdsman: f64,
    /// The real one's.
    pub kubernetes: f64,
    /// Of what.
    pub unit: &'static str,
}

impl Pair {
    pub(super) fn new(
        name: impl Into<String>,
        unit: &'static str,
        herdsman: &[f64],
        kubernetes: &[f64],
    ) -> Self {
        let [herdsman, kubernetes] = [herdsman, kubernetes].map(|rounds| quantile(rounds, 0.5));
        Pair { name: name.into(), herdsman, kubernetes, unit }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pair { name, herdsman, kubernetes, unit } = self;
        write!(f, "measured {name} herdsman={herdsman:.2} kubernetes={kubernetes:.2} {unit}")
    }
}

/// The value that a share of all values does not exceed; not a number if there are none.
pub(super) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let wanted = (1..=sorted.len()).find(|count| *count as f64 >= share * sorted.len() as f64);
    wanted.map_or(f64::NAN, |count| sorted[count - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_there() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!((quantile(&values, 0.99), quantile(&values, 0.5)), (198.0, 100.0));
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[5.0], 0.99), 5.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_pair_prints_on_one_line() {
        let pair = Pair::new("x", "ms", &[1.0, 2.0, 9.0], &[4.5]);
        assert_eq!(pair.to_string(), "measured x herdsman=2.00 kubernetes=4.50 ms");
    }
}
