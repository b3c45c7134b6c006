//! Which volumes are still attached to a node.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::context::Error;

/// What is known of volumes.
#[derive(Clone, Debug, Default)]
pub(super) struct Volumes {
    pub(super) persistent: Vec<PersistentVolume>,
    pub(super) attachments: Vec<VolumeAttachment>,
    /// Claims of pods that the drain left alone, as `namespace/name`.
    pub(super) left_alone: BTreeSet<String>,
}

/// What is still attached to a node, in words; none if nothing is that matters.
///
/// # Errors
/// If an attachment does not say of which volume it is.
pub(super) fn attached(node: &Node, volumes: &Volumes) -> Result<Option<String>, Error> {
    let name = node.name_any();
    let mut by_handle: BTreeMap<String, &PersistentVolume> = BTreeMap::new();
    let mut by_name: BTreeMap<String, &PersistentVolume> = BTreeMap::new();
    for volume in &volumes.persistent {
        by_name.insert(volume.name_any(), volume);
        if let Some(csi) = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()) {
            by_handle.insert(format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle), volume);
        }
    }
    let mut found: BTreeMap<String, Option<&PersistentVolume>> = BTreeMap::new();
    let listed =
        node.status.as_ref().and_then(|status| status.volumes_attached.as_deref()).unwrap_or_default();
    for one in listed {
        let volume = by_handle.get(&one.name).or_else(|| by_name.get(&one.name)).copied();
        found.insert(volume.map_or_else(|| one.name.clone(), kube::ResourceExt::name_any), volume);
    }
    for one in &volumes.attachments {
        let attached = one.status.as_ref().is_some_and(|status| status.attached);
        if one.spec.node_name != name || !attached {
            continue;
        }
        let volume = one.spec.source.persistent_volume_name.clone().filter(|name| !name.is_empty());
        let Some(volume) = volume else {
            return Err(Error::Impossible(format!(
                "VolumeAttachment {} names no PersistentVolume",
                one.name_any()
            )));
        };
        let known = by_name.get(&volume).copied();
        found.insert(volume, known);
    }
    Ok(told(&found, &volumes.left_alone))
}

fn told(
    found: &BTreeMap<String, Option<&PersistentVolume>>,
    left_alone: &BTreeSet<String>,
) -> Option<String> {
    let (mut claims, mut unclaimed, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for (name, volume) in found {
        let claim = volume.and_then(|volume| volume.spec.as_ref()).and_then(|spec| spec.claim_ref.as_ref());
        let claim = claim.map(|claim| {
            format!(
                "{}/{}",
                claim.namespace.as_deref().unwrap_or_default(),
                claim.name.as_deref().unwrap_or_default()
            )
        });
        match (claim, volume) {
            (Some(claim), _) if left_alone.contains(&claim) => {}
            (Some(claim), _) => claims.push(claim),
            (None, Some(_)) => unclaimed.push(name.clone()),
            (None, None) => unknown.push(name.clone()),
        }
    }
    let mut lines = Vec::new();
    for (what, names) in [
        ("PersistentVolumeClaims", &claims),
        ("PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim", &unclaimed),
        ("Node with .status.volumesAttached entries not matching a PersistentVolume", &unknown),
    ] {
        if !names.is_empty() {
            lines.push(format!("* {what}: {}", names.join(", ")));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Reads what is known of volumes.
///
/// # Errors
/// If the cluster does not answer.
pub(super) async fn read(
    client: &Client,
    node: &str,
    skipped: &BTreeSet<(String, String)>,
) -> Result<Volumes, Error> {
    let failed = |answer| Error::Remote { what: "list the node's volumes", answer: Box::new(answer) };
    let all = ListParams::default();
    let persistent = Api::<PersistentVolume>::all(client.clone()).list(&all).await.map_err(failed)?.items;
    let attachments = Api::<VolumeAttachment>::all(client.clone()).list(&all).await.map_err(failed)?.items;
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = Api::<Pod>::all(client.clone()).list(&on_node).await.map_err(failed)?.items;
    let alone =
        pods.iter().filter(|pod| skipped.contains(&(pod.namespace().unwrap_or_default(), pod.name_any())));
    let claims = alone.flat_map(|pod| {
        let namespace = pod.namespace().unwrap_or_default();
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        claims.map(|claim| format!("{namespace}/{}", claim.claim_name)).collect::<Vec<_>>()
    });
    Ok(Volumes { left_alone: claims.collect(), persistent, attachments })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_attached_is_told() {
        let node: Node =
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"volumesAttached": [
                {"name": "kubernetes.io/csi/drv^h1", "devicePath": ""}, {"name": "odd", "devicePath": ""}
            ]}}))
            .unwrap();
        let volume = |name: &str, handle: &str, claim: Option<&str>| -> PersistentVolume {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
                "csi": {"driver": "drv", "volumeHandle": handle},
                "claimRef": claim.map(|claim| json!({"namespace": "apps", "name": claim}))
            }}))
            .unwrap()
        };
        let attachment = |volume: &str, attached: bool| -> VolumeAttachment {
            serde_json::from_value(json!({"metadata": {"name": "va"}, "spec": {
                "attacher": "drv", "nodeName": "n", "source": {"persistentVolumeName": volume}
            }, "status": {"attached": attached}}))
            .unwrap()
        };
        let mut volumes = Volumes {
            persistent: vec![volume("pv1", "h1", Some("data")), volume("pv2", "h2", None)],
            attachments: vec![attachment("pv2", true), attachment("pv3", false)],
            left_alone: BTreeSet::new(),
        };
        let text = attached(&node, &volumes).unwrap().unwrap();
        assert_eq!(
            text,
            "* PersistentVolumeClaims: apps/data\n\
             * PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim: pv2\n\
             * Node with .status.volumesAttached entries not matching a PersistentVolume: odd"
        );
        volumes.left_alone.insert("apps/data".into());
        assert!(!attached(&node, &volumes).unwrap().unwrap().contains("apps/data"));
        volumes.attachments.push(attachment("", true));
        assert!(attached(&node, &volumes).is_err());
        assert_eq!(attached(&Node::default(), &Volumes::default()).unwrap(), None);
    }
}
