//! What running Jobs work with.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::catalogue::labels;
use api::machine::{Driver, GROUP};
use api::names::{self, InfraMachine};
use clock::{Clock, Entropy};
use kit::write::Writer;
use kit::{Cache, Caches, Change, Key, KindId, Object, Pace, Queue, Turn, index};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use provisioning::graph::applied::{Belonging, Owner};
use provisioning::machine::{SET, deletes};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::{Settings, attempt, files};
use crate::machine::rendering::{Rendered, Renderer};
use crate::{Parts, ServerInfo};

/// The name in managed fields.
const MANAGER: &str = "herdsman-jobs";
/// Each takes some tens of megabytes; others wait for their turn.
const MOST_PROCESSES: usize = 32;
/// How long a machine's kind may take to be known.
const SYNC_WITHIN: Duration = Duration::from_secs(20);
const PACE: Pace = Pace {
    interval: Duration::from_millis(50),
    first_retry: Duration::from_secs(1),
    longest_retry: Duration::from_secs(30),
    burst: 1,
};

/// Why a look at a Job failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] kit::write::Error),
    /// A status was not taken.
    #[error("cannot write the status of {object}")]
    Status {
        /// Of which object.
        object: String,
        /// The answer.
        #[source]
        answer: Box<kube::Error>,
    },
}

/// Work that goes on beside the looks at Jobs.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Running {
    job: Key,
    job_uid: String,
    /// Dropped or used, it ends the attempt.
    end: Option<oneshot::Sender<()>>,
}

pub(super) struct Context {
    pub(super) caches: Caches,
    pub(super) clock: Arc<dyn Clock>,
    entropy: Arc<Mutex<dyn Entropy>>,
    pub(super) writer: Writer,
    pub(super) queue: Arc<Queue>,
    pub(super) jobs: Arc<Cache>,
    pub(super) pods: Arc<Cache>,
    definitions: Arc<Cache>,
    pub(super) settings: Settings,
    pub(super) server: watch::Receiver<ServerInfo>,
    renderer: Renderer,
    /// How many processes may still be started at a time.
    pub(super) processes: Semaphore,
    running: Mutex<BTreeMap<String, Running>>,
    work: mpsc::UnboundedSender<Work>,
}

impl Context {
    pub(super) fn new(parts: Parts, settings: Settings) -> (Arc<Self>, mpsc::UnboundedReceiver<Work>) {
        let renderer = Renderer::of(&parts, settings.environment.clone());
        let Parts { caches, clock, entropy, server, .. } = parts;
        let (work, given) = mpsc::unbounded_channel();
        let context = Context {
            writer: Writer::new(caches.clone(), MANAGER),
            queue: Arc::new(Queue::new(clock.clone(), PACE)),
            jobs: caches.of(&KindId::new("batch", "v1", "Job", "jobs")),
            pods: caches.of(&KindId::new("", "v1", "Pod", "pods")),
            definitions: caches.of_cluster(&index::definitions(), index::trim_definition),
            processes: Semaphore::new(MOST_PROCESSES),
            running: Mutex::default(),
            caches,
            clock,
            entropy,
            settings,
            server,
            renderer,
            work,
        };
        (Arc::new(context), given)
    }

    pub(super) async fn ready(&self) {
        for cache in [&self.jobs, &self.pods, &self.definitions] {
            cache.wait_synced().await;
        }
        self.renderer.ready().await;
    }

    pub(super) fn connect(self: &Arc<Self>) {
        let context = Arc::downgrade(self);
        self.jobs.listen(MANAGER, || {
            Arc::new(move |change| {
                if let Some(context) = context.upgrade() {
                    context.changed(change);
                }
            })
        });
    }

    fn changed(&self, change: &Change) {
        let job = change.object();
        self.queue.add(job.key());
        // The log of a server lives as long as its machine.
        let machine = job_machine(job).map(|(driver, name)| self.machines(&driver).get(&name));
        if change.after.is_none()
            && machine.is_some_and(|found| found.is_none_or(|machine| machine.deleting()))
        {
            let path = files::log(&self.settings.directory, job.namespace(), job.name());
            // One that is not there is as good.
            let _ = std::fs::remove_file(path);
        }
    }

    fn machines(&self, driver: &Driver) -> Arc<Cache> {
        let resource = driver.machine_resource();
        self.caches.of(&KindId::new(&resource.group, &resource.version, &resource.kind, &resource.plural))
    }

    /// Whether a Job belongs to an infrastructure machine that is there.
    pub(super) async fn is_ours(&self, job: &Object) -> bool {
        if self.settings.marked_only && !is_marked(job) {
            return false;
        }
        let Some((driver, machine)) = job_machine(job) else { return false };
        let kind = driver.machine_kind();
        if self.definitions.filed(&index::kind(GROUP, &kind)).is_empty() {
            return false;
        }
        let machines = self.machines(&driver);
        if tokio::time::timeout(SYNC_WITHIN, machines.wait_synced()).await.is_err() {
            return false;
        }
        let api_version = driver.machine_resource().api_version;
        let (namespace, name) = (machine.namespace.clone(), machine.name.clone());
        let owner = Owner { set: SET, object: provisioning::Id { api_version, kind, namespace, name } };
        let document = provisioning::Object::from_document(job.document().clone());
        machines.get(&machine).is_some()
            && job.name() == names::machine_provision(InfraMachine(&machine.name))
            && owner.belonging(&document) == Belonging::Ours
    }

    /// What a Job of ours runs, or why it cannot: from its machine, whatever the Job says. The Job chooses between make and remove,
    /// and for which machine of its namespace; users who may write Jobs there only start the machine's own work.
    pub(super) fn rendered(&self, job: &Object) -> Result<Rendered, String> {
        let (driver, key) = job_machine(job).ok_or("the Job belongs to no machine")?;
        let machine = self.machines(&driver).get(&key).ok_or("the Job's machine is gone")?;
        let deletes = deletes(&provisioning::Object::from_document(job.document().clone()));
        let rendered = self.renderer.order(&driver, &machine, deletes, is_marked(job));
        rendered.map_err(|lacks| lacks.to_string())
    }

    /// Whether a pod's attempt runs here.
    pub(super) fn runs(&self, pod: &Object) -> bool {
        self.running().contains_key(pod.uid())
    }

    /// Begins an attempt.
    pub(super) fn start(
        self: &Arc<Self>,
        job: Arc<Object>,
        pod: Arc<Object>,
        rendered: Result<Rendered, String>,
    ) {
        let end = self.note(&job, &pod);
        self.hand_over(Box::pin(attempt::begin(self.clone(), job, pod, rendered, end)));
    }

    /// Ends an attempt that another process began.
    pub(super) fn resume(self: &Arc<Self>, job: Arc<Object>, pod: Arc<Object>) {
        // Nothing of it runs, so there is nothing to end.
        drop(self.note(&job, &pod));
        self.hand_over(Box::pin(attempt::recover(self.clone(), job, pod)));
    }

    fn note(&self, job: &Object, pod: &Object) -> oneshot::Receiver<()> {
        let (end, ends) = oneshot::channel();
        let running = Running { job: job.key(), job_uid: job.uid().into(), end: Some(end) };
        self.running().insert(pod.uid().into(), running);
        ends
    }

    fn hand_over(&self, work: Work) {
        // Nobody takes work any more only when everything ends.
        let _ = self.work.send(work);
    }

    /// Ends the attempts of Jobs that were there under this name and are no more. Gives whether there are any: what they
    /// leave is not known yet.
    pub(super) fn end_others(&self, job: &Key, uid: Option<&str>) -> bool {
        let mut all = self.running();
        let others = all.values_mut().filter(|one| one.job == *job && Some(one.job_uid.as_str()) != uid);
        others.fold(false, |_, other| {
            other.end.take();
            true
        })
    }

    /// An attempt has ended, and everybody can see how.
    pub(super) fn ended(&self, pod_uid: &str) {
        if let Some(running) = self.running().remove(pod_uid) {
            self.queue.add(running.job);
        }
    }

    /// Writes a status; gives the revision, or nothing if the object is gone.
    pub(super) async fn put_status(
        &self,
        cache: &Cache,
        object: &Object,
        status: Value,
    ) -> Result<Option<u64>, Error> {
        let client = self.caches.client().clone();
        let api: Api<DynamicObject> =
            Api::namespaced_with(client, object.namespace(), &cache.kind().resource());
        let options = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        // This very object, not another one of its name.
        let patch = json!({"metadata": {"uid": object.uid()}, "status": status});
        match api.patch_status(object.name(), &options, &Patch::Merge(patch)).await {
            Ok(written) => {
                let version = written.metadata.resource_version.unwrap_or_default();
                Ok(Some(version.parse().unwrap_or_default()))
            }
            Err(answer) if matches!(kit::write::code(&answer), Some(404 | 409)) => Ok(None),
            Err(answer) => Err(Error::Status { object: object.key().to_string(), answer: Box::new(answer) }),
        }
    }

    pub(super) async fn write_status(
        &self,
        turn: &Turn,
        cache: &Arc<Cache>,
        object: &Object,
        status: Value,
    ) -> Result<(), Error> {
        if let Some(revision) = self.put_status(cache, object, status).await? {
            turn.expect(cache.expect_revision(revision));
        }
        Ok(())
    }

    /// The ending of a pod's name.
    pub(super) fn suffix(&self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bytes = [0; 5];
        self.entropy.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes);
        bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether Kubernetes' own controller leaves a Job to us.
pub(super) fn is_marked(job: &Object) -> bool {
    job.document()["spec"]["managedBy"] == super::MANAGED_BY
}

/// The infrastructure machine that a Job says it belongs to.
pub(super) fn job_machine(job: &Object) -> Option<(Driver, Key)> {
    let group = job.label(labels::INFRA_MACHINE_GROUP).filter(|group| *group == GROUP);
    let driver = Driver::of_machine_kind(group.and(job.label(labels::INFRA_MACHINE_KIND))?)?;
    Some((driver, Key::new(job.namespace(), job.label(labels::INFRA_MACHINE_NAME)?)))
}
