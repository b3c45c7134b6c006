//! `herdsman certificates`: the authority that vouches for the server, and the way to a new one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::gateway::Authorities;
use anyhow::{Context as _, bail};
use api::catalogue::secrets::types;
use clock::{Clock as _, SystemClock, SystemEntropy};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use plan::authority::{TRUSTED, checksum};

use crate::{authority, data_dir};

/// What can be asked for.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// Show who vouches for the server, and which nodes know it
    Status(Arguments),
    /// Have a new authority take over; nodes trust both until `finish`
    RotateCa(Arguments),
    /// Forget the authorities before; only once every node knows the new one
    Finish {
        #[command(flatten)]
        arguments: Arguments,
        /// Also if nodes have not said that they know the new one; they may have to be registered again
        #[arg(long)]
        force: bool,
    },
}

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The data directory; a server running on it follows within seconds (at once on SIGHUP)
    #[arg(long, value_name = "DIRECTORY", env = data_dir::VARIABLE)]
    data_dir: Option<PathBuf>,
}

impl Arguments {
    fn directory(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(data_dir::default)
    }
}

/// Nodes that have registered: those that trust the authorities of now, and the others.
#[derive(Debug, Default, PartialEq, Eq)]
struct Nodes {
    know: BTreeSet<String>,
    do_not: BTreeSet<String>,
}

/// Shows or changes who vouches for the server.
pub(crate) fn run(action: &Action) -> anyhow::Result<()> {
    match action {
        Action::Status(arguments) => show(&arguments.directory()),
        Action::RotateCa(arguments) => {
            let directory = arguments.directory();
            authority::change(&directory, &SystemClock, &mut SystemEntropy, |now, entropy| {
                Ok(now.succeeded(SystemClock.now(), entropy)?)
            })?;
            show(&directory)
        }
        Action::Finish { arguments, force } => {
            let directory = arguments.directory();
            let found = authority::load(&directory, &SystemClock, &mut SystemEntropy)?;
            if !force {
                let nodes = nodes(&directory, &found).context("which nodes know the new one is not known")?;
                refuse(&nodes)?;
            }
            authority::change(&directory, &SystemClock, &mut SystemEntropy, |now, _| Ok(now.alone()))?;
            show(&directory)
        }
    }
}

fn refuse(nodes: &Nodes) -> anyhow::Result<()> {
    if nodes.do_not.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = nodes.do_not.iter().map(String::as_str).collect();
    bail!(
        "{} of {} nodes have not said that they trust the new authority: {}; wait, register them again, or use --force",
        names.len(),
        names.len() + nodes.know.len(),
        names.join(", ")
    )
}

fn show(directory: &Path) -> anyhow::Result<()> {
    let found = authority::load(directory, &SystemClock, &mut SystemEntropy)?;
    for (index, (name, until)) in found.names()?.iter().enumerate() {
        let role = if index == 0 { "issues" } else { "before" };
        println!("authority {name:?} until={} {role}", until.strftime("%Y-%m-%d"));
    }
    println!("checksum {}", checksum(found.trusted().as_bytes()));
    match nodes(directory, &found) {
        Ok(nodes) => {
            println!("nodes know={} of={}", nodes.know.len(), nodes.know.len() + nodes.do_not.len());
            nodes.do_not.iter().for_each(|name| println!("not yet {name}"));
        }
        Err(error) => eprintln!("which nodes know it is not known: {error:#}"),
    }
    Ok(())
}

/// Asks the running server.
fn nodes(directory: &Path, authorities: &Authorities) -> anyhow::Result<Nodes> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = client(directory).await?;
        let of = async |kind: &str| {
            let fields = ListParams::default().fields(&format!("type={kind}"));
            Api::<Secret>::all(client.clone()).list(&fields).await.context("the server does not answer")
        };
        let (plans, tokens) = (of(types::MACHINE_PLAN).await?, of(types::HERDSMAN_AGENT_TOKEN).await?);
        Ok(sort(&plans.items, &tokens.items, &checksum(authorities.trusted().as_bytes())))
    })
}

/// A node has registered if there is a token that reaches its plan.
fn sort(plans: &[Secret], tokens: &[Secret], wanted: &str) -> Nodes {
    let owners = tokens.iter().flat_map(|token| token.owner_references());
    let registered: BTreeSet<&str> = owners.map(|owner| owner.uid.as_str()).collect();
    let mut nodes = Nodes::default();
    for plan in plans {
        let known = plan.metadata.uid.as_deref().is_some_and(|uid| registered.contains(uid));
        if !known || plan.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let machine = plan.labels().get(api::catalogue::labels::MACHINE_NAME).cloned();
        let name = format!(
            "{}/{}",
            plan.namespace().unwrap_or_default(),
            machine.unwrap_or_else(|| plan.name_any())
        );
        match plan.annotations().get(TRUSTED).is_some_and(|trusted| trusted == wanted) {
            true => nodes.know.insert(name),
            false => nodes.do_not.insert(name),
        };
    }
    nodes
}

/// The administrator's client of the server that runs on a data directory.
async fn client(directory: &Path) -> anyhow::Result<Client> {
    let path = data_dir::admin_kubeconfig(directory);
    let read = Kubeconfig::read_from(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_that_registered_have_to_know() {
        let plan = |uid: &str, trusted: &str| -> Secret {
            let labels = json!({"rke.cattle.io/machine-name": format!("machine-{uid}")});
            let metadata =
                json!({"namespace": "ns", "uid": uid, "labels": labels, "annotations": {TRUSTED: trusted}});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let token = |uid: &str| -> Secret {
            let owner = json!({"apiVersion": "v1", "kind": "Secret", "name": "p", "uid": uid});
            serde_json::from_value(json!({"metadata": {"ownerReferences": [owner]}})).unwrap()
        };
        let plans = [plan("a", "new"), plan("b", "old"), plan("c", "")];
        let nodes = sort(&plans, &[token("a"), token("b")], "new");
        let names = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>();
        assert_eq!(
            (names(&nodes.know), names(&nodes.do_not)),
            (vec!["ns/machine-a".into()], vec!["ns/machine-b".into()])
        );
        let refused = refuse(&nodes).unwrap_err().to_string();
        assert!(refused.starts_with("1 of 2 nodes") && refused.contains("ns/machine-b"), "{refused}");
        refuse(&sort(&plans[..1], &[token("a")], "new")).unwrap();
    }
}
