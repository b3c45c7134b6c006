//! Files that a process leaves on its machine, and finds again.

use super::cluster::Cluster;
use super::process::Context;

/// The cluster whose etcd this machine has data of.
pub(super) fn member_of(context: &Context<'_>) -> Option<String> {
    let id = context.machine.read(format!("{}/server/db/etcd/cluster", context.data_dir))?;
    Some(id.trim().to_owned())
}

pub(super) fn remember_member(context: &Context<'_>, cluster: &str, member: &str) -> Result<(), String> {
    let directory = format!("{}/server/db/etcd", context.data_dir);
    write(context, &format!("{directory}/name"), member)?;
    write(context, &format!("{directory}/cluster"), cluster)
}

/// The cluster that this machine has last been an agent of.
pub(super) fn agent_of(context: &Context<'_>) -> Option<String> {
    Some(context.machine.read(agent_file(context))?.trim().to_owned())
}

pub(super) fn remember_agent(context: &Context<'_>, cluster: &str) -> Result<(), String> {
    write(context, &agent_file(context), cluster)
}

fn agent_file(context: &Context<'_>) -> String {
    format!("{}/agent/etc/{}-agent-load-balancer.json", context.data_dir, context.process.runtime)
}

/// Certificates and the administrator's kubeconfig, as probes and people look for them.
pub(super) fn leave(context: &Context<'_>, cluster: &Cluster) -> Result<(), String> {
    let tls = format!("{}/server/tls", context.data_dir);
    let ca = cluster.pki.ca_certificate();
    let wrong = |error: apiserver::pki::Error| agent::chain(&error);
    for name in ["server-ca.crt", "client-ca.crt"] {
        write_new(context, &format!("{tls}/{name}"), ca)?;
    }
    if context.machine.read(format!("{tls}/client-kube-apiserver.crt")).is_none() {
        let client = cluster.pki.issue_client("kube-apiserver", "system:masters").map_err(wrong)?;
        write(context, &format!("{tls}/client-kube-apiserver.crt"), &client.certificate_pem)?;
        write(context, &format!("{tls}/client-kube-apiserver.key"), &client.key_pem)?;
    }
    for component in ["kube-controller-manager", "kube-scheduler"] {
        let argument = |name: &str| context.config.argument(&format!("{component}-arg"), name);
        if argument("tls-cert-file").is_none() {
            let directory = argument("cert-dir").unwrap_or_else(|| format!("{tls}/{component}"));
            write_new(context, &format!("{directory}/{component}.crt"), ca)?;
        }
    }
    write_new(context, &format!("{}/server/token", context.data_dir), context.config.text("token"))?;
    let kubeconfig = cluster.pki.admin_kubeconfig("https://127.0.0.1:6443").map_err(wrong)?;
    let runtime = context.process.runtime;
    write_new(context, &format!("/etc/rancher/{runtime}/{runtime}.yaml"), &kubeconfig)
}

/// Once: what is there stays as it is.
fn write_new(context: &Context<'_>, path: &str, content: &str) -> Result<(), String> {
    match context.machine.root.locate(path).exists() {
        true => Ok(()),
        false => write(context, path, content),
    }
}

fn write(context: &Context<'_>, path: &str, content: &str) -> Result<(), String> {
    context.machine.write(path, content).map_err(|error| format!("{path}: {error}"))
}

/// An authority of the user's own that lies on the machine before the first start becomes the cluster's.
pub(super) fn give_authority(context: &Context<'_>, directory: &std::path::Path) -> Result<(), String> {
    let tls = format!("{}/server/tls", context.data_dir);
    let own = |name: &str| context.machine.read(format!("{tls}/{name}"));
    let (Some(certificate), Some(key)) = (own("server-ca.crt"), own("server-ca.key")) else { return Ok(()) };
    let pki = directory.join("pki");
    let failed = |error: std::io::Error| format!("{}: {error}", pki.display());
    std::fs::create_dir_all(&pki).map_err(failed)?;
    crate::machine::replace(&pki.join("ca.key"), key.as_bytes()).map_err(failed)?;
    crate::machine::replace(&pki.join("ca.crt"), certificate.as_bytes()).map_err(failed)
}
