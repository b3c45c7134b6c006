//! Clusters as users ask for them: everything that stands behind one is rendered, kept up to date, and goes with it.
//!
//! What is decided is in crate [`provisioning`]; here it is gathered for and done.

mod act;
mod context;
mod diagnosis;
mod gather;
mod identity;
mod registration;
mod remove;
mod wiring;

use std::sync::Arc;
use std::time::Duration;

use api::catalogue::annotations;
use api::names;
use kit::runner::Controller;
use kit::{Ended, Key, Object, Turn};
use provisioning::admission::POD_SECURITY_SET;
use provisioning::graph::Hold;
use provisioning::graph::applied::CLUSTER_SET;
use provisioning::management::{self, Identity};
use provisioning::status::{self, Pass};

use crate::Parts;
use act::Failure;
use context::Context;
use gather::Seen;

pub use crate::error::Error;

/// How often a cluster is looked at whose silence means something: nobody tells of what does not happen.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The server's own cluster, which is nobody's to provision: namespace and name.
const LOCAL: (&str, &str) = ("fleet-local", "local");

/// Runs the controllers of clusters and their registration tokens until the future is dropped.
pub async fn run(parts: Parts) {
    let mut server = parts.server.clone();
    let context = Context::new(parts);
    context.ready().await;
    wiring::connect(&context);
    let commands = async {
        // Commands carry our own address.
        while server.changed().await.is_ok() {
            context.known.tokens.all().iter().for_each(|token| context.tokens.add(token.key()));
        }
        std::future::pending::<()>().await;
    };
    tokio::join!(
        kit::runner::run(
            Arc::new(Clusters(context.clone())),
            context.clusters.clone(),
            kit::runner::AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(registration::Tokens(context.clone())),
            context.tokens.clone(),
            kit::runner::AT_A_TIME
        ),
        commands,
    );
}

/// Looks after provisioning clusters.
struct Clusters(Arc<Context>);

impl Controller for Clusters {
    type Error = Error;

    fn name(&self) -> &'static str {
        "provisioning cluster"
    }

    fn object(&self, key: &Key) -> Option<Arc<Object>> {
        self.0.known.clusters.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let local = (key.namespace.as_str(), key.name.as_str()) == LOCAL;
        let Some(object) = context.known.clusters.get(key).filter(|_| !local) else {
            context.told.forget(key);
            [CLUSTER_SET, POD_SECURITY_SET, management::SET]
                .into_iter()
                .for_each(|set| context.settled.forget(set, key));
            return Ok(Ended::Gone);
        };
        // Whoever moves it to another server must find nothing changed, and nothing made anew.
        if object.annotation(annotations::PAUSED).is_some() {
            return Ok(Ended::Well);
        }
        let ended = match object.deleting() {
            true => remove::look(context, turn, &object).await,
            false => self.look(turn, object).await,
        };
        match ended {
            // What was decided is out of date, and nothing is wrong.
            Err(error) if error.is_conflict() => Ok(Ended::Again(Duration::ZERO)),
            other => other,
        }
    }
}

impl Clusters {
    /// One look at a cluster that stays.
    async fn look(&self, turn: &Turn, object: Arc<Object>) -> Result<Ended, Error> {
        let context = &self.0;
        let seen = gather::cluster(context, object).await?;
        let prepared = act::prepare(context, turn, &seen).await;
        if matches!(prepared, Ok(true)) {
            return Ok(Ended::Again(Duration::ZERO));
        }
        if let Identity::Refused(refusal) = &seen.identity {
            self.say(turn, &seen, &Err(Failure::Hold(refusal.clone().into())), &[]).await?;
            return Ok(Ended::Well);
        }
        if seen.id().is_empty() || seen.id() != seen.said() {
            act::name(context, turn, &seen).await?;
            return Ok(Ended::Again(Duration::ZERO));
        }
        let managed = act::management(context, turn, &seen).await;
        let rendered = match prepared.and(managed) {
            Ok(()) => self.render(turn, &seen).await,
            Err(failure) => Err(failure),
        };
        let diagnosis = diagnosis::of(context, &seen).await;
        let waits = diagnosis.as_ref().map(|one| one.waits.as_slice()).unwrap_or_default();
        self.say(turn, &seen, &rendered, waits).await?;
        if let Err(Failure::Error(error)) = rendered {
            return Err(error);
        }
        Ok(diagnosis?.again.map_or(Ended::Well, Ended::Again))
    }

    /// Makes what the cluster's nodes take files from, then everything else.
    async fn render(&self, turn: &Turn, seen: &Seen) -> Result<(), Failure> {
        act::pod_security(&self.0, turn, seen).await?;
        act::render(&self.0, turn, seen).await
    }

    /// Says how the cluster stands: on itself, on its management half, and by events.
    async fn say(
        &self,
        turn: &Turn,
        seen: &Seen,
        rendered: &Result<(), Failure>,
        waits: &[provisioning::Wait],
    ) -> Result<(), Error> {
        let context = &self.0;
        let hold = match rendered {
            Ok(()) => Ok(()),
            Err(Failure::Hold(hold)) => Err(hold),
            // It is tried again at once; what was said before stays said.
            Err(Failure::Error(_)) => return Ok(()),
        };
        let mut told = waits.to_vec();
        if let Err(Hold::Waiting(wait)) = hold {
            told.insert(0, wait.clone());
        }
        let known = &context.known;
        context.told.tell(&context.events, known.clusters.kind(), &seen.object, &told).await;
        let now = context.stamp();
        let pass = Pass {
            graph: hold,
            control_plane: seen.control_plane.as_deref(),
            waits,
            management: seen.management.as_ref().and_then(|(_, one)| one.status.as_ref()),
            now: &now,
        };
        let mut after = status::cluster(&seen.cluster, seen.said(), pass);
        if seen.has_kubeconfig {
            after.client_secret_name = names::kubeconfig_secret(seen.object.name());
        }
        context.objects.set_status(turn, &known.clusters, &seen.object, &after).await?;
        if let (Some((object, management)), Some(control_plane)) = (&seen.management, &seen.control_plane) {
            let before = management.status.clone().unwrap_or_default();
            let after = status::management(&before, control_plane, &now);
            context.objects.set_status(turn, &known.management, object, &after).await?;
        }
        Ok(())
    }
}
