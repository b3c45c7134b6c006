//! What a change of the graph does to a pool's machines.

use std::collections::BTreeMap;

use api::Kind as _;
use api::capi::v1beta2::MachineDeployment;

use crate::Object;

/// What happens to the machines of a pool; the worst of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Impact {
    /// Nothing.
    None,
    /// Labels, annotations, limits: they reach the machines as they are.
    InPlace,
    /// Machines are added or removed.
    Scale,
    /// Every machine is replaced.
    Replace,
    /// The pool is new.
    Made,
    /// The pool goes, with its machines.
    Gone,
}

/// The impact on each pool, by the name of its MachineDeployment.
pub fn of_pools(before: &[Object], after: &[Object]) -> BTreeMap<String, Impact> {
    let (before, after) = (deployments(before), deployments(after));
    let names = before.keys().chain(after.keys()).cloned();
    names.map(|name| (name.clone(), of_pool(before.get(&name), after.get(&name)))).collect()
}

fn of_pool(before: Option<&MachineDeployment>, after: Option<&MachineDeployment>) -> Impact {
    match (before, after) {
        (None, _) => Impact::Made,
        (_, None) => Impact::Gone,
        (Some(before), Some(after)) if replaces(before, after) => Impact::Replace,
        (Some(before), Some(after)) if before.spec.replicas != after.spec.replicas => Impact::Scale,
        (Some(before), Some(after)) if before.spec != after.spec => Impact::InPlace,
        _ => Impact::None,
    }
}

/// Whether a MachineDeployment replaces its machines: Cluster API does so when what they are made from changes, and
/// carries everything else over to the machines that are there.
pub fn replaces(before: &MachineDeployment, after: &MachineDeployment) -> bool {
    let made_from = |deployment: &MachineDeployment| {
        let spec = &deployment.spec.template.spec;
        (
            spec.bootstrap.clone(),
            spec.infrastructure_ref.clone(),
            spec.version.clone(),
            spec.failure_domain.clone(),
        )
    };
    made_from(before) != made_from(after)
}

fn deployments(objects: &[Object]) -> BTreeMap<String, MachineDeployment> {
    let deployments = objects.iter().filter(|object| object.kind() == MachineDeployment::KIND);
    deployments.filter_map(|object| Some((object.name().to_owned(), object.view()?))).collect()
}
