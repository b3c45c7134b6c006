//! The control plane controller: gather, decide, act, say.

use std::sync::Arc;
use std::time::Duration;

use kit::runner::Controller;
use kit::{Ended, Key, Turn};
use planner::decide_with;

use super::context::{Context, Error};
use super::gather::{Seen, gather};
use super::{act, kubeconfig, legacy, prebootstrap, removal, status};

/// Looks after RKEControlPlanes.
pub(crate) struct ControlPlanes(pub(crate) Arc<Context>);

impl Controller for ControlPlanes {
    type Error = Error;

    fn name(&self) -> &'static str {
        "control-plane"
    }

    fn object(&self, key: &Key) -> Option<Arc<kit::Object>> {
        self.0.control_planes.get(key)
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(object) = context.control_planes.get(key) else {
            context.forget(key);
            return Ok(Ended::Gone);
        };
        if removal::hold(context, turn, &object).await? {
            return Ok(Ended::Again(Duration::ZERO));
        }
        let cluster = object.document()["spec"]["clusterName"].as_str().unwrap_or_default();
        context.watch_infrastructure(&key.namespace, cluster).await;

        let server = context.server.borrow().clone();
        let mut desk = context.desk(key);
        let seen = gather(&context.ground(&server), &object, &mut desk.kept)?;
        if legacy::adopt(context, turn, &seen).await? {
            return Ok(Ended::Again(Duration::ZERO));
        }
        let decision = decide_with(&seen.snapshot, &mut desk.memo);
        context.leave(key, desk, &seen);

        let acted = act::all(context, turn, &seen, &decision).await;
        let rest = object.deleting().then(|| removal::Rest::of(&seen));
        let removed = rest.as_ref().map(removal::Rest::finding);
        let held = [
            status::control_plane(context, turn, &seen, &decision, removed).await?,
            status::machines(context, turn, &seen, &decision).await?,
        ];
        status::tell(context, &seen, &decision).await;
        acted?;
        if let Some(rest) = &rest {
            removal::advance(context, turn, &seen, rest).await?;
        }
        prebootstrap::copy(context, turn, &seen).await?;
        let written = kubeconfig::ensure(context, turn, &seen, &server).await?;
        if written || has_just_connected(&seen) {
            context.access.try_now(&seen.cluster_key());
        }
        let wait = decision.wake_at.map(|at| at.duration_since(context.now()));
        let wait = wait.into_iter().chain(held.into_iter().flatten()).min();
        Ok(wait.map_or(Ended::Well, |wait| Ended::Again(wait.try_into().unwrap_or(Duration::ZERO))))
    }
}

/// The cluster's agent is connected, and was not when the status was last written.
fn has_just_connected(seen: &Seen) -> bool {
    let before = seen.view.status.as_ref().is_some_and(|status| status.agent_connected);
    seen.snapshot.state.agent_connected && !before
}
