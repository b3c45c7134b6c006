//! A write that others are asked about.

use std::borrow::Cow;
use std::sync::Arc;

use kubeapi::admission::{Place, Question};
use kubeapi::{GroupVersion, GroupVersionKind, Status};
use serde_json::Value;

use super::Hooks;
use crate::auth::user_info;
use crate::convert::Conversion;
use crate::registry::{Registry, Resource};
use crate::server::{Attributes, Notes, Warnings};
use crate::store::View;

/// A write, and all that is needed to ask about it.
pub(crate) struct Asking<'a> {
    pub(super) about: Attributes<'a>,
    pub(super) hooks: Arc<Hooks>,
    pub(super) conversion: &'a Conversion,
    pub(super) registry: Arc<Registry>,
    pub(super) view: Arc<View>,
    pub(super) warnings: &'a Warnings,
    pub(super) notes: &'a Notes,
    /// Who asks, as webhooks and policies see it.
    user: Value,
    /// The same objects in other groups and versions.
    pub(super) equivalents: Vec<Arc<Resource>>,
}

/// The version in which somebody looks at a write.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) resource: Arc<Resource>,
    pub(super) kind: GroupVersionKind,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(
        about: Attributes<'a>,
        hooks: Arc<Hooks>,
        conversion: &'a Conversion,
        registry: Arc<Registry>,
        view: Arc<View>,
        warnings: &'a Warnings,
        notes: &'a Notes,
    ) -> Self {
        let own = about.resource;
        let served = |one: &&Arc<Resource>| {
            one.plural == own.plural
                && one.group_version() != own.group_version()
                && one.prefix("") == own.prefix("")
                && (about.subresource.is_empty() || one.subresource(about.subresource).is_some())
        };
        let equivalents = registry.iter().filter(served).cloned().collect();
        let user = user_info(about.user);
        Asking { about, hooks, conversion, registry, view, warnings, notes, user, equivalents }
    }

    /// The namespace as requests have it: that of a Namespace is its own.
    pub(super) fn namespace(&self) -> &str {
        let resource = self.about.resource;
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "namespaces") => self.about.name,
            _ => self.about.namespace,
        }
    }

    pub(super) fn place(&self) -> Place<'_> {
        let resource = self.about.resource;
        Place {
            operation: self.about.operation.as_str(),
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
            subresource: self.about.subresource,
            namespace: self.namespace(),
            name: self.about.name,
        }
    }

    pub(super) fn question<'b>(&'b self, seen: &'b Seen) -> Question<'b> {
        let (own, shown) = (self.about.resource, &seen.resource);
        Question {
            kind: &seen.kind,
            resource: (&shown.group, &shown.version, &shown.plural),
            request_kind: self.about.kind,
            request_resource: (&own.group, &own.version, &own.plural),
            subresource: self.about.subresource,
            name: self.about.name,
            namespace: self.namespace(),
            operation: self.about.operation.as_str(),
            user: &self.user,
            dry_run: self.about.dry_run,
            options: self.about.options,
        }
    }

    /// How a write is seen in a group and version that it can be seen in.
    pub(super) fn seen(&self, group: &str, version: &str) -> Seen {
        let other = self.equivalents.iter().find(|one| one.group == group && one.version == version);
        match other {
            None => Seen { resource: self.about.resource.clone(), kind: self.about.kind.clone() },
            Some(resource) => {
                let part = resource.subresource(self.about.subresource);
                let kind = part.map_or_else(|| resource.gvk(), |part| part.kind.clone());
                Seen { resource: resource.clone(), kind }
            }
        }
    }

    /// An object of this write as it is seen.
    pub(super) async fn shown<'b>(&self, seen: &Seen, object: &'b Value) -> Result<Cow<'b, Value>, Status> {
        let version = seen.kind.group_version();
        if version == self.about.kind.group_version() {
            return Ok(Cow::Borrowed(object));
        }
        self.converted(object.clone(), &version).await.map(Cow::Owned)
    }

    /// An object of this write in another version.
    pub(super) async fn converted(&self, mut object: Value, to: &GroupVersion) -> Result<Value, Status> {
        // Those who convert know nothing of revisions.
        let revision = object["metadata"].as_object_mut().and_then(|fields| fields.remove("resourceVersion"));
        let to = to.to_string();
        let converted = self.conversion.in_version(self.about.resource, vec![object], &to).await;
        let lost = || Status::internal("a conversion lost an object");
        let mut object =
            converted.map_err(|status| Status::internal(status.message))?.pop().ok_or_else(lost)?;
        if let Some(revision) = revision {
            object["metadata"]["resourceVersion"] = revision;
        }
        Ok(object)
    }
}
