//! How processes find their cluster: a new one, the one whose member they are, or the one at the URL that they are given.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use super::cluster::Cluster;
use super::process::Context;
use super::{Runtime, files};
use crate::ground;
use crate::network::Place;

/// Between two tries of an agent.
const PAUSE: Duration = Duration::from_secs(5);

/// What a server has found.
pub(super) struct Joined {
    pub(super) cluster: Arc<Cluster>,
    /// The name of the member that it is to become.
    pub(super) new_member: Option<String>,
}

/// The cluster of a server. A member of etcd is one for life: whatever its config says of joining, it goes on where it was.
///
/// # Errors
/// What the real one would say before it ends.
pub(super) async fn as_server(context: &Context<'_>) -> Result<Joined, String> {
    let (machine, config) = (context.machine, &context.config);
    if let Some(id) = files::member_of(context) {
        let cluster = machine.ground.clusters.get(&id);
        let cluster = cluster.ok_or("the datastore belongs to a cluster that is gone")?;
        return match cluster.is_member(&machine.name) {
            true => Ok(Joined { cluster, new_member: None }),
            false => Err("this server has been removed from etcd; remove its datastore to join again".into()),
        };
    }
    let token = config.text("token");
    if token.is_empty() {
        return Err("a token is required: set --token".into());
    }
    let cluster = match config.text("server") {
        "" if config.is("cluster-init") || context.process.runtime == Runtime::Rke2 => {
            if config.is("disable-etcd") {
                return Err("--disable-etcd needs --server".into());
            }
            machine.ground.clusters.found(context).await?
        }
        "" => return Err("--cluster-init or --server is required for a cluster with etcd".into()),
        url => {
            let cluster = at_url(context, url).or_else(|why| remembered(context).ok_or(why))?;
            if !cluster.is_server_token(token) {
                return Err("failed to validate token: the server token is not the cluster's".into());
            }
            cluster
        }
    };
    let mut chance = machine.ground.chance.of(&format!("{} member", machine.name));
    let member = || format!("{}-{}", context.node_name(), ground::hex(&mut chance, 8));
    let member = (!config.is("disable-etcd")).then(member);
    Ok(Joined { cluster, new_member: member })
}

/// The cluster of an agent, which waits for it.
///
/// # Errors
/// If its config cannot lead anywhere.
pub(super) async fn as_agent(context: &Context<'_>) -> Result<Arc<Cluster>, String> {
    let (machine, config) = (context.machine, &context.config);
    let (url, token) = (config.text("server"), config.text("token"));
    if url.is_empty() || token.is_empty() {
        return Err("--server and --token are required".into());
    }
    let mut said = String::new();
    loop {
        let found = at_url(context, url).or_else(|why| remembered(context).ok_or(why));
        let found = found.and_then(|cluster| match cluster.is_agent_token(token) {
            true => Ok(cluster),
            false => Err("the token is not the cluster's".into()),
        });
        match found {
            Ok(cluster) => {
                files::remember_agent(context, &cluster.id)?;
                return Ok(cluster);
            }
            Err(why) if why != said => {
                machine.say(format!("{} waits for its server: {why}", context.process.unit()));
                said = why;
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A node remembers all servers that it has seen: it finds its cluster though the one of its config is away.
fn remembered(context: &Context<'_>) -> Option<Arc<Cluster>> {
    let cluster = context.machine.ground.clusters.get(&files::agent_of(context)?)?;
    cluster.serves(context.machine.address).then_some(cluster)
}

/// The cluster whose supervisor is at a URL.
fn at_url(context: &Context<'_>, url: &str) -> Result<Arc<Cluster>, String> {
    let wrong = || format!("--server {url:?}: must be https://<address>:<port>");
    let uri: http::Uri = url.parse().map_err(|_| wrong())?;
    let host: Ipv4Addr = uri.host().and_then(|host| host.parse().ok()).ok_or_else(wrong)?;
    let place: Place = (host, uri.port_u16().unwrap_or(443));
    let service = context.machine.ground.network.find(context.machine.address, place);
    let service = service.map_err(|error| format!("failed to get CA certs: {error}"))?;
    let supervisor = service.supervisor().ok_or_else(|| format!("{url} is not a supervisor"))?;
    if supervisor.cluster.runtime != context.process.runtime {
        return Err(format!("{url} is a supervisor of {}", supervisor.cluster.runtime));
    }
    match supervisor.cluster.has_quorum_at(&supervisor.machine) {
        true => Ok(supervisor.cluster),
        false => Err("failed to get CA certs: the server is not ready".into()),
    }
}
