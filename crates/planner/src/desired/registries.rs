//! Image registries: the distribution's `registries.yaml`, the node agent's copy, certificates.

use std::collections::BTreeMap;

use api::catalogue::secrets::{keys, types};
use api::rke::v1::{FreeMap, RegistryConfig};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use plan::document::File;
use serde::Serialize;
use serde_json::Value;

use super::{Context, Error, dynamic, file};
use crate::snapshot::Object;

/// The node agent's copy: it pulls the installer before the distribution is there.
const AGENT_PATH: &str = "/etc/rancher/agent/registries.yaml";

/// What registries come to.
pub(super) struct Registries {
    /// There is something to say.
    pub(super) present: bool,
    /// The distribution's file.
    pub(super) path: String,
    /// All files.
    pub(super) files: Vec<File>,
}

#[derive(Serialize)]
struct Document<'a> {
    mirrors: BTreeMap<&'a str, Mirror<'a>>,
    configs: BTreeMap<&'a str, Config>,
}

#[derive(Serialize)]
struct Mirror<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    endpoint: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    rewrite: &'a BTreeMap<String, String>,
}

#[derive(Default, Serialize)]
struct Config {
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<Auth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Tls>,
}

#[derive(Default, Serialize)]
struct Auth {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    password: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    auth: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    identity_token: String,
}

#[derive(Default, Serialize)]
struct Tls {
    #[serde(skip_serializing_if = "String::is_empty")]
    ca_file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cert_file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    key_file: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure_skip_verify: bool,
}

/// The registry that all images of the distribution come from: the cluster's, or the server's setting.
pub(super) fn default_registry(context: &Context<'_>, user: &FreeMap) -> String {
    let own = user.get("system-default-registry").and_then(Value::as_str).filter(|own| !own.is_empty());
    own.unwrap_or(&context.cluster.settings.system_default_registry).to_owned()
}

pub(super) fn files(context: &Context<'_>, registry: &str) -> Result<Registries, Error> {
    let path = format!("/etc/rancher/{}/registries.yaml", context.runtime());
    let spec = context.cluster.spec.configuration.registries.as_ref();
    let settings = &context.cluster.settings;
    let mut document = Document { mirrors: BTreeMap::new(), configs: BTreeMap::new() };
    let mut certificates = Vec::new();
    for (host, mirror) in spec.iter().flat_map(|spec| &spec.mirrors) {
        let mirror = Mirror { endpoint: &mirror.endpoints, rewrite: &mirror.rewrites };
        document.mirrors.insert(host, mirror);
    }
    for (host, config) in spec.iter().flat_map(|spec| &spec.configs) {
        let field = format!("spec.registries.configs[{host}]");
        let tls = tls(context, host, config, &field, &mut certificates)?;
        let auth = auth(context, &config.auth_config_secret_name, &field)?;
        document.configs.insert(host, Config { auth, tls });
    }
    let global = registry == settings.system_default_registry && !registry.is_empty();
    if global && !settings.system_default_registry_auth.is_empty() {
        let config = document.configs.entry(registry).or_default();
        if config.auth.is_none() {
            config.auth = auth(context, &settings.system_default_registry_auth, "system-default-registry")?;
        }
    }
    if document.mirrors.is_empty() && document.configs.is_empty() {
        return Ok(Registries { present: false, path, files: Vec::new() });
    }
    let content = serde_json::to_vec(&document).unwrap_or_default();
    let mut files = vec![dynamic(AGENT_PATH, &content)];
    files.extend(certificates);
    if !context.cluster.spec.unmanaged_config {
        files.push(file(&path, &content));
    }
    Ok(Registries { present: true, path, files })
}

fn auth(context: &Context<'_>, name: &str, field: &str) -> Result<Option<Auth>, Error> {
    if name.is_empty() {
        return Ok(None);
    }
    let field = format!("{field}.authConfigSecretName");
    let secret = secret(context, name, &field)?;
    let text = |key: &str| {
        secret.data.get(key).map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    };
    match secret.type_.as_str() {
        types::AUTH_CONFIG | types::BASIC_AUTH => Ok(Some(Auth {
            username: text(keys::USERNAME),
            password: text(keys::PASSWORD),
            auth: encoded(&text(keys::AUTH)),
            identity_token: text(keys::IDENTITY_TOKEN),
        })),
        types::DOCKER_CONFIG_JSON => docker(&text(".dockerconfigjson")).map(Some).ok_or_else(|| {
            Error::reference(field, format!("Secret {name:?} has no usable .dockerconfigjson"))
        }),
        other => {
            let wanted = [types::AUTH_CONFIG, types::BASIC_AUTH, types::DOCKER_CONFIG_JSON].join(", ");
            Err(Error::reference(
                field,
                format!("Secret {name:?} is of type {other:?}; must be one of {wanted}"),
            ))
        }
    }
}

/// `user:password` is encoded; what is encoded already stays.
fn encoded(auth: &str) -> String {
    if auth.contains(':') { BASE64_STANDARD.encode(auth) } else { auth.to_owned() }
}

/// The only entry of Docker's format.
fn docker(json: &str) -> Option<Auth> {
    let document: Value = serde_json::from_str(json).ok()?;
    let entry = document["auths"].as_object()?.values().next()?;
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    Some(Auth {
        username: text("username"),
        password: text("password"),
        auth: text("auth"),
        identity_token: text("identitytoken"),
    })
}

fn tls(
    context: &Context<'_>,
    host: &str,
    config: &RegistryConfig,
    field: &str,
    files: &mut Vec<File>,
) -> Result<Option<Tls>, Error> {
    let directory = format!("{}/etc/tls/registries/{host}", context.data_dir);
    let mut tls = Tls { insecure_skip_verify: config.insecure_skip_verify, ..Tls::default() };
    if let Some(bundle) = config.ca_bundle.as_ref().filter(|bundle| !bundle.0.is_empty()) {
        tls.ca_file = format!("{directory}/ca.crt");
        files.push(file(&tls.ca_file, &bundle.0));
    }
    if !config.tls_secret_name.is_empty() {
        let (field, name) = (format!("{field}.tlsSecretName"), &config.tls_secret_name);
        let secret = secret(context, name, &field)?;
        let part = |key: &str| {
            let missing = || Error::reference(&field, format!("Secret {name:?} has no key {key:?}"));
            secret.data.get(key).ok_or_else(missing)
        };
        if secret.type_ != types::TLS {
            return Err(Error::reference(
                &field,
                format!("Secret {name:?} must be of type {:?}", types::TLS),
            ));
        }
        tls.cert_file = format!("{directory}/tls.crt");
        tls.key_file = format!("{directory}/tls.key");
        files.push(file(&tls.cert_file, part("tls.crt")?));
        files.push(file(&tls.key_file, part("tls.key")?));
    }
    let empty = tls.ca_file.is_empty() && tls.cert_file.is_empty() && !tls.insecure_skip_verify;
    Ok((!empty).then_some(tls))
}

fn secret<'a>(context: &Context<'a>, name: &str, field: &str) -> Result<&'a Object, Error> {
    let namespace = &context.cluster.namespace;
    let missing = || match name.split_once(':') {
        Some((other, _)) if other != namespace => Error::reference(
            field,
            format!(
                "Secret {name:?} is not in the cluster's namespace; make one in {namespace:?} and name that"
            ),
        ),
        _ => Error::reference(field, format!("Secret {:?} does not exist", format!("{namespace}/{name}"))),
    };
    context.cluster.secrets.get(name).ok_or_else(missing)
}
