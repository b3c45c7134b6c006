//! The server's own authority in the data directory, and how a new one takes over while the server runs.
//!
//! `pki/authorities.json` has all of it, and is replaced as a whole; until the first change of authority there is none, and
//! `pki/ca.crt` and `ca.key` say everything. Those two always are the one that issues: what a crash left behind is put right at
//! the next start.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::apiserver::files;
use ::apiserver::pki::Keys;
use ::gateway::Authorities;
use ::gateway::certificates::Authority;
use anyhow::{Context as _, bail};
use clock::{Clock, Entropy};
use tokio::sync::Notify;

/// How often a running server looks whether its authority has changed.
const POLL: Duration = Duration::from_secs(5);

fn file(directory: &Path) -> PathBuf {
    directory.join("pki/authorities.json")
}

/// The authorities of a data directory, once one has taken over from another.
pub(crate) fn read(directory: &Path) -> anyhow::Result<Option<Authorities>> {
    let path = file(directory);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let found = serde_json::from_str(&text);
    Ok(Some(found.with_context(|| format!("{} is damaged: restore it from a backup", path.display()))?))
}

/// The authorities of a data directory.
pub(crate) fn load(
    directory: &Path,
    clock: &dyn Clock,
    entropy: &mut dyn Entropy,
) -> anyhow::Result<Authorities> {
    if let Some(found) = read(directory)? {
        return Ok(found);
    }
    let keys = Keys::open(directory, clock, entropy)?;
    Ok(Authorities::only(Authority { certificate: keys.ca_certificate, key: keys.ca_key }))
}

/// Makes `ca.crt` and `ca.key` those of the authority that issues.
pub(crate) fn settle(directory: &Path) -> anyhow::Result<()> {
    let Some(Authorities { current, .. }) = read(directory)? else { return Ok(()) };
    let (key, certificate) = (directory.join("pki/ca.key"), directory.join("pki/ca.crt"));
    let differs = |path: &Path, content: &str| std::fs::read_to_string(path).ok().as_deref() != Some(content);
    if differs(&key, &current.key) {
        files::replace_secret(&key, current.key.as_bytes())?;
    }
    if differs(&certificate, &current.certificate) {
        files::replace_public(&certificate, current.certificate.as_bytes())?;
    }
    Ok(())
}

/// Changes the authorities of a data directory that is there already; a server may be running on it.
pub(crate) fn change(
    directory: &Path,
    clock: &dyn Clock,
    entropy: &mut dyn Entropy,
    change: impl FnOnce(&Authorities, &mut dyn Entropy) -> anyhow::Result<Authorities>,
) -> anyhow::Result<Authorities> {
    let _alone = lock(directory)?;
    let next = change(&load(directory, clock, entropy)?, entropy)?;
    let text = serde_json::to_string_pretty(&next)?;
    files::replace_secret(&file(directory), text.as_bytes())?;
    settle(directory)?;
    Ok(next)
}

/// Two commands at a time would undo each other.
fn lock(directory: &Path) -> anyhow::Result<File> {
    let pki = directory.join("pki");
    if !pki.join("ca.crt").exists() {
        bail!("--data-dir: {} is no data directory of a server", directory.display());
    }
    let path = pki.join(".authorities.lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let locked = file.and_then(|file| file.lock().map(|()| file));
    locked.with_context(|| format!("cannot lock {}", path.display()))
}

/// Has `take` told of every change of what is read, at the latest [`POLL`] after it, or when it is woken, until the future is
/// dropped. What does not work is told in the log and tried again.
pub(crate) async fn follow(
    read: impl AsyncFn() -> anyhow::Result<Option<Authorities>>,
    mut known: Authorities,
    wake: &Notify,
    take: impl Fn(&Authorities) -> anyhow::Result<()>,
) {
    loop {
        match read().await {
            Ok(Some(found)) if found != known => match take(&found) {
                Ok(()) => {
                    tracing::info!(before = found.before.len(), "the server's authority has changed");
                    known = found;
                }
                Err(error) => {
                    tracing::error!(error = format!("{error:#}"), "the new authority was not taken up")
                }
            },
            Ok(_) => {}
            Err(error) => tracing::error!(error = format!("{error:#}"), "the server's authority"),
        }
        tokio::select! {
            biased;
            () = wake.notified() => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::{SeededEntropy, SystemClock};

    use super::*;

    fn succeed(directory: &Path) -> Authorities {
        let entropy = &mut SeededEntropy::new(7);
        change(
            directory,
            &SystemClock,
            entropy,
            |one, entropy| Ok(one.succeeded(SystemClock.now(), entropy)?),
        )
        .unwrap()
    }

    #[test]
    fn a_change_is_whole_or_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let entropy = &mut SeededEntropy::new(1);
        let missing = change(directory, &SystemClock, entropy, |one, _| Ok(one.clone())).unwrap_err();
        assert!(missing.to_string().starts_with("--data-dir"), "{missing}");
        let first = load(directory, &SystemClock, entropy).unwrap();
        assert!(first.before.is_empty());
        let second = succeed(directory);
        assert_eq!(second.before, std::slice::from_ref(&first.current.certificate));
        assert_eq!(load(directory, &SystemClock, entropy).unwrap(), second);
        // A crash between the files: the next start has the authority that issues.
        std::fs::write(directory.join("pki/ca.crt"), &first.current.certificate).unwrap();
        settle(directory).unwrap();
        let keys = Keys::open(directory, &SystemClock, entropy).unwrap();
        assert_eq!((keys.ca_certificate, keys.ca_key), (second.current.certificate, second.current.key));
    }

    #[tokio::test]
    async fn a_running_server_takes_it_up() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let first = load(directory, &SystemClock, &mut SeededEntropy::new(1)).unwrap();
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let wake = Notify::new();
        let take = |found: &Authorities| Ok(told.send(found.clone())?);
        let changes = async {
            let second = succeed(directory);
            wake.notify_one();
            assert_eq!(heard.recv().await, Some(second.clone()));
            let third = succeed(directory);
            wake.notify_one();
            assert_eq!(heard.recv().await, Some(third));
        };
        tokio::select! {
            biased;
            () = changes => {}
            () = follow(async || read(directory), first, &wake, take) => unreachable!(),
        }
    }
}
