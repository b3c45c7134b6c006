//! Whether somebody is asked about a write.

use kubeapi::admission::{MatchResources, Matching, Rule, is_exempt};
use kubeapi::selector::label::{self, Selector};
use kubeapi::{GroupResource, Status};
use serde_json::{Map, Value};

use super::asking::{Asking, Seen};
use super::configured::Webhook;
use crate::server::Operation;

type Labels<'a> = Option<&'a Map<String, Value>>;

fn labels(object: &Value) -> Labels<'_> {
    object["metadata"]["labels"].as_object()
}

fn selector(object: Option<&Value>) -> Result<Selector, Status> {
    label::from_object(object).map_err(Status::internal)
}

impl Asking<'_> {
    /// Whether no webhook is asked about this write, whatever they say.
    pub(super) fn is_exempt(&self) -> bool {
        is_exempt(&self.about.kind.group, &self.about.kind.kind)
    }

    /// How a webhook sees this write, if it is asked about it.
    pub(super) async fn for_webhook(
        &self,
        webhook: &Webhook,
        object: Option<&Value>,
    ) -> Result<Option<Seen>, Status> {
        let place = self.place();
        let rules = |others: &[_]| Rule::first_match(&webhook.rules, webhook.match_policy, &place, others);
        let selectors = (webhook.namespace_selector.as_ref(), webhook.object_selector.as_ref());
        let Some(seen) = self.meant(rules, selectors, object)? else { return Ok(None) };
        if webhook.conditions.is_empty() {
            return Ok(Some(seen));
        }
        let (new, old) = self.objects(&seen, object).await?;
        let request = self.question(&seen).request();
        match webhook.conditions.verdict(&request, &new, &old, webhook.failure) {
            Matching::Yes => Ok(Some(seen)),
            Matching::No => Ok(None),
            Matching::Failed(why) => {
                Err(Status::forbidden(&self.about.resource.group_resource(), self.about.name, &why))
            }
        }
    }

    /// How a policy sees this write, if it is one of those that are meant.
    pub(super) fn for_policy(
        &self,
        resources: &MatchResources,
        object: Option<&Value>,
    ) -> Result<Option<Seen>, Status> {
        let place = self.place();
        let selectors = (resources.namespace_selector.as_ref(), resources.object_selector.as_ref());
        self.meant(|others| resources.matches(&place, others), selectors, object)
    }

    /// Errors of selectors count only for writes that are meant otherwise.
    fn meant<'b>(
        &'b self,
        rules: impl FnOnce(&[(&'b str, &'b str)]) -> Option<(&'b str, &'b str)>,
        (namespace, own): (Option<&Value>, Option<&Value>),
        object: Option<&Value>,
    ) -> Result<Option<Seen>, Status> {
        let in_namespace = self.in_namespace(namespace, object);
        if matches!(in_namespace, Ok(false)) {
            return Ok(None);
        }
        let selected = self.is_selected(own, object);
        if matches!(selected, Ok(false)) {
            return Ok(None);
        }
        let others: Vec<(&str, &str)> =
            self.equivalents.iter().map(|one| (one.group.as_str(), one.version.as_str())).collect();
        let Some((group, version)) = rules(&others) else { return Ok(None) };
        in_namespace?;
        selected?;
        Ok(Some(self.seen(group, version)))
    }

    /// Objects without a namespace are in all of them.
    fn in_namespace(&self, wanted: Option<&Value>, object: Option<&Value>) -> Result<bool, Status> {
        let (namespace, is_one) = (self.namespace(), self.about.resource.plural == "namespaces");
        if namespace.is_empty() && !is_one {
            return Ok(true);
        }
        let wanted = selector(wanted)?;
        if wanted.is_everything() {
            return Ok(true);
        }
        // A Namespace that is written is judged by what it will be.
        if is_one && self.about.subresource.is_empty() && self.about.operation != Operation::Delete {
            return Ok(wanted.matches(&object.and_then(labels)));
        }
        Ok(wanted.matches(&labels(&self.namespace_object(namespace)?)))
    }

    /// A Namespace in the store.
    pub(super) fn namespace_object(&self, name: &str) -> Result<Value, Status> {
        let stored = self.view.get(&format!("/registry/core/namespaces/{name}"));
        let stored = stored.ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), name))?;
        serde_json::from_slice(&stored.value()).map_err(Status::internal)
    }

    /// Whether the object is one of those, as it was or as it will be.
    fn is_selected(&self, wanted: Option<&Value>, object: Option<&Value>) -> Result<bool, Status> {
        let wanted = selector(wanted)?;
        let selects = |object: &Value| wanted.matches(&labels(object));
        Ok(wanted.is_everything() || object.is_some_and(selects) || self.about.old.is_some_and(selects))
    }

    /// The new and the old object as they are seen, null where there are none.
    pub(super) async fn objects(
        &self,
        seen: &Seen,
        object: Option<&Value>,
    ) -> Result<(Value, Value), Status> {
        let mut shown = [Value::Null, Value::Null];
        for (place, object) in shown.iter_mut().zip([object, self.about.old]) {
            if let Some(object) = object {
                *place = self.shown(seen, object).await?.into_owned();
            }
        }
        let [new, old] = shown;
        Ok((new, old))
    }
}
