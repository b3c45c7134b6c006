//! The node that a machine has become: provider id and addresses of machines whose provider cannot know them.
//!
//! A node bears the id of its Machine as a label; Cluster API matches the two by the provider id that is written here.

use std::sync::Arc;

use api::GenericCondition;
use k8s_openapi::api::core::v1::Node;
use kit::runner::Controller;
use kit::{Ended, Key, Object, Turn, machines};
use provisioning::machine::{Joined, joined};
use serde_json::json;

use super::context::{Context, Error};
use super::gather::machine_identity;
use super::known::{infrastructure_kind, kinds};

/// Looks for the nodes of Machines.
pub(crate) struct Lookups(pub(crate) Arc<Context>);

impl Controller for Lookups {
    type Error = Error;

    fn name(&self) -> &'static str {
        "machine-node-lookup"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.machines.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(machine) = context.machines.get(key) else { return Ok(Ended::Gone) };
        let document = machine.document();
        let text =
            |pointer: &str| document.pointer(pointer).and_then(|value| value.as_str()).unwrap_or_default();
        let (group, kind) = (text("/spec/infrastructureRef/apiGroup"), text("/spec/infrastructureRef/kind"));
        let cluster = Key::new(&key.namespace, text("/spec/clusterName"));
        let known = !text("/spec/providerID").is_empty();
        if known || machine.deleting() || context.control_planes_of(&cluster).is_empty() {
            return Ok(Ended::Well);
        }
        let Some(kind) = infrastructure_kind(&context.live, group, kind) else { return Ok(Ended::Well) };
        context.watch_kind(&kind).await;
        let infra = context.find(&kind, &Key::new(&key.namespace, text("/spec/infrastructureRef/name")));
        let Some(infra) = infra else { return Ok(Ended::Well) };
        let conditions = infra.document()["status"]["conditions"].clone();
        let conditions: Vec<GenericCondition> = serde_json::from_value(conditions).unwrap_or_default();
        let known = infra.document()["spec"]["providerID"].as_str().unwrap_or_default();
        let nodes = self.nodes(&cluster, machine_identity(&machine));
        let Some(bootstrap) = machines::bootstrap_of(&machine, |key| context.bootstraps.get(key)) else {
            return Ok(Ended::Well);
        };
        let own = (machine_identity(&machine), machines::is_server(&bootstrap));
        match joined(group, known, &conditions, own, &nodes) {
            Joined::Nothing | Joined::NotYet => Ok(Ended::Well),
            Joined::Yes { addresses, provider_id } => {
                let cache = context.live.cache(&kind);
                let wanted = json!(addresses);
                if infra.document()["status"]["addresses"] != wanted {
                    // Whoever sees the id has the addresses.
                    context.patch_status(turn, &cache, &infra, json!({"addresses": wanted})).await?;
                    return Ok(Ended::Again(std::time::Duration::ZERO));
                }
                tracing::info!(machine = %key, provider_id, "the machine's node has joined");
                context
                    .patch_seen(turn, &cache, &infra, json!({"spec": {"providerID": provider_id}}))
                    .await?;
                Ok(Ended::Well)
            }
        }
    }
}

impl Lookups {
    /// The nodes of a cluster that bear a machine's id; none while the cluster is not reached.
    fn nodes(&self, cluster: &Key, id: &str) -> Vec<Node> {
        let Ok(connection) = self.0.access.connection(cluster) else { return Vec::new() };
        let nodes = connection.caches.of_cluster(&kinds::nodes(), |_| {});
        let bears = |node: &Arc<Object>| node.label(api::catalogue::labels::MACHINE_UID) == Some(id);
        let read = |node: &Arc<Object>| node.view::<Node>().ok().map(|node| (*node).clone());
        nodes.all().iter().filter(|node| bears(node)).filter_map(read).collect()
    }
}
