//! Peers, got while code is checked and tested, at a priority that takes nothing from it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use tempfile::NamedTempFile;

/// `cargo xtask peers`, running. It ends with the value.
pub(crate) struct Background {
    child: Child,
    log: NamedTempFile,
}

impl Background {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let log = NamedTempFile::new()?;
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(std::env::current_exe()?).arg("peers");
        command.stdin(Stdio::null()).stdout(append(&log)?).stderr(append(&log)?).process_group(0);
        Ok(Background { child: command.spawn().context("cannot start nice")?, log })
    }

    /// The names of the peers that are there.
    pub(crate) fn arrived(&self) -> anyhow::Result<BTreeSet<String>> {
        Ok(names(&self.read()?))
    }

    /// What was printed, if it has failed.
    pub(crate) fn failed(&mut self) -> anyhow::Result<Option<String>> {
        match self.child.try_wait()? {
            Some(status) if !status.success() => Ok(Some(self.read()?)),
            _ => Ok(None),
        }
    }

    fn read(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        self.log.reopen()?.read_to_string(&mut text)?;
        Ok(text)
    }
}

fn append(log: &NamedTempFile) -> anyhow::Result<File> {
    Ok(File::options().append(true).open(log.path())?)
}

/// From lines `peer <name> <version> <path> (..)`.
fn names(log: &str) -> BTreeSet<String> {
    let whole = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.filter_map(|line| Some(line.strip_prefix("peer ")?.split(' ').next()?.to_owned())).collect()
}

impl Drop for Background {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            println!("peers that are not built yet are left for the next run");
            let _ = peers::process::kill_group(self.child.id());
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_came_are_read_from_whole_lines() {
        let log = "peer etcd 3.4.23 /c/etcd (cached)\nagain in 2 s: go build failed\npeer helm 3.1 /c/helm (took 60 s)\npeer k3";
        assert_eq!(names(log), BTreeSet::from(["etcd".to_owned(), "helm".to_owned()]));
    }
}
