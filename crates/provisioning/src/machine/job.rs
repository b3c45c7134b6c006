//! The Job that makes or deletes a server, and what it needs.

use std::collections::BTreeMap;

use api::catalogue::labels;
use api::catalogue::secrets::types;
use api::machine::{Driver, GROUP, Machine, VERSION};
use api::names::{self, InfraMachine};
use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, KeyToPath, LocalObjectReference, PodSpec, PodTemplateSpec, Secret,
    SecretEnvSource, SecretVolumeSource, SecurityContext, ServiceAccount, Volume, VolumeMount,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Program, arguments};
use crate::Object;

/// The set of a machine's objects.
pub const SET: &str = "machine-provision";

/// User and group of the program in its image.
const USER: i64 = 1000;

/// Where certificates lie in the image.
const CERTIFICATES: &str = "/etc/rancher/ssl";

/// Certificates that a driver trusts, by file name.
pub type Certificates = BTreeMap<String, Vec<u8>>;

/// What the server's settings say of such Jobs.
#[derive(Clone, Debug, Default)]
pub struct Installation<'a> {
    /// Image of rancher-machine, with its registry.
    pub image: &'a str,
    /// Its pull policy.
    pub pull_policy: &'a str,
    /// Its pull secrets.
    pub pull_secrets: &'a [String],
    /// Certificates that drivers trust.
    pub certificates: Certificates,
    /// Who runs the Job, if not Kubernetes' own controller.
    pub managed_by: Option<&'a str>,
}

/// What is to be done for a machine.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its driver.
    pub driver: &'a Driver,
    /// The driver's program.
    pub program: &'a Program,
    /// Contents that the driver wants as files: schema field to driver field.
    pub aliases: &'a BTreeMap<String, String>,
    /// The driver's environment.
    pub environment: &'a BTreeMap<String, Vec<u8>>,
    /// Secret with what the server runs first; nothing to delete the server.
    pub bootstrap_secret: Option<&'a str>,
    /// The cluster.
    pub cluster: arguments::Cluster<'a>,
    /// Settings.
    pub installation: &'a Installation<'a>,
}

/// What a machine needs beside its Job, and the Job.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered {
    /// Everything but the Job.
    pub objects: Vec<Object>,
    /// The Job.
    pub job: Object,
}

/// The Secret in which rancher-machine keeps what it knows of the server. It stays as long as the machine; what is in it
/// is rancher-machine's.
pub fn state(machine: &Machine) -> Object {
    let name = names::machine_state_secret(named(machine));
    let mut metadata = metadata(machine, name);
    metadata.labels = Some(BTreeMap::from([(labels::BACKUP.to_owned(), "true".to_owned())]));
    Object::of(&Secret { metadata, type_: Some(types::MACHINE_STATE.into()), ..Default::default() })
}

/// Everything that a Job for the machine takes.
pub fn order(order: &Order<'_>) -> Ordered {
    let (flags, files) = arguments::driver(order.driver, order.machine, order.aliases, order.cluster);
    let files = files.into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
    let name = names::machine_provision(named(order.machine));
    let environment = names::machine_driver_secret(named(order.machine));
    let mut objects = vec![
        secret(order.machine, environment, order.environment, true),
        state(order.machine),
        Object::of(&ServiceAccount { metadata: metadata(order.machine, name.clone()), ..Default::default() }),
        role(order.machine, &name),
        binding(order.machine, name.clone(), &name, &name),
    ];
    if !order.aliases.is_empty() {
        objects.push(secret(order.machine, name.clone(), &files, false));
    }
    if !order.installation.certificates.is_empty() {
        let certificates = names::machine_certs_secret(named(order.machine));
        objects.push(secret(order.machine, certificates, &order.installation.certificates, false));
    }
    let extension = names::machine_provision_extension(named(order.machine));
    objects.push(binding(order.machine, extension, &name, names::MACHINE_PROVISIONER_ROLE));
    Ordered { objects, job: job(order, &name, flags, &files) }
}

/// Whether a Job deletes a server.
pub fn deletes(job: &Object) -> bool {
    let template = &job.document()["spec"]["template"]["metadata"]["labels"];
    let label = template.get(labels::INFRA_REMOVE).and_then(|value| value.as_str());
    label.or_else(|| job.label(labels::INFRA_REMOVE)) == Some("true")
}

fn job(order: &Order<'_>, name: &str, flags: Vec<String>, files: &BTreeMap<String, Vec<u8>>) -> Object {
    let labels = job_labels(order);
    let (volumes, mounts) = volumes(order, name, files);
    let container = Container {
        name: "machine".into(),
        image: Some(order.installation.image.into()),
        image_pull_policy: Some(order.installation.pull_policy.into())
            .filter(|policy: &String| !policy.is_empty()),
        args: Some(command(order, flags)),
        env_from: Some(vec![EnvFromSource {
            secret_ref: Some(SecretEnvSource {
                name: names::machine_driver_secret(named(order.machine)),
                optional: None,
            }),
            ..Default::default()
        }]),
        security_context: Some(SecurityContext {
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            ..Default::default()
        }),
        volume_mounts: Some(mounts).filter(|mounts| !mounts.is_empty()),
        ..Default::default()
    };
    let secrets =
        order.installation.pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() });
    let secrets: Vec<LocalObjectReference> = secrets.collect();
    let pod = PodSpec {
        containers: vec![container],
        restart_policy: Some("Never".into()),
        service_account_name: Some(name.into()),
        volumes: Some(volumes).filter(|volumes| !volumes.is_empty()),
        image_pull_secrets: Some(secrets).filter(|secrets| !secrets.is_empty()),
        ..Default::default()
    };
    let mut own = metadata(order.machine, name.to_owned());
    own.labels = Some(labels.clone());
    Object::of(&Job {
        metadata: own,
        spec: Some(JobSpec {
            // A create that failed is looked at before it is tried again; a delete may simply be repeated.
            backoff_limit: Some(if order.bootstrap_secret.is_some() { 0 } else { 3 }),
            managed_by: order.installation.managed_by.map(str::to_owned),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..Default::default() }),
                spec: Some(pod),
            },
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// rancher-machine's command line.
fn command(order: &Order<'_>, flags: Vec<String>) -> Vec<String> {
    let instance = arguments::instance(order.machine);
    let mut all = vec![
        format!("--driver-download-url={}", order.program.url),
        format!("--driver-hash={}", order.program.hash),
        format!("--secret-namespace={}", order.machine.metadata.namespace.as_deref().unwrap_or_default()),
        format!("--secret-name={}", names::machine_state_secret(named(order.machine))),
    ];
    match order.bootstrap_secret {
        Some(_) => {
            all.push("create".into());
            all.push(format!("--driver={}", order.driver.name()));
            all.push("--custom-install-script=/run/secrets/machine/value".into());
            let hostname = arguments::hostname(order.machine);
            all.extend((hostname != instance).then(|| format!("--hostname-override={hostname}")));
            all.extend(flags);
        }
        // Credentials may be other ones than those that the server was made with.
        None => all.extend(["rm", "-y", "--update-config"].map(String::from)),
    }
    all.push(instance);
    all
}

fn job_labels(order: &Order<'_>) -> BTreeMap<String, String> {
    let own = order.machine.metadata.labels.as_ref();
    let capi_machine = own.and_then(|own| own.get(labels::CAPI_MACHINE_NAME)).cloned().unwrap_or_default();
    [
        (labels::INFRA_MACHINE_GROUP, GROUP.to_owned()),
        (labels::INFRA_MACHINE_VERSION, VERSION.to_owned()),
        (labels::INFRA_MACHINE_KIND, order.machine.kind.clone()),
        (labels::INFRA_MACHINE_NAME, order.machine.metadata.name.clone().unwrap_or_default()),
        (labels::INFRA_REMOVE, order.bootstrap_secret.is_none().to_string()),
        (labels::CAPI_MACHINE_NAME, capi_machine),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn volumes(
    order: &Order<'_>,
    name: &str,
    files: &BTreeMap<String, Vec<u8>>,
) -> (Vec<Volume>, Vec<VolumeMount>) {
    let volume = |name: &str, secret: String, mode: i32, items: Option<Vec<KeyToPath>>| Volume {
        name: name.into(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret),
            default_mode: Some(mode),
            items,
            ..Default::default()
        }),
        ..Default::default()
    };
    let mount = |name: &str, path: String, sub_path: Option<String>| VolumeMount {
        name: name.into(),
        mount_path: path,
        read_only: Some(true),
        sub_path,
        ..Default::default()
    };
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    if let Some(secret) = order.bootstrap_secret {
        volumes.push(volume("bootstrap", secret.to_owned(), 0o777, None));
        mounts.push(mount("bootstrap", "/run/secrets/machine".into(), None));
    }
    if !order.aliases.is_empty() {
        let item = |key: &String| KeyToPath { key: key.clone(), path: key.clone(), ..Default::default() };
        volumes.push(volume("machine-files", name.to_owned(), 0o644, Some(files.keys().map(item).collect())));
        mounts.push(mount("machine-files", arguments::FILES.into(), None));
    }
    if !order.installation.certificates.is_empty() {
        let secret = names::machine_certs_secret(named(order.machine));
        volumes.push(volume("machine-certs", secret, 0o644, None));
        // One mount each: the directory itself stays writable.
        mounts.extend(
            order
                .installation
                .certificates
                .keys()
                .map(|key| mount("machine-certs", format!("{CERTIFICATES}/{key}"), Some(key.clone()))),
        );
    }
    mounts.sort_by(|left, right| left.mount_path.cmp(&right.mount_path));
    (volumes, mounts)
}

fn secret(machine: &Machine, name: String, data: &BTreeMap<String, Vec<u8>>, backup: bool) -> Object {
    let mut metadata = metadata(machine, name);
    metadata.labels = backup.then(|| BTreeMap::from([(labels::BACKUP.to_owned(), "true".to_owned())]));
    let data = data.iter().map(|(key, value)| (key.clone(), ByteString(value.clone()))).collect();
    Object::of(&Secret { metadata, data: Some(data), ..Default::default() })
}

fn role(machine: &Machine, name: &str) -> Object {
    Object::of(&Role {
        metadata: metadata(machine, name.into()),
        rules: Some(vec![PolicyRule {
            verbs: ["get", "update"].map(String::from).into(),
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["secrets".into()]),
            resource_names: Some(vec![names::machine_state_secret(named(machine))]),
            ..Default::default()
        }]),
    })
}

fn binding(machine: &Machine, name: String, account: &str, role: &str) -> Object {
    Object::of(&RoleBinding {
        metadata: metadata(machine, name),
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: account.into(),
            namespace: machine.metadata.namespace.clone(),
            api_group: None,
        }]),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".into()),
            kind: "Role".into(),
            name: role.into(),
        },
    })
}

fn metadata(machine: &Machine, name: String) -> ObjectMeta {
    ObjectMeta { name: Some(name), namespace: machine.metadata.namespace.clone(), ..Default::default() }
}

fn named(machine: &Machine) -> InfraMachine<'_> {
    InfraMachine(machine.metadata.name.as_deref().unwrap_or_default())
}
