//! As many machines as asked for.

use std::sync::Arc;

use api::capi::v1beta2::{Machine, MachineSet};
use api::catalogue::{annotations, reasons};
use kit::{Cache, Key, Object, Turn, owners};

use super::{MANAGER, Outcome, PREFLIGHT_LOOK, Seen, desired};
use crate::context::{Context, Error, Found, Provider, kind_of};
use crate::deeds::Deed;
use crate::naming::{self, Parts};
use crate::template::made_kind;
use crate::{preflight, priority};

/// Makes or deletes machines until there are as many as asked for.
pub(super) async fn to_replicas(
    context: &Arc<Context>,
    turn: &Turn,
    set: &MachineSet,
    seen: &Seen,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let Some(wanted) = set.spec.replicas else { return Ok(()) };
    let wanted = usize::try_from(wanted).unwrap_or_default();
    complete(context, turn, set, seen, outcome).await?;
    match seen.machines.len() {
        there if there < wanted => grow(context, turn, set, seen, wanted - there, outcome).await,
        there if there > wanted => shrink(context, turn, set, seen, wanted).await,
        _ => Ok(()),
    }
}

async fn shrink(
    context: &Arc<Context>,
    turn: &Turn,
    set: &MachineSet,
    seen: &Seen,
    keep: usize,
) -> Result<(), Error> {
    let views: Vec<&Machine> = seen.machines.iter().map(|(_, machine)| &**machine).collect();
    let gone = priority::to_delete(&views, keep, &set.spec.deletion.order, context.now());
    for machine in gone.into_iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()) {
        let Some(object) = context.machines.get(&Key::of(&machine.metadata)) else { continue };
        delete(context, turn, seen, &object).await?;
    }
    Ok(())
}

/// Deletes a machine of the set.
pub(super) async fn delete(
    context: &Arc<Context>,
    turn: &Turn,
    seen: &Seen,
    machine: &Arc<Object>,
) -> Result<(), Error> {
    let deleted = context.writer.delete(turn, &context.machines, machine).await;
    let (kind, what) = (kind_of::<MachineSet>(), format!("machine {}", machine.name()));
    Ok(context.told(&kind, &seen.object, Deed::Delete, &what, deleted).await?)
}

async fn grow(
    context: &Arc<Context>,
    turn: &Turn,
    set: &MachineSet,
    seen: &Seen,
    count: usize,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    if seen.object.annotation(annotations::DISABLE_MACHINE_CREATE) == Some("true") {
        outcome.blocked.push(format!("{} is set to \"true\"", annotations::DISABLE_MACHINE_CREATE));
        return Ok(());
    }
    outcome.blocked.extend(missing_templates(set, seen));
    if !outcome.blocked.is_empty() {
        return Ok(());
    }
    let objections =
        preflight::objections(set, seen.unchecked(), seen.control_plane.there().map(Provider::read))?;
    if !objections.is_empty() {
        outcome.failed = Some((reasons::PREFLIGHT_CHECK_FAILED, objections.join("; ")));
        outcome.blocked.extend(objections);
        outcome.again = Some(PREFLIGHT_LOOK);
        return Ok(());
    }
    for _ in 0..count {
        create(context, turn, set, seen, outcome).await?;
    }
    Ok(())
}

/// The templates that would be cloned and are not there.
pub(super) fn missing_templates(set: &MachineSet, seen: &Seen) -> Vec<String> {
    let spec = &set.spec.template.spec;
    let infrastructure = Some(&spec.infrastructure_ref);
    let mut missing = Vec::new();
    for (reference, found) in
        [(spec.bootstrap.config_ref.as_ref(), &seen.bootstrap), (infrastructure, &seen.infrastructure)]
    {
        match (reference, found) {
            (Some(reference), Found::Missing) => missing.push(format!("{} does not exist", reference.kind)),
            (Some(_), Found::Unknown(why)) => missing.push(why.to_string()),
            _ => {}
        }
    }
    missing
}

/// One machine, and what is cloned for it. The machine comes first: whatever goes wrong afterwards, what was made is
/// known by it, and what is missing is made at the next look.
async fn create(
    context: &Arc<Context>,
    turn: &Turn,
    set: &MachineSet,
    seen: &Seen,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let writer = context.writer.named(MANAGER);
    let random = context.suffix();
    let parts = Parts { cluster: &set.spec.cluster_name, set: seen.object.name(), random: &random };
    let name = naming::machine(&set.spec.machine_naming.template, parts)
        .map_err(|why| Error::Impossible(format!("spec.machineNaming.template: {why}")))?;
    let deployment = seen.deployment.as_ref().map(|(object, _)| object.name());
    let labels = desired::machine_labels(set, seen.object.name(), deployment);
    let owner = owners::reference(&kind_of::<MachineSet>(), &seen.object, true);
    let document = desired::machine(set, seen.object.namespace(), &name, &labels, &owner);
    let made = writer.create(turn, &context.machines, document).await;
    let (kind, what) = (kind_of::<MachineSet>(), format!("machine {name}"));
    let made = context.told(&kind, &seen.object, Deed::Create, &what, made).await;
    let machine =
        made.inspect_err(|error| outcome.failed = Some((reasons::MACHINE_CREATION_FAILED, error.words())))?;
    outcome.made = true;
    clones(context, turn, &machine, seen, (true, true), outcome).await
}

/// Makes what is missing of machines whose making was interrupted.
async fn complete(
    context: &Arc<Context>,
    turn: &Turn,
    set: &MachineSet,
    seen: &Seen,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    if !missing_templates(set, seen).is_empty() {
        return Ok(());
    }
    for (object, machine) in seen.machines.iter().filter(|(object, _)| !object.deleting()) {
        let status = machine.status.as_ref().map(|status| status.initialization.clone()).unwrap_or_default();
        let lacks = |found: &Found,
                     reference: Option<&api::capi::v1beta2::ContractVersionedObjectReference>,
                     done: Option<bool>| {
            let (Some(template), Some(reference)) = (found.there(), reference) else { return false };
            // Only what was cloned from this very template is made again, and only before it has done its work.
            done != Some(true)
                && reference.name == object.name()
                && reference.kind == made_kind(&template.cache.kind().kind)
                && reference.api_group == template.cache.kind().group
        };
        let config = machine.spec.bootstrap.config_ref.as_ref();
        let wanted = (
            lacks(&seen.bootstrap, config, status.bootstrap_data_secret_created)
                && machine.spec.bootstrap.data_secret_name.is_none(),
            lacks(
                &seen.infrastructure,
                Some(&machine.spec.infrastructure_ref),
                status.infrastructure_provisioned,
            ),
        );
        if wanted != (false, false) {
            clones(context, turn, object, seen, wanted, outcome).await?;
        }
    }
    Ok(())
}

async fn clones(
    context: &Arc<Context>,
    turn: &Turn,
    machine: &Object,
    seen: &Seen,
    (bootstrap, infrastructure): (bool, bool),
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let owner = owners::reference(&kind_of::<Machine>(), machine, true);
    for (wanted, found, reason) in [
        (bootstrap, &seen.bootstrap, reasons::BOOTSTRAP_TEMPLATE_CLONING_FAILED),
        (infrastructure, &seen.infrastructure, reasons::INFRASTRUCTURE_TEMPLATE_CLONING_FAILED),
    ] {
        let Some(template) = found.there().filter(|_| wanted) else { continue };
        let cache = clone_cache(context, template).await;
        let cache = cache.inspect_err(|error| outcome.failed = Some((reason, error.to_string())))?;
        if cache.get(&machine.key()).is_some() {
            continue;
        }
        let document = desired::clone(&template.object, machine, &owner);
        match context.writer.named(MANAGER).create(turn, &cache, document).await {
            Ok(_) => {}
            // It was made before the cache could tell.
            Err(error) if error.code() == Some(409) => {}
            Err(error) => {
                outcome.failed = Some((reason, error.words()));
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// The cache of what is made from a template.
async fn clone_cache(context: &Arc<Context>, template: &Provider) -> Result<Arc<Cache>, Error> {
    let kind = template.cache.kind();
    let (cache, _) = context.kind_of(&kind.group, made_kind(&kind.kind)).await?;
    Ok(cache)
}
