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

use crate::server::shared::Shared;
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
    /// The data directory of `herdsman up`; a server running on it follows within seconds (at once on SIGHUP)
    #[arg(long, value_name = "DIRECTORY", env = data_dir::VARIABLE)]
    data_dir: Option<PathBuf>,
    /// The management cluster of `herdsman server`, in place of a data directory; its replicas follow within seconds
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where the replicas of `herdsman server` have what they share
    #[arg(long, value_name = "NAMESPACE", default_value = "cattle-system", requires = "kubeconfig")]
    leader_elect_namespace: String,
}

/// Where the authorities are kept.
enum Place {
    /// Of `herdsman up`.
    Directory(PathBuf),
    /// Of replicas of `herdsman server`.
    Namespace(Client, String),
}

/// How authorities follow each other.
type Change = fn(&Authorities) -> anyhow::Result<Authorities>;

impl Place {
    async fn of(arguments: &Arguments) -> anyhow::Result<Self> {
        Ok(match &arguments.kubeconfig {
            Some(file) => Place::Namespace(read(file).await?, arguments.leader_elect_namespace.clone()),
            None => Place::Directory(arguments.data_dir.clone().unwrap_or_else(data_dir::default)),
        })
    }

    async fn authorities(&self) -> anyhow::Result<Authorities> {
        match self {
            Place::Directory(directory) => authority::load(directory, &SystemClock, &mut SystemEntropy),
            Place::Namespace(client, namespace) => Ok(Shared::find(client, namespace).await?.authorities),
        }
    }

    async fn change(&self, change: Change) -> anyhow::Result<Authorities> {
        match self {
            Place::Directory(directory) => {
                authority::change(directory, &SystemClock, &mut SystemEntropy, |now, _| change(now))
            }
            Place::Namespace(client, namespace) => Shared::change(client, namespace, change).await,
        }
    }

    /// The administrator's client of what runs there.
    async fn client(&self) -> anyhow::Result<Client> {
        match self {
            Place::Directory(directory) => read(&data_dir::admin_kubeconfig(directory)).await,
            Place::Namespace(client, _) => Ok(client.clone()),
        }
    }
}

async fn read(kubeconfig: &Path) -> anyhow::Result<Client> {
    let read =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Nodes that have registered: those that trust the authorities of now, and the others.
#[derive(Debug, Default, PartialEq, Eq)]
struct Nodes {
    know: BTreeSet<String>,
    do_not: BTreeSet<String>,
}

/// Shows or changes who vouches for the server.
pub(crate) fn run(action: &Action) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(act(action))
}

async fn act(action: &Action) -> anyhow::Result<()> {
    let (Action::Status(arguments) | Action::RotateCa(arguments) | Action::Finish { arguments, .. }) = action;
    let place = Place::of(arguments).await?;
    let authorities = match action {
        Action::Status(_) => place.authorities().await?,
        Action::RotateCa(_) => {
            place.change(|now| Ok(now.succeeded(SystemClock.now(), &mut SystemEntropy)?)).await?
        }
        Action::Finish { force, .. } => {
            if !force {
                let nodes = nodes(&place, &place.authorities().await?).await;
                refuse(&nodes.context("which nodes know the new one is not known")?)?;
            }
            place.change(|now| Ok(now.alone())).await?
        }
    };
    show(&place, &authorities).await
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

async fn show(place: &Place, authorities: &Authorities) -> anyhow::Result<()> {
    for (index, (name, until)) in authorities.names()?.iter().enumerate() {
        let role = if index == 0 { "issues" } else { "before" };
        println!("authority {name:?} until={} {role}", until.strftime("%Y-%m-%d"));
    }
    println!("checksum {}", checksum(authorities.trusted().as_bytes()));
    match nodes(place, authorities).await {
        Ok(nodes) => {
            println!("nodes know={} of={}", nodes.know.len(), nodes.know.len() + nodes.do_not.len());
            nodes.do_not.iter().for_each(|name| println!("not yet {name}"));
        }
        Err(error) => eprintln!("which nodes know it is not known: {error:#}"),
    }
    Ok(())
}

/// Asks the running server.
async fn nodes(place: &Place, authorities: &Authorities) -> anyhow::Result<Nodes> {
    let client = place.client().await?;
    let of = async |kind: &str| {
        let fields = ListParams::default().fields(&format!("type={kind}"));
        Api::<Secret>::all(client.clone()).list(&fields).await.context("the server does not answer")
    };
    let (plans, tokens) = (of(types::MACHINE_PLAN).await?, of(types::HERDSMAN_AGENT_TOKEN).await?);
    Ok(sort(&plans.items, &tokens.items, &checksum(authorities.trusted().as_bytes())))
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
        // What the Secret says of its machine is its agent's word; its name is not.
        let secret = plan.name_any();
        let machine = secret.strip_suffix("-machine-plan").unwrap_or(&secret);
        let name = format!("{}/{machine}", plan.namespace().unwrap_or_default());
        match plan.annotations().get(TRUSTED).is_some_and(|trusted| trusted == wanted) {
            true => nodes.know.insert(name),
            false => nodes.do_not.insert(name),
        };
    }
    nodes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_that_registered_have_to_know() {
        let plan = |uid: &str, trusted: &str| -> Secret {
            let labels = json!({"rke.cattle.io/machine-name": "another"});
            let name = format!("machine-{uid}-machine-plan");
            let metadata = json!({"namespace": "ns", "name": name, "uid": uid, "labels": labels, "annotations": {TRUSTED: trusted}});
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
