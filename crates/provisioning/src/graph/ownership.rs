//! Whose machine config it is.

use api::machine::MachineConfig;
use api::provisioning::v1::Cluster;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::{Refusal, identity};
use crate::object::{Id, controller_reference};

/// A machine config that the cluster takes: it goes with the cluster from now on.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption {
    /// The config.
    pub config: Id,
    /// Its owner references, with the cluster's.
    pub owners: Vec<OwnerReference>,
}

/// What it takes to make the config the cluster's; nothing if it is already.
pub(super) fn take(cluster: &Cluster, config: &MachineConfig) -> Result<Option<Adoption>, Refusal> {
    let own = identity(cluster);
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let id = Id {
        api_version: config.api_version.clone(),
        kind: config.kind.clone(),
        namespace: config.metadata.namespace.clone().unwrap_or_default(),
        name: config.metadata.name.clone().unwrap_or_default(),
    };
    let is_a_cluster =
        |owner: &OwnerReference| owner.kind == own.kind && owner.api_version == own.api_version;
    let existing = config.metadata.owner_references.clone().unwrap_or_default();
    for owner in &existing {
        let taken = || Refusal::ConfigTaken {
            config: id.to_string(),
            owner: match is_a_cluster(owner) {
                true => format!("cluster {}", owner.name),
                false => format!("{} {}", owner.kind, owner.name),
            },
        };
        match is_a_cluster(owner) {
            true if owner.name != own.name => return Err(taken()),
            true if owner.uid == uid => return Ok(None),
            false if owner.controller == Some(true) => return Err(taken()),
            _ => {}
        }
    }
    // A cluster of the same name that is gone must not take the config with it.
    let mut owners: Vec<OwnerReference> = existing.into_iter().filter(|owner| !is_a_cluster(owner)).collect();
    owners.push(controller_reference(&own, uid));
    Ok(Some(Adoption { config: id, owners }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(api_version: &str, name: &str, uid: &str, controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: "Cluster".into(),
            name: name.into(),
            uid: uid.into(),
            controller: Some(controller),
            block_owner_deletion: None,
        }
    }

    #[test]
    fn configs_have_one_owner() {
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some("prod".into());
        cluster.metadata.uid = Some("u1".into());
        let ours = "provisioning.cattle.io/v1";
        // Owners before; owners after, or who is in the way.
        type Case = (Vec<OwnerReference>, Result<Option<usize>, &'static str>);
        let cases: [Case; 6] = [
            (vec![], Ok(Some(1))),
            (vec![owner(ours, "prod", "u1", true)], Ok(None)),
            (vec![owner(ours, "prod", "old", true)], Ok(Some(1))),
            (vec![owner("fleet.cattle.io/v1", "x", "f", false)], Ok(Some(2))),
            (vec![owner(ours, "other", "u2", true)], Err("cluster other")),
            (vec![owner("fleet.cattle.io/v1", "x", "f", true)], Err("Cluster x")),
        ];
        for (owners, expected) in cases {
            let mut config = MachineConfig::default();
            config.metadata.owner_references = Some(owners.clone());
            let found = take(&cluster, &config);
            match expected {
                Ok(count) => {
                    let adoption = found.unwrap();
                    assert_eq!(adoption.as_ref().map(|one| one.owners.len()), count, "{owners:?}");
                    assert!(adoption.is_none_or(|one| one.owners.iter().any(|owner| owner.uid == "u1")));
                }
                Err(who) => assert!(found.unwrap_err().to_string().contains(who), "{owners:?}"),
            }
        }
    }
}
