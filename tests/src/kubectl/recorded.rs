//! What a real Kubernetes answered, kept in the repository: ours is compared with it where no real one is at hand.
//!
//! `tests/recorded/kubectl/<script>.json` has each command of a script, its exit code and its masked output. The tier `peers`
//! compares the files with a real Kubernetes; `UPDATE_RECORDED=1` writes them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::run::{Did, Transcript};
use super::script::Script;

/// How the files come about.
pub const REFRESH: &str =
    "UPDATE_RECORDED=1 cargo test --workspace --test kubectl -- --ignored kubectl_on_both";

/// A command and what it did.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    run: String,
    code: Option<i32>,
    output: Vec<String>,
}

/// By number, from 1: a client may be too old for some commands.
type Answers = BTreeMap<usize, Answer>;

/// What was recorded for these scripts.
pub fn read(scripts: &[Script]) -> Result<Transcript> {
    let mut transcript = Transcript::new();
    for script in scripts {
        let path = path(script);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{}: nothing is recorded; {REFRESH}", path.display()))?;
        let answers: Answers = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        for (number, answer) in answers {
            let command = script.commands.get(number.wrapping_sub(1));
            ensure!(
                command.is_some_and(|command| command.run == answer.run),
                "{} {number}: the script has another command than {:?}; {REFRESH}",
                script.name,
                answer.run
            );
            let did = Did { code: answer.code, output: answer.output.join("\n"), wrong: None };
            transcript.insert((script.name.clone(), number - 1), did);
        }
    }
    Ok(transcript)
}

/// Records what a real Kubernetes did.
pub fn write(scripts: &[Script], transcript: &Transcript) -> Result<()> {
    for script in scripts {
        let answer = |index: usize| {
            let did = transcript.get(&(script.name.clone(), index))?;
            let run = script.commands.get(index)?.run.clone();
            let output = did.output.split('\n').map(str::to_owned).collect();
            Some((index + 1, Answer { run, code: did.code, output }))
        };
        let answers: Answers = (0..script.commands.len()).filter_map(answer).collect();
        let path = path(script);
        fs::create_dir_all(path.parent().context("no directory")?)?;
        fs::write(&path, serde_json::to_string_pretty(&answers)? + "\n")?;
    }
    Ok(())
}

fn path(script: &Script) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/recorded/kubectl"))
        .join(format!("{}.json", script.name))
}
