//! How answers are printed.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Context as _;
use serde_json::Value;

/// The forms of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns for people
    #[default]
    Table,
    /// All columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only kinds and names
    Name,
}

/// Prints text. A reader who has seen enough is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing to stdout"),
    }
}

/// A document as JSON or YAML.
pub(crate) fn document(value: &Value, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
        _ => serde_saphyr::to_string(value).context("writing YAML")?,
    })
}

/// Columns, aligned by their widest cells.
pub(crate) fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(head.get(column).map_or(0, |cell| cell.chars().count()))
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("   ").trim_end())
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// What a state is painted with, on terminals only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Good,
    Waiting,
    Bad,
    Faint,
}

/// Paints text if `on`.
pub(crate) fn paint(text: &str, paint: Paint, on: bool) -> String {
    if !on {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Good => 32,
        Paint::Waiting => 33,
        Paint::Bad => 31,
        Paint::Faint => 2,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Whether stdout takes colours: it is a terminal, and NO_COLOR is not set.
pub(crate) fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "b".into()], vec!["longer".into(), String::new()]];
        assert_eq!(columns(&["NAME", "X"], &rows), "NAME     X\na        b\nlonger\n");
    }

    #[test]
    fn colours_are_for_terminals() {
        assert_eq!(paint("x", Paint::Good, false), "x");
        assert_eq!(paint("x", Paint::Good, true), "\u{1b}[32mx\u{1b}[0m");
    }
}
