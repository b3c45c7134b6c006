//! How deep an expression goes, before a parser goes there: the parser, the evaluator and all that looks at expressions
//! call themselves for every level, and a level of the parser takes up to 150 KB of the stack when nothing is optimised.

use std::iter::Peekable;
use std::str::Chars;

use kube_cel::cel::IdedExpr;

use super::meter;

/// The most code points of an expression, as upstream has it.
const MOST_TEXT: usize = 100_000;
/// The most brackets inside of each other, choices (`?`) in all, and levels of what the parser makes of it. Upstream's
/// parser gives up at 250, with more room.
const MOST_LEVELS: usize = 40;
/// The most operators, selections and indices in a row: `a.b + c[0]` has three. A row ends with `,`, `&&` and `||`.
const MOST_IN_A_ROW: usize = 200;
/// Up to this the stack of any thread will do, however a parser takes a text that is wrong.
const SHALLOW: usize = 5;
const FEW_OPERATORS: usize = 30;
/// Enough for what may be.
const STACK: usize = 64 << 20;

const TOO_DEEP: &str = "expression recursion limit exceeded";

/// What a text looks like, without a parser.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    nesting: usize,
    choices: usize,
    row: usize,
    /// Operators, selections and indices in all.
    operators: usize,
}

/// Runs `work`, which parses the text and looks at what comes out, where there is room enough for it.
///
/// # Errors
/// If the text is too long or too deep, or the parser fails for other reasons than what it says.
pub(super) fn with_room<T: Send>(source: &str, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    let size = source.chars().count();
    if size > MOST_TEXT {
        return Err(format!("expression code point size exceeds limit: size: {size}, limit {MOST_TEXT}"));
    }
    let Shape { nesting, choices, row, operators } = shape(source);
    if nesting.max(choices) > MOST_LEVELS || row > MOST_IN_A_ROW {
        return Err(TOO_DEEP.into());
    }
    if nesting.max(choices) <= SHALLOW && operators <= FEW_OPERATORS {
        return Ok(work());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| format!("no thread to parse it on: {error}"))?;
        thread.join().map_err(|_| "the parser failed".to_owned())
    })
}

/// Whether an expression is not too deep to be evaluated.
///
/// # Errors
/// If it is.
pub(super) fn check(expression: &IdedExpr) -> Result<(), String> {
    if levels(expression) > MOST_LEVELS { Err(TOO_DEEP.into()) } else { Ok(()) }
}

fn levels(expression: &IdedExpr) -> usize {
    1 + meter::children(&expression.expr).into_iter().map(levels).max().unwrap_or(0)
}

impl Shape {
    fn operator(&mut self) {
        self.row += 1;
        self.operators += 1;
    }
}

fn shape(source: &str) -> Shape {
    let (mut most, mut at) = (Shape::default(), Shape::default());
    let mut rest = source.chars().peekable();
    let mut raw = false;
    while let Some(character) = rest.next() {
        let was_raw = std::mem::replace(&mut raw, matches!(character, 'r' | 'R'));
        match character {
            '"' | '\'' => skip_text(&mut rest, character, was_raw),
            '/' if rest.peek() == Some(&'/') => drop(rest.by_ref().find(|one| *one == '\n')),
            '(' | '{' => at.nesting += 1,
            '[' => {
                at.nesting += 1;
                at.operator();
            }
            ')' | ']' | '}' => at.nesting = at.nesting.saturating_sub(1),
            '?' => at.choices += 1,
            ',' => at.row = 0,
            // One alone is no operator: the parser goes on as if it were not there.
            '&' | '|' if rest.next_if_eq(&character).is_some() => at.row = 0,
            '+' | '-' | '*' | '/' | '%' | '.' | '<' | '>' | '=' => at.operator(),
            // Raw bytes are raw, too.
            'b' | 'B' => raw = was_raw,
            _ => {}
        }
        most.nesting = most.nesting.max(at.nesting);
        most.row = most.row.max(at.row);
    }
    Shape { choices: at.choices, operators: at.operators, ..most }
}

/// Goes on behind the end of a text that began with this quote.
fn skip_text(rest: &mut Peekable<Chars<'_>>, quote: char, raw: bool) {
    let next = |rest: &mut Peekable<Chars<'_>>| rest.next_if_eq(&quote).is_some();
    let long = match next(rest) {
        // Two quotes are an empty text, three begin a long one.
        true if !next(rest) => return,
        triple => triple,
    };
    let mut quotes = 0;
    while let Some(character) = rest.next() {
        quotes = if character == quote { quotes + 1 } else { 0 };
        if quotes == if long { 3 } else { 1 } {
            return;
        }
        if character == '\\' && !raw {
            rest.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_deep_is_not_parsed_at_all() {
        let nested = |levels: usize| "(".repeat(levels) + "true" + &")".repeat(levels);
        for (source, taken) in [
            (nested(MOST_LEVELS), true),
            (nested(MOST_LEVELS + 1), false),
            ("1+".repeat(3_000), false),
            ("true ? true : ".repeat(100) + "true", false),
            ("true && ".repeat(1_000) + "true", true),
            (" ".repeat(MOST_TEXT + 1), false),
        ] {
            assert_eq!(with_room(&source, || ()).is_ok(), taken, "{}", &source[..20]);
        }
        assert_eq!(
            with_room(&nested(20), || panic!("as parsers do")),
            Err::<(), _>("the parser failed".into())
        );
    }

    #[test]
    fn brackets_choices_and_rows_are_counted_outside_of_texts() {
        for (source, nesting, choices, row) in [
            ("true", 0, 0, 0),
            ("((a)) + (b)", 2, 0, 1),
            ("a.b + c[0]", 1, 0, 3),
            ("a.b.c && d.e || f.g.h.i, j", 0, 0, 3),
            ("a ? b : c ? d : e", 0, 2, 0),
            ("'((((' + \"[[[[\"", 0, 0, 1),
            (r#"'\'((((' + ("#, 1, 0, 1),
            (r#"r'\' + ((("#, 3, 0, 1),
            (r#"rb"\" + ((("#, 3, 0, 1),
            ("br'\\' + (((", 3, 0, 1),
            (r#""""a"b""" + ((("#, 3, 0, 1),
            ("'' + (((", 3, 0, 1),
            ("'''((((''' + (((", 3, 0, 1),
            ("// it's\n(((", 3, 0, 0),
            ("{'a': {}}", 2, 0, 0),
            ("&a *a &a *a &&a *a", 0, 0, 2),
        ] {
            let found = shape(source);
            assert_eq!((found.nesting, found.choices, found.row), (nesting, choices, row), "{source}");
        }
    }
}
