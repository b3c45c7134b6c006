//! Object metadata: its rules, what the server keeps to itself, and objects that are nothing but metadata.

mod partial;
mod server;
mod validate;

use clock::Entropy;
use serde_json::Value;

pub use partial::{partial, partial_list};
pub use server::{
    GenerationRule, created, ensure_name, ensure_namespace, keep_all_but_status, keep_status, mark_deleted,
    seconds, updated,
};
pub use validate::{core_finalizers, validate, validate_update};

/// Most bytes of all keys and values of annotations together.
pub const ANNOTATIONS_SIZE: usize = 256 * 1024;
/// What is kept of a `generateName`, so that a name is at most 63 characters.
pub const GENERATED_BASE: usize = 58;
/// Dependents live on after their owner.
pub const ORPHAN_FINALIZER: &str = "orphan";
/// Dependents go before their owner.
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// No vowels, and nothing that looks like another: names are read aloud, and should not be words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// A name for a `generateName`: its start, and five characters that are hard to guess wrong.
pub fn generate_name(base: &str, entropy: &mut dyn Entropy) -> String {
    let end = (0..=GENERATED_BASE.min(base.len())).rev().find(|end| base.is_char_boundary(*end));
    let mut name = base[..end.unwrap_or(0)].to_owned();
    for _ in 0..SUFFIX_LENGTH {
        let drawn = usize::try_from(entropy.below(27)).unwrap_or(0);
        name.push(char::from(ALPHABET[drawn]));
    }
    name
}

/// A random UID (UUID version 4).
pub fn new_uid(entropy: &mut dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// A text in an object's metadata; empty if it is not there.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// An object's generation; 0 if it has none.
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or(0)
}

/// Whether an object is on its way out.
pub fn is_being_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

#[cfg(test)]
mod tests {
    use clock::SeededEntropy;

    use super::*;

    #[test]
    fn generated_names_fit() {
        let mut entropy = SeededEntropy::new(1);
        for (base, length) in [("a-", 7), ("", 5), (&*"x".repeat(58), 63), (&*"x".repeat(70), 63)] {
            let name = generate_name(base, &mut entropy);
            assert_eq!(name.len(), length, "{name}");
            assert!(name.starts_with(&base[..base.len().min(58)]), "{name}");
            assert!(name.bytes().rev().take(5).all(|byte| ALPHABET.contains(&byte)), "{name}");
        }
        assert_eq!(generate_name(&"é".repeat(40), &mut entropy).chars().count(), 29 + 5);
        let twice = [(); 2].map(|()| generate_name("a", &mut SeededEntropy::new(3)));
        assert_eq!(twice[0], twice[1]);
    }

    #[test]
    fn uids_are_version_4() {
        let mut entropy = SeededEntropy::new(1);
        for _ in 0..50 {
            let uid = new_uid(&mut entropy);
            let parts: Vec<usize> = uid.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{uid}");
            assert_eq!(&uid[14..15], "4", "{uid}");
            assert!("89ab".contains(&uid[19..20]), "{uid}");
        }
    }
}
