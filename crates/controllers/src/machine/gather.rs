//! Everything that is decided on, for one machine.

use std::sync::Arc;

use api::capi::v1beta2 as capi;
use api::catalogue::conditions;
use api::catalogue::secrets::keys;
use api::machine::Machine;
use api::names::{self, InfraMachine};
use api::rke::v1::RKEMachineStatus;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::{Key, KindId, Object, index, owners};
use provisioning::Wait;
use provisioning::machine::{CreateFacts, JobView, Policy, Program, RemoveFacts, program};
use provisioning::status::Finding;

use super::context::{Context, Error, Watched};
use super::rendering::Owning;
use super::{installation, view};

/// What there is.
pub(super) struct Facts {
    pub(super) object: Arc<Object>,
    pub(super) infra: Arc<Machine>,
    pub(super) machine: Option<Owning>,
    pub(super) cluster: Option<Arc<capi::Cluster>>,
    pub(super) job: Option<(Arc<Object>, JobView)>,
    state_is_empty: bool,
    /// The fingerprint of the key by which its host is known, of the driver `ssh`.
    pub(super) host_key: Option<String>,
    /// The driver, if users may make machines with it.
    active: Option<Program>,
    policy: Policy,
    namespace_goes: bool,
    pub(super) now: Timestamp,
}

/// Gathers what is known of a machine.
pub(super) fn facts(context: &Context, kind: &Watched, object: Arc<Object>) -> Result<Facts, Error> {
    let infra = object.view::<Machine>()?;
    let machine = context.renderer.owner(&object)?;
    let cluster =
        machine.as_ref().map(|(_, machine)| cluster(context, &object, machine)).transpose()?.flatten();
    let driver = context.renderer.node_driver(&kind.driver)?;
    let active = driver.as_deref().filter(|driver| driver.spec.active);
    let active = active.map(|driver| program(Some(driver), None, &infra));
    let state = state(context, &object)?;
    let namespace = context.namespaces.get(&Key::new("", object.namespace()));
    Ok(Facts {
        machine,
        cluster,
        job: job(context, &object),
        state_is_empty: state.as_deref().is_none_or(machine::archive::is_empty),
        host_key: state.as_deref().filter(|_| kind.driver.name() == "ssh").and_then(machine::ssh::shown_key),
        active,
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
}

fn cluster(
    context: &Context,
    object: &Object,
    machine: &capi::Machine,
) -> Result<Option<Arc<capi::Cluster>>, Error> {
    let found = context.clusters.get(&Key::new(object.namespace(), &machine.spec.cluster_name));
    Ok(found.map(|cluster| cluster.view()).transpose()?)
}

fn job(context: &Context, object: &Object) -> Option<(Arc<Object>, JobView)> {
    let name = names::machine_provision(InfraMachine(object.name()));
    let job = context.jobs.get(&Key::new(object.namespace(), &name))?;
    let pods = context.pods.filed(&index::owner(job.uid()));
    let view = view::job(&job, &pods);
    Some((job, view))
}

/// What the state Secret has, packed.
fn state(context: &Context, object: &Object) -> Result<Option<Vec<u8>>, Error> {
    let name = names::machine_state_secret(InfraMachine(object.name()));
    let Some(secret) = context.secrets.get(&Key::new(object.namespace(), &name)) else { return Ok(None) };
    let secret = secret.view::<Secret>()?;
    Ok(secret.data.as_ref().and_then(|data| data.get(keys::EXTRACTED_CONFIG)).map(|packed| packed.0.clone()))
}
