//! What a machine's Job is: rendered from the infrastructure machine, its NodeDriver and the server's settings.
//!
//! The machine controller writes what is rendered; the executor of Jobs in this process renders it again and runs that. The Job itself is
//! only the sign that something is to be done: users may write Jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capi::v1beta2 as capi;
use api::catalogue::{annotations, labels};
use api::machine::{Driver, Machine};
use api::management::v3::{Cluster as ManagementCluster, NodeDriver, Setting};
use api::provisioning::v1::Cluster as ProvisioningCluster;
use kit::object::Unreadable;
use kit::{Cache, Key, KindId, Object, owners};
use provisioning::machine::flags::Special;
use provisioning::machine::{Order, Ordered, arguments, granted, order, program};
use serde_json::Value;
use tokio::sync::watch;

use super::installation::{self, Installation};
use crate::{Parts, ServerInfo};

/// A Machine, and as what it is stored.
pub(super) type Owning = (Arc<Object>, Arc<capi::Machine>);

/// Renders what Jobs do. The caches are those that all controllers share.
pub(crate) struct Renderer {
    machines: Arc<Cache>,
    provisioning: Arc<Cache>,
    management: Arc<Cache>,
    drivers: Arc<Cache>,
    set_by_users: Arc<Cache>,
    pub(super) secrets: Arc<Cache>,
    pub(super) server: watch::Receiver<ServerInfo>,
    /// Our own environment.
    pub(super) environment: BTreeMap<String, String>,
}

/// Everything that a Job takes.
pub(crate) struct Rendered {
    pub(crate) ordered: Ordered,
    /// The driver.
    pub(crate) driver: String,
    /// The infrastructure machine, as `namespace/name/uid`.
    pub(crate) owner: String,
    /// Whether the driver's program is known only by what the machine's status remembers.
    pub(crate) remembered: bool,
}

/// Why nothing is rendered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lacks {
    /// A Secret is named that is not there.
    #[error("waiting for the cloud credential {0}")]
    Credential(String),
    /// A field refers to content that is not there.
    #[error("{field}: waiting for the key {key} of Secret {name} in the machine's namespace")]
    File {
        /// Which field.
        field: String,
        /// Name of the Secret.
        name: String,
        /// Its key.
        key: String,
    },
    /// A credential is named that the machine may not use.
    #[error(
        "its Cluster does not name the cloud credential {0}: name it in spec.cloudCredentialSecretName of the Cluster or of its pool"
    )]
    Grant(String),
    /// The driver is off.
    #[error("driver {0} is not active: nothing is made with it")]
    Driver(String),
    /// A server is made for a Machine, and of what it is to run.
    #[error("no Machine with bootstrap data owns it: nothing is made")]
    Machine,
    /// An object is not what its type says.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

impl Renderer {
    /// One that renders from what these parts know. `environment` is our own.
    pub(crate) fn of(parts: &Parts, environment: BTreeMap<String, String>) -> Self {
        let caches = &parts.caches;
        let plain = |_: &mut serde_json::Value| {};
        Renderer {
            machines: caches.of(&KindId::of::<capi::Machine>()),
            provisioning: caches.of(&KindId::of::<ProvisioningCluster>()),
            management: caches.of_cluster(&KindId::of::<ManagementCluster>(), plain),
            drivers: caches.of_cluster(&KindId::of::<NodeDriver>(), plain),
            set_by_users: caches.of_cluster(&KindId::of::<Setting>(), plain),
            secrets: caches.of(&KindId::new("", "v1", "Secret", "secrets")),
            server: parts.server.clone(),
            environment,
        }
    }

    /// Waits until everything is known that is rendered from.
    pub(crate) async fn ready(&self) {
        let objects = [&self.machines, &self.provisioning, &self.management, &self.secrets];
        for cache in objects.into_iter().chain([&self.drivers, &self.set_by_users]) {
            cache.wait_synced().await;
        }
    }

    /// What makes or deletes the server of a machine. `marked`: whether its Job is left to us by Kubernetes' own controller.
    pub(crate) fn order(
        &self,
        driver: &Driver,
        object: &Arc<Object>,
        deletes: bool,
        marked: bool,
    ) -> Result<Rendered, Lacks> {
        let infra = object.view::<Machine>()?;
        let node_driver = self.node_driver(driver)?;
        let bootstrap = self.bootstrap(object)?.filter(|_| !deletes);
        if !deletes && !node_driver.as_deref().is_some_and(|driver| driver.spec.active) {
            return Err(Lacks::Driver(driver.name()));
        }
        if !deletes && bootstrap.is_none() {
            return Err(Lacks::Machine);
        }
        let program = program(node_driver.as_deref(), None, &infra);
        let aliases = aliases(node_driver.as_deref());
        let infra = self.with_contents(infra, object, &aliases)?;
        let named = credential(&infra);
        if !self.may_use(object, named, deletes && infra.spec.common.cloud_credential_secret_name == named)? {
            return Err(Lacks::Grant(named.to_owned()));
        }
        let environment = self.environment_of(driver, object.namespace(), named)?;
        let ordered = order(&Order {
            machine: &infra,
            driver,
            program: &program,
            aliases: &aliases,
            environment: &environment,
            bootstrap_secret: bootstrap.as_deref(),
            cluster: arguments::Cluster {
                name: object.label(labels::CAPI_CLUSTER_NAME).unwrap_or_default(),
                management_name: &self.management_name(object),
            },
            installation: &Installation::gather(self).borrowed(marked),
        });
        let owner = format!("{}/{}/{}", object.namespace(), object.name(), object.uid());
        Ok(Rendered { ordered, driver: driver.name(), owner, remembered: program.remembered })
    }

    /// The machine with the contents of files that its fields refer to by `secret://NAME/KEY`, from Secrets of its own namespace.
    fn with_contents(
        &self,
        infra: Arc<Machine>,
        object: &Object,
        aliases: &BTreeMap<String, String>,
    ) -> Result<Arc<Machine>, Lacks> {
        let mut infra = infra;
        for field in aliases.keys() {
            let text = infra.spec.fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let Some((name, key)) = arguments::in_secret(&text) else { continue };
            let secret = self.secrets.get(&Key::new(object.namespace(), name));
            let content = secret.and_then(|secret| installation::data(&secret).remove(key));
            let content = content.and_then(|content| String::from_utf8(content).ok());
            let lacks = || Lacks::File { field: field.clone(), name: name.into(), key: key.into() };
            let content = content.ok_or_else(lacks)?;
            Arc::make_mut(&mut infra).spec.fields.insert(field.clone(), content.into());
        }
        Ok(infra)
    }

    /// Whether a machine may use a credential: one beside it always; one of `cattle-global-data` if its Cluster names it. A pool may
    /// have another credential by now: a server goes with the one that its machine's spec names, about which admission asked.
    fn may_use(&self, object: &Object, name: &str, goes_with_it: bool) -> Result<bool, Unreadable> {
        if name.is_empty()
            || installation::credential_key(object.namespace(), name).namespace == object.namespace()
        {
            return Ok(true);
        }
        let cluster = self.owner(object)?.map(|(_, machine)| machine.spec.cluster_name.clone());
        let cluster = cluster.and_then(|name| self.provisioning.get(&Key::new(object.namespace(), &name)));
        let cluster = cluster.map(|cluster| cluster.view::<ProvisioningCluster>()).transpose()?;
        Ok(goes_with_it || granted(cluster.as_deref(), name))
    }

    fn environment_of(
        &self,
        driver: &Driver,
        namespace: &str,
        credential: &str,
    ) -> Result<BTreeMap<String, Vec<u8>>, Lacks> {
        let found = installation::environment_of(self, driver, namespace, credential);
        found.ok_or_else(|| Lacks::Credential(credential.to_owned()))
    }

    /// The Secret with what a machine's server runs first.
    fn bootstrap(&self, object: &Object) -> Result<Option<String>, Unreadable> {
        Ok(self.owner(object)?.and_then(|(_, machine)| machine.spec.bootstrap.data_secret_name.clone()))
    }

    /// The Machine that owns an infrastructure machine: that very one, not another one of its name.
    pub(super) fn owner(&self, object: &Object) -> Result<Option<Owning>, Unreadable> {
        let found = owners::known(object, &self.machines);
        found.map(|machine| machine.view().map(|view| (machine, view))).transpose()
    }

    /// Name of the management cluster that was made for the machine's cluster; empty if that is gone.
    fn management_name(&self, object: &Object) -> String {
        let name = object.label(labels::CAPI_CLUSTER_NAME).unwrap_or_default();
        let cluster = self.provisioning.get(&Key::new(object.namespace(), name));
        let management = cluster.and_then(|cluster| kit::lineage::management(&self.management, &cluster));
        management.map(|found| found.name().to_owned()).unwrap_or_default()
    }

    /// The NodeDriver of a driver: users see its display name, which may not be the object's.
    pub(super) fn node_driver(&self, driver: &Driver) -> Result<Option<Arc<NodeDriver>>, Unreadable> {
        let named = |object: &Arc<Object>| {
            let display = object.document()["spec"]["displayName"].as_str().filter(|name| !name.is_empty());
            display.unwrap_or(object.name()).eq_ignore_ascii_case(&driver.name())
        };
        self.drivers.all().into_iter().find(named).map(|object| object.view()).transpose()
    }

    /// The value of a setting.
    pub(super) fn setting(&self, name: &str) -> String {
        let found = self.set_by_users.get(&Key::new("", name));
        let found = found.and_then(|object| object.view::<Setting>().ok());
        found.map(|setting| setting.effective().to_owned()).unwrap_or_default()
    }
}

/// The credential with which the server is made or deleted.
fn credential(infra: &Machine) -> &str {
    let named = infra.spec.common.cloud_credential_secret_name.as_str();
    let known = infra.status.as_ref().map(|status| status.cloud_credential_secret_name.as_str());
    if named.is_empty() { known.unwrap_or_default() } else { named }
}

fn aliases(driver: Option<&NodeDriver>) -> BTreeMap<String, String> {
    let marks = driver.and_then(|driver| driver.metadata.annotations.as_ref());
    let text = marks.and_then(|marks| marks.get(annotations::FILE_TO_FIELD_ALIASES));
    text.map(|text| Special::read_files(text)).unwrap_or_default()
}
