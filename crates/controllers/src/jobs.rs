//! Runs the Jobs of infrastructure machines where no Kubernetes does: on the embedded API server, and of drivers that live in this
//! process.
//!
//! Only Jobs that belong to an infrastructure machine are run, and only two things run in them: drivers of our own, in
//! this process, and rancher-machine, as a process. Everything else about them is as on a Kubernetes: a pod for each
//! attempt with the program's exit code and last words, the Job's status as the Job controller writes it, a pause after
//! each failure, and an attempt that was lost with this process has failed.
//!
//! A Job is only the sign that something is to be done, because users may write Jobs: what is run is rendered from the machine and its
//! NodeDriver (`machine::rendering`). What the Job's own template says is not looked at.

mod attempt;
mod context;
mod decide;
mod documents;
mod files;
mod paths;
mod process;
mod state;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kit::{Controller, Ended, Key, Object, Turn, index};
use machine::Drivers;
use machine::download::Proxies;
use tokio::task::JoinSet;

use crate::Parts;
use context::Context;
pub use context::Error;
use decide::Step;

/// What `spec.managedBy` says of Jobs that we run on a Kubernetes that would run them itself.
pub const MANAGED_BY: &str = "herdsman.io/local";

/// Where and with what Jobs are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where running Jobs keep their files, and where their logs are. Nobody else may write there.
    pub directory: PathBuf,
    /// Drivers of our own.
    pub drivers: Drivers,
    /// The program rancher-machine, for all other drivers; nothing if there is none.
    pub rancher_machine: Option<PathBuf>,
    /// Where downloaded drivers are kept.
    pub downloads: PathBuf,
    /// How rancher-machine and its drivers are confined; nothing: they have the rights of this process.
    pub confinement: Option<Confinement>,
    /// Our own environment: what the setting `whitelist-envvars` names of it, drivers get.
    pub environment: BTreeMap<String, String>,
    /// Whether only Jobs that are marked with [`MANAGED_BY`] are run: Kubernetes runs the others.
    pub marked_only: bool,
}

/// A program that starts others with fewer rights: `PROGRAM confined --read PATH... --write PATH... -- OTHER`.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// The program.
    pub program: PathBuf,
    /// What drivers may read beside the system's files and their own.
    pub read: Vec<PathBuf>,
}

/// The proxies that an environment names, as every program reads them.
pub(crate) fn proxies(environment: &BTreeMap<String, String>) -> Proxies {
    Proxies::from_variables(|name| environment.get(name).cloned())
}

/// Where the log of a machine's Jobs is, one after the other: of the machine's `job`, in the directory of [`Settings`].
pub fn log_path(directory: &std::path::Path, namespace: &str, job: &str) -> PathBuf {
    files::log(directory, namespace, job)
}

/// Runs Jobs until the future is dropped. What runs then is ended, and is found to be lost by the next one who runs Jobs in
/// the same directory.
pub async fn run(parts: Parts, settings: Settings) {
    let (context, mut work) = Context::new(parts, settings);
    context.ready().await;
    context.connect();
    let (jobs, queue) = (Jobs(context.clone()), context.queue.clone());
    let attempts = async {
        // They end with this future.
        let mut attempts = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(_) = attempts.join_next() => {}
                Some(attempt) = work.recv() => drop(attempts.spawn(attempt)),
            }
        }
    };
    tokio::join!(kit::runner::run(Arc::new(jobs), queue, kit::runner::AT_A_TIME), attempts);
}

struct Jobs(Arc<Context>);

impl Controller for Jobs {
    type Error = Error;

    fn name(&self) -> &'static str {
        "jobs"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.jobs.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let job = context.jobs.get(key);
        let others_end = context.end_others(key, job.as_ref().map(|job| job.uid()));
        let Some(job) = job else { return Ok(Ended::Gone) };
        if others_end {
            // The last of them has this Job looked at again.
            return Ok(Ended::Well);
        }
        if job.deleting() || !context.is_ours(&job).await {
            return Ok(Ended::Well);
        }
        let pods = context.pods.filed(&index::owner(job.uid()));
        let step = decide::decide(&job, &pods, |pod| context.runs(pod), context.clock.now());
        tracing::debug!(job = %key, ?step, "a Job");
        self.act(&job, step, turn).await
    }
}

impl Jobs {
    async fn act(&self, job: &Arc<Object>, step: Step, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        match step {
            Step::Nothing => Ok(Ended::Well),
            Step::Start => {
                let rendered = context.rendered(job);
                let pod = documents::pod(job, rendered.as_ref().ok(), &context.suffix());
                let pod = context.writer.create(turn, &context.pods, pod).await?;
                context.start(job.clone(), Arc::new(pod), rendered);
                Ok(Ended::Again(Duration::ZERO))
            }
            Step::Resume(pod) => {
                if let Some(pod) = context.pods.get(&pod) {
                    context.resume(job.clone(), pod);
                }
                Ok(Ended::Well)
            }
            Step::Status(status) => {
                context.write_status(turn, &context.jobs, job, status).await?;
                Ok(Ended::Well)
            }
            Step::Later(wait, status) => {
                context.write_status(turn, &context.jobs, job, status).await?;
                Ok(Ended::Again(wait))
            }
        }
    }
}
