//! Checks of numbers, with Go's two kinds of them and Go's way of writing them.

use serde_json::{Number, Value, json};

use super::node::Checks;

/// A number as Go reads it from JSON: whole if it was written so and fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    pub(crate) fn of(number: &Number) -> Num {
        match number.as_i64() {
            Some(int) => Num::Int(int),
            None => Num::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    pub(crate) fn is_whole(self) -> bool {
        match self {
            Num::Int(_) => true,
            Num::Float(float) => whole(float),
        }
    }

    /// As an error shows it: a whole float has no `.0` in Go.
    pub(crate) fn shown(self) -> Value {
        match self {
            Num::Int(int) => json!(int),
            Num::Float(float) if whole(float) && float.abs() < 1e15 => json!(float as i64),
            Num::Float(float) => json!(float),
        }
    }
}

/// As `swag.IsFloat64AJSONInteger`: whole, within what a double counts exactly, rounding errors forgiven.
fn whole(float: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > MOST {
        return false;
    }
    let rounded = float.trunc();
    if float == rounded {
        return true;
    }
    let difference = (float - rounded).abs();
    rounded != 0.0 && difference / float.abs().max(rounded.abs()) < 1e-9
}

/// A float as Go's `%v` writes it.
pub(crate) fn go_float(float: f64) -> String {
    let exponent = if float == 0.0 { 0 } else { float.abs().log10().floor() as i32 };
    if (-4..21).contains(&exponent) {
        return format!("{float}");
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let number: i32 = exponent.parse().unwrap_or(0);
            format!("{digits}e{}{:02}", if number < 0 { '-' } else { '+' }, number.abs())
        }
        None => text,
    }
}

/// What is wrong with a number: the value to show, and the message.
pub(crate) fn check(number: Num, checks: &Checks, name: impl Fn() -> String) -> Vec<(Value, String)> {
    let mut wrong = Vec::new();
    let message = |what: String| format!("{} in body should be {what}", name());
    if let Some(factor) = checks.multiple_of {
        wrong.extend(match multiple_of(number, factor) {
            Ok(true) => None,
            Ok(false) => {
                Some((number.shown(), message(format!("a multiple of {}", limit_text(number, factor)))))
            }
            Err(factor) => Some((
                factor.shown(),
                format!("factor MultipleOf declared for {} must be positive: {}", name(), factor.shown()),
            )),
        });
    }
    if let Some(minimum) = checks.minimum
        && !within(number, minimum, checks.exclusive_minimum, |value, limit| value > limit)
    {
        let words = if checks.exclusive_minimum { "greater than" } else { "greater than or equal to" };
        wrong.push((number.shown(), message(format!("{words} {}", limit_text(number, minimum)))));
    }
    if let Some(maximum) = checks.maximum
        && !within(number, maximum, checks.exclusive_maximum, |value, limit| value < limit)
    {
        let words = if checks.exclusive_maximum { "less than" } else { "less than or equal to" };
        wrong.push((number.shown(), message(format!("{words} {}", limit_text(number, maximum)))));
    }
    wrong
}

/// Whole numbers are held against the whole part of the limit, as in Go.
fn within(number: Num, limit: f64, exclusive: bool, beyond: fn(f64, f64) -> bool) -> bool {
    match number {
        Num::Int(int) if int == limit as i64 => !exclusive,
        Num::Int(int) => beyond((int as i128 - limit as i64 as i128) as f64, 0.0),
        Num::Float(float) if float == limit => !exclusive,
        Num::Float(float) => beyond(float, limit),
    }
}

fn limit_text(number: Num, limit: f64) -> String {
    match number {
        Num::Int(_) => (limit as i64).to_string(),
        Num::Float(_) => go_float(limit),
    }
}

/// Whether it is one; the factor if no number can be.
fn multiple_of(number: Num, factor: f64) -> Result<bool, Num> {
    match number {
        Num::Int(_) if factor as i64 <= 0 => Err(Num::Int(factor as i64)),
        Num::Int(int) => Ok(int.checked_rem(factor as i64) == Some(0)),
        Num::Float(_) if factor <= 0.0 => Err(Num::Float(factor)),
        Num::Float(float) if factor < 1.0 => Ok(whole(1.0 / factor * float)),
        Num::Float(float) => Ok(whole(float / factor)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_go_does() {
        let cases = [
            (1.5, "1.5"),
            (3.0, "3"),
            (0.0, "0"),
            (-0.25, "-0.25"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
        ];
        for (float, text) in cases {
            assert_eq!(go_float(float), text);
        }
    }

    #[test]
    fn numbers_are_whole_if_they_are_written_with_a_zero() {
        assert!(Num::Float(2.0).is_whole() && Num::Int(2).is_whole());
        assert!(!Num::Float(2.5).is_whole() && !Num::Float(f64::INFINITY).is_whole());
    }
}
