//! The grammar of paths.

use serde_json::{Value, json};

use super::{Step, To};

/// The steps of a path.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut parser = Parser { rest: text, steps: Vec::new() };
    while !parser.rest.is_empty() {
        parser.step()?;
    }
    Ok(parser.steps)
}

struct Parser<'a> {
    rest: &'a str,
    steps: Vec<Step>,
}

impl<'a> Parser<'a> {
    fn step(&mut self) -> Result<(), String> {
        if let Some(rest) = self.rest.strip_prefix("[?(") {
            return self.filter(rest);
        }
        if let Some(rest) = self.rest.strip_prefix("..") {
            return self.descent(rest);
        }
        let first = self.rest.chars().next().unwrap_or(' ');
        match first {
            ' ' | '@' | '$' => self.rest = &self.rest[1..],
            '[' => return self.list(),
            '"' | '\'' => return self.quoted(first),
            '.' => {
                self.rest = &self.rest[1..];
                self.field();
            }
            '+' | '-' => return self.number(),
            digit if digit.is_ascii_digit() => return self.number(),
            letter if letter == '_' || letter.is_alphabetic() => return self.word(),
            other => {
                return Err(format!(
                    "unrecognized character in action: U+{:04X} '{other}'",
                    u32::from(other)
                ));
            }
        }
        Ok(())
    }

    /// Takes the text up to where a name ends; a backslash hides what follows it.
    fn name(&mut self) -> &'a str {
        let mut hidden = false;
        let end = self.rest.find(|character: char| {
            let ends = !hidden && (character.is_whitespace() || ".,[]$@{}".contains(character));
            hidden = !hidden && character == '\\';
            ends
        });
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        name
    }

    fn field(&mut self) {
        let step = match self.name() {
            "*" => Step::Wildcard,
            // A lone dot is the object itself.
            "" => return,
            name => Step::Field(name.replace('\\', "")),
        };
        self.steps.push(step);
    }

    fn descent(&mut self, rest: &'a str) -> Result<(), String> {
        if self.steps.last() == Some(&Step::Descent) {
            return Err("invalid multiple recursive descent".into());
        }
        self.steps.push(Step::Descent);
        self.rest = rest;
        if rest.starts_with(|first: char| first == '_' || first.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), String> {
        let step = match self.name() {
            "true" => Step::Literal(json!(true)),
            "false" => Step::Literal(json!(false)),
            other => return Err(format!("unrecognized identifier {other}")),
        };
        self.steps.push(step);
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        let digits = |character: char| character.is_ascii_digit() || character == '.';
        let length = 1 + self.rest[1..].find(|character| !digits(character)).unwrap_or(self.rest.len() - 1);
        let (text, rest) = self.rest.split_at(length);
        let number = text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<f64>().map(Value::from));
        self.steps.push(Step::Literal(number.map_err(|_| format!("cannot parse number {text}"))?));
        self.rest = rest;
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        let mut literal = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => literal.extend(characters.next().map(|(_, escaped)| match escaped {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                })),
                end if end == quote => {
                    self.steps.push(Step::Literal(literal.into()));
                    self.rest = &self.rest[at + 1..];
                    return Ok(());
                }
                other => literal.push(other),
            }
        }
        Err("unterminated quoted string".into())
    }

    fn list(&mut self) -> Result<(), String> {
        let (inside, rest) = self.rest[1..].split_once(']').ok_or("unterminated array")?;
        self.rest = rest;
        let mut parts: Vec<&str> = inside.split(',').map(str::trim).collect();
        if parts.len() > 1 {
            let branches = parts.into_iter().map(|part| steps(&format!("[{part}]")));
            self.steps.push(Step::Union(branches.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let part = parts.pop().unwrap_or_default();
        let key = part.strip_prefix('\'').and_then(|part| part.strip_suffix('\''));
        match key.filter(|key| !key.contains('\'')) {
            Some(key) => self.steps.extend(steps(&format!(".{key}"))?),
            None => self.steps.push(range(if part == "*" { ":" } else { part })?),
        }
        Ok(())
    }

    fn filter(&mut self, text: &'a str) -> Result<(), String> {
        let end = filter_end(text).ok_or("unterminated filter")?;
        self.rest = text[end + 1..].strip_prefix(']').ok_or("unclosed array expect ]")?;
        let condition = &text[..end];
        let sign = |character: char| "!<>=".contains(character);
        let step = match condition.find(sign) {
            Some(at) if at > 0 => {
                let after = &condition[at..];
                let length = after.find(|character| !sign(character)).unwrap_or(after.len());
                let (left, operator, right) = (&condition[..at], &after[..length], &after[length..]);
                Step::Filter { left: steps(left)?, operator: Some(operator.into()), right: steps(right)? }
            }
            _ => Step::Filter { left: steps(condition)?, operator: None, right: Vec::new() },
        };
        self.steps.push(step);
        Ok(())
    }
}

/// Where the parenthesis closes that is not in a quotation.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut hidden = false;
    text.find(|character: char| {
        let closes = character == ')' && quote.is_none();
        match (character, quote) {
            _ if hidden => {}
            ('"' | '\'', None) => quote = Some(character),
            (end, Some(start)) if end == start => quote = None,
            _ => {}
        }
        hidden = !hidden && character == '\\';
        closes
    })
}

/// An index, or `from:to:step` of which each may be left out.
fn range(text: &str) -> Result<Step, String> {
    let wrong = || format!("invalid array index {text}");
    let number = |part: &str| match part {
        "" => Ok(None),
        digits => digits.parse::<i64>().map(Some).map_err(|_| wrong()),
    };
    let parts = text.split(':').map(number).collect::<Result<Vec<_>, _>>()?;
    match parts[..] {
        [None] | [] => Err(wrong()),
        [from] => Ok(Step::Range { from, to: To::OneItem, step: None }),
        [from, to] => Ok(Step::Range { from, to: to.map_or(To::End, To::Before), step: None }),
        [from, to, step] => Ok(Step::Range { from, to: to.map_or(To::End, To::Before), step }),
        _ => Err(wrong()),
    }
}
