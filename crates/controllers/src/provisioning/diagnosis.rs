//! What is in the way of a cluster: gathered for [`provisioning::diagnose`].

use std::sync::Arc;
use std::time::Duration;

use api::capi::v1beta2::ContractVersionedObjectReference;
use kit::{Key, Object, index};
use provisioning::diagnose::{self, Machine, Referred, Template};
use provisioning::graph::Source;
use provisioning::{Object as Document, Wait};

use super::LOOK_AGAIN;
use super::context::Context;
use super::gather::{self, Seen};
use crate::error::Error;
use crate::objects::document;

/// An object that something refers to.
enum Found {
    UnknownKind,
    Missing,
    There(Document),
}

impl Found {
    fn as_referred(&self) -> Referred<'_> {
        match self {
            Found::UnknownKind => Referred::UnknownKind,
            Found::Missing => Referred::Missing,
            Found::There(object) => Referred::Found(object),
        }
    }
}

/// What is in the way, and when time alone may change that.
#[derive(Default)]
pub(super) struct Diagnosis {
    pub(super) waits: Vec<Wait>,
    pub(super) again: Option<Duration>,
}

/// Looks at everything below a cluster that is not there yet.
pub(super) async fn of(context: &Arc<Context>, seen: &Seen) -> Result<Diagnosis, Error> {
    let key = seen.object.key();
    let Some(capi_cluster) = context.known.capi_clusters.get(&key) else {
        return Ok(Diagnosis::default());
    };
    let reference = reference(&capi_cluster.document()["spec"]["infrastructureRef"]);
    let infrastructure = find(context, &key.namespace, reference).await?;
    let mut templates = Vec::new();
    let config = seen.cluster.spec.rke_config.as_ref();
    for pool in config.into_iter().flat_map(|config| &config.machine_pools) {
        if let Some(Source::Native(reference)) = pool.machine_config_ref.as_ref().map(Source::of) {
            templates.push((&pool.name, find(context, &key.namespace, Some(reference)).await?));
        }
    }
    let entry = index::cluster(&key.namespace, &key.name);
    let known = &context.known;
    let deployments = known.deployments.filed(&entry).into_iter().chain(known.sets.filed(&entry));
    let deployments: Vec<Document> = deployments.map(|one| document(&one)).collect();
    let machines = machines_without_node(context, &key).await?;
    let facts = diagnose::Facts {
        cluster: &seen.cluster,
        infrastructure: infrastructure.as_referred(),
        templates: &templates
            .iter()
            .map(|(pool, found)| Template { pool, template: found.as_referred() })
            .collect::<Vec<_>>(),
        deployments: &deployments,
        machines: &machines
            .iter()
            .map(|(machine, found)| Machine { machine, infrastructure: found.as_referred() })
            .collect::<Vec<_>>(),
        now: context.now(),
    };
    let waits = diagnose::waits(&facts);
    let again = match waits.is_empty() {
        true => diagnose::due_in(&facts).map(Duration::from_secs),
        false => Some(LOOK_AGAIN),
    };
    Ok(Diagnosis { waits, again })
}

/// Machines of which there is something to say, with what their provider made of them.
async fn machines_without_node(context: &Arc<Context>, key: &Key) -> Result<Vec<(Document, Found)>, Error> {
    let machines = context.known.machines.filed(&index::cluster(&key.namespace, &key.name));
    let without = |machine: &&Arc<Object>| {
        !machine.deleting() && machine.document()["status"]["nodeRef"]["name"].is_null()
    };
    let mut found = Vec::new();
    for machine in machines.iter().filter(without) {
        let reference = reference(&machine.document()["spec"]["infrastructureRef"]);
        found.push((document(machine), find(context, &key.namespace, reference).await?));
    }
    Ok(found)
}

fn reference(value: &serde_json::Value) -> Option<ContractVersionedObjectReference> {
    serde_json::from_value(value.clone()).ok()
}

async fn find(
    context: &Arc<Context>,
    namespace: &str,
    reference: Option<ContractVersionedObjectReference>,
) -> Result<Found, Error> {
    let Some(reference) = reference else { return Ok(Found::Missing) };
    let Some(cache) = gather::provider(context, &reference).await? else { return Ok(Found::UnknownKind) };
    Ok(match cache.get(&Key::new(namespace, &reference.name)) {
        Some(object) => Found::There(document(&object)),
        None => Found::Missing,
    })
}
