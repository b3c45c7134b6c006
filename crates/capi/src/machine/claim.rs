//! Whose a machine is, and what is a machine's own.

use std::sync::Arc;

use api::capi::v1beta2::{Machine, MachineSet};
use api::catalogue::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kit::events::Severity;
use kit::{KindId, Object, Turn, owners};

use super::{Seen, SeenNode};
use crate::context::{Context, Error, kind_of};

/// The labels of machines that something else than the cluster owns, or will own.
const PARENTS: [&str; 3] = [labels::CAPI_SET_NAME, labels::CAPI_POOL_NAME, labels::CAPI_CONTROL_PLANE_NAME];

/// Whether nothing but its cluster owns a machine, nor will own it.
pub(super) fn stands_alone(machine: &Object) -> bool {
    owners::controller(machine.owners()).is_none()
        && !PARENTS.iter().any(|label| machine.label(label).is_some())
}

/// Makes the objects of a machine's providers its own.
pub(super) async fn own(context: &Arc<Context>, turn: &Turn, seen: &Seen) -> Result<(), Error> {
    let cluster = seen.cluster_object.name();
    let me = owners::reference(&kind_of::<Machine>(), &seen.object, true);
    let parent = seen.cluster.spec.control_plane_ref.as_ref().filter(|_| seen.is_control_plane());
    let parent = parent.map(|reference| (reference.api_group.as_str(), reference.kind.as_str()));
    for provider in [&seen.infrastructure, &seen.bootstrap].into_iter().filter_map(|found| found.there()) {
        if provider.object.deleting() {
            continue;
        }
        if let Some(other) = stranger(provider.object.owners(), &me, parent) {
            return Err(Error::Impossible(format!(
                "{} {} belongs to {} {}: it cannot belong to Machine {} as well",
                provider.read().kind(),
                provider.object.name(),
                other.kind,
                other.name,
                seen.object.name()
            )));
        }
        context.claim(turn, provider, cluster, |all| take_over(all, me.clone(), parent)).await?;
    }
    Ok(())
}

fn is_parent(owner: &OwnerReference, control_plane: Option<(&str, &str)>) -> bool {
    let set = KindId::of::<MachineSet>();
    (owners::group(owner) == set.group && owner.kind == set.kind)
        || control_plane == Some((owners::group(owner), owner.kind.as_str()))
}

/// Another controller that is neither the machine nor what made it.
fn stranger<'a>(
    all: &'a [OwnerReference],
    me: &OwnerReference,
    control_plane: Option<(&str, &str)>,
) -> Option<&'a OwnerReference> {
    let controller = owners::controller(all)?;
    (!owners::same(controller, me) && !is_parent(controller, control_plane)).then_some(controller)
}

/// What made the object hands it to the machine. Gives whether anything changed.
fn take_over(all: &mut Vec<OwnerReference>, me: OwnerReference, control_plane: Option<(&str, &str)>) -> bool {
    let before = all.len();
    all.retain(|owner| !is_parent(owner, control_plane));
    let removed = all.len() != before;
    owners::ensure(all, me) || removed
}

/// Tells that the machine has become a node.
pub(super) async fn tell_node(context: &Arc<Context>, seen: &Seen, machine: &Machine) {
    if let SeenNode::There(node, _) = &seen.node {
        let message = format!(
            "Machine {} is Node {}",
            machine.metadata.name.as_deref().unwrap_or_default(),
            node.name()
        );
        let kind = kind_of::<Machine>();
        context.events.tell(&kind, &seen.object, Severity::Normal, "SuccessfulSetNodeRef", &message).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(api_version: &str, kind: &str, controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "x".into(),
            uid: "u".into(),
            controller: controller.then_some(true),
            ..OwnerReference::default()
        }
    }

    #[test]
    fn what_made_an_object_hands_it_over() {
        let me = owner("cluster.x-k8s.io/v1beta2", "Machine", true);
        let set = owner("cluster.x-k8s.io/v1beta1", "MachineSet", false);
        let foreign = owner("example.com/v1", "Thing", false);
        let mut all = vec![set, foreign.clone()];
        assert!(take_over(&mut all, me.clone(), None));
        assert_eq!(all, [foreign, me.clone()]);
        assert!(!take_over(&mut all, me.clone(), None));
        let server = owner("controlplane.cluster.x-k8s.io/v1", "FooControlPlane", true);
        let mut all = vec![server.clone()];
        let parent = Some(("controlplane.cluster.x-k8s.io", "FooControlPlane"));
        assert!(stranger(&all, &me, parent).is_none());
        assert_eq!(stranger(&all, &me, None), Some(&server));
        assert!(take_over(&mut all, me.clone(), parent));
        assert_eq!(all, [me]);
    }
}
