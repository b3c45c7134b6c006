//! What those who are asked about a write note for the log.

use std::collections::BTreeMap;

use super::Level;
use crate::name;

/// Notes by key. The first word on a key stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(BTreeMap<String, Note>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    level: Level,
    value: String,
}

impl Annotations {
    /// Notes something for events of this level and above. Gives whether it is noted: a key is `<prefix>/<name>`, and
    /// nobody may say something else of one that is there.
    pub fn add(&mut self, level: Level, key: impl Into<String>, value: impl Into<String>) -> bool {
        let (key, note) = (key.into(), Note { level, value: value.into() });
        if key.split('/').count() != 2 || !name::qualified(&key).is_empty() {
            return false;
        }
        *self.0.entry(key).or_insert_with(|| note.clone()) == note
    }

    /// What an event of this level shows.
    pub fn at(&self, level: Level) -> impl Iterator<Item = (&str, &str)> {
        let shown = self.0.iter().filter(move |(_, note)| note.level <= level);
        shown.map(|(key, note)| (key.as_str(), note.value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_prefix_and_the_first_word_stands() {
        let mut notes = Annotations::default();
        for (key, value, noted) in [
            ("a.b/c", "1", true),
            ("a.b/c", "1", true),
            ("a.b/c", "2", false),
            ("c", "1", false),
            ("a.b/c/d", "1", false),
            ("A_B/c", "1", false),
            ("a.b/", "1", false),
        ] {
            assert_eq!(notes.add(Level::Metadata, key, value), noted, "{key}={value}");
        }
        assert!(notes.add(Level::Request, "a.b/d", "patch"));
        assert_eq!(notes.at(Level::Metadata).collect::<Vec<_>>(), [("a.b/c", "1")]);
        assert_eq!(notes.at(Level::RequestResponse).count(), 2);
    }
}
