//! Amounts of resources: `500m`, `1Gi`, `2e3`.

use std::fmt;

/// Nano-units: nothing is kept of what is smaller.
const UNIT: i128 = 1_000_000_000;
/// The largest amount: Kubernetes cuts off what does not fit into 63 bits.
const MOST: i128 = i64::MAX as i128 * UNIT;
const KIBI: i128 = 1024;

/// How an amount was written, and is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `m`, none, `k`, `M`.
    Decimal,
    /// `Ki`, `Mi`.
    Binary,
    /// `e3`.
    Exponent,
}

/// An amount.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

/// A text that is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It has another shape.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Shape,
    /// What follows the number is not known.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// Reads an amount.
    ///
    /// # Errors
    /// In upstream's words.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) || number.is_empty() {
            return Err(Error::Shape);
        }
        let (form, scale) = scale_of(suffix)?;
        let nanos = scaled(whole, fraction, scale);
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, form })
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether it is less than nothing.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether it is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.nanos % UNIT == 0
    }

    /// The next amount of whole thousandths: finer ones are not told apart where resources are counted.
    #[must_use]
    pub fn in_thousandths(self) -> Self {
        let step = UNIT / 1000;
        let up = i128::from(self.nanos > 0 && self.nanos % step != 0);
        Quantity { nanos: (self.nanos / step + up) * step, ..self }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// What a suffix stands for: a power of ten, or of 1024.
#[derive(Clone, Copy)]
enum Scale {
    Ten(i32),
    Kibi(u32),
}

fn scale_of(suffix: &str) -> Result<(Form, Scale), Error> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(index) = decimal.iter().position(|one| *one == suffix) {
        let steps = i32::try_from(index).unwrap_or(0) - 3;
        return Ok((Form::Decimal, Scale::Ten(steps * 3)));
    }
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(index) = binary.iter().position(|one| *one == suffix) {
        return Ok((Form::Binary, Scale::Kibi(u32::try_from(index).unwrap_or(0) + 1)));
    }
    let Some(exponent) = suffix.strip_prefix(['e', 'E']) else {
        let known = suffix.chars().all(|c| "eEinumkKMGTP+-0123456789".contains(c));
        return Err(if known { Error::Suffix } else { Error::Shape });
    };
    let exponent: i32 = exponent.parse().map_err(|_| Error::Suffix)?;
    Ok((Form::Exponent, Scale::Ten(exponent)))
}

/// The digits times the scale, in nanos; rounded away from zero, and cut off at the largest.
fn scaled(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let digits: String = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let (power, factor) = match scale {
        Scale::Ten(power) => (power, 1),
        Scale::Kibi(power) => (0, KIBI.pow(power)),
    };
    // Nanos are nine places further left.
    let shift = power.saturating_sub(places).saturating_add(9);
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if length.saturating_add(shift) > 38 {
        return MOST;
    }
    let Ok(number) = digits.parse::<i128>() else { return MOST };
    let Some(number) = number.checked_mul(factor) else { return MOST };
    let power = |n: i32| 10_i128.checked_pow(n.unsigned_abs());
    let nanos = match (shift >= 0, power(shift)) {
        (true, Some(power)) => number.checked_mul(power).unwrap_or(MOST),
        (false, Some(power)) => number / power + i128::from(number % power != 0),
        (true, None) => MOST,
        (false, None) => 1,
    };
    nanos.min(MOST)
}

impl fmt::Display for Quantity {
    /// The one way in which Kubernetes writes the amount.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let small = self.nanos.abs() < KIBI * UNIT;
        if self.form == Form::Binary && !small && self.is_whole() {
            let (mut number, mut power) = (self.nanos / UNIT, 0);
            while number % KIBI == 0 && power < 6 {
                (number, power) = (number / KIBI, power + 1);
            }
            return write!(f, "{number}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        let (mut number, mut power) = (self.nanos, 0);
        while number % 1000 == 0 && power < 9 {
            (number, power) = (number / 1000, power + 1);
        }
        match self.form {
            Form::Exponent if power == 3 => write!(f, "{number}"),
            Form::Exponent => write!(f, "{number}e{}", power * 3 - 9),
            _ => {
                let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                write!(f, "{number}{}", suffix[usize::try_from(power).unwrap_or(3)])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_written_in_one_way() {
        for (text, wanted) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("2000000Ki", "2000000Ki"),
            ("1.5Gi", "1536Mi"),
            ("1023", "1023"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("100e3", "100e3"),
            ("1E", "1E"),
            ("1e0", "1"),
            ("12e6", "12e6"),
            ("-5", "-5"),
            ("+5", "5"),
            (".5", "500m"),
            ("5.", "5"),
            ("0.0000000001", "1n"),
            ("99999999999999999999", "9223372036854775807"),
        ] {
            assert_eq!(Quantity::parse(text).map(|one| one.to_string()), Ok(wanted.to_owned()), "{text}");
        }
        assert_eq!(Quantity::parse("0.0001").unwrap().in_thousandths().to_string(), "1m");
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for (text, error) in [
            ("", Error::Shape),
            ("x", Error::Shape),
            ("1..2", Error::Shape),
            ("1x", Error::Shape),
            ("1 Gi", Error::Shape),
            ("1gi", Error::Shape),
            ("1mm", Error::Suffix),
            ("1KI", Error::Shape),
            ("1e", Error::Suffix),
        ] {
            assert_eq!(Quantity::parse(text), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,6})?(n|u|m|k|M|G|Ki|Mi|Gi|e[0-9])?") {
            let one = Quantity::parse(&text).unwrap();
            let again = Quantity::parse(&one.to_string()).unwrap();
            prop_assert_eq!(one, again);
            prop_assert_eq!(again.to_string(), one.to_string());
        }
    }
}
