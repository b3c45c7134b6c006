//! The small JSON paths that point to a field of a schema: `.spec.replicas`, `.labels['app']`.

use super::node::Node;
use crate::Path;

/// The place that a path stands for and its schema; or why there is none.
pub(crate) fn resolve<'a>(text: &str, root: &'a Node, brackets: bool) -> Result<(Path, &'a Node), String> {
    let (mut path, mut node) = (Path::root(), root);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (name, after) = match first {
            '.' => match token(&rest[1..]) {
                "" => return Err("unexpected end of JSON path".into()),
                name => (name.to_owned(), &rest[1 + name.len()..]),
            },
            '[' if !brackets => return Err("array notation is not allowed".into()),
            '[' => quoted(&rest[1..])?,
            _ => return Err(format!("expected [ or . but got: {}", token(rest))),
        };
        rest = after;
        (path, node) = step(&path, node, &name).ok_or("does not refer to a valid field")?;
    }
    Ok((path, node))
}

fn token(text: &str) -> &str {
    text.split(['.', '[', ']']).next().unwrap_or_default()
}

/// A name in quotes up to the closing bracket, and what comes after.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let Some(inside) = text.strip_prefix('\'') else {
        return Err(match token(text) {
            "" => "unexpected end of JSON path".into(),
            other => format!("expected single quoted string but got {other}"),
        });
    };
    let mut name = String::new();
    let mut letters = inside.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => {
                return match inside[at + 1..].strip_prefix(']') {
                    Some(after) => Ok((name, after)),
                    None if inside.len() == at + 1 => Err("unexpected end of JSON path".into()),
                    None => Err(format!("expected ] but got {}", token(&inside[at + 1..]))),
                };
            }
            '\\' => name.push(unescaped(letters.next().map(|(_, letter)| letter))?),
            letter => name.push(letter),
        }
    }
    Err("unexpected end of JSON path".into())
}

fn unescaped(letter: Option<char>) -> Result<char, String> {
    Ok(match letter {
        Some('a') => '\x07',
        Some('b') => '\x08',
        Some('f') => '\x0c',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('v') => '\x0b',
        Some(letter @ ('\'' | '\\')) => letter,
        other => {
            return Err(format!("invalid string literal: invalid escape char \\{}", other.unwrap_or(' ')));
        }
    })
}

fn step<'a>(path: &Path, node: &'a Node, name: &str) -> Option<(Path, &'a Node)> {
    match node.properties.is_empty() {
        false => Some((path.child(name), node.properties.get(name)?)),
        true => Some((path.key(name), node.additional_schema()?)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Structural;
    use super::*;

    #[test]
    fn paths_lead_to_fields() {
        let schema = Structural::compile(&json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}, "d": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        }}))
        .unwrap();
        let cases = [
            (".a.d", true, Ok("a.d")),
            (".a['b.c']", true, Ok("a.b.c")),
            (".m.x", true, Ok("m[x]")),
            (".m['it\\'s']", true, Ok("m[it's]")),
            (".a['d']", false, Err("array notation is not allowed")),
            (".x", true, Err("does not refer to a valid field")),
            (".a.d.e", true, Err("does not refer to a valid field")),
            ("a", true, Err("expected [ or . but got: a")),
            (".", true, Err("unexpected end of JSON path")),
            (".a[d]", true, Err("expected single quoted string but got d")),
            (".a['d'", true, Err("unexpected end of JSON path")),
            (".a['\\x']", true, Err("invalid string literal: invalid escape char \\x")),
        ];
        for (path, brackets, expected) in cases {
            let found = resolve(path, schema.node(), brackets).map(|(path, _)| path.as_str().to_owned());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{path}");
        }
    }
}
