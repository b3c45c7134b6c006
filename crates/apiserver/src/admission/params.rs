//! The parameters of policies.

use kubeapi::Status;
use kubeapi::selector::label;
use serde_json::Value;

use super::asking::Asking;
use super::configured::{Binding, Named, ParamRef};
use crate::registry::Resource;
use crate::store::Scope;

impl Asking<'_> {
    /// The resource of a policy's parameters, if it has any.
    ///
    /// # Errors
    /// If there is no such kind.
    pub(super) fn param_resource(&self, policy: &Named) -> Result<Option<&Resource>, String> {
        let Some(kind) = &policy.params else { return Ok(None) };
        let found = self.registry.iter().find(|resource| resource.gvk() == *kind);
        let unknown = || {
            let kubeapi::GroupVersionKind { group, version, kind } = kind;
            format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
        };
        found.map(|resource| Some(&**resource)).ok_or_else(unknown)
    }

    /// Each of the objects that a policy is asked with; null for none at all. Nothing if there are none and that does
    /// not matter.
    ///
    /// # Errors
    /// If there are none and there have to be.
    pub(super) async fn params(
        &self,
        resource: Option<&Resource>,
        binding: &Binding,
    ) -> Result<Vec<Value>, String> {
        let (Some(resource), Some(wanted)) = (resource, &binding.params) else {
            return Ok(vec![Value::Null]);
        };
        let found = self.find_params(resource, wanted).await?;
        match found.is_empty() && wanted.parameter_not_found_action == "Deny" {
            true => Err("no params found for policy binding with `Deny` parameterNotFoundAction".into()),
            false => Ok(found),
        }
    }

    async fn find_params(&self, resource: &Resource, wanted: &ParamRef) -> Result<Vec<Value>, String> {
        let namespace = match (resource.namespaced, wanted.namespace.as_str(), self.namespace()) {
            (false, "", _) => "",
            (false, ..) => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into());
            }
            (true, "", "") => {
                return Err(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                        .into(),
                );
            }
            (true, "", own) => own,
            (true, said, _) => said,
        };
        let text = |status: Status| status.message;
        let scope = match wanted.name.as_str() {
            "" => Scope::prefix(resource.prefix(namespace)),
            name => Scope::key(resource.key(namespace, name)),
        };
        let stored: Vec<_> = self.view.scan(&scope).map(|stored| (&**stored, stored.modified)).collect();
        let mut found = self.conversion.decode_all(resource, stored).await.map_err(text)?;
        if let Some(selector) = &wanted.selector {
            let selector = label::from_object(Some(selector)).map_err(|error| error.to_string())?;
            found.retain(|object| selector.matches(&object["metadata"]["labels"].as_object()));
        }
        Ok(found)
    }
}
