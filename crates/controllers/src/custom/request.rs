//! A host's request becomes a Machine, or finds the one that it has.

use std::sync::Arc;
use std::time::Duration;

use ::provisioning::custom::{Existing, Registration, Request, label_problem, registration};
use api::capi::v1beta2::{Cluster as CapiCluster, Machine};
use api::catalogue::secrets::keys;
use api::catalogue::{annotations, labels};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kit::events::Severity;
use kit::runner::Controller;
use kit::{Ended, Key, Object, Turn, index, lineage};
use serde_json::json;

use super::context::{Context, is_request};
use crate::error::Error;
use crate::until;

/// Said of a host whose Machine would have the name of another's. It names neither the other host nor its cluster.
const OTHER_HOST: &str = "a machine of another host or cluster has the name that belongs to this host's id: if the host was in another \
     cluster, delete its machine there first; else remove /etc/rancher/agent/cattle-id from the host, then run the command again";

/// How long a request stays: whoever made it takes it away earlier.
const STAYS: SignedDuration = SignedDuration::from_mins(1);

/// How soon it is seen whose a Machine is that was just made, or was there.
const SOON: Duration = Duration::from_millis(50);

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Everything that can be done now is done.
    Given,
    /// The Machine was made, or exists; it is not in the cache yet.
    NotSeenYet,
}

/// Looks after requests.
pub(super) struct Requests(pub(super) Arc<Context>);

impl Controller for Requests {
    type Error = Error;

    fn name(&self) -> &'static str {
        "machine request"
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let found = context.secrets.get(key).filter(|one| is_request(one) && !one.deleting());
        let Some(secret) = found else { return Ok(Ended::Gone) };
        let now = context.now();
        let made = secret.meta().creation_timestamp.as_ref().map_or(now, |time| time.0);
        let end = made.saturating_add(STAYS).unwrap_or(made);
        if now >= end {
            context.objects.writer().delete(turn, &context.secrets, &secret).await?;
            return Ok(Ended::Well);
        }
        let open = secret.label(labels::MACHINE_NAME).is_none()
            && secret.annotation(annotations::HERDSMAN_REFUSED).is_none();
        if open
            && let Some(cluster) = self.cluster(&secret)?
            && self.answer(turn, &secret, &cluster).await? == Answer::NotSeenYet
        {
            return Ok(Ended::Again(SOON));
        }
        Ok(until(now, Some(end)))
    }
}

impl Requests {
    /// The cluster whose management half's namespace the request is in.
    fn cluster(&self, secret: &Object) -> Result<Option<Arc<CapiCluster>>, Error> {
        let context = &self.0;
        let cluster = lineage::cluster(&context.management, &context.clusters, secret.namespace());
        let capi = cluster.and_then(|cluster| context.capi_clusters.get(&cluster.key()));
        Ok(capi.filter(|one| !one.deleting()).map(|one| one.view()).transpose()?)
    }

    /// Makes the Machine, unless there is one, and names it on the request once it is seen to be this host's.
    async fn answer(&self, turn: &Turn, secret: &Object, cluster: &CapiCluster) -> Result<Answer, Error> {
        let context = &self.0;
        let data: Arc<Secret> = secret.view()?;
        let data = data.data.as_ref().and_then(|data| data.get(keys::DATA));
        let request = match Request::read(data.map(|data| data.0.as_slice()).unwrap_or_default()) {
            Ok(request) => request,
            Err(unreadable) => {
                let (kind, why) = (context.secrets.kind(), unreadable.to_string());
                context.events.tell(kind, secret, Severity::Warning, "UnreadableRequest", &why).await;
                return Ok(Answer::Given);
            }
        };
        if let Some(problem) = label_problem(&request.labels) {
            return self.refuse(turn, secret, &format!("header X-Cattle-Labels: {problem}")).await;
        }
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let machines = context.machines.filed(&index::cluster(namespace, name));
        let machines: Vec<Machine> = machines
            .iter()
            .filter_map(|one| one.view::<Machine>().ok())
            .map(|one| Machine::clone(&one))
            .collect();
        let taken = context.machines.get(&Key::new(namespace, &request.machine_name()));
        let taken = taken.map(|one| one.view::<Machine>()).transpose()?;
        let existing = Existing { machines: &machines, taken: taken.as_deref() };
        let machine = match registration(&request, cluster, existing) {
            Registration::Known(name) => {
                let going =
                    context.machines.get(&Key::new(namespace, &name)).is_none_or(|one| one.deleting());
                if going {
                    // A host that was here before is still being taken leave of; it asks again.
                    return Ok(Answer::Given);
                }
                name
            }
            Registration::New(objects) => {
                for object in &objects {
                    context.objects.create(turn, object).await?;
                }
                // It may have been there: whose it is, is seen on it.
                return Ok(Answer::NotSeenYet);
            }
            Registration::Taken(_) => return self.refuse(turn, secret, OTHER_HOST).await,
        };
        let labels = json!({labels::MACHINE_NAME: machine, labels::MACHINE_NAMESPACE: namespace});
        let patch = json!({"metadata": {"labels": labels}});
        context.objects.writer().patch(turn, &context.secrets, &secret.key(), patch).await?;
        Ok(Answer::Given)
    }

    /// Says on a request why it is not answered.
    async fn refuse(&self, turn: &Turn, secret: &Object, why: &str) -> Result<Answer, Error> {
        let context = &self.0;
        context.events.tell(context.secrets.kind(), secret, Severity::Warning, "Refused", why).await;
        let patch = json!({"metadata": {"annotations": {annotations::HERDSMAN_REFUSED: why}}});
        context.objects.writer().patch(turn, &context.secrets, &secret.key(), patch).await?;
        Ok(Answer::Given)
    }
}
