//! Field selectors: `status.phase=Running,spec.nodeName!=a`.

use std::collections::BTreeMap;
use std::fmt;

/// Why a text is not a field selector, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator {
        /// The whole text.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash before something that needs none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A comma or an equals sign without a backslash; upstream shows its code point.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// The field's path, such as `metadata.name`.
    pub field: String,
    /// Whether the field must have the value, or must not.
    pub equal: bool,
    /// The value.
    pub value: String,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.field, if self.equal { "=" } else { "!=" }, escape(&self.value))
    }
}

/// A selector: all of its terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    terms: Vec<Term>,
}

impl Selector {
    /// Reads a selector; an empty text selects everything.
    ///
    /// # Errors
    /// If a term has no operator, or a value is not escaped properly.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty()).map(|part| {
            let (field, operator, value) = split_term(part)
                .ok_or_else(|| Error::NoOperator { selector: text.into(), term: part.into() })?;
            Ok(Term { field: field.into(), equal: operator != "!=", value: unescape(value)? })
        });
        Ok(Selector { terms: terms.collect::<Result<_, _>>()? })
    }

    /// A selector of these terms.
    pub fn of(terms: impl IntoIterator<Item = Term>) -> Self {
        Selector { terms: terms.into_iter().collect() }
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether an object with these fields is selected. A field that is not there is empty.
    pub fn matches(&self, fields: &BTreeMap<String, String>) -> bool {
        self.matches_with(|field| fields.get(field).map(String::as_str).unwrap_or_default())
    }

    /// As [`Selector::matches`], with the fields looked up one by one.
    pub fn matches_with<'a>(&self, value_of: impl Fn(&str) -> &'a str) -> bool {
        self.terms.iter().all(|term| (value_of(&term.field) == term.value) == term.equal)
    }

    /// The one value that the field must have, if the selector asks for one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Checks (and may rename) every field: a kind knows only some.
    ///
    /// # Errors
    /// The first error that `convert` gives.
    pub fn convert<E>(self, convert: impl Fn(Term) -> Result<Term, E>) -> Result<Self, E> {
        Ok(Selector { terms: self.terms.into_iter().map(convert).collect::<Result<_, _>>()? })
    }
}

/// The canonical text: sorted, `==` as `=`.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// A literal text as the value of a term.
pub fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

fn unescape(value: &str) -> Result<String, Error> {
    let mut literal = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        literal.push(match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => escaped,
                Some(other) => return Err(Error::Escape(format!("\\{other}"))),
                None => return Err(Error::Escape("\\".into())),
            },
            ',' | '=' => return Err(Error::Unescaped(character)),
            plain => plain,
        });
    }
    Ok(literal)
}

/// Splits at commas that have no backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|character| {
        let splits = character == ',' && !escaped;
        escaped = character == '\\' && !escaped;
        splits
    })
    .collect()
}

/// Splits at the first operator: nothing can be escaped in a field's name.
fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let rest = &term[at..];
        let operator = ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator))?;
        Some((&term[..at], operator, &rest[operator.len()..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn texts_parse_to_their_canonical_form() {
        for (text, canonical) in [
            ("", ""),
            (",", ""),
            ("x=a,y=b,z=c", "x=a,y=b,z=c"),
            ("z=c,,x==a", "x=a,z=c"),
            ("x!=a,y=b", "x!=a,y=b"),
            (r"x=a||y\=b", r"x=a||y\=b"),
            (r"x=a\=\=b", r"x=a\=\=b"),
            (r"x=a\,b\\", r"x=a\,b\\"),
            ("x=", "x="),
        ] {
            assert_eq!(Selector::parse(text).unwrap().to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn wrong_texts_are_told_why() {
        for (text, error) in [
            ("x", "invalid selector: 'x'; can't understand 'x'"),
            ("x=a,b", "invalid selector: 'x=a,b'; can't understand 'b'"),
            ("x in (a)", "invalid selector: 'x in (a)'; can't understand 'x in (a)'"),
            ("x=a=b", "invalid field selector: unescaped character in value: 61"),
            ("x==a==b", "invalid field selector: unescaped character in value: 61"),
            (r"x=\a", r"invalid field selector: invalid escape sequence: \a"),
            (r"x=a\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), error, "{text}");
        }
    }

    #[test]
    fn terms_are_matched_together() {
        let object = fields(&[("foo", "bar"), ("baz", "blah"), ("complex", r"=value\,\")]);
        for (text, matches) in [
            ("", true),
            ("foo=bar", true),
            ("foo=bar,baz=blah", true),
            (r"foo=bar,baz=blah,complex=\=value\\\,\\", true),
            ("foo=blah", false),
            ("foo!=bar", false),
            ("foo!=x,baz!=y", true),
            ("foo=bar,other=bar", false),
            ("other=", true),
            ("other!=", false),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(&object), matches, "{text}");
        }
    }

    #[test]
    fn an_exact_value_is_found() {
        for (text, value) in
            [("metadata.name=a", Some("a")), ("metadata.name!=a", None), ("x=y,metadata.name==b", Some("b"))]
        {
            assert_eq!(Selector::parse(text).unwrap().exact("metadata.name"), value, "{text}");
        }
    }
}
