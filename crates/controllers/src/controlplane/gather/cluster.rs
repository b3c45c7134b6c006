//! What plans are rendered from, beside the machine.

use std::collections::{BTreeMap, BTreeSet};

use api::GenericCondition;
use api::catalogue::{annotations, conditions, features, namespaces, secrets::keys, settings as names};
use api::management::v3::{Cluster as ManagementCluster, ClusterRegistrationToken, Feature, Setting};
use api::names::{DEFAULT_REGISTRATION_TOKEN, SYSTEM_REGISTRATION_TOKEN};
use api::rke::v1::RKEControlPlane;
use kit::{Key, Object};
use planner::{Cluster, ClusterAgent, Tokens};
use provisioning::custom::registration_token;
use sha2::{Digest as _, Sha256};

use super::super::known::{Known, kinds};
use super::super::references::{self, decoded};
use super::Ground;

/// What a change of would change what is rendered.
type Watched = BTreeSet<(&'static str, Key)>;

pub(super) fn gather(
    ground: &Ground<'_>,
    object: &Object,
    control_plane: &RKEControlPlane,
    management: Option<&Object>,
    watched: &mut Watched,
) -> Cluster {
    let (namespace, spec) = (object.namespace(), &control_plane.spec);
    let settings = settings(ground.known);
    let refers = references::of(spec);
    let of_settings = Some(settings.system_default_registry_auth.clone()).filter(|name| !name.is_empty());
    let mut found = |kind: &'static str,
                     names: BTreeSet<String>,
                     lead: fn(&str, &str) -> Option<Key>|
     -> BTreeMap<String, planner::Object> {
        let id = if kind == "Secret" { kinds::secrets() } else { kinds::config_maps() };
        let look = |name: String| {
            let key = lead(namespace, &name)?;
            watched.insert((kind, key.clone()));
            Some((name, references::object(&*ground.known.get(&id, &key)?)))
        };
        names.into_iter().filter_map(look).collect()
    };
    let mut secrets = found("Secret", refers.secrets, references::own);
    secrets.extend(found("Secret", refers.credentials, references::credential));
    secrets.extend(found("Secret", of_settings.into_iter().collect(), references::anywhere));
    let config_maps = found("ConfigMap", refers.config_maps, references::own);
    Cluster {
        namespace: namespace.into(),
        name: object.name().into(),
        spec: spec.clone(),
        cluster_spec: object.annotation(annotations::CLUSTER_SPEC).unwrap_or_default().into(),
        config_generation: control_plane
            .status
            .as_ref()
            .map(|status| status.config_generation)
            .unwrap_or_default(),
        prime: prime(ground.known, object),
        tokens: tokens(ground.known, object, watched),
        settings,
        agent: agent(ground, management, watched),
        pre_bootstrap: pre_bootstrap(ground.known, control_plane, management),
        secrets,
        config_maps,
        releases: ground.settings.releases.clone(),
    }
}

/// A setting's value, or its default.
fn setting(known: &dyn Known, name: &str) -> String {
    let found = known.get(&kinds::settings(), &Key::new("", name));
    let Some(setting) = found.and_then(|object| object.view::<Setting>().ok()) else { return String::new() };
    if setting.value.is_empty() { setting.default.clone() } else { setting.value.clone() }
}

fn settings(known: &dyn Known) -> planner::Settings {
    let mut settings = planner::Settings::default();
    let image = setting(known, names::SYSTEM_AGENT_INSTALLER_IMAGE);
    if !image.is_empty() {
        settings.installer_image = image;
    }
    settings.system_default_registry = setting(known, names::SYSTEM_DEFAULT_REGISTRY);
    let pull = setting(known, names::SYSTEM_DEFAULT_REGISTRY_PULL_SECRETS);
    let first = pull.split(',').map(str::trim).find(|name| !name.is_empty());
    if let Some(name) = first.filter(|_| !settings.system_default_registry.is_empty()) {
        settings.system_default_registry_auth = format!("{}:{name}", namespaces::CATTLE_SYSTEM);
    }
    settings
}

/// RKE2 Prime: the cluster's own word, else the setting's.
fn prime(known: &dyn Known, control_plane: &Object) -> bool {
    match control_plane.annotation(annotations::RKE2_PRIME_ENABLED).unwrap_or_default() {
        "" => setting(known, names::RKE2_PROVISIONING_PRIME_DEFAULT) == "true",
        word => word == "true",
    }
}

/// Secrets have to be in the cluster first: if that is switched on, and until it is done. A cluster that works has them, or never
/// needed them.
fn pre_bootstrap(known: &dyn Known, control_plane: &RKEControlPlane, management: Option<&Object>) -> bool {
    let feature = known.get(&kinds::features(), &Key::new("", features::PRE_BOOTSTRAP));
    let on = feature.and_then(|object| object.view::<Feature>().ok()).is_some_and(|one| one.enabled());
    let initialization = control_plane.status.as_ref().and_then(|status| status.initialization.as_ref());
    if !on || initialization.is_some_and(|all| all.control_plane_initialized == Some(true)) {
        return false;
    }
    let Some(Ok(view)) = management.map(|found| found.view::<ManagementCluster>()) else { return true };
    let all = view.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    !GenericCondition::find(all, conditions::PRE_BOOTSTRAPPED).is_some_and(GenericCondition::is_true)
}

/// The join tokens, once their Secret has both.
fn tokens(known: &dyn Known, control_plane: &Object, watched: &mut Watched) -> Option<Tokens> {
    let name = api::names::cluster_state_secret(control_plane.name());
    let key = Key::new(control_plane.namespace(), &name);
    watched.insert(("Secret", key.clone()));
    let secret = known.get(&kinds::secrets(), &key)?;
    let data = decoded(&secret.document()["data"]);
    let text = |key: &str| {
        let text = String::from_utf8(data.get(key)?.clone()).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    Some(Tokens { server: text(keys::SERVER_TOKEN)?, agent: text(keys::AGENT_TOKEN)? })
}

/// What goes into the cluster to dial back; nothing until there is a management cluster that was made for this one, a token to do it with and a
/// place to call.
fn agent(ground: &Ground<'_>, management: Option<&Object>, watched: &mut Watched) -> Option<ClusterAgent> {
    let id = management?.name();
    let management = management?.view::<ManagementCluster>().ok()?;
    // The one that is for tunnels alone; a cluster that was made elsewhere may have only the other.
    let registration = [SYSTEM_REGISTRATION_TOKEN, DEFAULT_REGISTRATION_TOKEN]
        .into_iter()
        .find_map(|name| ground.known.get(&kinds::registration_tokens(), &Key::new(id, name)))?;
    let status = registration.view::<ClusterRegistrationToken>().ok()?.status.clone().unwrap_or_default();
    let name = match status.token_secret_name.as_str() {
        "" => registration_token::secret_name(registration.name()),
        name => name.to_owned(),
    };
    let key = Key::new(id, &name);
    watched.insert(("Secret", key.clone()));
    let secret = ground.known.get(&kinds::secrets(), &key);
    let data = secret.map(|secret| decoded(&secret.document()["data"])).unwrap_or_default();
    let token = registration_token::accepted(&data, ground.now).first().map(|token| (*token).to_owned());
    let token = token.or(Some(status.token).filter(|token| !token.is_empty()))?;
    let image = [&management.spec.agent_image_override, &setting(ground.known, names::AGENT_IMAGE)];
    let image = image.into_iter().find(|image| !image.is_empty()).unwrap_or(&ground.settings.agent_image);
    if ground.server.url.is_empty() {
        return None;
    }
    Some(ClusterAgent {
        image: image.clone(),
        server_url: ground.server.url.clone(),
        ca_checksum: ca_checksum(&ground.server.ca_certificates),
        ca_certificates: ground.server.ca_certificates.clone(),
        token,
        customization: management.spec.cluster_agent_deployment_customization.clone(),
    })
}

/// SHA-256 of what `/cacerts` answers, in hex: the certificates with a line's end after the last. Empty without any.
pub(crate) fn ca_checksum(certificates: &str) -> String {
    if certificates.is_empty() {
        return String::new();
    }
    let end = if certificates.ends_with('\n') { "" } else { "\n" };
    let digest = Sha256::digest(format!("{certificates}{end}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
