//! Who else is at work on a management cluster: on Cluster API's kinds, or, as a Rancher does, on all of ours.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

/// The lease of upstream's controllers.
const UPSTREAM_LEASE: &str = "controller-leader-election-capi";
/// The Deployment of upstream's controllers, whoever brings them: clusterctl, an operator, a Rancher.
const UPSTREAM_DEPLOYMENT: &str = "capi-controller-manager";
/// The lease of a Rancher's controllers, in kube-system. The agent that a Rancher has in clusters that it looks after uses the same one.
const RANCHER_LEASE: &str = "cattle-controllers";
/// What that agent's pods are called: such a Rancher is elsewhere, and provisions nothing here.
const RANCHERS_AGENT: &str = "cattle-cluster-agent";
/// The Deployment of a Rancher.
const RANCHER_DEPLOYMENT: &str = "rancher";
/// A lease that was not renewed for so long is nobody's.
const STALE: Duration = Duration::from_secs(60);

/// Who runs the Cluster API controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// We do; it is an error if somebody else does, too
    Own,
    /// Somebody else does
    External,
    /// We do, unless somebody else does
    Auto,
}

/// Who else was found, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Others {
    /// On Cluster API's kinds.
    pub(crate) core: Vec<String>,
    /// On all kinds: a Rancher.
    pub(crate) rancher: Vec<String>,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// We run Cluster API's controllers.
    Run,
    /// Somebody else does: why we do not.
    StepBack(String),
    /// Both want to: what is in the way.
    Refuse(String),
}

/// Decides by what was found. `more` is whether we run more than Cluster API's controllers.
pub(crate) fn decide(mode: Mode, more: bool, others: &Others) -> Decision {
    if more && !others.rancher.is_empty() {
        return Decision::Refuse(format!(
            "a Rancher is at work here: {}. It looks after the same clusters and machines, and two would work against each other: \
             use another management cluster, or stop that Rancher",
            others.rancher.join("; ")
        ));
    }
    let all: Vec<&str> = others.core.iter().chain(&others.rancher).map(String::as_str).collect();
    match mode {
        Mode::External => Decision::StepBack("--capi external".into()),
        _ if all.is_empty() => Decision::Run,
        Mode::Auto => Decision::StepBack(all.join("; ")),
        Mode::Own => Decision::Refuse(format!(
            "somebody else runs the Cluster API controllers here: {}. Two of them would work against each other: stop that one, or use --capi external",
            all.join("; ")
        )),
    }
}

/// Whoever else is at work.
///
/// # Errors
/// If the cluster does not answer.
pub(crate) async fn others(client: &Client, now: Timestamp) -> Result<Others, kube::Error> {
    let mut rancher = leases(client, RANCHER_LEASE, now).await?;
    rancher.extend(deployments(client, RANCHER_DEPLOYMENT).await?);
    let mut core = leases(client, UPSTREAM_LEASE, now).await?;
    core.extend(deployments(client, UPSTREAM_DEPLOYMENT).await?);
    Ok(Others { core, rancher })
}

fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

async fn leases(client: &Client, name: &str, now: Timestamp) -> Result<Vec<String>, kube::Error> {
    let found = Api::<Lease>::all(client.clone()).list(&named(name)).await?;
    Ok(found.iter().filter_map(|lease| held(lease, now)).collect())
}

async fn deployments(client: &Client, name: &str) -> Result<Vec<String>, kube::Error> {
    let found = Api::<Deployment>::all(client.clone()).list(&named(name)).await?;
    Ok(found.iter().filter_map(wanted).collect())
}

/// That a Deployment is to run.
fn wanted(deployment: &Deployment) -> Option<String> {
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
    (replicas > 0).then(|| format!("there is a Deployment {namespace}/{name}"))
}

/// That a lease is held, if it was renewed lately.
fn held(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref()?;
    let renewed = spec.renew_time.as_ref()?.0;
    let fresh = now.duration_since(renewed).unsigned_abs() < STALE;
    let (namespace, name) = (lease.namespace().unwrap_or_default(), lease.name_any());
    (fresh && !holder.is_empty() && !holder.starts_with(RANCHERS_AGENT))
        .then(|| format!("lease {namespace}/{name} is held by {holder}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn others(core: &[&str], rancher: &[&str]) -> Others {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        Others { core: owned(core), rancher: owned(rancher) }
    }

    #[test]
    fn two_never_run() {
        let (alone, upstream) = (others(&[], &[]), others(&["lease x is held"], &[]));
        let rancher = others(&[], &["lease cattle-controllers is held"]);
        let words = |decision: Decision| match decision {
            Decision::Run => ("run", String::new()),
            Decision::StepBack(why) => ("step back", why),
            Decision::Refuse(why) => ("refuse", why),
        };
        for (mode, more, found, outcome, because) in [
            (Mode::Own, true, &alone, "run", ""),
            (Mode::Auto, true, &alone, "run", ""),
            (Mode::External, true, &alone, "step back", "--capi external"),
            (Mode::Own, true, &upstream, "refuse", "--capi external"),
            (Mode::Own, false, &upstream, "refuse", "lease x is held"),
            (Mode::Auto, true, &upstream, "step back", "lease x is held"),
            (Mode::External, true, &upstream, "step back", ""),
            // A Rancher provisions, too: nothing of ours may run beside it but what it is told to leave to us.
            (Mode::Own, true, &rancher, "refuse", "Rancher"),
            (Mode::Auto, true, &rancher, "refuse", "Rancher"),
            (Mode::External, true, &rancher, "refuse", "Rancher"),
            (Mode::Own, false, &rancher, "refuse", "--capi external"),
            (Mode::Auto, false, &rancher, "step back", "cattle-controllers"),
        ] {
            let (is, why) = words(decide(mode, more, found));
            assert_eq!(is, outcome, "{mode:?} {more} {found:?}");
            assert!(why.contains(because), "{mode:?} {more} {found:?}: {why}");
        }
    }

    #[test]
    fn only_the_living_count() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| -> Lease {
            let spec = json!({"holderIdentity": holder, "renewTime": renewed});
            let metadata = json!({"name": RANCHER_LEASE, "namespace": "kube-system"});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let fresh = "2026-01-01T00:09:45.000000Z";
        assert!(
            held(&lease("rancher-7d9f-x", fresh), now).unwrap().contains("kube-system/cattle-controllers")
        );
        assert_eq!(held(&lease("rancher-7d9f-x", "2026-01-01T00:01:00.000000Z"), now), None, "it is gone");
        assert_eq!(held(&lease("", fresh), now), None, "it was let go");
        assert_eq!(held(&lease("cattle-cluster-agent-5c-x", fresh), now), None, "the Rancher is elsewhere");
        let deployment = |replicas: Option<i32>| -> Deployment {
            let template = json!({"metadata": {}, "spec": {"containers": []}});
            let spec = json!({"replicas": replicas, "selector": {}, "template": template});
            let metadata = json!({"name": "rancher", "namespace": "cattle-system"});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        assert!(wanted(&deployment(None)).unwrap().contains("cattle-system/rancher"));
        assert_eq!(wanted(&deployment(Some(0))), None, "it was stopped");
    }
}
