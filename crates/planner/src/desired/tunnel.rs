//! What `herdsman-agent tunnel` needs on a control-plane machine: with it the cluster is reached before any pod runs. The installer
//! has its unit started as soon as the first of these files is there.

use plan::document::File;
use serde_json::json;

use super::{Context, dynamic};
use crate::epoch::Epoch;

/// Where the agent looks for it.
const CONFIG: &str = "/etc/rancher/agent/tunnel.yaml";
const TOKEN: &str = "/etc/rancher/agent/tunnel-token";
const AUTHORITY: &str = "/etc/rancher/agent/tunnel-ca.crt";

pub(super) fn files(context: &Context<'_>) -> Vec<File> {
    let Some(agent) = &context.cluster.agent else { return Vec::new() };
    if context.epoch < Epoch::TUNNELS || !context.roles.control_plane || context.machine.is_windows() {
        return Vec::new();
    }
    let server = format!("{}/server", context.data_dir);
    let mut config = json!({
        "serverUrl": agent.server_url,
        "tokenFile": TOKEN,
        "clusterAddress": "127.0.0.1:6443",
        "clusterCaFile": format!("{server}/tls/server-ca.crt"),
        "clusterKubeconfig": format!("{server}/cred/admin.kubeconfig"),
    });
    let mut files = vec![minor(TOKEN, &agent.token)];
    if !agent.ca_certificates.is_empty() {
        config["caFile"] = AUTHORITY.into();
        files.push(minor(AUTHORITY, &agent.ca_certificates));
    }
    // The last one: with it all that it names is there.
    files.push(minor(CONFIG, &config.to_string()));
    files
}

/// For root's eyes only: the agent refuses a configuration that others can read.
fn minor(path: &str, content: &str) -> File {
    File { minor: true, permissions: "0600".into(), ..dynamic(path, content) }
}
