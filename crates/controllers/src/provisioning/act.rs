//! What is done for a cluster that stays.

use std::sync::Arc;

use api::Tracked;
use api::catalogue::{annotations, settings};
use api::names;
use api::provisioning::v1::Cluster;
use kit::{Key, Object, Turn, index};
use provisioning::admission::{POD_SECURITY_SET, delivers_pod_security, pod_security_secret};
use provisioning::graph::applied::{CLUSTER_SET, Owner};
use provisioning::graph::difference::Change;
use provisioning::graph::{self, Graph, Hold, Refusal, scale, schema};
use provisioning::management::{self, Images};
use provisioning::object::Id;
use provisioning::restore::{self, Settings};
use provisioning::{Code, Wait, removal};
use serde_json::json;

use super::context::Context;
use super::gather::{self, Seen};
use super::identity;
use crate::error::Error;
use crate::objects;

/// Writes on the cluster itself what has to be there before anything else is made: finalizers, the fields of drivers,
/// settings that go back with a snapshot. Gives whether something was written.
///
/// # Errors
/// If it cannot be written, or a snapshot is waited for.
pub(super) async fn prepare(context: &Context, turn: &Turn, seen: &Seen) -> Result<bool, Failure> {
    let document = seen.object.document().clone();
    let shape = |problem| Error::Shape { what: graph::identity(&seen.cluster).to_string(), problem };
    let mut edit: Tracked<Cluster> = Tracked::from_document(document).map_err(shape)?;
    let missing = removal::missing_finalizers(&seen.cluster);
    if !missing.is_empty() {
        let all = edit.metadata.finalizers.get_or_insert_default();
        all.extend(missing.into_iter().map(str::to_owned));
    }
    for (pool, text) in schema::missing(&seen.cluster, &seen.schemas) {
        if let Some(config) = &mut edit.spec.rke_config {
            config.machine_pools[pool].dynamic_schema_spec = text;
        }
    }
    for (pool, quantity) in scaled(context, seen) {
        if let Some(config) = &mut edit.spec.rke_config {
            config.machine_pools[pool].quantity = Some(quantity);
        }
    }
    match restore::settings(&seen.cluster, seen.control_plane.as_deref(), seen.snapshot.as_deref()) {
        Settings::AsTheyAre => {}
        Settings::Rewrite(spec) => edit.spec = *spec,
        Settings::Waiting(wait) => return Err(Failure::Hold(Hold::Waiting(wait))),
    }
    let Some(mut patch) = edit.merge_patch().map_err(shape)? else { return Ok(false) };
    // Lists are written whole: not over what somebody else wrote meanwhile.
    patch["metadata"]["resourceVersion"] = json!(seen.object.meta().resource_version);
    let writer = context.objects.writer();
    writer.patch(turn, &context.known.clusters, &seen.object.key(), patch).await.map_err(Error::from)?;
    Ok(true)
}

/// The pools whose MachineDeployments somebody scaled, and to which size.
fn scaled(context: &Context, seen: &Seen) -> Vec<(usize, i32)> {
    let key = seen.object.key();
    let owner = Owner { set: CLUSTER_SET, object: graph::identity(&seen.cluster) };
    let deployments = context.known.deployments.filed(&index::made_from(&key.namespace, &key.name));
    let all = deployments.iter().filter(|one| !one.deleting()).map(|one| objects::document(one));
    all.filter_map(|one| scale::adopted(&owner, &seen.cluster, &one)).collect()
}

/// Keeps the Secret from which nodes take the API server's pod security configuration, or takes it away.
///
/// # Errors
/// If it cannot be written, or belongs to somebody else.
pub(super) async fn pod_security(context: &Context, turn: &Turn, seen: &Seen) -> Result<(), Failure> {
    let (cluster, namespace) = (&seen.cluster, seen.object.namespace());
    let secret = Key::new(namespace, &names::pod_security_secret(seen.object.name()));
    let there = context.known.secrets.get(&secret);
    if !delivers_pod_security(cluster) {
        let authorized = |one: &Arc<Object>| {
            one.annotation(annotations::AUTHORIZED_FOR_CLUSTERS) == Some(seen.object.name())
        };
        if let Some(found) = there.filter(authorized) {
            context.objects.apply(turn, &Change::Delete(objects::document(&found).id())).await?;
        }
        return Ok(());
    }
    let template = &cluster.spec.default_pod_security_admission_configuration_template_name;
    let template = context.known.pod_security.get(&Key::new("", template));
    let template = template.map(|one| one.view()).transpose().map_err(Error::from)?;
    // Without its template, or after a change of it, what was delivered stays.
    let Some(wanted) = template.and_then(|template| pod_security_secret(cluster, &template)) else {
        return Ok(());
    };
    let owner = Owner { set: POD_SECURITY_SET, object: graph::identity(cluster) };
    let there: Vec<Arc<Object>> = there.into_iter().collect();
    let steps = context.settled.steps(&owner, &[wanted], &there, &Default::default());
    for change in steps.map_err(|conflict| Failure::Hold(Refusal::Taken(conflict).into()))? {
        context.objects.apply(turn, &change).await?;
    }
    Ok(())
}

/// Writes the id of the cluster's management half into its status, before that is made: a name that is lost is an object that nobody
/// finds again.
pub(super) async fn name(context: &Context, turn: &Turn, seen: &Seen) -> Result<(), Error> {
    let fresh = context.with_entropy(|entropy| names::management_cluster(entropy));
    let mut status = seen.cluster.status.clone().unwrap_or_default();
    status.cluster_name = Some(seen.id()).filter(|id| !id.is_empty()).unwrap_or(&fresh).to_owned();
    Ok(context.objects.set_status(turn, &context.known.clusters, &seen.object, &status).await?)
}

/// Makes the management half as it should be.
///
/// # Errors
/// If it cannot be written, or the namespace of that name was not made for this cluster: it is not adopted.
pub(super) async fn management(context: &Context, turn: &Turn, seen: &Seen) -> Result<(), Failure> {
    let name = seen.id().to_owned();
    identity::check_namespace(&context.known, &seen.cluster, &name)
        .map_err(|refusal| Failure::Hold(refusal.into()))?;
    let text = |setting| context.settings.text(setting);
    let (agent, auth, registry) =
        (text(settings::AGENT_IMAGE), text(settings::AUTH_IMAGE), text(settings::SYSTEM_DEFAULT_REGISTRY));
    let images = Images { agent: &agent, auth: &auth, registry: &registry };
    let wanted = management::objects(&seen.cluster, &name, images);
    let known = &context.known;
    let there = [known.management.get(&Key::new("", &name)), known.namespaces.get(&Key::new("", &name))];
    let tokens = management::TOKENS.map(|token| known.tokens.get(&Key::new(&name, token)));
    let there: Vec<Arc<Object>> = there.into_iter().chain(tokens).flatten().collect();
    let owner = Owner { set: management::SET, object: graph::identity(&seen.cluster) };
    let steps = context.settled.steps(&owner, &wanted, &there, &Default::default());
    for change in steps.map_err(|conflict| Failure::Hold(Refusal::Taken(conflict).into()))? {
        context.objects.apply(turn, &change).await?;
    }
    Ok(())
}

/// Why a graph is not in place.
#[derive(Debug)]
pub(super) enum Failure {
    /// Something is missing, or cannot be: the status says so.
    Hold(Hold),
    /// Something went wrong: it is tried again.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

impl From<objects::Error> for Failure {
    fn from(error: objects::Error) -> Self {
        Failure::Error(error.into())
    }
}

/// Renders the cluster's objects and makes what is there into them.
pub(super) async fn render(context: &Arc<Context>, turn: &Turn, seen: &Seen) -> Result<(), Failure> {
    let graph = graph::render(&seen.facts()).map_err(Failure::Hold)?;
    adopt(context, turn, &graph).await?;
    let key = seen.object.key();
    let there = gather::existing(context, &key, &graph.objects).await?;
    let owner = Owner { set: CLUSTER_SET, object: graph::identity(&seen.cluster) };
    let changes = context
        .settled
        .steps(&owner, &graph.objects, &there, &gather::referred(context, &key))
        .map_err(|conflict| Failure::Hold(Refusal::Taken(conflict).into()))?;
    for change in changes {
        if let Err(error) = context.objects.apply(turn, &change).await {
            return Err(understood(&owner.object, &change.id(), error));
        }
    }
    Ok(())
}

/// What the API's refusal of an object means for the cluster.
fn understood(cluster: &Id, object: &Id, error: objects::Error) -> Failure {
    match error {
        objects::Error::NoKind { .. } => Failure::Hold(Hold::Waiting(Wait::new(
            Code::WaitingForDriverSchema,
            cluster.to_string(),
            format!("waiting for the API to know kind {} of {}", object.kind, object.api_version),
            "activate the node driver; its kinds follow",
        ))),
        objects::Error::Write(error) if matches!(error.code(), Some(400 | 403 | 422)) => {
            let why = error.words();
            Failure::Hold(Refusal::NotTaken { object: object.to_string(), why }.into())
        }
        other => Failure::Error(other.into()),
    }
}

/// Makes machine configs the cluster's own, before anything is made from them.
async fn adopt(context: &Arc<Context>, turn: &Turn, graph: &Graph) -> Result<(), Error> {
    for adoption in &graph.adoptions {
        let id = &adoption.config;
        let cache = context.objects.known(&id.api_version, &id.kind).await?;
        let found: Option<Arc<Object>> = cache.get(&Key::new(&id.namespace, &id.name));
        let version = found.and_then(|object| object.meta().resource_version.clone());
        let metadata = json!({"ownerReferences": adoption.owners, "resourceVersion": version});
        context.objects.patch(turn, id, json!({"metadata": metadata})).await?;
    }
    Ok(())
}
