//! Configurations as they are stored, made ready.

use std::sync::Arc;
use std::time::Duration;

use kubeapi::admission::{Condition, Conditions, FailurePolicy, MatchPolicy, MatchResources, Policy, Rule};
use kubeapi::{GroupVersionKind, meta};
use serde::Deserialize;
use serde_json::Value;

use super::PREFIX;
use crate::store::Stored;
use crate::webhook::ClientConfig;

/// What an object says.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Mutating(Vec<Arc<Webhook>>),
    Validating(Vec<Arc<Webhook>>),
    Policy(Arc<Named>),
    Binding(Arc<Binding>),
    /// Nothing that could be understood. Validation came before: somebody has been at the store.
    Unreadable,
}

/// A webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    /// The name of the configuration that it is in.
    pub(super) configuration: String,
    /// Its place there.
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) rules: Vec<Rule>,
    pub(super) match_policy: MatchPolicy,
    pub(super) namespace_selector: Option<Value>,
    pub(super) object_selector: Option<Value>,
    pub(super) conditions: Conditions,
    pub(super) failure: FailurePolicy,
    pub(super) timeout: Duration,
    /// Whether it may be asked although nothing will be stored.
    pub(super) dry_runs: bool,
    pub(super) review_versions: Vec<String>,
    pub(super) client: ClientConfig,
    /// Whether it is asked again if others change the object after it.
    pub(super) reinvoked: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WebhookSpec {
    name: String,
    rules: Vec<Rule>,
    match_policy: MatchPolicy,
    namespace_selector: Option<Value>,
    object_selector: Option<Value>,
    match_conditions: Vec<Condition>,
    failure_policy: FailurePolicy,
    timeout_seconds: Option<u32>,
    side_effects: String,
    admission_review_versions: Vec<String>,
    client_config: Value,
    reinvocation_policy: String,
}

impl Webhook {
    fn of(configuration: &str, index: usize, spec: WebhookSpec) -> Self {
        Webhook {
            configuration: configuration.to_owned(),
            index,
            name: spec.name,
            rules: spec.rules,
            match_policy: spec.match_policy,
            namespace_selector: spec.namespace_selector,
            object_selector: spec.object_selector,
            conditions: Conditions::of_webhook(&spec.match_conditions),
            failure: spec.failure_policy,
            timeout: Duration::from_secs(spec.timeout_seconds.unwrap_or(10).into()),
            dry_runs: matches!(spec.side_effects.as_str(), "None" | "NoneOnDryRun"),
            review_versions: spec.admission_review_versions,
            client: ClientConfig::read(&spec.client_config),
            reinvoked: spec.reinvocation_policy == "IfNeeded",
        }
    }
}

#[cfg(test)]
impl Webhook {
    /// One at a place of a configuration, for tests.
    pub(super) fn named(index: usize, reinvoked: bool) -> Self {
        let reinvocation_policy = if reinvoked { "IfNeeded" } else { "Never" }.to_owned();
        Webhook::of("c", index, WebhookSpec { reinvocation_policy, ..WebhookSpec::default() })
    }
}

/// A policy with its name.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) policy: Policy,
    /// The kind of its parameters, if it has any.
    pub(super) params: Option<GroupVersionKind>,
}

/// Where a policy is in force, and with what parameters.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    policy: String,
    pub(super) params: Option<ParamRef>,
    pub(super) resources: Option<MatchResources>,
    /// `Deny`, `Warn` or `Audit`.
    pub(super) actions: Vec<String>,
}

/// Which objects are a policy's parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ParamRef {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: Option<Value>,
    pub(super) parameter_not_found_action: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BindingSpec {
    policy_name: String,
    param_ref: Option<ParamRef>,
    match_resources: Option<MatchResources>,
    validation_actions: Vec<String>,
}

/// A policy that is in force somewhere.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) policy: Arc<Named>,
    pub(super) bindings: Vec<Arc<Binding>>,
}

impl Bound {
    /// The policy with those of the bindings that are its own; `None` if there are none.
    pub(super) fn of<'a>(policy: &Arc<Named>, entries: impl Iterator<Item = &'a Entry>) -> Option<Self> {
        let own = entries.filter_map(|entry| match entry {
            Entry::Binding(binding) if binding.policy == policy.name => Some(binding.clone()),
            _ => None,
        });
        let bindings: Vec<_> = own.collect();
        (!bindings.is_empty()).then(|| Bound { policy: policy.clone(), bindings })
    }
}

impl Entry {
    pub(super) fn read(stored: &Stored) -> Self {
        let plural = stored.key.strip_prefix(PREFIX).and_then(|rest| rest.split('/').next());
        Entry::parse(plural.unwrap_or_default(), stored).unwrap_or_else(|error| {
            tracing::warn!(key = &*stored.key, %error, "nobody is asked for this configuration");
            Entry::Unreadable
        })
    }

    fn parse(plural: &str, stored: &Stored) -> Result<Self, serde_json::Error> {
        let object: Value = serde_json::from_slice(&stored.value())?;
        Ok(match plural {
            "mutatingwebhookconfigurations" => Entry::Mutating(webhooks(&object)?),
            "validatingwebhookconfigurations" => Entry::Validating(webhooks(&object)?),
            "validatingadmissionpolicies" => Entry::Policy(Arc::new(named(&object)?)),
            "validatingadmissionpolicybindings" => Entry::Binding(Arc::new(binding(&object)?)),
            _ => Entry::Unreadable,
        })
    }
}

fn webhooks(configuration: &Value) -> Result<Vec<Arc<Webhook>>, serde_json::Error> {
    let name = meta::text(configuration, "name");
    let specs = configuration["webhooks"].as_array().into_iter().flatten().enumerate();
    specs
        .map(|(index, spec)| Ok(Arc::new(Webhook::of(name, index, WebhookSpec::deserialize(spec)?))))
        .collect()
}

fn named(object: &Value) -> Result<Named, serde_json::Error> {
    let kind = &object["spec"]["paramKind"];
    let text = |field: &str| kind[field].as_str().unwrap_or_default();
    let params = kubeapi::GroupVersion::parse(text("apiVersion")).filter(|_| !kind.is_null());
    Ok(Named {
        name: meta::text(object, "name").to_owned(),
        policy: Policy::read(object)?,
        params: params.map(|version| version.kind(text("kind"))),
    })
}

fn binding(object: &Value) -> Result<Binding, serde_json::Error> {
    let spec = BindingSpec::deserialize(&object["spec"])?;
    Ok(Binding {
        name: meta::text(object, "name").to_owned(),
        policy: spec.policy_name,
        params: spec.param_ref,
        resources: spec.match_resources,
        actions: spec.validation_actions,
    })
}
