//! docs/cli.md, made from the command line itself. `UPDATE_GOLDEN=1 cargo test -p herdsman reference` writes it.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

/// The page as it should be.
fn page() -> String {
    let mut command = crate::cli::Cli::command();
    command.build();
    let mut text = String::from(
        "# The command line\n\nEvery command ends with 0 on success, 1 on failure and 2 on wrong usage, unless it says otherwise; errors go to stderr.\n",
    );
    commands(&command, "herdsman", &mut text);
    text
}

fn commands(command: &Command, path: &str, text: &mut String) {
    for one in command.get_subcommands().filter(|one| one.get_name() != "help" && !one.is_hide_set()) {
        let path = format!("{path} {}", one.get_name());
        if !one.is_subcommand_required_set() {
            section(one, &path, text);
        }
        commands(one, &path, text);
    }
}

fn section(command: &Command, path: &str, text: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "\n## `{path}{}`\n\n{about}.\n", positionals(command));
    let rows: Vec<String> = command.get_arguments().filter(|arg| shown(arg)).map(row).collect();
    if !rows.is_empty() {
        let _ = write!(text, "\n| | |\n|---|---|\n{}", rows.concat());
    }
}

fn shown(arg: &Arg) -> bool {
    // clap's own say the same everywhere.
    let is_own = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpLong | ArgAction::HelpShort | ArgAction::Version
    );
    !arg.is_hide_set() && !is_own
}

fn positionals(command: &Command) -> String {
    let word = |arg: &Arg| match arg.is_required_set() {
        true => format!(" {}", value(arg)),
        false => format!(" [{}]", value(arg)),
    };
    command.get_positionals().map(word).collect()
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string)
}

fn row(arg: &Arg) -> String {
    let takes = arg.get_action().takes_values();
    let flag = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => value(arg),
    };
    let flag = if takes && !arg.is_positional() { format!("{flag} {}", value(arg)) } else { flag };
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let choices: Vec<String> = match takes && !arg.is_hide_possible_values_set() {
        true => arg.get_possible_values().iter().map(|one| format!("`{}`", one.get_name())).collect(),
        false => Vec::new(),
    };
    if !choices.is_empty() {
        let _ = write!(help, ": {}", choices.join(", "));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|one| one.to_string_lossy().into_owned()).collect();
    if takes && !defaults.is_empty() {
        let _ = write!(help, " (default `{}`)", defaults.join(","));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(help, " (or `{}`)", variable.to_string_lossy());
    }
    format!("| `{flag}` | {} |\n", help.replace('|', "\\|").replace('\n', " "))
}

#[test]
fn the_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let page = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page, "docs/cli.md is out of date: UPDATE_GOLDEN=1 cargo test -p herdsman reference");
}
