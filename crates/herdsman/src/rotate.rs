//! `herdsman rotate-encryption-key`: a new key for Secrets at rest, and an end for the old ones.

use std::path::PathBuf;

use ::apiserver::encryption::{self, RESOURCES, Resources};
use clock::{Clock as _, SystemClock, SystemEntropy};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The data directory; a server may be running on it, and takes the new key up within seconds (at once on SIGHUP)
    #[arg(long, value_name = "DIRECTORY", env = "HERDSMAN_DATA_DIR")]
    data_dir: PathBuf,
    /// What the server encrypts, if that is not only Secrets
    #[arg(long, value_name = "RESOURCES", default_value = RESOURCES, value_delimiter = ',')]
    encrypt_resources: Vec<String>,
    /// Only show how many values are still under which key
    #[arg(long, conflicts_with = "drop_unused")]
    status: bool,
    /// Add no key, but remove the old ones that nothing is encrypted with any more
    #[arg(long)]
    drop_unused: bool,
}

/// Adds a key, shows how far a rotation is, or ends it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { data_dir, encrypt_resources, status, drop_unused } = arguments;
    let resources = Resources::new(encrypt_resources);
    if *drop_unused {
        let dropped = encryption::drop_unused(data_dir, &resources)?;
        dropped.iter().for_each(|id| println!("dropped key {id}"));
        return show(data_dir, &resources);
    }
    if !status {
        let id = encryption::rotate(data_dir, SystemClock.now(), &mut SystemEntropy)?;
        println!("added key {id}");
    }
    show(data_dir, &resources)
}

fn show(data_dir: &std::path::Path, resources: &Resources) -> anyhow::Result<()> {
    let usage = encryption::usage(data_dir, resources)?;
    for (index, key) in usage.keys.iter().enumerate() {
        let role = match (index, usage.is_taken_up) {
            (0, true) => "writes",
            (0, false) => "not taken up yet",
            _ => "old",
        };
        let id = key.id.as_deref().unwrap_or_default();
        println!("key {id} objects={} history={} {role}", key.objects, key.history);
    }
    println!("not encrypted objects={} history={}", usage.plain.objects, usage.plain.history);
    Ok(())
}
