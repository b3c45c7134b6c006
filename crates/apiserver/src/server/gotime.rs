//! Times as Go reads and writes them.

use jiff::Timestamp;

/// The parts of a time in the order they are read, by how Go's layouts write them.
const PARTS: [&str; 11] = ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"];

/// A time in the form that a server gives it back: in UTC, to the second or, if `micro`, to the microsecond.
///
/// # Errors
/// What Go says about the first part that it cannot read.
pub(super) fn canonical(text: &str, micro: bool) -> Result<String, String> {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let failed = |why: String| format!("parsing time {text:?} as {layout:?}: {why}");
    let stuck = |(rest, part): (&str, &str)| failed(format!("cannot parse {rest:?} as {part:?}"));
    read(text, micro).map_err(stuck)?;
    let time: Timestamp = text.parse().map_err(|_| failed("day out of range".into()))?;
    // Cut off, not rounded.
    let whole = time.as_microsecond().div_euclid(1_000_000);
    let fraction = time.as_microsecond().rem_euclid(1_000_000);
    let seconds = Timestamp::from_second(whole).map_err(|error| failed(error.to_string()))?.to_string();
    Ok(match micro {
        true => seconds.replace('Z', &format!(".{fraction:06}Z")),
        false => seconds,
    })
}

/// Reads the parts; gives the rest and the part where that does not work.
fn read(text: &str, micro: bool) -> Result<(), (&str, &'static str)> {
    let mut rest = text;
    for part in PARTS {
        let (head, tail) = rest.split_at_checked(part.len()).ok_or((rest, part))?;
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        let fits = if digits { head.bytes().all(|byte| byte.is_ascii_digit()) } else { head == part };
        rest = fits.then_some(tail).ok_or((rest, part))?;
    }
    let places = rest.strip_prefix('.').unwrap_or_default().bytes().take_while(u8::is_ascii_digit).count();
    match (micro, places) {
        (true, 6..) => rest = &rest[7..],
        (true, _) => return Err((rest, ".000000")),
        (false, 1..) => rest = &rest[places + 1..],
        (false, 0) => {}
    }
    let zone = rest.as_bytes();
    let fits = matches!(zone, [b'Z' | b'z'])
        || matches!(zone, [b'+' | b'-', a, b, b':', c, d] if [a, b, c, d].iter().all(|byte| byte.is_ascii_digit()));
    if fits { Ok(()) } else { Err((rest, "Z07:00")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_reads_them() {
        for (text, micro, wanted) in [
            ("2026-01-01T00:00:00Z", false, "2026-01-01T00:00:00Z"),
            ("2026-01-01T00:00:00.5+01:00", false, "2025-12-31T23:00:00Z"),
            ("2026-01-01T00:00:00.123456Z", true, "2026-01-01T00:00:00.123456Z"),
            ("1969-12-31T23:59:59.999999Z", true, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(canonical(text, micro).as_deref(), Ok(wanted), "{text}");
        }
        for (text, micro, why) in [
            ("x", false, "cannot parse \"x\" as \"2006\""),
            ("", false, "cannot parse \"\" as \"2006\""),
            ("2026-1-01", false, "cannot parse \"1-01\" as \"01\""),
            ("2026-01-01T00:00:00Z", true, "cannot parse \"Z\" as \".000000\""),
            ("2026-01-01T00:00:00.5Z", true, "cannot parse \".5Z\" as \".000000\""),
            ("2026-01-01T00:00:00.123456789+01:00", true, "cannot parse \"789+01:00\" as \"Z07:00\""),
            ("2026-02-31T00:00:00Z", false, "day out of range"),
        ] {
            let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
            assert_eq!(canonical(text, micro), Err(format!("parsing time {text:?} as {layout:?}: {why}")));
        }
    }
}
