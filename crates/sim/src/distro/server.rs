//! A server: it joins or begins a cluster, serves, and is a node.

use std::convert::Infallible;

use tokio::sync::oneshot;

use super::cluster::Running;
use super::process::Context;
use super::{deploy, files, join, kubelet, ports};
use crate::systemd::{Started, tell};

/// Serves until it cannot go on.
///
/// # Errors
/// Why not.
pub(super) async fn serve(
    context: &Context<'_>,
    started: &mut Option<oneshot::Sender<Started>>,
) -> Result<Infallible, String> {
    let machine = context.machine;
    let joined = join::as_server(context).await?;
    let cluster = joined.cluster;
    let api = !context.config.is("disable-apiserver");
    let running = Running { address: machine.address, api };
    let _attached = cluster.attach(&machine.name, running, joined.new_member.as_deref())?;
    match &joined.new_member {
        Some(member) => {
            files::remember_member(context, &cluster.id, member)?;
            machine.say(format!("is a member of etcd of {}", cluster.id));
        }
        None if context.config.is("disable-etcd") => files::remember_agent(context, &cluster.id)?,
        None => {}
    }
    files::leave(context, &cluster)?;
    let _listening = ports::of_server(context, &cluster);
    cluster.until(|cluster| cluster.has_quorum_at(&machine.name)).await;
    machine.say(format!("serves {} {}", context.process.runtime, context.version));
    tell(started, Ok(()));
    let is_member = cluster.is_member(&machine.name);
    tokio::select! {
        biased;
        () = cluster.until(|cluster| !cluster.is_member(&machine.name)), if is_member => {
            Err("this server has been removed from etcd".into())
        }
        never = deploy::follow(context, &cluster), if api => match never {},
        never = kubelet::run(context, &cluster) => never,
    }
}
