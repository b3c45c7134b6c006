//! CustomMachines: the server is there already, so that there is little to say of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::provisioning::custom::{Farewell, FarewellFacts, Missing, farewell, missing};
use ::provisioning::status::{Finding, set};
use api::capi::v1beta2::Machine;
use api::catalogue::{annotations, conditions, finalizers, labels};
use api::names;
use api::rke::v1::{CustomMachine, MachineInitialization, RKECluster, RKEControlPlane};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, Secret};
use kit::events::Severity;
use kit::runner::Controller;
use kit::{Ended, Key, Object, Turn, owners};
use kube::Api;
use kube::api::ListParams;
use plan::orchestrator::Update;
use serde_json::json;

use super::context::{Context, cluster_of};
use crate::error::Error;
use crate::until;

/// How long after a cluster was not reached it is tried again.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Looks after CustomMachines.
pub(super) struct Hosts(pub(super) Arc<Context>);

impl Controller for Hosts {
    type Error = Error;

    fn name(&self) -> &'static str {
        "custom machine"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.custom.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(object) = context.custom.get(key) else {
            context.told.forget(key);
            return Ok(Ended::Gone);
        };
        let ended = match object.deleting() {
            true => self.end(turn, &object).await,
            false => self.look(turn, &object).await,
        };
        match ended {
            Err(error) if error.is_conflict() => Ok(Ended::Again(Duration::ZERO)),
            // Nobody can be asked: later.
            Err(Error::NotConnected(_)) => Ok(Ended::Again(ASK_AGAIN)),
            other => other,
        }
    }
}

impl Hosts {
    /// One look at a host that stays.
    async fn look(&self, turn: &Turn, object: &Object) -> Result<Ended, Error> {
        if self.is_paused(object) {
            return Ok(Ended::Well);
        }
        let mut all = object.meta().finalizers.clone().unwrap_or_default();
        if !all.iter().any(|one| one == finalizers::UNMANAGED_MACHINE) {
            all.push(finalizers::UNMANAGED_MACHINE.into());
            self.write_finalizers(turn, object, &all).await?;
            return Ok(Ended::Again(Duration::ZERO));
        }
        self.say(turn, object).await?;
        self.look_for_node(turn, object).await
    }

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

    /// Takes what was put on the host off it, then lets it go.
    async fn end(&self, turn: &Turn, object: &Object) -> Result<Ended, Error> {
        let context = &self.0;
        let has_hold =
            object.meta().finalizers.iter().flatten().any(|one| one == finalizers::UNMANAGED_MACHINE);
        if !has_hold || self.is_paused(object) {
            return Ok(Ended::Well);
        }
        let host: Arc<CustomMachine> = object.view()?;
        let plan = names::plan_secret(names::Bootstrap(object.name()));
        let secret = context.secrets.get(&Key::new(object.namespace(), &plan));
        let secret = secret.filter(|secret| !secret.deleting());
        let data = secret.as_ref().map(|secret| data(secret)).transpose()?;
        let agent_directory = self.agent_directory(object)?;
        let kind = context.custom.kind();
        let facts = FarewellFacts {
            host: &host,
            data: data.as_ref(),
            agent_directory: &agent_directory,
            now: context.now(),
        };
        match (farewell(&facts), secret) {
            (Farewell::Deliver(update), Some(secret)) => {
                self.deliver(turn, &secret, &update).await?;
                Ok(Ended::Again(Duration::ZERO))
            }
            (Farewell::Wait(wait, end), _) => {
                context.told.tell(&context.events, kind, object, &[wait]).await;
                Ok(until(context.now(), Some(end)))
            }
            (Farewell::GiveUp(why), _) => {
                context.events.tell(kind, object, Severity::Warning, "HostNotCleaned", &why).await;
                self.release(turn, object).await
            }
            (Farewell::Release | Farewell::Deliver(_), _) => self.release(turn, object).await,
        }
    }

    async fn release(&self, turn: &Turn, object: &Object) -> Result<Ended, Error> {
        let mut left = object.meta().finalizers.clone().unwrap_or_default();
        left.retain(|one| one != finalizers::UNMANAGED_MACHINE);
        self.write_finalizers(turn, object, &left).await?;
        Ok(Ended::Well)
    }

    async fn write_finalizers(&self, turn: &Turn, object: &Object, all: &[String]) -> Result<(), Error> {
        let metadata = json!({"finalizers": all, "resourceVersion": object.meta().resource_version});
        let (writer, custom) = (self.0.objects.writer(), &self.0.custom);
        Ok(writer.patch(turn, custom, &object.key(), json!({"metadata": metadata})).await?)
    }

    /// Writes the last plan: nobody else plans for a machine that goes.
    async fn deliver(&self, turn: &Turn, secret: &Object, update: &Update) -> Result<(), Error> {
        let value = |value: &Option<Vec<u8>>| value.clone().map(ByteString);
        let data: BTreeMap<&str, _> = update.data.iter().map(|(key, one)| (*key, value(one))).collect();
        let metadata =
            json!({"resourceVersion": secret.meta().resource_version, "annotations": update.annotations});
        let patch = json!({"metadata": metadata, "data": data});
        let (writer, secrets) = (self.0.objects.writer(), &self.0.secrets);
        Ok(writer.patch(turn, secrets, &secret.key(), patch).await?)
    }

    /// Whether the cluster or the host is paused: whoever moves objects must not have hosts cleaned.
    fn is_paused(&self, object: &Object) -> bool {
        let cluster = cluster_of(object).and_then(|key| self.0.capi_clusters.get(&key));
        object.annotation(annotations::PAUSED).is_some()
            || cluster.is_some_and(|cluster| cluster.document()["spec"]["paused"] == true)
    }

    /// The agent's directory, if the cluster has one of its own.
    fn agent_directory(&self, object: &Object) -> Result<String, Error> {
        let plane = cluster_of(object).and_then(|key| self.0.control_planes.get(&key));
        let plane = plane.map(|plane| plane.view::<RKEControlPlane>()).transpose()?;
        let directory = plane.map(|plane| plane.spec.configuration.data_directories.system_agent.clone());
        Ok(directory.unwrap_or_default())
    }

    /// Deletes the Machine of a node that has been gone for as long as its cluster allows.
    async fn look_for_node(&self, turn: &Turn, object: &Object) -> Result<Ended, Error> {
        let context = &self.0;
        let machine = owners::known(object, &context.machines);
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
        let uid = object.annotation(annotations::HERDSMAN_MACHINE_UID);
        let own = format!("{}={}", labels::MACHINE_UID, uid.unwrap_or(object.uid()));
        let found = nodes.list(&ListParams::default().labels(&own)).await.map_err(remote)?;
        Ok(!found.items.is_empty())
    }
}

fn data(secret: &Object) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let secret: Arc<Secret> = secret.view()?;
    let data = secret.data.clone().unwrap_or_default();
    Ok(data.into_iter().map(|(key, value)| (key, value.0)).collect())
}
