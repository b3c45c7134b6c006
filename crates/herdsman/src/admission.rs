//! Admission inside the process, where no webhook has to run: of Cluster API's kinds, and of ours.

use std::sync::Arc;

use api::conversion;
use apiserver::server::{Admission, Attributes, Operation, Verdict};
use capi::admission;
use controllers::admission::{Asker, Door, Write};
use kubeapi::{GroupKind, Status};
use serde_json::Value;

use crate::converter::OurKinds;

/// The version that rules are written for.
const HUB: &str = "cluster.x-k8s.io/v1beta2";

/// Fills in and judges the kinds of Cluster API, in whatever version they are written.
pub(crate) struct ClusterApi {
    kinds: Arc<OurKinds>,
}

impl ClusterApi {
    /// With a way to convert between versions.
    pub(crate) fn new(kinds: Arc<OurKinds>) -> Self {
        ClusterApi { kinds }
    }

    fn concerns(about: &Attributes<'_>) -> bool {
        about.kind.group == admission::GROUP
            && admission::KINDS.contains(&about.kind.kind.as_str())
            && about.subresource.is_empty()
            && about.operation != Operation::Delete
    }

    fn up(&self, object: &Value) -> Result<Value, Status> {
        conversion::convert(object.clone(), HUB, &*self.kinds)
            .map_err(|error| Status::bad_request(error.to_string()))
    }

    fn fill_in(&self, about: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let old = about.old.map(|old| self.up(old)).transpose()?;
        let before = self.up(object)?;
        let mut after = before.clone();
        admission::fill_in(&about.kind.kind, &mut after, old.as_ref());
        if after != before {
            let version = object["apiVersion"].as_str().unwrap_or(HUB).to_owned();
            *object = conversion::convert(after, &version, &*self.kinds)
                .map_err(|error| Status::bad_request(error.to_string()))?;
        }
        Ok(())
    }

    fn judge(&self, about: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let old = about.old.map(|old| self.up(old)).transpose()?;
        let problems = admission::problems(&about.kind.kind, &self.up(object)?, old.as_ref());
        if problems.is_empty() {
            return Ok(());
        }
        let kind = GroupKind { group: about.kind.group.clone(), kind: about.kind.kind.clone() };
        let name = object["metadata"]["name"].as_str().unwrap_or(about.name);
        Err(Status::invalid(&kind, name, &problems))
    }
}

impl Admission for ClusterApi {
    fn mutate<'a>(&'a self, about: Attributes<'a>, object: &'a mut Value) -> Verdict<'a> {
        let verdict = match Self::concerns(&about) {
            true => self.fill_in(&about, object),
            false => Ok(()),
        };
        Box::pin(std::future::ready(verdict.map(|()| Vec::new())))
    }

    fn validate<'a>(&'a self, about: Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        let verdict = match object.filter(|_| Self::concerns(&about)) {
            Some(object) => self.judge(&about, object),
            None => Ok(()),
        };
        Box::pin(std::future::ready(verdict.map(|()| Vec::new())))
    }
}

/// What refuses our kinds is called so, here and on a real Kubernetes.
const WEBHOOK: &str = "herdsman.cattle.io";

/// Fills in and judges clusters and what users write beside them. The door looks things up by a client: whoever starts
/// the server opens it then.
pub(crate) struct Clusters(pub(crate) Arc<Door>);

/// A write as the door takes it.
fn write<'a>(about: &Attributes<'a>, asker: &'a Asker) -> Write<'a> {
    Write {
        operation: match about.operation {
            Operation::Create => provisioning::admission::Operation::Create,
            Operation::Update => provisioning::admission::Operation::Update,
            Operation::Delete => provisioning::admission::Operation::Delete,
        },
        group: &about.resource.group,
        kind: &about.resource.kind,
        subresource: about.subresource,
        namespace: about.namespace,
        name: about.name,
        asker,
        old: about.old,
        dry_run: about.dry_run,
    }
}

fn asker(about: &Attributes<'_>) -> Asker {
    let user = about.user;
    Asker {
        name: user.name.clone(),
        uid: user.uid.clone(),
        groups: user.groups.clone(),
        extra: user.extra.clone(),
    }
}

fn in_a_webhooks_words(status: &Status) -> Status {
    kubeapi::admission::denied_with(WEBHOOK, status)
}

impl Admission for Clusters {
    fn mutate<'a>(&'a self, about: Attributes<'a>, object: &'a mut Value) -> Verdict<'a> {
        if !Door::concerns(&about.resource.group, &about.resource.kind, about.subresource) {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        Box::pin(async move {
            let asker = asker(&about);
            let filled_in = self.0.fill_in(write(&about, &asker), object).await;
            filled_in.map_err(|status| in_a_webhooks_words(&status))
        })
    }

    fn validate<'a>(&'a self, about: Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        if !Door::concerns(&about.resource.group, &about.resource.kind, about.subresource) {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        Box::pin(async move {
            let asker = asker(&about);
            let judged = self.0.judge(write(&about, &asker), object).await;
            judged.map_err(|status| in_a_webhooks_words(&status))
        })
    }
}
