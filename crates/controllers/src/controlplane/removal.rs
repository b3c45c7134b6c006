//! The end of a control plane: its finalizer falls when its machines are gone.

use std::sync::Arc;

use api::Kind as _;
use api::catalogue::{finalizers, labels};
use api::rke::v1::CustomMachine;
use kit::{Object, Turn};
use provisioning::status::Finding;
use serde_json::json;

use super::context::{Context, Error};
use super::gather::Seen;

const FINALIZER: &str = finalizers::RKE_CONTROL_PLANE_REMOVE;

/// Places the finalizer. Gives whether it had to be.
pub(crate) async fn hold(context: &Arc<Context>, turn: &Turn, object: &Object) -> Result<bool, Error> {
    let present = object.meta().finalizers.clone().unwrap_or_default();
    if object.deleting() || present.iter().any(|one| one == FINALIZER) {
        return Ok(false);
    }
    let all: Vec<&str> = present.iter().map(String::as_str).chain([FINALIZER]).collect();
    let patch = json!({"metadata": {"finalizers": all}});
    context.patch_seen(turn, &context.control_planes, object, patch).await?;
    Ok(true)
}

/// What a control plane that is being deleted waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Its control-plane machines.
    left: Vec<String>,
    /// Those of them that nobody else deletes.
    orphans: Vec<String>,
}

impl Rest {
    pub(crate) fn of(seen: &Seen) -> Self {
        let mut rest = Rest::default();
        for (name, machine) in &seen.machines {
            let object = &machine.object;
            if object.label(labels::CONTROL_PLANE_ROLE) != Some("true") {
                continue;
            }
            rest.left.push(name.to_string());
            let kind = object.document().pointer("/spec/infrastructureRef/kind");
            if kind.is_some_and(|kind| kind == CustomMachine::KIND) && !object.deleting() {
                rest.orphans.push(name.to_string());
            }
        }
        rest
    }

    /// What the condition `Removed` says.
    pub(crate) fn finding(&self) -> Finding {
        match self.left.first() {
            Some(machine) => Finding::waiting(format!("waiting for machine [{machine}] to delete")),
            None => Finding::yes(),
        }
    }
}

/// Deletes machines that registered by hand, and lets the control plane go once none is left.
pub(crate) async fn advance(
    context: &Arc<Context>,
    turn: &Turn,
    seen: &Seen,
    rest: &Rest,
) -> Result<(), Error> {
    for name in &rest.orphans {
        if let Some(machine) = seen.machines.get(name.as_str()) {
            context.writer.delete(turn, &context.machines, &machine.object).await?;
        }
    }
    if !rest.left.is_empty() {
        return Ok(());
    }
    let object = &seen.control_plane;
    let present = object.meta().finalizers.clone().unwrap_or_default();
    let others: Vec<&String> = present.iter().filter(|one| *one != FINALIZER).collect();
    if others.len() < present.len() {
        let patch = json!({"metadata": {"finalizers": others}});
        context.patch_seen(turn, &context.control_planes, object, patch).await?;
    }
    Ok(())
}
