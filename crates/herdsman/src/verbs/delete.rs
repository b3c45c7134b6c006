//! `herdsman delete`: a cluster with all its machines, or one machine.

use std::time::Duration;

use anyhow::bail;
use api::catalogue::annotations;
use clock::{Deadline, SystemClock};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::ask::{Ask, explained};
use super::kinds::{self, Word};
use super::target::{Target, block_on};

/// How often it is looked what is left.
const POLL: Duration = Duration::from_millis(500);

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What: `cluster`, `machine` and so on; `cluster/NAME` in one word works too
    kind: String,
    /// Which
    name: Option<String>,
    /// A cluster whose cloud or servers are gone: do not wait for its servers and etcd members
    #[arg(long)]
    force: bool,
    /// Wait until it is gone
    #[arg(long)]
    wait: bool,
    /// Give up waiting after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, requires = "wait")]
    timeout: u64,
    #[command(flatten)]
    target: Target,
}

/// Deletes it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (kind, name) = match (arguments.kind.split_once('/'), &arguments.name) {
        (Some((kind, name)), None) => (kind, name),
        (None, Some(name)) => (arguments.kind.as_str(), name.as_str()),
        (Some(_), Some(_)) => bail!("the name is there twice: {:?} and {:?}", arguments.kind, arguments.name),
        (None, None) => bail!("which {}? `herdsman delete {} NAME`", arguments.kind, arguments.kind),
    };
    let word = kinds::find(kind)?;
    if arguments.force && word.name() != "cluster" {
        bail!(
            "--force is for clusters: a machine goes when its server does, or `kubectl` takes its finalizers off"
        );
    }
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        let found = ask.object(word, name).await?;
        if arguments.force {
            let force = json!({"metadata": {"annotations": {annotations::HERDSMAN_FORCE_REMOVE: "true"}}});
            ask.patch(word, name, &force, false).await?;
        }
        let api = ask.api(&word.id(), word.namespaced);
        api.delete(name, &DeleteParams::default()).await.map_err(explained)?;
        println!("{}/{name} deleted", word.name());
        match arguments.wait {
            true => until_gone(&ask, word, &found, Duration::from_secs(arguments.timeout)).await,
            false => Ok(()),
        }
    })
}

/// One of the same name that comes after it is another.
async fn until_gone(ask: &Ask, word: &Word, found: &Value, within: Duration) -> anyhow::Result<()> {
    let name = found["metadata"]["name"].as_str().unwrap_or_default();
    let deadline = Deadline::after(&SystemClock, within);
    let api = ask.api(&word.id(), word.namespaced);
    let mut said = String::new();
    loop {
        let left = api.get_opt(name).await.map_err(explained)?;
        let left = left.map(serde_json::to_value).transpose()?;
        let Some(left) = left.filter(|left| left["metadata"]["uid"] == found["metadata"]["uid"]) else {
            eprintln!("gone");
            return Ok(());
        };
        let awaited = awaited(&left);
        if awaited != said {
            eprintln!("{awaited}");
            said = awaited;
        }
        if deadline.passed(&SystemClock) {
            bail!(
                "{}/{name} is still there after {} s: {said}. It goes on; `herdsman explain {}/{name}` says what it waits for",
                word.name(),
                within.as_secs(),
                word.name()
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What the object itself says of its removal.
fn awaited(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let says = |kind: &str| {
        let mut found = conditions.clone().filter(|one| one["type"] == kind);
        found.find_map(|one| one["message"].as_str().filter(|text| !text.is_empty()).map(str::to_owned))
    };
    says("Removed").or_else(|| says("Deleting")).unwrap_or_else(|| "waiting until it is gone".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_says_what_is_awaited() {
        let object = json!({"status": {"conditions": [
            {"type": "Ready", "message": "x"}, {"type": "Removed", "message": "waiting for 3 machines"}]}});
        assert_eq!(awaited(&object), "waiting for 3 machines");
        assert_eq!(awaited(&json!({})), "waiting until it is gone");
    }
}
