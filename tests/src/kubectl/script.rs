//! The tables as data.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Commands that run one after the other in a namespace of their own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    /// What it is about.
    pub title: String,
    /// Files to have in the working directory.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The commands.
    pub commands: Vec<Line>,
}

/// One command.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// For a shell. `{ns}` is the script's namespace, `{v}` the client's minor version.
    pub run: String,
    /// Its input.
    #[serde(default)]
    pub stdin: String,
    /// Its exit code.
    #[serde(default)]
    pub code: i32,
    /// A pattern that its output has to contain on every server.
    pub has: Option<String>,
    /// Compares only the lines that match.
    pub keep: Option<String>,
    /// Replaces matches by `*`, besides what differs on every server.
    pub mask: Option<String>,
    /// Compares the lines in whatever order they come.
    #[serde(default)]
    pub sort: bool,
    /// Repeats it until code and pattern are right.
    #[serde(default)]
    pub eventually: bool,
    /// Ends it after so many seconds, whatever its code.
    pub seconds: Option<u64>,
    /// Commands that run meanwhile.
    #[serde(default)]
    pub meanwhile: Vec<String>,
    /// Only for clients of this minor version or later.
    #[serde(default)]
    pub since: u32,
    /// The output is not compared, and why.
    pub differs: Option<String>,
}

/// All scripts of a directory of `tests`, by name.
pub fn all(directory: &str) -> Result<Vec<Script>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut scripts = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let script: Script = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
        let name = path.file_stem().and_then(|stem| stem.to_str()).context("a file without a name")?;
        scripts.push(Script { name: name.to_owned(), ..script });
    }
    scripts.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(scripts)
}
