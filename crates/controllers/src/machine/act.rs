//! What is done about a machine. Nothing is decided here.

use api::catalogue::finalizers::MACHINE_PROVISION_REMOVE;
use api::catalogue::{annotations, labels};
use api::names::{self, InfraMachine};
use api::overlay;
use api::rke::v1::RKEMachineStatus;
use kit::events::Severity;
use kit::{Cache, Ended, Key, Turn};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use provisioning::graph::applied::Owner;
use provisioning::graph::difference::{Change, Existing, difference};
use provisioning::machine::retry::Failures;
use provisioning::machine::{SET, identity};
use provisioning::{Code, Object, Wait};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::context::Error;
use super::gather::Facts;
use super::rendering::Lacks;
use super::{Machines, is_ours};

/// What of a machine's objects stays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// What is known of the server.
    State,
    /// Nothing.
    Nothing,
}

impl Machines {
    pub(super) async fn finalize(&self, facts: &Facts, turn: &Turn) -> Result<Ended, Error> {
        let mut all = facts.object.meta().finalizers.clone().unwrap_or_default();
        all.push(MACHINE_PROVISION_REMOVE.into());
        self.set_finalizers(facts, turn, all).await?;
        Ok(Ended::Well)
    }

    pub(super) async fn release(&self, facts: &Facts, turn: &Turn) -> Result<(), Error> {
        let mut all = facts.object.meta().finalizers.clone().unwrap_or_default();
        all.retain(|one| !is_ours(Some(&vec![one.clone()])));
        self.set_finalizers(facts, turn, all).await
    }

    async fn set_finalizers(&self, facts: &Facts, turn: &Turn, all: Vec<String>) -> Result<(), Error> {
        let version = &facts.object.meta().resource_version;
        self.patch(facts, turn, json!({"metadata": {"finalizers": all, "resourceVersion": version}})).await
    }

    /// Whether the machine is gone or let go, by the server's own word: the cache may not have heard of its end yet.
    pub(super) async fn is_released(&self, facts: &Facts) -> Result<bool, Error> {
        let (client, resource) = (self.context.caches.client().clone(), self.kind.driver.machine_resource());
        let api: Api<DynamicObject> = Api::namespaced_with(client, facts.object.namespace(), &resource);
        let found = api.get_opt(facts.object.name()).await.map_err(|answer| {
            let machine = identity(&facts.infra).to_string();
            Error::Read { machine, answer: Box::new(answer) }
        })?;
        let same = |found: &DynamicObject| found.metadata.uid.as_deref() == Some(facts.object.uid());
        Ok(!found.is_some_and(|found| same(&found) && is_ours(found.metadata.finalizers.as_ref())))
    }

    pub(super) async fn label(&self, facts: &Facts, turn: &Turn, machine: &str) -> Result<(), Error> {
        self.patch(facts, turn, json!({"metadata": {"labels": {labels::CAPI_MACHINE_NAME: machine}}})).await
    }

    pub(super) async fn count_failures(
        &self,
        facts: &Facts,
        turn: &Turn,
        failures: &Failures,
    ) -> Result<(), Error> {
        let key = annotations::HERDSMAN_CREATE_FAILURES;
        let value = (failures.count > 0).then(|| failures.to_string());
        self.patch(facts, turn, json!({"metadata": {"annotations": {key: value}}})).await
    }

    /// Notes for people by which key the server's host is known.
    pub(super) async fn note_host_key(&self, facts: &Facts, turn: &Turn) -> Result<(), Error> {
        let key = annotations::HERDSMAN_SSH_HOST_KEY;
        match facts.host_key.as_deref().filter(|shown| facts.object.annotation(key) != Some(shown)) {
            Some(shown) => self.patch(facts, turn, json!({"metadata": {"annotations": {key: shown}}})).await,
            None => Ok(()),
        }
    }

    async fn patch(&self, facts: &Facts, turn: &Turn, patch: Value) -> Result<(), Error> {
        let context = &self.context;
        Ok(context.writer.patch(turn, &self.kind.cache, &facts.object.key(), patch).await?)
    }

    /// Writes what changed of the status; nothing if nothing did. All of it is ours but the addresses, which we never
    /// change.
    pub(super) async fn write_status(
        &self,
        facts: &Facts,
        turn: &Turn,
        status: RKEMachineStatus,
    ) -> Result<(), Error> {
        let before = json!({"status": facts.infra.status});
        let Some(patch) = overlay::merge_patch(&before, &json!({"status": status})) else { return Ok(()) };
        let resource = self.kind.driver.machine_resource();
        let client = self.context.caches.client().clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, facts.object.namespace(), &resource);
        let options =
            PatchParams { field_manager: Some("herdsman-machine".into()), ..PatchParams::default() };
        match api.patch_status(facts.object.name(), &options, &Patch::Merge(patch)).await {
            Ok(written) => {
                let version = written.metadata.resource_version.unwrap_or_default();
                turn.expect(self.kind.cache.expect_revision(version.parse().unwrap_or_default()));
                Ok(())
            }
            Err(answer) if kit::write::code(&answer) == Some(404) => Ok(()),
            Err(answer) => {
                let machine = identity(&facts.infra).to_string();
                Err(Error::Status { machine, answer: Box::new(answer) })
            }
        }
    }

    pub(super) async fn tell(&self, facts: &Facts, wait: &Wait) {
        let severity = match wait.code {
            Code::CreateFailed | Code::CreateGivenUp | Code::DeleteFailed => Severity::Warning,
            _ => Severity::Normal,
        };
        let (events, kind) = (&self.context.events, self.kind.cache.kind());
        events.tell(kind, &facts.object, severity, wait.code.as_str(), &wait.to_string()).await;
    }

    pub(super) async fn delete_machine(&self, facts: &Facts, turn: &Turn) -> Result<(), Error> {
        let Some((object, _)) = &facts.machine else { return Ok(()) };
        let message = "the server could not be made: the Machine is deleted, its MachineSet makes another";
        let (events, kind) = (&self.context.events, self.kind.cache.kind());
        events.tell(kind, &facts.object, Severity::Warning, Code::CreateFailed.as_str(), message).await;
        Ok(self.context.writer.delete(turn, &self.context.machines, object).await?)
    }

    /// Applies everything that a Job takes, deletes a Job that is there, and makes the Job.
    pub(super) async fn run_job(&self, facts: &Facts, turn: &Turn, deletes: bool) -> Result<(), Error> {
        let (context, driver) = (&self.context, &self.kind.driver);
        let marked = context.settings.marked.marks(&driver.name());
        let ordered = match context.renderer.order(driver, &facts.object, deletes, marked) {
            Ok(rendered) => rendered.ordered,
            Err(lacks @ (Lacks::Credential(_) | Lacks::Grant(_) | Lacks::File { .. })) => {
                return self.lacks_credential(facts, turn, &lacks).await;
            }
            Err(Lacks::Unreadable(error)) => return Err(error.into()),
            Err(lacks) => {
                let machine = identity(&facts.infra).to_string();
                return Err(Error::Changed { machine, words: lacks.to_string() });
            }
        };
        self.apply(facts, turn, &ordered.objects).await?;
        if let Some((job, _)) = &facts.job {
            context.writer.delete(turn, &context.jobs, job).await?;
        }
        self.apply_one(facts, turn, &ordered.job).await
    }

    async fn lacks_credential(&self, facts: &Facts, turn: &Turn, lacks: &Lacks) -> Result<(), Error> {
        let subject = identity(&facts.infra).to_string();
        let awaits = lacks.to_string();
        let wait = Wait::new(Code::CredentialMissing, subject, awaits, "create it, or correct the name");
        self.write_status(facts, turn, facts.waiting(&wait)).await?;
        self.tell(facts, &wait).await;
        Ok(())
    }

    async fn apply(&self, facts: &Facts, turn: &Turn, wanted: &[Object]) -> Result<(), Error> {
        let existing: Vec<Object> =
            self.existing(facts).into_iter().map(|(_, object)| seen(&object)).collect();
        for change in self.difference(facts, wanted, &existing)? {
            match change {
                Change::Create(object) => self.create_object(turn, &object).await?,
                Change::Update { id, patch } => {
                    let Some(cache) = self.cache_of(&id.kind) else { continue };
                    let key = Key::new(&id.namespace, &id.name);
                    self.context.writer.patch(turn, cache, &key, patch).await?;
                }
                // What is no longer wanted goes when the server is there.
                Change::Delete(_) => {}
            }
        }
        Ok(())
    }

    /// Makes an object that is not there.
    async fn apply_one(&self, facts: &Facts, turn: &Turn, wanted: &Object) -> Result<(), Error> {
        for change in self.difference(facts, std::slice::from_ref(wanted), &[])? {
            if let Change::Create(object) = change {
                self.create_object(turn, &object).await?;
            }
        }
        Ok(())
    }

    fn difference(
        &self,
        facts: &Facts,
        wanted: &[Object],
        existing: &[Object],
    ) -> Result<Vec<Change>, Error> {
        let owner = Owner { set: SET, object: identity(&facts.infra) };
        Ok(difference(&owner, wanted, Existing { objects: existing, referred: &BTreeSet::new() })?)
    }

    async fn create_object(&self, turn: &Turn, object: &Object) -> Result<(), Error> {
        let Some(cache) = self.cache_of(object.kind()) else { return Ok(()) };
        match self.context.writer.create(turn, cache, object.document().clone()).await {
            // The cache will tell, and the next look finds it.
            Err(error) if error.code() == Some(409) => {
                tracing::debug!(object = %object.id(), "it is there already, or not gone yet");
                Err(error.into())
            }
            done => Ok(done.map(drop)?),
        }
    }

    /// Deletes the machine's objects, but for what is kept.
    pub(super) async fn prune(&self, facts: &Facts, turn: &Turn, keep: Keep) -> Result<(), Error> {
        let state = names::machine_state_secret(InfraMachine(facts.object.name()));
        for (cache, object) in self.existing(facts) {
            let kept = keep == Keep::State && cache.kind().kind == "Secret" && object.name() == state;
            if !kept && !object.deleting() {
                self.context.writer.delete(turn, &cache, &object).await?;
            }
        }
        Ok(())
    }

    /// What there is of all that a machine may have: everything has its name, and is of this machine's set.
    fn existing(&self, facts: &Facts) -> Vec<(Arc<Cache>, Arc<kit::Object>)> {
        let context = &self.context;
        let machine = InfraMachine(facts.object.name());
        let provision = names::machine_provision(machine);
        let places = [
            (&context.jobs, provision.clone()),
            (&context.bindings, names::machine_provision_extension(machine)),
            (&context.bindings, provision.clone()),
            (&context.roles, provision.clone()),
            (&context.accounts, provision.clone()),
            (&context.secrets, provision),
            (&context.secrets, names::machine_certs_secret(machine)),
            (&context.secrets, names::machine_driver_secret(machine)),
            (&context.secrets, names::machine_state_secret(machine)),
        ];
        let owner = Owner { set: SET, object: identity(&facts.infra) };
        let found = places.into_iter().filter_map(|(cache, name)| {
            let object = cache.get(&Key::new(facts.object.namespace(), &name))?;
            let others = provisioning::graph::applied::Belonging::Others;
            let belonging = owner.belonging_by(|key| object.annotation(key));
            (belonging != others).then(|| (cache.clone(), object))
        });
        found.collect()
    }

    fn cache_of(&self, kind: &str) -> Option<&Arc<Cache>> {
        let context = &self.context;
        match kind {
            "Secret" => Some(&context.secrets),
            "ServiceAccount" => Some(&context.accounts),
            "Role" => Some(&context.roles),
            "RoleBinding" => Some(&context.bindings),
            "Job" => Some(&context.jobs),
            _ => None,
        }
    }
}

fn seen(object: &kit::Object) -> Object {
    Object::from_document(object.document().clone())
}
