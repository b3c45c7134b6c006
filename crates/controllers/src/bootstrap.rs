//! What makes one machine a node: its accounts, its plan Secret, and what its server runs first.
//!
//! What is decided is in [`provisioning::bootstrap`]; here it is gathered for and done.

mod act;
mod context;
mod gather;
mod token;

use std::sync::Arc;
use std::time::Duration;

use ::provisioning::Wait;
use ::provisioning::bootstrap::hook::{self, Cleanup};
use ::provisioning::bootstrap::{self, Hold};
use kit::events::Severity;
use kit::runner::Controller;
use kit::{Ended, Key, Turn};

use crate::{Parts, until};
use context::Context;
use gather::Seen;

pub use crate::error::Error;
pub use context::Installers;

/// Runs the controllers of RKEBootstraps and of the tokens that servers introduce themselves with until the future is
/// dropped.
pub async fn run(parts: Parts, installers: Installers) {
    let mut server = parts.server.clone();
    let context = Context::new(parts, installers);
    context.ready().await;
    context::connect(&context);
    let scripts = async {
        // Scripts carry our own address.
        while server.changed().await.is_ok() {
            context.bootstraps.all().iter().for_each(|one| context.queue.add(one.key()));
        }
        std::future::pending::<()>().await;
    };
    tokio::join!(
        kit::runner::run(
            Arc::new(Bootstraps(context.clone())),
            context.queue.clone(),
            kit::runner::WRITERS_AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(token::Tokens(context.clone())),
            context.tokens.clone(),
            kit::runner::AT_A_TIME
        ),
        scripts,
    );
}

/// Looks after RKEBootstraps.
struct Bootstraps(Arc<Context>);

impl Controller for Bootstraps {
    type Error = Error;

    fn name(&self) -> &'static str {
        "bootstrap"
    }

    fn object(&self, key: &Key) -> Option<Arc<kit::Object>> {
        self.0.bootstraps.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(object) = context.bootstraps.get(key) else {
            context.told.forget(key);
            context.settled.forget(act::SET, key);
            return Ok(Ended::Gone);
        };
        let seen = gather::bootstrap(context, object)?;
        let ended = match seen.object.deleting() {
            true => self.remove(turn, &seen).await,
            false => self.look(turn, &seen).await,
        };
        match ended {
            Err(error) if error.is_conflict() => Ok(Ended::Again(Duration::ZERO)),
            other => other,
        }
    }
}

impl Bootstraps {
    /// One look at a machine that stays.
    async fn look(&self, turn: &Turn, seen: &Seen) -> Result<Ended, Error> {
        let context = &self.0;
        if act::finalizer(context, turn, seen).await? {
            return Ok(Ended::Again(Duration::ZERO));
        }
        act::hook(context, turn, seen).await?;
        let server = context.server();
        let decided = bootstrap::decide(&seen.facts(&server.as_script()));
        let outcome = match decided {
            Ok(outcome) => outcome,
            Err(Hold::Waiting(wait)) => return self.wait(seen, Some(wait)).await,
            Err(Hold::Refused(refusal)) => {
                let (kind, why) = (context.bootstraps.kind(), refusal.to_string());
                let events = &context.events;
                events.tell(kind, &seen.object, Severity::Warning, "BootstrapDataRefused", &why).await;
                return Ok(Ended::Well);
            }
        };
        act::objects(context, turn, seen, &outcome.objects).await?;
        act::repair(context, turn, seen, &outcome.objects).await?;
        act::token(context, turn, seen, &outcome.objects).await?;
        context.objects.set_status(turn, &context.bootstraps, &seen.object, &outcome.status).await?;
        self.wait(seen, outcome.wait).await
    }

    /// One look at a machine that goes.
    async fn remove(&self, turn: &Turn, seen: &Seen) -> Result<Ended, Error> {
        match hook::cleanup(&seen.bootstrap, seen.machine.as_deref()) {
            Cleanup::Release => {
                act::release(&self.0, turn, seen).await?;
                Ok(Ended::Well)
            }
            Cleanup::Wait(wait) => self.wait(seen, Some(wait)).await,
        }
    }

    /// Tells what is waited for. What ends a wait is watched.
    async fn wait(&self, seen: &Seen, wait: Option<Wait>) -> Result<Ended, Error> {
        let context = &self.0;
        let waits: Vec<Wait> = wait.into_iter().collect();
        context.told.tell(&context.events, context.bootstraps.kind(), &seen.object, &waits).await;
        Ok(until(context.now(), None))
    }
}
