//! Who else looks after Cluster API's kinds on a management cluster.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

/// The lease of upstream's controllers.
const UPSTREAM_LEASE: &str = "controller-leader-election-capi";
/// The Deployments in which upstream's controllers, or a Rancher that brings them, run.
const DEPLOYMENTS: [&str; 2] = ["capi-controller-manager", "rancher"];
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

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// We run them.
    Run,
    /// Somebody else does: why we do not.
    StepBack(String),
    /// Both want to: what is in the way.
    Refuse(String),
}

/// Decides by what was found.
pub(crate) fn decide(mode: Mode, others: &[String]) -> Decision {
    match (mode, others) {
        (Mode::External, _) => Decision::StepBack("--capi external".into()),
        (_, []) => Decision::Run,
        (Mode::Auto, others) => Decision::StepBack(others.join("; ")),
        (Mode::Own, others) => Decision::Refuse(format!(
            "somebody else runs the Cluster API controllers here: {}. Two of them would work against each other: stop that one, or use --capi external",
            others.join("; ")
        )),
    }
}

/// Whoever else is at work.
///
/// # Errors
/// If the cluster does not answer.
pub(crate) async fn others(client: &Client, now: Timestamp) -> Result<Vec<String>, kube::Error> {
    let mut found = Vec::new();
    let named = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
    for lease in Api::<Lease>::all(client.clone()).list(&named(UPSTREAM_LEASE)).await? {
        if let Some(holder) = held(&lease, now) {
            let namespace = lease.namespace().unwrap_or_default();
            found.push(format!("lease {namespace}/{UPSTREAM_LEASE} is held by {holder}"));
        }
    }
    for name in DEPLOYMENTS {
        for deployment in Api::<Deployment>::all(client.clone()).list(&named(name)).await? {
            let wanted = deployment.spec.replicas.unwrap_or(1);
            if wanted > 0 {
                found.push(format!(
                    "there is a Deployment {}/{name}",
                    deployment.namespace().unwrap_or_default()
                ));
            }
        }
    }
    Ok(found)
}

/// Who holds a lease, if it was renewed lately.
fn held(lease: &Lease, now: Timestamp) -> Option<String> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
    let renewed = spec.renew_time.as_ref()?.0;
    (now.duration_since(renewed).unsigned_abs() < STALE).then_some(holder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_never_run() {
        let others = ["lease x is held".to_owned()];
        assert_eq!(decide(Mode::Own, &[]), Decision::Run);
        assert_eq!(decide(Mode::Auto, &[]), Decision::Run);
        assert!(
            matches!(decide(Mode::Own, &others), Decision::Refuse(why) if why.contains("--capi external"))
        );
        assert!(matches!(decide(Mode::Auto, &others), Decision::StepBack(_)));
        assert!(matches!(decide(Mode::External, &[]), Decision::StepBack(_)));
    }
}
