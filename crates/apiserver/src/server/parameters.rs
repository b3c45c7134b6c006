//! The parameters of policies: nobody has policies read what they may not read themselves.

use kubeapi::rbac::{self, Attributes, ResourceTarget, Target};
use kubeapi::{FieldError, GroupVersion, Path, Status, meta};
use serde_json::Value;

use super::{Call, Server};
use crate::admission;

/// What stands for all there is.
const ALL: &str = "*";

impl Server {
    /// Whether the user may read what a policy or its binding will read. Also asked for dry runs.
    pub(super) fn check_parameters(
        &self,
        call: Call<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if call.resource.group != admission::GROUP || !call.subresource().is_empty() {
            return Ok(());
        }
        let field = match call.resource.plural.as_str() {
            "validatingadmissionpolicies" => "paramKind",
            "validatingadmissionpolicybindings" => "paramRef",
            _ => return Ok(()),
        };
        let same = |field: &str| old.is_some_and(|old| old["spec"][field] == new["spec"][field]);
        if new["spec"][field].is_null() || (same(field) && same("policyName")) {
            return Ok(());
        }
        let refused = match field {
            "paramKind" => self.may_read_kind(call, &new["spec"]["paramKind"]),
            _ => self.may_read_params(call, &new["spec"]),
        };
        refused.map_err(|why| {
            let error = FieldError::forbidden(&Path::new("spec").child(field), why);
            Status::invalid(&call.resource.group_kind(), meta::text(new, "name"), &[error])
        })
    }

    fn may_read_kind(&self, call: Call<'_>, kind: &Value) -> Result<(), String> {
        let (group, resource) = self.param_resource(kind);
        let target = ResourceTarget {
            group: &group,
            resource: &resource,
            namespace: ALL,
            name: ALL,
            ..ResourceTarget::default()
        };
        match self.may(call, "get", target) {
            true => Ok(()),
            false => Err(format!(
                "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
                call.request.user.name,
                text(kind, "kind"),
                text(kind, "apiVersion")
            )),
        }
    }

    fn may_read_params(&self, call: Call<'_>, binding: &Value) -> Result<(), String> {
        let (group, resource) = self.param_resource(&self.bound_kind(binding).unwrap_or_default());
        let reference = &binding["paramRef"];
        let (namespace, name) = (text(reference, "namespace"), text(reference, "name"));
        let verb = if name.is_empty() { "list" } else { "get" };
        let target = ResourceTarget {
            group: &group,
            resource: &resource,
            namespace,
            name,
            ..ResourceTarget::default()
        };
        match self.may(call, verb, target) {
            true => Ok(()),
            false => Err(format!(
                "user {} does not have {verb:?} permission on the object referenced by paramRef",
                call.request.user.name
            )),
        }
    }

    fn may(&self, call: Call<'_>, verb: &str, target: ResourceTarget<'_>) -> bool {
        let attributes = Attributes { user: &call.request.user, verb, target: Target::Resource(target) };
        rbac::authorize(&attributes, &self.policy()).allowed
    }

    /// The kind of the parameters of a binding's policy, if the policy is there.
    fn bound_kind(&self, binding: &Value) -> Option<Value> {
        let name = text(binding, "policyName");
        let key = format!("/registry/{}/validatingadmissionpolicies/{name}", admission::GROUP);
        let policy = serde_json::from_slice::<Value>(&self.store.view().get(&key)?.value()).ok()?;
        Some(policy["spec"]["paramKind"].clone())
    }

    /// Group and plural of a `paramKind`; all there are where it is not known.
    fn param_resource(&self, kind: &Value) -> (String, String) {
        let Some(version) = GroupVersion::parse(text(kind, "apiVersion")).filter(|_| !kind.is_null()) else {
            return (ALL.into(), ALL.into());
        };
        let kind = version.kind(text(kind, "kind"));
        let registry = self.registry();
        let plural = registry.iter().find(|one| one.gvk() == kind).map(|one| one.plural.clone());
        (kind.group, plural.unwrap_or_else(|| ALL.into()))
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}
