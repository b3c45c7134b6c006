//! Asking ValidatingAdmissionPolicies.

use std::collections::BTreeMap;

use kubeapi::admission::annotations::{self, Failed};
use kubeapi::admission::{Decision, FailurePolicy, PolicyInputs, is_hidden_from_policies};
use kubeapi::audit::Level;
use kubeapi::status::Cause;
use kubeapi::{GroupKind, Status};
use serde_json::{Value, json};

use super::asking::{Asking, Seen};
use super::configured::{Binding, Bound, Named};
use crate::registry::Resource;

/// What a namespace's metadata does not show to policies.
const HIDDEN: [&str; 2] = ["managedFields", "ownerReferences"];

/// What the bindings of a policy note for the audit log, by key.
type Noted = BTreeMap<String, Vec<String>>;

/// Why a write is refused.
struct Denial {
    message: String,
    /// A Status' reason; empty for the usual one.
    reason: String,
}

impl Asking<'_> {
    /// # Errors
    /// If a policy refuses the write, or cannot be asked and has to be.
    pub(super) async fn ask_policies(&self, object: Option<&Value>) -> Result<(), Status> {
        let resource = self.about.resource;
        if is_hidden_from_policies(&resource.group, &resource.plural) {
            return Ok(());
        }
        let mut first = None;
        for bound in &self.hooks.policies {
            let denials = self.ask_policy(bound, object).await?;
            // Upstream tells of the first only, but asks them all.
            first = first.or(denials.into_iter().next());
        }
        match first {
            None => Ok(()),
            Some(denial) => Err(self.denied(denial, object)),
        }
    }

    fn denied(&self, denial: Denial, object: Option<&Value>) -> Status {
        let reason = if denial.reason.is_empty() { "Invalid".to_owned() } else { denial.reason };
        let code = match reason.as_str() {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        let mut status = Status { reason, code, ..self.about.forbidden(object, &denial.message) };
        if let Some(details) = &mut status.details {
            details.causes.push(Cause { message: denial.message, ..Cause::default() });
        }
        status
    }

    async fn ask_policy(&self, bound: &Bound, object: Option<&Value>) -> Result<Vec<Denial>, Status> {
        let policy = &*bound.policy;
        let seen = match self.for_policy(&policy.policy.constraints, object) {
            Ok(None) => return Ok(Vec::new()),
            Ok(Some(seen)) => seen,
            Err(status) => return Ok(misconfigured(policy, None, &status.message)),
        };
        let params = match self.param_resource(policy) {
            Ok(params) => params,
            Err(why) => return Ok(misconfigured(policy, None, &why)),
        };
        let (mut denials, mut noted) = (Vec::new(), Noted::new());
        for binding in &bound.bindings {
            let matches = match &binding.resources {
                None => Ok(true),
                Some(resources) => self.for_policy(resources, object).map(|seen| seen.is_some()),
            };
            denials.extend(match matches {
                Ok(false) => Vec::new(),
                Ok(true) => self.ask_bound(policy, binding, params, &seen, object, &mut noted).await?,
                Err(status) => misconfigured(policy, Some(binding), &status.message),
            });
        }
        for (key, values) in noted {
            let key = format!("{}/{key}", policy.name);
            self.notes.add(Level::Metadata, key, annotations::joined(&values));
        }
        Ok(denials)
    }

    async fn ask_bound(
        &self,
        policy: &Named,
        binding: &Binding,
        params: Option<&Resource>,
        seen: &Seen,
        object: Option<&Value>,
        noted: &mut Noted,
    ) -> Result<Vec<Denial>, Status> {
        let params = match self.params(params, binding).await {
            Ok(params) => params,
            Err(why) => return Ok(misconfigured(policy, Some(binding), &why)),
        };
        let (object, old_object) = match self.objects(seen, object).await {
            Ok(objects) => objects,
            Err(status) => {
                let why = format!("failed to convert object version: {}", status.message);
                return Ok(misconfigured(policy, Some(binding), &why));
            }
        };
        let namespace = self.visible_namespace()?;
        let request = self.question(seen).request();
        let mut denials = Vec::new();
        for params in &params {
            let evaluated = policy.policy.evaluate(PolicyInputs {
                request: &request,
                object: &object,
                old_object: &old_object,
                namespace: &namespace,
                params,
            });
            for (index, decision) in evaluated.decisions.into_iter().enumerate() {
                denials.extend(self.act(policy, binding, index, decision));
            }
            for (key, value) in evaluated.annotations {
                noted.entry(key).or_default().push(value);
            }
            let failed = evaluated.failed_annotations.into_iter();
            denials.extend(failed.map(|why| denial(policy, Some(binding), &why, String::new())));
        }
        Ok(denials)
    }

    /// Does what a binding says is to be done about a decision.
    fn act(&self, policy: &Named, binding: &Binding, index: usize, decision: Decision) -> Option<Denial> {
        let Decision::Deny { message, reason } = decision else { return None };
        let does = |wanted: &str| binding.actions.iter().any(|action| action == wanted);
        if does("Audit") {
            let failed = Failed {
                message: &message,
                policy: &policy.name,
                binding: &binding.name,
                expression_index: index,
                validation_actions: &binding.actions,
            };
            let key = annotations::VALIDATION_FAILURE.to_owned();
            self.notes.add(Level::Metadata, key, annotations::failure(failed));
        }
        if does("Warn") {
            self.warnings.add(vec![format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                policy.name, binding.name
            )]);
        }
        does("Deny").then(|| denial(policy, Some(binding), &message, reason))
    }

    /// The namespace that the object is in, as far as policies may see it; null if it is in none.
    fn visible_namespace(&self) -> Result<Value, Status> {
        if self.about.namespace.is_empty()
            || self.about.resource.group_kind() == GroupKind::new("", "Namespace")
        {
            return Ok(Value::Null);
        }
        let mut namespace = self.namespace_object(self.about.namespace)?;
        let mut metadata = namespace["metadata"].take();
        if let Some(fields) = metadata.as_object_mut() {
            fields.retain(|field, _| !HIDDEN.contains(&field.as_str()));
        }
        Ok(json!({"metadata": metadata, "spec": namespace["spec"], "status": namespace["status"]}))
    }
}

fn denial(policy: &Named, binding: Option<&Binding>, why: &str, reason: String) -> Denial {
    let name = &policy.name;
    let message = match binding {
        Some(binding) => {
            format!(
                "ValidatingAdmissionPolicy '{name}' with binding '{}' denied request: {why}",
                binding.name
            )
        }
        None => format!("ValidatingAdmissionPolicy '{name}' denied request: {why}"),
    };
    Denial { message, reason }
}

/// What follows if it is not clear what is meant.
fn misconfigured(policy: &Named, binding: Option<&Binding>, why: &str) -> Vec<Denial> {
    let what = if binding.is_some() { "binding" } else { "policy" };
    let why = format!("failed to configure {what}: {why}");
    match policy.policy.failure {
        FailurePolicy::Ignore => Vec::new(),
        FailurePolicy::Fail => vec![denial(policy, binding, &why, String::new())],
    }
}
