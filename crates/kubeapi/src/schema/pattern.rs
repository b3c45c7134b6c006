//! Go's regular expressions by the `regex` crate: nearly one syntax, and this module is the difference.
//!
//! Not carried over: octal escapes (`\123`) and `\C` are refused, and a repetition above 1000 is accepted where Go
//! refuses it. What the error of a malformed pattern says is worded differently.

use regex::{Regex, RegexBuilder};

/// Patterns of CRDs are small; a repeated class of all of Unicode is not.
const MOST_BYTES: usize = 16 << 20;

/// Compiles a pattern that is meant for Go's `regexp`.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern);
    RegexBuilder::new(&translated).size_limit(MOST_BYTES).build().map_err(|error| match error {
        regex::Error::Syntax(text) => {
            let reason = text.lines().rev().find_map(|line| line.trim().strip_prefix("error: "));
            format!("error parsing regexp: {}: `{pattern}`", reason.unwrap_or("malformed"))
        }
        other => format!("error parsing regexp: {other}"),
    })
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut in_class = false;
    let mut class_start = false;
    while let Some(next) = rest.chars().next() {
        let at_class_start = std::mem::take(&mut class_start);
        if next == '\\' {
            rest = escape(&rest[1..], in_class, &mut out);
            continue;
        }
        rest = &rest[next.len_utf8()..];
        match (in_class, next) {
            (false, '[') => {
                (in_class, class_start) = (true, true);
                out.push('[');
                if let Some(negated) = rest.strip_prefix('^') {
                    rest = negated;
                    out.push('^');
                }
            }
            (false, '{') if !is_repetition(rest) => out += "\\{",
            (true, ']') if at_class_start => out += "\\]",
            (true, ']') => {
                in_class = false;
                out.push(']');
            }
            (true, '[') => match rest.find(":]").filter(|_| rest.starts_with(':')) {
                Some(end) => {
                    out.push('[');
                    out += &rest[..end + 2];
                    rest = &rest[end + 2..];
                }
                None => out += "\\[",
            },
            // Set operations that Go does not have.
            (true, '&' | '~') => {
                out.push('\\');
                out.push(next);
            }
            _ => out.push(next),
        }
    }
    out
}

/// `3}`, `3,}` or `3,5}`: anything else after a brace makes the brace a plain character in Go.
fn is_repetition(after_brace: &str) -> bool {
    let Some((inside, _)) = after_brace.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

/// Go's classes are ASCII, those of `regex` are Unicode. Returns what comes after the escape.
fn escape<'a>(rest: &'a str, in_class: bool, out: &mut String) -> &'a str {
    let Some(letter) = rest.chars().next() else {
        out.push('\\');
        return "";
    };
    let after = &rest[letter.len_utf8()..];
    let class = match letter {
        'd' | 'D' => "0-9",
        'w' | 'W' => "0-9A-Za-z_",
        's' | 'S' => "\\t\\n\\x0C\\r ",
        'b' | 'B' => {
            out.push_str(&format!("(?-u:\\{letter})"));
            return after;
        }
        'Q' => {
            let (literal, after) = after.split_once("\\E").unwrap_or((after, ""));
            *out += &regex::escape(literal);
            return after;
        }
        // Word boundaries for `regex`, plain characters for Go.
        '<' | '>' => {
            out.push(letter);
            return after;
        }
        _ => {
            out.push('\\');
            out.push(letter);
            // `\p{Greek}` and `\x{1F600}`: these braces are no repetition.
            let braced = matches!(letter, 'p' | 'P' | 'x') && after.starts_with('{');
            let length = after.find('}').filter(|_| braced).map_or(0, |end| end + 1);
            *out += &after[..length];
            return &after[length..];
        }
    };
    match (letter.is_ascii_uppercase(), in_class) {
        (true, _) => *out += &format!("[^{class}]"),
        (false, true) => *out += class,
        (false, false) => *out += &format!("[{class}]"),
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_go() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^[\w-]+$", "a_b-C9", true),
            (r"^[\w.-]+$", "ä", false),
            (r"^[^\s]+$", "a b", false),
            (r"^\S+$", "ab", true),
            (r"^[\D]$", "x", true),
            (r"^\$\{\w+}$", "${abc}", true),
            (r"^{a}$", "{a}", true),
            (r"^a{2,3}$", "aaaa", false),
            (r"^a{2,}$", "aaaa", true),
            (r"^[[]$", "[", true),
            (r"^[]]$", "]", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"^[a&&b]+$", "&", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\<x\>$", "<x>", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^(?i)ab$", "AB", true),
            (r"^a$", "a\n", false),
            (r"^a.b$", "a\nb", false),
            (r"^\p{Greek}$", "α", true),
        ];
        for (pattern, text, matches) in cases {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.is_match(text), matches, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for pattern in ["(", "[a", "a**b(", "(?=x)", r"\8"] {
            let error = compile(pattern).unwrap_err();
            assert!(error.starts_with("error parsing regexp: "), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
