use md5::Md5;
use sha2::{Digest, Sha256};

/// Longest value of a label.
const LONGEST_LABEL_VALUE: usize = 63;

/// The first `digits` hex digits of the MD5 of `text`; at most 32.
pub fn md5_hex(text: &str, digits: usize) -> String {
    let mut hex = hex(&Md5::digest(text.as_bytes()));
    hex.truncate(digits);
    hex
}

/// What identifies a plan: SHA-256 of its bytes, in hex.
pub fn plan_hash(plan: &[u8]) -> String {
    sha256_hex(plan)
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&sha256(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `text` as the value of a label, as Cluster API puts names of sets and deployments there: itself if it is one,
/// otherwise a hash of it.
pub fn label_value(text: &str) -> String {
    if is_label_value(text) { text.to_owned() } else { format!("hash_{}_z", base64_url(fnv32a(text))) }
}

fn is_label_value(text: &str) -> bool {
    let ends = |letter: Option<&u8>| letter.is_none_or(u8::is_ascii_alphanumeric);
    text.len() <= LONGEST_LABEL_VALUE
        && ends(text.as_bytes().first())
        && ends(text.as_bytes().last())
        && text.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter))
}

fn fnv32a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Four bytes, most significant first, in base64 for URLs without padding: six characters.
fn base64_url(number: u32) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 32 bits are five groups of six and two bits, which count as the upper ones of a sixth group.
    let bits = u64::from(number) << 4;
    (0..6).rev().map(|group| char::from(ALPHABET[(bits >> (6 * group)) as usize & 63])).collect()
}

/// Letters of base32.
pub(super) const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Letters of base32 that keep the order of what is encoded.
pub(super) const BASE32_HEX: &[u8; 32] = b"0123456789ABCDEFGHIJKLMNOPQRSTUV";

/// Base32 without padding.
pub(super) fn base32(bytes: &[u8], alphabet: &[u8; 32]) -> String {
    let mut text = String::new();
    let (mut bits, mut count) = (0_u32, 0);
    for &byte in bytes {
        bits = bits << 8 | u32::from(byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(char::from(alphabet[(bits >> count & 31) as usize]));
        }
        bits &= (1 << count) - 1;
    }
    if count > 0 {
        text.push(char::from(alphabet[(bits << (5 - count) & 31) as usize]));
    }
    text
}
