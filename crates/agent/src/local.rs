//! Plans in a directory of the machine: `x.plan`, what became of it in `x.pos`, `x.plan.skip` to leave it alone.
//!
//! A plan is applied when its checksum is not the one in its position file, whatever came of it then: one that
//! failed is not tried again until it changes. A start of the agent does not force anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use plan::agent::Outcome;
use plan::document::Document;
use plan::position::Position;
use plan::{periodic, probe};

use crate::apply::Applier;
use crate::disk::{self, Attributes};
use crate::probes;

/// How often the directory is looked at.
const PERIOD: Duration = Duration::from_secs(5);

/// The plans in one directory.
#[derive(Debug)]
pub struct Local {
    applier: Arc<Applier>,
    directory: PathBuf,
    /// When each plan was applied by this process: probes wait for their initial delay from then.
    applied: BTreeMap<PathBuf, Timestamp>,
}

/// A plan that could not be dealt with.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Disk(#[from] disk::Error),
    #[error("not a plan")]
    Plan(#[from] plan::gojson::Error),
    #[error("position file")]
    Position(#[from] plan::position::Error),
    #[error("not now: {0}")]
    Postponed(String),
}

impl Local {
    /// The plans in `directory`, as the machine sees it.
    pub fn new(applier: Arc<Applier>, directory: &Path) -> Self {
        let directory = applier.machine().root.locate(directory);
        Local { applier, directory, applied: BTreeMap::new() }
    }

    /// Looks after them, for ever.
    pub async fn run(mut self) {
        loop {
            self.pass().await;
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Looks after each of them once. What goes wrong with one keeps none of the others.
    pub async fn pass(&mut self) {
        let plans = match find(&self.directory) {
            Ok(plans) => plans,
            Err(error) => return tracing::warn!(error = %crate::chain(&error), "cannot look for local plans"),
        };
        for path in plans {
            if let Err(error) = self.tend(&path).await {
                tracing::warn!(plan = %path.display(), error = %crate::chain(&error), "local plan");
            }
        }
    }

    async fn tend(&mut self, path: &Path) -> Result<(), Error> {
        let Some(bytes) = disk::read(path)? else { return Ok(()) };
        let document = Document::parse(bytes)?;
        let position_path = path.with_extension("pos");
        let mut position = Position::decode(&disk::read(&position_path)?.unwrap_or_default())?;
        if position.needs_apply(&document) {
            self.apply(path, &document, &mut position).await?;
            // Before anything else: what was run is not run again.
            disk::write(&position_path, &position.encode(), Attributes::PRIVATE)?;
        }
        let saved = position.clone();
        self.periodic(path, &document, &mut position).await?;
        self.probe(path, &document, &mut position).await;
        if position != saved {
            disk::write(&position_path, &position.encode(), Attributes::PRIVATE)?;
        }
        Ok(())
    }

    async fn apply(
        &mut self,
        path: &Path,
        document: &Document,
        position: &mut Position,
    ) -> Result<(), Error> {
        let mut kept = std::mem::take(&mut position.output);
        kept.retain(|name, _| document.plan().output_names().any(|known| known == name));
        let outputs = match self.applier.apply(document, 0, &kept).await {
            Outcome::Succeeded(outputs) | Outcome::Failed(outputs) => outputs,
            Outcome::Postponed(_) => return Err(Error::Postponed("the plan is applied later".into())),
        };
        position.output = outputs;
        position.applied = Some(document.checksum());
        self.applied.insert(path.to_owned(), self.applier.machine().clock.now());
        Ok(())
    }

    async fn periodic(&self, path: &Path, document: &Document, position: &mut Position) -> Result<(), Error> {
        let now = self.applier.machine().clock.now();
        let instructions = &document.plan().periodic_instructions;
        let outputs = &mut position.periodic_output;
        outputs.retain(|name, _| instructions.iter().any(|instruction| instruction.common.name == *name));
        let applied = self.applied.get(path).copied();
        let due: Vec<_> = instructions
            .iter()
            .enumerate()
            .filter(|(_, instruction)| {
                let next =
                    periodic::next_run(instruction, outputs.get(&instruction.common.name), applied, now);
                next.is_some_and(|next| next <= now)
            })
            .map(|(index, _)| index)
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        let runs = self.applier.periodic(document, &due, outputs).await;
        for (index, run, started) in runs.map_err(|postponed| Error::Postponed(postponed.why))? {
            if let Some(instruction) = instructions.get(index) {
                let name = &instruction.common.name;
                let output = periodic::record(instruction, outputs.get(name), run, started);
                outputs.insert(name.clone(), output);
            }
        }
        Ok(())
    }

    async fn probe(&self, path: &Path, document: &Document, position: &mut Position) {
        let now = self.applier.machine().clock.now();
        let probes = &document.plan().probes;
        let applied = self.applied.get(path).copied();
        let ripe =
            probes.iter().filter(|(_, probe)| probe::next_try(probe, applied, None, PERIOD, now) <= now);
        let names: Vec<_> = ripe.map(|(name, _)| name.clone()).collect();
        let answers = probes::ask(&self.applier.machine().prober, probes, &names).await;
        let statuses = &mut position.probe_statuses;
        statuses.retain(|name, _| probes.contains_key(name));
        for (name, success) in answers {
            if let Some(probe) = probes.get(&name) {
                let before = statuses.get(&name).cloned().unwrap_or_default();
                statuses.insert(name, probe::count(probe, &before, success));
            }
        }
    }
}

/// All plans below a directory that are not to be skipped, in order of their paths.
fn find(directory: &Path) -> Result<BTreeSet<PathBuf>, disk::Error> {
    let mut files = BTreeSet::new();
    walk(directory, &mut files)?;
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let skipped: BTreeSet<_> =
        files.iter().filter_map(|path| name(path).strip_suffix(".skip").map(str::to_owned)).collect();
    files.retain(|path| {
        let name = name(path);
        name.ends_with(".plan") && !name.starts_with('.') && !skipped.contains(&name)
    });
    Ok(files)
}

/// Links are not followed.
fn walk(directory: &Path, files: &mut BTreeSet<PathBuf>) -> Result<(), disk::Error> {
    for name in disk::names(directory)? {
        let path = directory.join(name);
        match path.symlink_metadata().map(|meta| meta.is_dir()) {
            Ok(true) => walk(&path, files)?,
            Ok(false) => {
                files.insert(path);
            }
            // Gone meanwhile.
            Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_files_are_plans() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("sub/deep")).unwrap();
        for name in [
            "b.plan",
            "a.plan",
            ".hidden.plan",
            "c.txt",
            "sub/d.plan",
            "skip.plan",
            "sub/deep/skip.plan.skip",
        ] {
            std::fs::write(directory.path().join(name), "{}").unwrap();
        }
        let found = find(directory.path()).unwrap();
        let names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(&directory).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.plan", "b.plan", "sub/d.plan"]);
        assert!(find(&directory.path().join("none")).unwrap().is_empty());
    }
}
