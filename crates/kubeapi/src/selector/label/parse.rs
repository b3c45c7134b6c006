//! The grammar of label selectors.

use std::collections::BTreeSet;

use super::{Error, Operator, Requirement, key_error};
use crate::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Wrong,
    End,
    Close,
    Comma,
    Not,
    Identifier,
    /// `in` and `notin` are identifiers where a key or a value is expected.
    Word(Operator),
    Sign(Operator),
    Open,
}

type Scanned = (Token, String);

/// Reads the requirements in the order of the text.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, Error> {
    let mut parser = Parser { items: scan(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        let (token, found) = parser.peek();
        match token {
            Token::End => return Ok(requirements),
            Token::Identifier | Token::Not => {
                let requirement =
                    parser.requirement().map_err(|error| Error::Requirement(Box::new(error)))?;
                requirements.push(requirement);
            }
            _ => return unexpected(found, "!, identifier, or 'end of string'"),
        }
        match parser.next() {
            (Token::End, _) => return Ok(requirements),
            (Token::Comma, _) => match parser.peek() {
                (Token::Identifier | Token::Not, _) => {}
                (_, found) => return unexpected(found, "identifier after ','"),
            },
            (_, found) => return unexpected(found, "',' or 'end of string'"),
        }
    }
}

fn unexpected<T>(found: String, expected: &'static str) -> Result<T, Error> {
    Err(Error::Unexpected { found, expected })
}

fn special(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The text as tokens; a NUL ends it.
fn scan(text: &str) -> Vec<Scanned> {
    let text = text.split('\0').next().unwrap_or_default();
    let mut rest = text;
    let mut items = Vec::new();
    loop {
        rest = rest.trim_start_matches(|character: char| u8::try_from(character).is_ok_and(blank));
        let Some(first) = rest.bytes().next() else {
            items.push((Token::End, String::new()));
            return items;
        };
        let (token, length) = match special(first) {
            true => sign(rest),
            false => word(rest),
        };
        let literal = match token {
            Token::Wrong => format!("error expected: keyword found '{}'", &rest[..length]),
            _ => rest[..length].to_owned(),
        };
        items.push((token, literal));
        rest = &rest[length..];
    }
}

fn word(rest: &str) -> (Token, usize) {
    let length = rest.bytes().position(|byte| special(byte) || blank(byte)).unwrap_or(rest.len());
    let token = match &rest[..length] {
        "in" => Token::Word(Operator::In),
        "notin" => Token::Word(Operator::NotIn),
        _ => Token::Identifier,
    };
    (token, length)
}

/// The longest sign at the start. Every special character starts one, so there always is one.
fn sign(rest: &str) -> (Token, usize) {
    let signs = [
        ("==", Token::Sign(Operator::DoubleEquals)),
        ("!=", Token::Sign(Operator::NotEquals)),
        ("=", Token::Sign(Operator::Equals)),
        (">", Token::Sign(Operator::GreaterThan)),
        ("<", Token::Sign(Operator::LessThan)),
        ("!", Token::Not),
        ("(", Token::Open),
        (")", Token::Close),
        (",", Token::Comma),
    ];
    let found = signs.into_iter().find(|(sign, _)| rest.starts_with(sign));
    found.map_or((Token::Wrong, 1), |(sign, token)| (token, sign.len()))
}

struct Parser {
    items: Vec<Scanned>,
    at: usize,
}

impl Parser {
    /// The next token, where words are identifiers.
    fn peek(&self) -> Scanned {
        let (token, literal) = self.peek_operator();
        match token {
            Token::Word(_) => (Token::Identifier, literal),
            other => (other, literal),
        }
    }

    fn peek_operator(&self) -> Scanned {
        self.items.get(self.at).cloned().unwrap_or((Token::End, String::new()))
    }

    fn next(&mut self) -> Scanned {
        let scanned = self.peek();
        self.at += 1;
        scanned
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let (mut token, mut found) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, found) = self.next();
        }
        if token != Token::Identifier {
            return unexpected(found, "identifier");
        }
        let key = found;
        if let Some(error) = key_error(&key, &Path::root()) {
            return Err(Error::Invalid(vec![error]));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => self.value()?,
        };
        Requirement::new(key, operator, values.into_iter().collect())
    }

    fn operator(&mut self) -> Result<Operator, Error> {
        let (token, found) = self.peek_operator();
        self.at += 1;
        match token {
            Token::Word(operator) | Token::Sign(operator) => Ok(operator),
            _ => unexpected(found, "in, notin, =, ==, !=, gt, lt"),
        }
    }

    fn set(&mut self) -> Result<BTreeSet<String>, Error> {
        let (token, found) = self.next();
        if token != Token::Open {
            return unexpected(found, "'('");
        }
        match self.peek() {
            (Token::Close, _) => {
                self.next();
                Ok(BTreeSet::from([String::new()]))
            }
            (Token::Identifier | Token::Comma, _) => {
                let values = self.identifiers()?;
                self.next();
                Ok(values)
            }
            (_, found) => unexpected(found, "',', ')' or identifier"),
        }
    }

    /// Identifiers between commas, up to the closing parenthesis; nothing between two commas is an empty value.
    fn identifiers(&mut self) -> Result<BTreeSet<String>, Error> {
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                (Token::Identifier, found) => {
                    values.insert(found);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, found) => return unexpected(found, "',' or ')'"),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek().0 {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            self.next();
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, found) => return unexpected(found, "',', or identifier"),
            }
        }
    }

    fn value(&mut self) -> Result<BTreeSet<String>, Error> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next() {
            (Token::Identifier, found) => Ok(BTreeSet::from([found])),
            (_, found) => unexpected(found, "identifier"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::Selector;

    const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

    #[test]
    fn texts_parse_to_their_canonical_form() {
        for (text, canonical) in [
            ("", ""),
            ("x=a,y=b,z=c", "x=a,y=b,z=c"),
            ("z=c, x = a", "x=a,z=c"),
            ("x==a", "x==a"),
            ("x!=a,y=b", "x!=a,y=b"),
            ("x=", "x="),
            ("x= ,z=1", "x=,z=1"),
            ("x,!y", "x,!y"),
            ("!in,notin", "!in,notin"),
            ("x in (b, a)", "x in (a,b)"),
            ("x in ()", "x in ()"),
            ("x in (a,,c)", "x in (,a,c)"),
            ("x in (,a)", "x in (,a)"),
            ("x in (a,)", "x in (,a)"),
            ("x in (in,notin)", "x in (in,notin)"),
            ("x notin (a)", "x notin (a)"),
            ("x>1,z<5", "x>1,z<5"),
            ("x\t\tin\n(a)", "x in (a)"),
            ("a.b/c=d", "a.b/c=d"),
            ("x=a\0,y", "x=a"),
        ] {
            assert_eq!(Selector::parse(text).unwrap().to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn wrong_texts_are_told_why() {
        let at = "unable to parse requirement: ";
        for (text, error) in [
            (",", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
            ("x=a,", "found '', expected: identifier after ','".into()),
            ("x=a b", "found 'b', expected: ',' or 'end of string'".into()),
            ("x=a||y=b", format!("{at}values[0][x]: Invalid value: \"a||y\": {VALUE}")),
            ("x==a==b", "found '==', expected: ',' or 'end of string'".into()),
            ("!x=a", "found '=', expected: ',' or 'end of string'".into()),
            ("!", format!("{at}found '', expected: identifier")),
            (
                "x<a",
                format!(
                    "{at}values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer"
                ),
            ),
            ("x in a", format!("{at}found 'a' expected: '('")),
            ("x in (a", format!("{at}found '', expected: ',' or ')'")),
            ("x in (", format!("{at}found '', expected: ',', ')' or identifier")),
            ("x in (a,=", format!("{at}found '=', expected: ',', or identifier")),
            ("x y", format!("{at}found 'y', expected: in, notin, =, ==, !=, gt, lt")),
            ("x!a", format!("{at}found '!', expected: in, notin, =, ==, !=, gt, lt")),
            ("x=(", format!("{at}found '(', expected: identifier")),
            ("$=a", format!("{at}<nil>: Invalid value: \"$\": {NAME}")),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), error, "{text}");
        }
    }

    #[test]
    fn requirements_are_met_together() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        for (text, pairs, matches) in [
            ("", &[("x", "y")][..], true),
            ("x=y", &[("x", "y")], true),
            ("x=y,z=w", &[("x", "y"), ("z", "w")], true),
            ("x=y,z=w", &[("x", "w"), ("z", "w")], false),
            ("x!=y,z!=w", &[("x", "z"), ("z", "a")], true),
            ("x!=y", &[], true),
            ("notin=in", &[("notin", "in")], true),
            ("x", &[("x", "z")], true),
            ("x", &[("y", "z")], false),
            ("!x", &[("y", "z")], true),
            ("!x", &[("x", "")], false),
            ("x>1", &[("x", "2")], true),
            ("x>1", &[("x", "0")], false),
            ("x<1", &[("x", "0")], true),
            ("x<1", &[("x", "a")], false),
            ("x in (a,b)", &[("x", "b")], true),
            ("x in (a,b)", &[], false),
            ("x notin (a,b)", &[("x", "b")], false),
            ("x notin (a,b)", &[], true),
            ("x in (,a)", &[("x", "")], true),
        ] {
            assert_eq!(Selector::parse(text).unwrap().matches(&labels(pairs)), matches, "{text} {pairs:?}");
        }
    }

    proptest! {
        #[test]
        fn the_canonical_text_is_stable(text in "[a-c!=<>(), ]{0,12}|[a-c]( in | notin )\\([a-c,]{0,5}\\)") {
            if let Ok(selector) = Selector::parse(&text) {
                let canonical = selector.to_string();
                prop_assert_eq!(Selector::parse(&canonical).unwrap().to_string(), canonical);
            }
        }
    }
}
