//! `herdsman backup` and `herdsman restore`.

use std::path::PathBuf;

use ::apiserver::backup;
use anyhow::{Context as _, bail};
use clock::{Clock as _, SystemClock};

/// What can be said of a backup.
#[derive(Debug, clap::Args)]
pub(crate) struct BackupArguments {
    /// The file to make; it must not be there yet. It holds all data and all keys: keep it safe
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The data directory; a server may be running on it
    #[arg(long, value_name = "DIRECTORY", env = "HERDSMAN_DATA_DIR")]
    data_dir: PathBuf,
    /// Leave out encryption.key: what is encrypted can only be restored where that file is
    #[arg(long)]
    without_encryption_key: bool,
}

/// What can be said of a restoration.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArguments {
    /// A file that `herdsman backup` made
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The data directory; no server may be running on it. What is replaced is kept beside it
    #[arg(long, value_name = "DIRECTORY", env = "HERDSMAN_DATA_DIR")]
    data_dir: PathBuf,
}

/// Copies a data directory to a file.
pub(crate) fn make(arguments: &BackupArguments) -> anyhow::Result<()> {
    let BackupArguments { to, data_dir, without_encryption_key } = arguments;
    if to.exists() {
        bail!("--to: {} exists already: choose another name", to.display());
    }
    let revision = backup::make(data_dir, to, !without_encryption_key, SystemClock.now())
        .with_context(|| format!("no backup of {} was made", data_dir.display()))?;
    println!("backup of revision {revision} in {}", to.display());
    Ok(())
}

/// Makes a data directory of a file.
pub(crate) fn restore(arguments: &RestoreArguments) -> anyhow::Result<()> {
    let RestoreArguments { from, data_dir } = arguments;
    let restored = backup::restore(from, data_dir, SystemClock.now())
        .with_context(|| format!("{} was not restored", data_dir.display()))?;
    for kept in &restored.kept {
        println!("kept {}", kept.display());
    }
    println!("restored {}, which goes on at revision {}", data_dir.display(), restored.revision);
    if !restored.has_encryption_key {
        println!("the backup has no encryption key: put encryption.key into {} first", data_dir.display());
    }
    Ok(())
}
