//! CustomMachines: the server is there already, so that there is little to say of it.

use std::sync::Arc;
use std::time::Duration;

use ::provisioning::custom::{Missing, missing};
use ::provisioning::status::{Finding, set};
use api::capi::v1beta2::Machine;
use api::catalogue::{conditions, finalizers, labels};
use api::rke::v1::{CustomMachine, MachineInitialization, RKECluster};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kit::events::Severity;
use kit::runner::Controller;
use kit::{Ended, Key, KindId, Object, Turn, owners};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::context::{Context, Error, cluster_of};
use crate::until;

/// Looks after CustomMachines.
pub(super) struct Hosts(pub(super) Arc<Context>);

impl Controller for Hosts {
    type Error = Error;

    fn name(&self) -> &'static str {
        "custom machine"
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(object) = context.custom.get(key) else { return Ok(Ended::Gone) };
        if object.deleting() {
            self.release(turn, &object).await?;
            return Ok(Ended::Well);
        }
        match self.say(turn, &object).await {
            Err(Error::Objects(error)) if error.is_conflict() => return Ok(Ended::Again(Duration::ZERO)),
            other => other?,
        }
        self.look_for_node(turn, &object).await
    }
}

impl Hosts {
    /// The server is ready by being there; it is provisioned once its node's id is known.
    async fn say(&self, turn: &Turn, object: &Object) -> Result<(), Error> {
        let context = &self.0;
        let host: Arc<CustomMachine> = object.view()?;
        let mut status = host.status.clone().unwrap_or_default();
        let now = context.now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        set(&mut status.conditions, conditions::READY, Finding::yes(), &now);
        if !host.spec.provider_id.is_empty() {
            status.ready = true;
            status.initialization = Some(MachineInitialization { provisioned: Some(true) });
        }
        Ok(context.objects.set_status(turn, &context.custom, object, &status).await?)
    }

    /// Rancher's finalizer may be there from before; nothing is waited for.
    async fn release(&self, turn: &Turn, object: &Object) -> Result<(), Error> {
        let mut left = object.meta.finalizers.clone().unwrap_or_default();
        let before = left.len();
        left.retain(|one| one != finalizers::UNMANAGED_MACHINE);
        if left.len() == before {
            return Ok(());
        }
        let metadata = json!({"finalizers": left, "resourceVersion": object.meta.resource_version});
        let (writer, custom) = (self.0.objects.writer(), &self.0.custom);
        Ok(writer.patch(turn, custom, &object.key(), json!({"metadata": metadata})).await?)
    }

    /// Deletes the Machine of a node that has been gone for as long as its cluster allows.
    async fn look_for_node(&self, turn: &Turn, object: &Object) -> Result<Ended, Error> {
        let context = &self.0;
        let owner = owners::of_kind(object.owners(), &KindId::of::<Machine>());
        let machine =
            owner.and_then(|owner| context.machines.get(&Key::new(object.namespace(), &owner.name)));
        let cluster = cluster_of(object).and_then(|key| context.infrastructure.get(&key));
        let (Some(machine), Some(cluster)) = (machine, cluster) else { return Ok(Ended::Well) };
        let (typed, cluster): (Arc<Machine>, Arc<RKECluster>) = (machine.view()?, cluster.view()?);
        match missing(&cluster, &typed, context.now()) {
            Missing::Keep => Ok(Ended::Well),
            Missing::Until(at) => Ok(until(context.now(), Some(at))),
            Missing::Delete if self.has_node(&machine, &typed).await? => Ok(Ended::Well),
            Missing::Delete => {
                let why = format!("the node of machine {} has been gone for too long", machine.name());
                let kind = context.machines.kind();
                context.events.tell(kind, &machine, Severity::Warning, "NodeMissing", &why).await;
                context.objects.writer().delete(turn, &context.machines, &machine).await?;
                Ok(Ended::Well)
            }
        }
    }

    /// Whether the cluster itself still knows a node of the machine.
    async fn has_node(&self, object: &Object, machine: &Machine) -> Result<bool, Error> {
        let cluster = Key::new(object.namespace(), &machine.spec.cluster_name);
        let connection = self.0.parts.access.connection(&cluster)?;
        let nodes: Api<Node> = Api::all(connection.client);
        let remote = |answer| Error::Remote { machine: object.key(), answer: Box::new(answer) };
        let name = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()).map(|one| &one.name);
        if let Some(name) = name.filter(|name| !name.is_empty())
            && nodes.get_opt(name).await.map_err(remote)?.is_some()
        {
            return Ok(true);
        }
        let uid = object.annotation(api::catalogue::annotations::HERDSMAN_MACHINE_UID);
        let own = format!("{}={}", labels::MACHINE_UID, uid.unwrap_or(object.uid()));
        let found = nodes.list(&ListParams::default().labels(&own)).await.map_err(remote)?;
        Ok(!found.items.is_empty())
    }
}
