//! What a Job takes beside its machine: settings, certificates, credentials.

use std::collections::BTreeMap;

use api::GoDuration;
use api::catalogue::secrets::types;
use api::catalogue::{namespaces, settings};
use api::machine::Driver;
use api::names;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use kit::{Key, Object};
use provisioning::admission::SecretRef;
use provisioning::machine::{Certificates, Policy, environment};
use serde_json::Value;

use super::context::Context;
use super::rendering::Renderer;

/// Image of rancher-machine if no setting says otherwise.
const IMAGE: &str = "rancher/machine:v0.15.0-rancher130";
/// Our own variables that drivers get if no setting says otherwise.
const PASSED_ON: &str = "HTTP_PROXY,HTTPS_PROXY,NO_PROXY";

/// What the server's settings say of Jobs, owned.
#[derive(Clone, Debug, Default)]
pub(super) struct Installation {
    pub(super) image: String,
    pub(super) pull_policy: String,
    pub(super) pull_secrets: Vec<String>,
    pub(super) certificates: Certificates,
}

impl Installation {
    pub(super) fn gather(renderer: &Renderer) -> Self {
        let image = filled(renderer.setting(settings::MACHINE_PROVISION_IMAGE), IMAGE);
        let registry = renderer.setting(settings::SYSTEM_DEFAULT_REGISTRY);
        let image = if registry.is_empty() { image } else { format!("{registry}/{image}") };
        Installation {
            image,
            pull_policy: renderer.setting(settings::MACHINE_PROVISION_IMAGE_PULL_POLICY),
            pull_secrets: words(&renderer.setting(settings::SYSTEM_DEFAULT_REGISTRY_PULL_SECRETS)),
            certificates: certificates(renderer),
        }
    }

    pub(super) fn borrowed(&self, marked: bool) -> provisioning::machine::Installation<'_> {
        provisioning::machine::Installation {
            managed_by: marked.then_some(crate::jobs::MANAGED_BY),
            image: &self.image,
            pull_policy: &self.pull_policy,
            pull_secrets: &self.pull_secrets,
            certificates: self.certificates.clone(),
        }
    }
}

/// What drivers trust: whoever vouches for us, and what an administrator added.
fn certificates(renderer: &Renderer) -> Certificates {
    let ours = renderer.server.borrow().ca_certificates.clone();
    let internal = renderer.setting(settings::INTERNAL_CA_CERTS);
    let mut all = Certificates::new();
    for (name, content) in [("tls.crt", ours), ("internal-tls.crt", internal)] {
        if !content.is_empty() {
            all.insert(name.into(), content.into_bytes());
        }
    }
    let added = Key::new(namespaces::CATTLE_SYSTEM, names::TLS_ADDITIONAL_SECRET);
    all.extend(renderer.secrets.get(&added).map(|secret| data(&secret)).unwrap_or_default());
    all
}

/// The environment of a driver's Job; nothing if a credential is named that does not exist.
pub(super) fn environment_of(
    renderer: &Renderer,
    driver: &Driver,
    namespace: &str,
    credential: &str,
) -> Option<BTreeMap<String, Vec<u8>>> {
    let names = words(&filled(renderer.setting(settings::WHITELIST_ENVVARS), PASSED_ON));
    let own = &renderer.environment;
    let passed_on =
        names.into_iter().filter_map(|name| own.get(&name).map(|value| (name, value.clone()))).collect();
    let credential = match credential {
        "" => BTreeMap::new(),
        named => data(&*renderer.secrets.get(&credential_key(namespace, named))?),
    };
    Some(environment(driver, &passed_on, &credential))
}

/// The Secret that a credential's name means: `cattle-global-data:name`, or one beside the machine, and no other.
pub(super) fn credential_key(namespace: &str, name: &str) -> Key {
    let named = SecretRef::named(name, namespace);
    Key::new(&named.namespace, &named.name)
}

/// Whether a Secret may be a cloud credential.
pub(super) fn is_credential(secret: &Object) -> bool {
    let document = secret.document();
    let named =
        |data: &Value| data.as_object().is_some_and(|data| data.keys().any(|key| key.contains("Config-")));
    document["type"] == types::CLOUD_CREDENTIAL
        || secret.namespace() == namespaces::CATTLE_GLOBAL_DATA
        || named(&document["data"])
}

/// What is done about failures, with what the settings say of it.
pub(super) fn policy(context: &Context) -> Policy {
    let text = context.renderer.setting(settings::DELETE_MACHINE_ON_FAILURE_AFTER);
    match text.parse::<GoDuration>() {
        Ok(after) => {
            let delete_after = SignedDuration::from_nanos(after.nanoseconds());
            Policy { delete_after, ..context.settings.policy }
        }
        Err(_) => context.settings.policy,
    }
}

pub(super) fn data(secret: &Object) -> BTreeMap<String, Vec<u8>> {
    let view = secret.view::<Secret>().ok();
    let data = view.and_then(|secret| secret.data.clone()).unwrap_or_default();
    data.into_iter().map(|(key, value)| (key, value.0)).collect()
}

fn filled(text: String, default: &str) -> String {
    if text.is_empty() { default.to_owned() } else { text }
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
