//! What is found of machines is written on them; what is to be done about them is asked for.

use std::sync::Arc;

use api::capi::v1beta2::{Machine, MachineHealthCheck, RemediationTemplateReference};
use api::catalogue::{annotations, conditions as types, labels, reasons};
use kit::conditions::legacy::{self, Severity as Legacy};
use kit::conditions::{self, Finding, Status};
use kit::events::Severity;
use kit::write::Edit;
use kit::{Cache, Key, KindId, Turn, owners};
use serde_json::json;

use super::Judged;
use crate::context::{Context, Error, kind_of};
use crate::health::Verdict;
use crate::template::made_kind;
use kit::index;

/// The conditions of machines that health checks write.
const OWNED: [&str; 2] = [types::HEALTH_CHECK_SUCCEEDED, types::EXTERNALLY_REMEDIATED];

/// Marks all machines. `allowed`: whether anything is to be done about the unhealthy ones.
pub(super) async fn all(
    context: &Arc<Context>,
    turn: &Turn,
    check: &MachineHealthCheck,
    judged: &[Judged],
    allowed: bool,
) -> Result<(), Error> {
    let template = check.spec.remediation.template_ref.as_ref();
    let requests = match template {
        Some(reference) => Some(requests(context, reference).await?),
        None => None,
    };
    let mut outcome = Ok(());
    for one in judged {
        // One machine that cannot be marked does not keep others from it.
        let marked = mark(context, turn, one, allowed, requests.as_ref()).await;
        outcome = outcome.and(marked);
    }
    outcome
}

/// Where requests of external repairs are made, and from what.
struct Requests {
    cache: Arc<Cache>,
    templates: Arc<Cache>,
    /// Name of the template, in the machine's namespace.
    name: String,
}

async fn requests(
    context: &Arc<Context>,
    reference: &RemediationTemplateReference,
) -> Result<Requests, Error> {
    let (group, version) = reference.api_version.split_once('/').unwrap_or(("", &reference.api_version));
    let of = |kind: &str| -> Result<KindId, Error> {
        let found = context.definitions().filed(&index::kind(group, kind));
        let plural = found
            .first()
            .and_then(|one| one.document()["spec"]["names"]["plural"].as_str().map(str::to_owned));
        let plural = plural.ok_or_else(|| {
            Error::Impossible(format!("spec.remediation.templateRef: there is no kind {kind} of {group}"))
        })?;
        Ok(KindId::new(group, version, kind, &plural))
    };
    let templates = context.watched(&of(&reference.kind)?).await?;
    let cache = context.watched(&of(made_kind(&reference.kind))?).await?;
    Ok(Requests { cache, templates, name: reference.name.clone() })
}

async fn mark(
    context: &Arc<Context>,
    turn: &Turn,
    one: &Judged,
    allowed: bool,
    requests: Option<&Requests>,
) -> Result<(), Error> {
    let mut edit: Edit<Machine> = Edit::begin(&context.machines, &one.object)?;
    let (now, generation) = (context.now(), one.object.meta.generation.unwrap_or_default());
    let status = edit.status.get_or_insert_default();
    match &one.verdict {
        Verdict::Pending(_) => return Ok(()),
        Verdict::Healthy => {
            conditions::set(
                &mut status.conditions,
                Finding::yes(types::HEALTH_CHECK_SUCCEEDED, types::HEALTH_CHECK_SUCCEEDED),
                generation,
                now,
            );
            conditions::remove(&mut status.conditions, types::EXTERNALLY_REMEDIATED);
            let list =
                &mut status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default().conditions;
            legacy::mark_true(list, types::HEALTH_CHECK_SUCCEEDED, now);
            if let Some(requests) = requests
                && let Some(request) = requests.cache.get(&one.object.key())
            {
                context.writer.delete(turn, &requests.cache, &request).await?;
            }
        }
        Verdict::Unhealthy { reason, legacy: old, message } => {
            let finding = Finding::no(types::HEALTH_CHECK_SUCCEEDED, reason).saying(message);
            conditions::set(&mut status.conditions, finding, generation, now);
            let list =
                &mut status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default().conditions;
            legacy::mark_false(list, types::HEALTH_CHECK_SUCCEEDED, Legacy::Warning, old, message, now);
            let paused = one.object.annotation(annotations::PAUSED).is_some();
            if allowed && !paused {
                match requests {
                    Some(requests) => {
                        let finding = request(context, turn, one, requests).await?;
                        let status = edit.status.get_or_insert_default();
                        conditions::set(&mut status.conditions, finding, generation, now);
                    }
                    None if !one.object.deleting() => ask_owner(&mut edit, generation, now),
                    None => {}
                }
            }
        }
    }
    let unhealthy = matches!(one.verdict, Verdict::Unhealthy { .. });
    let was = one.machine.status.as_ref().is_some_and(|status| {
        conditions::has(&status.conditions, types::HEALTH_CHECK_SUCCEEDED, Status::False)
    });
    context.writer.apply(turn, edit, &OWNED).await?;
    if unhealthy && !was {
        let message = format!("Machine {} is unhealthy", one.object.name());
        context
            .events
            .tell(&kind_of::<Machine>(), &one.object, Severity::Normal, "MachineMarkedUnhealthy", &message)
            .await;
    }
    Ok(())
}

/// Asks the machine's owner to replace it. What the owner said since is not touched.
fn ask_owner(machine: &mut Machine, generation: i64, now: jiff::Timestamp) {
    let status = machine.status.get_or_insert_default();
    let said = conditions::find(&status.conditions, types::OWNER_REMEDIATED);
    if said.is_some_and(|said| said.status != Status::True.as_str()) {
        return;
    }
    let finding = Finding::no(types::OWNER_REMEDIATED, reasons::WAITING_FOR_REMEDIATION)
        .saying("Waiting for remediation");
    conditions::set(&mut status.conditions, finding, generation, now);
    let list = &mut status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default().conditions;
    legacy::mark_false(
        list,
        types::OWNER_REMEDIATED,
        Legacy::Warning,
        reasons::WAITING_FOR_REMEDIATION,
        "",
        now,
    );
}

/// Asks somebody else to repair the machine, by an object made from the template.
async fn request(
    context: &Arc<Context>,
    turn: &Turn,
    one: &Judged,
    requests: &Requests,
) -> Result<Finding, Error> {
    let waiting = Finding::no(types::EXTERNALLY_REMEDIATED, reasons::WAITING_FOR_REMEDIATION);
    if requests.cache.get(&one.object.key()).is_some() {
        return Ok(waiting);
    }
    let template = requests.templates.get(&Key::new(one.object.namespace(), &requests.name));
    let Some(template) = template else {
        let message =
            format!("Cannot retrieve remediation template {} to create a remediation request", requests.name);
        return Ok(Finding::no(types::EXTERNALLY_REMEDIATED, reasons::REMEDIATION_TEMPLATE_NOT_FOUND)
            .saying(message));
    };
    let inner = &template.document()["spec"]["template"];
    let owner = owners::reference(&kind_of::<Machine>(), &one.object, false);
    let mut document = json!({"metadata": {
        "namespace": one.object.namespace(), "name": one.object.name(), "ownerReferences": [owner],
        "labels": {labels::CAPI_CLUSTER_NAME: one.machine.spec.cluster_name},
        "annotations": {
            annotations::CAPI_CLONED_FROM_NAME: template.name(),
            annotations::CAPI_CLONED_FROM_GROUP_KIND: format!("{}.{}", template.document()["kind"].as_str().unwrap_or_default(), requests.cache.kind().group)
        }
    }});
    if let Some(spec) = inner.get("spec") {
        document["spec"] = spec.clone();
    }
    match context.writer.create(turn, &requests.cache, document).await {
        Ok(_) => Ok(waiting),
        Err(error) if error.code() == Some(409) => Ok(waiting),
        Err(error) => {
            let message = format!("Cannot create remediation request: {}", error.words());
            Ok(Finding::no(types::EXTERNALLY_REMEDIATED, reasons::REMEDIATION_REQUEST_CREATION_FAILED)
                .saying(message))
        }
    }
}
