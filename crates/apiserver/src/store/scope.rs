use std::sync::Arc;

/// A set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All keys that start with this. Empty: all keys.
    Prefix(Arc<str>),
    /// This key only.
    Key(Arc<str>),
}

impl Scope {
    /// All keys that start with `prefix`.
    pub fn prefix(prefix: impl Into<Arc<str>>) -> Self {
        Scope::Prefix(prefix.into())
    }

    /// This key only.
    pub fn key(key: impl Into<Arc<str>>) -> Self {
        Scope::Key(key.into())
    }

    /// Whether `key` is one of them.
    pub fn contains(&self, key: &str) -> bool {
        match self {
            Scope::Prefix(prefix) => key.starts_with(&**prefix),
            Scope::Key(one) => key == &**one,
        }
    }

    /// The text that every key of the set begins with: none of them sorts before it.
    pub(super) fn start(&self) -> &str {
        match self {
            Scope::Prefix(text) | Scope::Key(text) => text,
        }
    }

    /// The least text that sorts after every key of the set; none if there is no such text.
    pub(super) fn end(&self) -> Option<String> {
        match self {
            Scope::Key(key) => Some(format!("{key}\0")),
            Scope::Prefix(prefix) => successor(prefix),
        }
    }
}

/// The least text after everything that starts with `prefix`. UTF-8 sorts as its code points do.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let after = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(after) = after {
            text.push(after);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_comes_right_after_the_last_key() {
        let cases = [
            (Scope::prefix("/a/"), Some("/a0")),
            (Scope::prefix(""), None),
            (Scope::prefix("a\u{10FFFF}"), Some("b")),
            (Scope::prefix("\u{D7FF}"), Some("\u{E000}")),
            (Scope::prefix("\u{10FFFF}"), None),
            (Scope::key("/a"), Some("/a\0")),
        ];
        for (scope, end) in cases {
            assert_eq!(scope.end().as_deref(), end, "{scope:?}");
        }
    }

    #[test]
    fn a_key_is_not_a_prefix() {
        assert!(Scope::prefix("/a").contains("/ab"));
        assert!(!Scope::key("/a").contains("/ab"));
        assert!(Scope::key("/a").contains("/a"));
    }
}
