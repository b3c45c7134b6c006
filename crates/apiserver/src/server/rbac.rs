//! Roles and bindings: nobody grants what they do not have.

use kubeapi::authn::User;
use kubeapi::rbac::escalation::{self, BindingWrite, RoleWrite};
use kubeapi::rbac::{self, Attributes, Binding, ClusterRole, GROUP, ResourceTarget, Target};
use kubeapi::{Status, meta};
use serde::Deserialize;
use serde_json::Value;

use super::{Call, Server};

impl Server {
    /// An update that creates needs the right to create, too.
    pub(super) fn check_may_create(&self, call: Call<'_>) -> Result<(), Status> {
        let target = ResourceTarget {
            group: &call.resource.group,
            resource: &call.resource.plural,
            namespace: call.namespace(),
            name: call.name(),
            ..ResourceTarget::default()
        };
        let attributes =
            Attributes { user: &call.request.user, verb: "create", target: Target::Resource(target) };
        let decision = rbac::authorize(&attributes, &self.policy());
        match decision.allowed {
            true => Ok(()),
            false => Err(rbac::forbidden(&attributes, &decision.reason)),
        }
    }

    /// Whether the user may grant what a role or binding will grant. Also asked for dry runs.
    pub(super) fn check_grant(&self, call: Call<'_>, new: &Value, old: Option<&Value>) -> Result<(), Status> {
        if call.resource.group != GROUP || old.is_some_and(|old| escalation::only_collects_garbage(new, old))
        {
            return Ok(());
        }
        let user = &call.request.user;
        let checked = match call.resource.kind.as_str() {
            "Role" | "ClusterRole" => self.check_role(call, user, new, old),
            _ => self.check_binding(call, user, new),
        };
        checked.map_err(|status| *status)
    }

    fn check_role(
        &self,
        call: Call<'_>,
        user: &User,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Box<Status>> {
        let role = ClusterRole::from_object(new).map_err(|error| Box::new(Status::internal(error)))?;
        let gathered =
            old.and_then(|old| ClusterRole::from_object(old).ok()).is_some_and(|old| old.aggregates());
        let write = RoleWrite {
            namespace: call.namespace(),
            path_name: call.name(),
            name: meta::text(new, "name"),
            rules: &role.rules,
            aggregates: role.aggregates() || gathered,
        };
        escalation::check_role(user, &write, &self.policy())
    }

    fn check_binding(&self, call: Call<'_>, user: &User, new: &Value) -> Result<(), Box<Status>> {
        let binding = Binding::deserialize(new).map_err(|error| Box::new(Status::internal(error)))?;
        let write = BindingWrite {
            namespace: call.namespace(),
            name: meta::text(new, "name"),
            role_ref: &binding.role_ref,
        };
        escalation::check_binding(user, &write, &self.policy())
    }
}
