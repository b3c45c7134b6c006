//! Everything that is decided on, for one machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::capi::v1beta2 as capi;
use api::catalogue::secrets::keys;
use api::catalogue::{annotations, conditions, labels};
use api::machine::Machine;
use api::management::v3::NodeDriver;
use api::names::{self, InfraMachine};
use api::rke::v1::RKEMachineStatus;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::{Key, KindId, Object, index, owners};
use provisioning::Wait;
use provisioning::machine::flags::Special;
use provisioning::machine::{CreateFacts, JobView, Policy, Program, RemoveFacts, program};
use provisioning::status::Finding;

use super::context::{Context, Error, Watched};
use super::{installation, view};

/// A Machine, and as what it is stored.
type Owning = (Arc<Object>, Arc<capi::Machine>);

/// What there is.
pub(super) struct Facts {
    pub(super) object: Arc<Object>,
    pub(super) infra: Arc<Machine>,
    pub(super) machine: Option<Owning>,
    pub(super) cluster: Option<Arc<capi::Cluster>>,
    pub(super) management_name: String,
    pub(super) job: Option<(Arc<Object>, JobView)>,
    state_is_empty: bool,
    /// The driver, if users may make machines with it.
    active: Option<Program>,
    /// The driver's program, or what is remembered of it.
    pub(super) program: Program,
    pub(super) aliases: BTreeMap<String, String>,
    policy: Policy,
    namespace_goes: bool,
    pub(super) now: Timestamp,
}

/// Gathers what is known of a machine.
pub(super) fn facts(context: &Context, kind: &Watched, object: Arc<Object>) -> Result<Facts, Error> {
    let infra = object.view::<Machine>()?;
    let machine = owner(context, &object)?;
    let cluster =
        machine.as_ref().map(|(_, machine)| cluster(context, &object, machine)).transpose()?.flatten();
    let driver = node_driver(context, kind)?;
    let program_of = |driver: Option<&NodeDriver>| program(driver, None, &infra);
    let active = driver.as_deref().filter(|driver| driver.spec.active).map(|driver| program_of(Some(driver)));
    let namespace = context.namespaces.get(&Key::new("", object.namespace()));
    Ok(Facts {
        machine,
        management_name: management_name(context, &object),
        cluster,
        job: job(context, &object),
        state_is_empty: state_is_empty(context, &object)?,
        active,
        program: program_of(driver.as_deref()),
        aliases: aliases(driver.as_deref()),
        policy: installation::policy(context),
        namespace_goes: namespace.is_some_and(|namespace| namespace.deleting()),
        now: context.clock.now(),
        infra,
        object,
    })
}

impl Facts {
    pub(super) fn to_create(&self) -> CreateFacts<'_> {
        CreateFacts {
            infra: &self.infra,
            machine: self.machine.as_ref().map(|(_, machine)| &**machine),
            cluster: self.cluster.as_deref(),
            job: self.job.as_ref().map(|(_, view)| view),
            state_is_empty: self.state_is_empty,
            program: self.active.as_ref(),
            policy: &self.policy,
            now: self.now,
        }
    }

    pub(super) fn to_remove(&self) -> RemoveFacts<'_> {
        let set = KindId::of::<capi::MachineSet>();
        RemoveFacts {
            infra: &self.infra,
            namespace_goes: self.namespace_goes,
            owned_by_set: owners::of_kind(self.object.owners(), &set).is_some(),
            job: self.job.as_ref().map(|(_, view)| view),
            state_is_empty: self.state_is_empty,
            policy: &self.policy,
            now: self.now,
        }
    }

    pub(super) fn has_finalizer(&self) -> bool {
        super::is_ours(self.object.meta().finalizers.as_ref())
    }

    /// The status of a machine that waits before anything was begun.
    pub(super) fn waiting(&self, wait: &Wait) -> RKEMachineStatus {
        let mut status = self.infra.status.clone().unwrap_or_default();
        let finding = Finding {
            status: "False".into(),
            reason: wait.code.as_str().into(),
            message: wait.awaits.clone(),
        };
        provisioning::status::set(&mut status.conditions, conditions::READY, finding, &self.now.to_string());
        status
    }

    /// The credential with which the server is made or deleted.
    pub(super) fn credential(&self) -> &str {
        let named = self.infra.spec.common.cloud_credential_secret_name.as_str();
        let known = self.infra.status.as_ref().map(|status| status.cloud_credential_secret_name.as_str());
        if named.is_empty() { known.unwrap_or_default() } else { named }
    }
}

/// The Machine that owns an infrastructure machine.
fn owner(context: &Context, object: &Object) -> Result<Option<Owning>, Error> {
    let found = owners::known(object, &context.machines);
    let read = |machine: Arc<Object>| machine.view().map(|view| (machine, view));
    Ok(found.map(read).transpose()?)
}

fn cluster(
    context: &Context,
    object: &Object,
    machine: &capi::Machine,
) -> Result<Option<Arc<capi::Cluster>>, Error> {
    let found = context.clusters.get(&Key::new(object.namespace(), &machine.spec.cluster_name));
    Ok(found.map(|cluster| cluster.view()).transpose()?)
}

/// Name of the management cluster that was made for the machine's cluster; empty if that is gone.
fn management_name(context: &Context, object: &Object) -> String {
    let name = object.label(labels::CAPI_CLUSTER_NAME).unwrap_or_default();
    let cluster = context.provisioning.get(&Key::new(object.namespace(), name));
    let management = cluster.and_then(|cluster| kit::lineage::management(&context.management, &cluster));
    management.map(|found| found.name().to_owned()).unwrap_or_default()
}

/// The NodeDriver of a kind: users see its display name, which may not be the object's.
fn node_driver(context: &Context, kind: &Watched) -> Result<Option<Arc<NodeDriver>>, Error> {
    let named = |object: &Arc<Object>| {
        let display = object.document()["spec"]["displayName"].as_str().filter(|name| !name.is_empty());
        display.unwrap_or(object.name()).eq_ignore_ascii_case(&kind.driver.name())
    };
    let found = context.drivers.all().into_iter().find(named);
    Ok(found.map(|object| object.view()).transpose()?)
}

fn aliases(driver: Option<&NodeDriver>) -> BTreeMap<String, String> {
    let marks = driver.and_then(|driver| driver.metadata.annotations.as_ref());
    let text = marks.and_then(|marks| marks.get(annotations::FILE_TO_FIELD_ALIASES));
    text.map(|text| Special::read_files(text)).unwrap_or_default()
}

fn job(context: &Context, object: &Object) -> Option<(Arc<Object>, JobView)> {
    let name = names::machine_provision(InfraMachine(object.name()));
    let job = context.jobs.get(&Key::new(object.namespace(), &name))?;
    let pods = context.pods.filed(&index::owner(job.uid()));
    let view = view::job(&job, &pods);
    Some((job, view))
}

/// Whether the state Secret knows of no server.
fn state_is_empty(context: &Context, object: &Object) -> Result<bool, Error> {
    let name = names::machine_state_secret(InfraMachine(object.name()));
    let Some(secret) = context.secrets.get(&Key::new(object.namespace(), &name)) else { return Ok(true) };
    let secret = secret.view::<Secret>()?;
    let packed = secret.data.as_ref().and_then(|data| data.get(keys::EXTRACTED_CONFIG));
    Ok(packed.is_none_or(|packed| machine::archive::is_empty(&packed.0)))
}
