//! Running one instruction.

use std::path::Path;

use jiff::Timestamp;
use plan::Checksum;
use plan::document::Instruction;

use super::place;
use crate::disk;
use crate::machine::{Ended, Machine, Program};

/// Runs the instructions of one plan in one pass.
pub(super) struct Runner<'a> {
    machine: &'a Machine,
    work: &'a Path,
    checksum: Checksum,
    now: Timestamp,
}

impl<'a> Runner<'a> {
    pub(super) fn new(machine: &'a Machine, work: &'a Path, checksum: Checksum, now: Timestamp) -> Self {
        Runner { machine, work, checksum, now }
    }

    /// Runs it to its end. What cannot be started has the code -1, and its output says why.
    pub(super) async fn run(&self, index: usize, instruction: &Instruction, attempt: i64) -> Ended {
        let directory = place(self.work, self.now, self.checksum, index);
        if let Err(why) = self.prepare(instruction, &directory).await {
            tracing::error!(index, name = instruction.name, why, "instruction cannot be started");
            let said = format!("{why}\n").into_bytes();
            return Ended { stderr: said.clone(), combined: said, exit_code: -1, ..Ended::default() };
        }
        let program = Program {
            label: format!("{}_{index}", self.checksum),
            command: match instruction.command.as_str() {
                "" => directory.join("run.sh").to_string_lossy().into_owned(),
                command => command.to_owned(),
            },
            args: instruction.args.clone(),
            env: environment(&self.machine.environment, instruction, &directory, attempt),
            directory,
        };
        tracing::info!(index, name = instruction.name, command = program.command, "running instruction");
        self.machine.executor.run(&program).await
    }

    async fn prepare(&self, instruction: &Instruction, directory: &Path) -> Result<(), String> {
        disk::make_directories(directory).map_err(|error| crate::chain(&error))?;
        if instruction.image.is_empty() {
            return Ok(());
        }
        let staged = self.machine.images.stage(&instruction.image, directory).await;
        staged.map_err(|error| format!("cannot get image {}: {}", instruction.image, crate::chain(&error)))
    }
}

/// The agent's own, then the instruction's, then ours: `PATH` cannot be changed by an instruction.
fn environment(
    own: &[(String, String)],
    instruction: &Instruction,
    directory: &Path,
    attempt: i64,
) -> Vec<(String, String)> {
    let path = own.iter().rfind(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
    let given = instruction.env.iter().filter_map(|entry| entry.split_once('='));
    let mut all = own.to_vec();
    all.extend(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let directory = directory.to_string_lossy();
    all.extend([
        ("CATTLE_AGENT_EXECUTION_PWD".to_owned(), directory.clone().into_owned()),
        ("CATTLE_AGENT_ATTEMPT_NUMBER".to_owned(), attempt.to_string()),
        ("PATH".to_owned(), format!("{path}:{directory}")),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn later_entries_count() {
        let own = [("PATH", "/bin"), ("HOME", "/root"), ("A", "own")];
        let own: Vec<_> = own.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let env = ["A=given=more", "PATH=/evil", "CATTLE_AGENT_ATTEMPT_NUMBER=9", "nothing", "EMPTY="];
        let instruction = Instruction { env: env.map(str::to_owned).into(), ..Instruction::default() };
        let all: BTreeMap<_, _> =
            environment(&own, &instruction, Path::new("/w/x_0"), 3).into_iter().collect();
        let all: Vec<_> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            all,
            [
                "A=given=more",
                "CATTLE_AGENT_ATTEMPT_NUMBER=3",
                "CATTLE_AGENT_EXECUTION_PWD=/w/x_0",
                "EMPTY=",
                "HOME=/root",
                "PATH=/bin:/w/x_0",
            ]
        );
    }
}
