use super::hash::sha256_hex;

/// Longest name of most objects.
const LONGEST: usize = 63;
/// Hex digits at the end of a cut name, when the cut falls on a letter or digit.
const DIGITS: usize = 5;

/// The parts joined with `-`; beyond 63 bytes, cut and ended with a piece of the whole name's hash.
pub fn safe_concat<Part: AsRef<str>>(parts: &[Part]) -> String {
    safe_concat_within(LONGEST, parts)
}

/// As [`safe_concat`], with another limit. A limit of 5 or less leaves no room for a hash: the name is just cut.
pub fn safe_concat_within<Part: AsRef<str>>(longest: usize, parts: &[Part]) -> String {
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    let whole = parts.join("-");
    if whole.len() <= longest {
        return whole;
    }
    if longest <= DIGITS {
        return prefix(&whole, longest).to_owned();
    }
    let hash = sha256_hex(whole.as_bytes());
    let Some(last) = longest.checked_sub(DIGITS + 2) else {
        return hash[..DIGITS].to_owned();
    };
    // A name may not have a dash or dot before the dash that is put in: cut one byte earlier, take one digit more.
    if matches!(whole.as_bytes()[last], b'a'..=b'z' | b'0'..=b'9') {
        format!("{}-{}", prefix(&whole, last + 1), &hash[..DIGITS])
    } else {
        format!("{}-{}", prefix(&whole, last), &hash[..=DIGITS])
    }
}

/// The first `length` bytes, less a character that they would split. Names of objects are ASCII; other text gets
/// here only on its way to being refused, and must not bring anything down.
fn prefix(text: &str, length: usize) -> &str {
    &text[..text.floor_char_boundary(length)]
}
