//! Where infrastructure comes from: node drivers, or native Cluster API providers.

use api::Kind as _;
use api::capi::v1beta2::ContractVersionedObjectReference;
use api::machine::{self, Driver};
use api::provisioning::v1::{Cluster, MachinePool, RKEConfig};
use api::rke::v1::RKECluster;
use k8s_openapi::api::core::v1::ObjectReference;

use super::Refusal;
use crate::object::group;

/// A machine config of a node driver, in the cluster's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigRef {
    /// `<Driver>Config`.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// Where a pool's machines come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A node driver, from a machine config.
    Driver(ConfigRef),
    /// A native Cluster API provider, from a machine template that the user made.
    Native(ContractVersionedObjectReference),
}

impl Source {
    /// Where a pool's machines come from, by its reference alone.
    pub fn of(reference: &ObjectReference) -> Self {
        let api_version = reference.api_version.as_deref().unwrap_or_default();
        let kind = reference.kind.clone().unwrap_or_default();
        let name = reference.name.clone().unwrap_or_default();
        match api_version.is_empty() || group(api_version) == machine::CONFIG_GROUP {
            true => Source::Driver(ConfigRef { kind, name }),
            false => Source::Native(ContractVersionedObjectReference {
                kind,
                name,
                api_group: group(api_version).into(),
            }),
        }
    }

    /// Whether the machines come from a native provider.
    pub fn is_native(&self) -> bool {
        matches!(self, Source::Native(_))
    }
}

/// The driver of a pool, if a driver makes its machines.
pub fn driver(pool: &MachinePool) -> Option<Driver> {
    match pool.machine_config_ref.as_ref().map(Source::of)? {
        Source::Driver(config) => Driver::of_config_kind(&config.kind),
        Source::Native(_) => None,
    }
}

/// The infrastructure cluster: the user's, or the one that is ours.
pub(crate) fn infrastructure(
    cluster: &Cluster,
    config: &RKEConfig,
) -> Result<ContractVersionedObjectReference, Refusal> {
    let Some(reference) = &config.infrastructure_ref else {
        return Ok(ContractVersionedObjectReference {
            kind: RKECluster::KIND.into(),
            name: cluster.metadata.name.clone().unwrap_or_default(),
            api_group: RKECluster::GROUP.into(),
        });
    };
    let field = "spec.rkeConfig.infrastructureRef";
    let checked = checked(field, reference, cluster)?;
    if checked.api_group.is_empty() {
        return Err(Refusal::IncompleteReference(field.into()));
    }
    Ok(checked)
}

/// Where a pool's machines come from.
pub(crate) fn of_pool(cluster: &Cluster, index: usize, pool: &MachinePool) -> Result<Source, Refusal> {
    let incomplete = || Refusal::IncompletePool(pool.name.clone());
    let reference = pool.machine_config_ref.as_ref().ok_or_else(incomplete)?;
    if pool.name.is_empty() {
        return Err(incomplete());
    }
    let field = format!("spec.rkeConfig.machinePools[{index}].machineConfigRef");
    checked(&field, reference, cluster).map_err(|refusal| match refusal {
        Refusal::IncompleteReference(_) => incomplete(),
        other => other,
    })?;
    Ok(Source::of(reference))
}

/// A reference without its version: Cluster API finds that by the contract labels of the kind's definition.
fn checked(
    field: &str,
    reference: &ObjectReference,
    cluster: &Cluster,
) -> Result<ContractVersionedObjectReference, Refusal> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (kind, name, namespace) = (text(&reference.kind), text(&reference.name), text(&reference.namespace));
    if !namespace.is_empty() && Some(&namespace) != cluster.metadata.namespace.as_ref() {
        return Err(Refusal::OtherNamespace { field: field.into(), namespace });
    }
    if kind.is_empty() || name.is_empty() {
        return Err(Refusal::IncompleteReference(field.into()));
    }
    Ok(ContractVersionedObjectReference {
        kind,
        name,
        api_group: group(&text(&reference.api_version)).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_tells_drivers_from_providers() {
        let reference = |api_version: &str, kind: &str| ObjectReference {
            api_version: (!api_version.is_empty()).then(|| api_version.to_owned()),
            kind: Some(kind.into()),
            name: Some("n".into()),
            ..Default::default()
        };
        let native = |api_version, kind| Source::of(&reference(api_version, kind)).is_native();
        assert!(!native("", "Amazonec2Config"));
        assert!(!native("rke-machine-config.cattle.io/v1", "Amazonec2Config"));
        assert!(native("infrastructure.cluster.x-k8s.io/v1beta1", "VSphereMachineTemplate"));
        assert!(native("elemental.cattle.io/v1beta1", "MachineInventorySelectorTemplate"));
        let pool =
            MachinePool { machine_config_ref: Some(reference("", "Amazonec2Config")), ..Default::default() };
        assert_eq!(driver(&pool).map(|driver| driver.name()).as_deref(), Some("amazonec2"));
    }
}
