//! The infrastructure cluster of clusters that bring none: it is provisioned as soon as it has an endpoint.
//!
//! Nobody here reaches a cluster by its endpoint: controllers and users go through the tunnel, nodes join at the URLs
//! that the planner gives them. Cluster API still asks for one before it goes on, long before any server exists. So the
//! endpoint begins as a placeholder and becomes the name that users gave for direct access, if they gave one.

use api::capi::v1beta2::Cluster;
use api::catalogue::annotations;
use api::rke::v1::{
    Endpoint, LocalClusterAuthEndpoint, RKECluster, RKEClusterInitialization, RKEClusterStatus,
};

use crate::{Code, Wait};

/// What stands there until something better is known, as Rancher has it.
const PLACEHOLDER: (&str, i32) = ("localhost", 6443);

/// What to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Infrastructure {
    /// Nothing.
    Wait(Wait),
    /// The spec's endpoint, if it changes, then the status.
    Write {
        /// A new endpoint.
        endpoint: Option<Endpoint>,
        /// The status.
        status: RKEClusterStatus,
    },
}

/// What to write on an infrastructure cluster. `owner` is its Cluster API cluster, `access` the direct access that the
/// cluster's users asked for.
pub fn decide(
    infrastructure: &RKECluster,
    owner: Option<&Cluster>,
    access: &LocalClusterAuthEndpoint,
) -> Infrastructure {
    let namespace = infrastructure.metadata.namespace.as_deref().unwrap_or_default();
    let name = infrastructure.metadata.name.as_deref().unwrap_or_default();
    let wait = |code, awaits: &str, remedy: &str| {
        Infrastructure::Wait(Wait::new(code, format!("RKECluster {namespace}/{name}"), awaits, remedy))
    };
    let Some(owner) = owner else {
        let soon = "nothing to do: it follows by itself";
        return wait(Code::WaitingForCluster, "waiting for a Cluster API cluster to own it", soon);
    };
    let marks = infrastructure.metadata.annotations.as_ref();
    let paused =
        owner.spec.paused == Some(true) || marks.is_some_and(|marks| marks.contains_key(annotations::PAUSED));
    if paused {
        return wait(Code::Paused, "waiting: the cluster or its infrastructure is paused", "unpause it");
    }
    let existing = infrastructure.spec.control_plane_endpoint.clone().unwrap_or_default();
    let wanted = endpoint(&existing, access);
    let status = infrastructure.status.clone().unwrap_or_default();
    Infrastructure::Write {
        endpoint: Some(wanted).filter(|wanted| *wanted != existing),
        status: RKEClusterStatus {
            conditions: Vec::new(),
            ready: status.ready,
            initialization: Some(RKEClusterInitialization { provisioned: Some(true) }),
        },
    }
}

/// An endpoint that somebody set stays; a placeholder gives way to the name for direct access.
fn endpoint(existing: &Endpoint, access: &LocalClusterAuthEndpoint) -> Endpoint {
    let placeholder = Endpoint { host: PLACEHOLDER.0.into(), port: PLACEHOLDER.1 };
    if existing.is_complete() && *existing != placeholder {
        return existing.clone();
    }
    match access.enabled && !access.fqdn.is_empty() {
        true => Endpoint { host: access.fqdn.clone(), port: PLACEHOLDER.1 },
        false => placeholder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_enough() {
        let access = LocalClusterAuthEndpoint::default();
        let named =
            LocalClusterAuthEndpoint { enabled: true, fqdn: "api.example.com".into(), ..Default::default() };
        let mut one = RKECluster::default();
        let mut owner = Cluster::default();
        let host = |one: &RKECluster, owner: &Cluster, access| match decide(one, Some(owner), access) {
            Infrastructure::Write { endpoint, status } => {
                assert_eq!(status.initialization.unwrap().provisioned, Some(true));
                endpoint.map(|endpoint| endpoint.host)
            }
            Infrastructure::Wait(wait) => panic!("{wait}"),
        };
        assert_eq!(host(&one, &owner, &access).as_deref(), Some("localhost"));
        assert_eq!(host(&one, &owner, &named).as_deref(), Some("api.example.com"));
        one.spec.control_plane_endpoint = Some(Endpoint { host: "localhost".into(), port: 6443 });
        assert_eq!(host(&one, &owner, &access), None, "nothing to write");
        assert_eq!(
            host(&one, &owner, &named).as_deref(),
            Some("api.example.com"),
            "better than a placeholder"
        );
        one.spec.control_plane_endpoint = Some(Endpoint { host: "lb".into(), port: 443 });
        assert_eq!(host(&one, &owner, &named), None, "somebody's own choice");

        let code = |step| match step {
            Infrastructure::Wait(wait) => wait.code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(decide(&one, None, &access)), Code::WaitingForCluster);
        owner.spec.paused = Some(true);
        assert_eq!(code(decide(&one, Some(&owner), &access)), Code::Paused);
    }
}
