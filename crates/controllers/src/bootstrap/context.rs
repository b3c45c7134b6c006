//! What the controllers of this group work with, and which change has which machine looked at.

use std::sync::Arc;
use std::time::Duration;

use ::provisioning::bootstrap::Server;
use api::capi::v1beta2::{Cluster, Machine};
use api::catalogue::{annotations, labels, settings};
use api::rke::v1::{RKEBootstrap, RKEControlPlane};
use jiff::Timestamp;
use kit::events::Events;
use kit::{Cache, Change, Key, Object, Pace, Queue, index, machines};

use crate::objects::{Objects, listen};
use crate::settings::Settings;
use crate::settled::Settled;
use crate::waits::Told;
use crate::{Parts, ServerInfo, checksum};

/// Under which name this group writes, and listens to caches.
const MANAGER: &str = "herdsman-bootstrap";

/// What servers run to become nodes.
#[derive(Clone, Debug, Default)]
pub struct Installers {
    /// `install.sh`.
    pub linux: Arc<str>,
    /// `install.ps1`; empty if there is none.
    pub windows: Arc<str>,
    /// Whether our own end offers the agent for download.
    pub offers_agent: bool,
}

pub(super) struct Context {
    parts: Parts,
    installers: Installers,
    pub(super) objects: Objects,
    pub(super) settings: Settings,
    pub(super) events: Events,
    pub(super) told: Told,
    pub(super) settled: Settled,
    pub(super) bootstraps: Arc<Cache>,
    pub(super) machines: Arc<Cache>,
    pub(super) clusters: Arc<Cache>,
    pub(super) control_planes: Arc<Cache>,
    pub(super) secrets: Arc<Cache>,
    pub(super) accounts: Arc<Cache>,
    pub(super) roles: Arc<Cache>,
    pub(super) bindings: Arc<Cache>,
    pub(super) queue: Arc<Queue>,
    pub(super) tokens: Arc<Queue>,
}

/// Our own end, as scripts have it.
pub(super) struct OwnEnd<'a> {
    info: ServerInfo,
    ca_checksum: String,
    strict_tls: bool,
    csi_proxy_version: String,
    csi_proxy_url: String,
    installers: &'a Installers,
}

impl OwnEnd<'_> {
    pub(super) fn as_script(&self) -> Server<'_> {
        Server {
            url: &self.info.url,
            ca_checksum: &self.ca_checksum,
            strict_tls: self.strict_tls,
            offers_agent: self.installers.offers_agent,
            installer: &self.installers.linux,
            windows_installer: &self.installers.windows,
            csi_proxy_version: &self.csi_proxy_version,
            csi_proxy_url: &self.csi_proxy_url,
        }
    }
}

impl Context {
    pub(super) fn new(parts: Parts, installers: Installers) -> Arc<Self> {
        let objects = Objects::new(&parts.caches, MANAGER);
        let pace = Pace { interval: Duration::from_millis(50), ..Pace::default() };
        let queue = || Arc::new(Queue::new(parts.clock.clone(), pace));
        let client = parts.caches.client().clone();
        Arc::new(Context {
            settings: Settings::new(&objects),
            events: Events::new(client, parts.clock.clone(), parts.entropy.clone(), MANAGER),
            told: Told::new("bootstrap", &parts),
            settled: Settled::default(),
            bootstraps: objects.of::<RKEBootstrap>(),
            machines: objects.of::<Machine>(),
            clusters: objects.of::<Cluster>(),
            control_planes: objects.of::<RKEControlPlane>(),
            secrets: objects.built_in("Secret"),
            accounts: objects.built_in("ServiceAccount"),
            roles: objects.built_in("Role"),
            bindings: objects.built_in("RoleBinding"),
            queue: queue(),
            tokens: queue(),
            objects,
            installers,
            parts,
        })
    }

    /// Waits until everything is known.
    pub(super) async fn ready(&self) {
        let all = [
            &self.bootstraps,
            &self.machines,
            &self.clusters,
            &self.control_planes,
            &self.secrets,
            &self.accounts,
            &self.roles,
            &self.bindings,
            self.settings.cache(),
            self.objects.definitions(),
        ];
        for cache in all {
            cache.wait_synced().await;
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    pub(super) fn server(&self) -> OwnEnd<'_> {
        let info = self.parts.server.borrow().clone();
        OwnEnd {
            ca_checksum: checksum(&info.ca_certificates),
            // Our own certificates are the only ones that vouch for us, unless somebody says otherwise.
            strict_tls: self.settings.text(settings::AGENT_TLS_MODE) != "system-store"
                && !info.ca_certificates.is_empty(),
            csi_proxy_version: self.settings.text(settings::CSI_PROXY_AGENT_VERSION),
            csi_proxy_url: self.settings.text(settings::CSI_PROXY_AGENT_URL),
            installers: &self.installers,
            info,
        }
    }
}

/// Has the controllers told of what concerns them.
pub(super) fn connect(context: &Arc<Context>) {
    let on = |cache: &Arc<Cache>, tell: fn(&Arc<Context>, &Change)| listen(cache, MANAGER, context, tell);
    on(&context.bootstraps, |context, change| context.queue.add(change.object().key()));
    on(&context.machines, machine_changed);
    on(&context.clusters, |context, change| {
        let gates = |object: &Arc<Object>| {
            let document = object.document();
            (document["spec"].clone(), document["status"]["initialization"].clone())
        };
        if change.before.as_ref().map(gates) != change.after.as_ref().map(gates) {
            all_of(context, change.object());
        }
    });
    on(&context.control_planes, |context, change| {
        let says = |object: &Arc<Object>| {
            let marks = object.annotation(annotations::HERDSMAN_MARKS).map(str::to_owned);
            (object.document()["spec"].clone(), marks)
        };
        if change.before.as_ref().map(says) != change.after.as_ref().map(says) {
            all_of(context, change.object());
        }
    });
    for cache in [&context.accounts, &context.roles, &context.bindings] {
        on(cache, owned_changed);
    }
    on(&context.secrets, |context, change| {
        let object = change.object();
        if object.annotation(annotations::BOOTSTRAP_TOKEN).is_some() {
            context.tokens.add(object.key());
        }
        // What is in a plan Secret is the planner's and the agent's.
        let ours = |object: &Arc<Object>| {
            let is_plan = object.document()["type"] == api::catalogue::secrets::types::MACHINE_PLAN;
            let data = (!is_plan).then(|| object.document()["data"].clone());
            (object.meta().labels.clone(), object.meta().annotations.clone(), data)
        };
        if change.before.as_ref().map(ours) != change.after.as_ref().map(ours) {
            owned_changed(context, change);
            // Its agent may have taken the owner off a plan Secret.
            let object = change.object();
            for machine in context.machines.filed(&index::plan(object.namespace(), object.name())) {
                let name = machines::bootstrap_name(&machine).map(|name| Key::new(object.namespace(), name));
                name.into_iter().for_each(|bootstrap| context.queue.add(bootstrap));
            }
        }
    });
    on(context.settings.cache(), |context, _| {
        context.bootstraps.all().iter().for_each(|one| context.queue.add(one.key()));
        context.secrets.all().iter().for_each(|one| {
            if one.annotation(annotations::BOOTSTRAP_TOKEN).is_some() {
                context.tokens.add(one.key());
            }
        });
    });
}

/// A Machine concerns the bootstrap object that it refers to.
fn machine_changed(context: &Arc<Context>, change: &Change) {
    let object = change.object();
    let says = |object: &Arc<Object>| {
        let document = object.document();
        let phase = document["status"]["phase"].clone();
        (object.meta().labels.clone(), object.meta().annotations.clone(), phase, object.deleting())
    };
    if change.before.as_ref().map(says) == change.after.as_ref().map(says) {
        return;
    }
    if let Some(name) = object.document()["spec"]["bootstrap"]["configRef"]["name"].as_str() {
        context.queue.add(Key::new(object.namespace(), name));
    }
}

/// Something of a machine: it is owned by the bootstrap object.
fn owned_changed(context: &Arc<Context>, change: &Change) {
    let object = change.object();
    let owner = object.owners().iter().find(|owner| owner.kind == <RKEBootstrap as api::Kind>::KIND);
    let label = object.label(labels::BOOTSTRAP_NAME);
    if let Some(name) = owner.map(|owner| owner.name.as_str()).or(label) {
        context.queue.add(Key::new(object.namespace(), name));
    }
}

/// Every machine of the cluster of that name.
fn all_of(context: &Arc<Context>, object: &Object) {
    let entry = index::cluster(object.namespace(), object.name());
    for bootstrap in context.bootstraps.filed(&entry) {
        context.queue.add(bootstrap.key());
    }
}
