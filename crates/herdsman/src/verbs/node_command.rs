//! `herdsman node-command CLUSTER`: the one line that makes a host a node.

use anyhow::{anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::ListParams;
use serde_json::Value;

use super::ask::{Ask, explained};
use super::kinds;
use super::target::{self, Target, block_on};
use kit::KindId;

/// A role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// Keeps the cluster's data
    Etcd,
    /// Runs the control plane
    #[value(alias = "control-plane")]
    Controlplane,
    /// Runs pods
    Worker,
}

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which cluster: NAME or cluster/NAME
    #[arg(value_parser = target::cluster)]
    cluster: String,
    /// What the node is for, separated by commas; all three by default
    #[arg(long, value_delimiter = ',', default_value = "etcd,controlplane,worker")]
    roles: Vec<Role>,
    /// A label of the node, KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// A taint of the node, KEY=VALUE:EFFECT; may be repeated
    #[arg(long, value_name = "TAINT")]
    taint: Vec<String>,
    /// The command for a Windows host, which is always a worker
    #[arg(long)]
    windows: bool,
    /// For hosts that do not trust the server's certificate to fetch the script with
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    target: Target,
}

/// Prints the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        let cluster = ask.object(kinds::find("cluster")?, &arguments.cluster).await?;
        let (status, token) = registration(&ask, &cluster, &arguments.cluster).await?;
        println!("{}", command(arguments, &status, &token)?);
        Ok(())
    })
}

/// The registration token's status and its value.
async fn registration(ask: &Ask, cluster: &Value, name: &str) -> anyhow::Result<(Value, String)> {
    let wait = || anyhow!("cluster {name:?} has no registration token yet: try again in a moment");
    let id = cluster["status"]["clusterName"].as_str().ok_or_else(wait)?;
    let there = Ask { namespace: id.to_owned(), ..ask.clone() };
    let tokens = KindId::of::<api::management::v3::ClusterRegistrationToken>();
    let found = there.api(&tokens, true).list(&ListParams::default()).await.map_err(explained)?;
    // The other one is for the cluster's tunnel: it registers no host.
    let of_hosts = |name: Option<&str>| name != Some(api::names::SYSTEM_REGISTRATION_TOKEN);
    let token =
        found.items.into_iter().find(|one| of_hosts(one.metadata.name.as_deref())).ok_or_else(wait)?;
    let name = token.metadata.name.clone().unwrap_or_default();
    let status = token.data["status"].clone();
    if let Some(value) = status["token"].as_str().filter(|value| !value.is_empty()) {
        return Ok((status.clone(), value.to_owned()));
    }
    let secret = provisioning::custom::registration_token::secret_name(&name);
    let secret = there.find(&KindId::new("", "v1", "Secret", "secrets"), &secret).await?.ok_or_else(wait)?;
    let value = decoded(&secret["data"][api::catalogue::secrets::keys::TOKEN]).ok_or_else(wait)?;
    Ok((status, value))
}

/// The text of a Secret's value.
pub(crate) fn decoded(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()
}

fn command(arguments: &Arguments, status: &Value, token: &str) -> anyhow::Result<String> {
    let field = match (arguments.windows, arguments.insecure) {
        (false, false) => "nodeCommand",
        (false, true) => "insecureNodeCommand",
        (true, false) => "windowsNodeCommand",
        (true, true) => "insecureWindowsNodeCommand",
    };
    let Some(template) = status[field].as_str().filter(|text| !text.is_empty()) else {
        bail!("the server has not written the command yet: try again in a moment");
    };
    let mut line = template.replace("{token}", token);
    if !arguments.windows {
        for role in &arguments.roles {
            line.push_str(match role {
                Role::Etcd => " --etcd",
                Role::Controlplane => " --controlplane",
                Role::Worker => " --worker",
            });
        }
    }
    for label in &arguments.label {
        line.push_str(&format!(" --label '{label}'"));
    }
    for taint in &arguments.taint {
        line.push_str(&format!(" --taints '{taint}'"));
    }
    Ok(line)
}
