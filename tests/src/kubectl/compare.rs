//! What two servers' transcripts have that they should not have.

use super::run::{Did, Transcript};
use super::script::{Line, Script};
use super::versions::Kubectl;
use crate::target::Kind;

/// What commands did that is wrong on any server.
pub fn wrong(kubectl: &Kubectl, kind: Kind, transcript: &Transcript) -> Vec<String> {
    let complaint = |((script, index), did): (&(String, usize), &Did)| {
        Some(format!("{kind:?} 1.{} {script} {}: {}", kubectl.minor, index + 1, did.wrong.as_ref()?))
    };
    transcript.iter().filter_map(complaint).collect()
}

/// What commands did otherwise on our server than on the real one.
pub fn differences(
    kubectl: &Kubectl,
    scripts: &[Script],
    theirs: &Transcript,
    ours: &Transcript,
) -> Vec<String> {
    let commands = scripts.iter().flat_map(|script| {
        script.commands.iter().enumerate().map(move |(index, line)| ((script.name.clone(), index), line))
    });
    commands
        .filter_map(|(key, line)| {
            let difference = difference(line, theirs.get(&key)?, ours.get(&key)?)?;
            Some(format!("1.{} {} {} ({}): {difference}", kubectl.minor, key.0, key.1 + 1, line.run))
        })
        .collect()
}

fn difference(line: &Line, theirs: &Did, ours: &Did) -> Option<String> {
    // What is wrong on its own has been said.
    if theirs.wrong.is_some() || ours.wrong.is_some() || line.differs.is_some() || theirs == ours {
        return None;
    }
    let lines = |did: &Did| did.output.lines().map(str::to_owned).collect::<Vec<_>>();
    let (theirs, ours) = (lines(theirs), lines(ours));
    let missing = theirs.iter().filter(|line| !ours.contains(line)).map(|line| format!("  - {line}"));
    let extra = ours.iter().filter(|line| !theirs.contains(line)).map(|line| format!("  + {line}"));
    let shown: Vec<String> = missing.chain(extra).collect();
    Some(format!("\n{}", if shown.is_empty() { "  (another order)".to_owned() } else { shown.join("\n") }))
}
