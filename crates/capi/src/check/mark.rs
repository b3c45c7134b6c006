//! What is found of machines is written on them; what is to be done about them is asked for.

use std::sync::Arc;

use api::capi::v1beta1;
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

/// What came of it.
pub(super) struct Marked {
    pub(super) outcome: Result<(), Error>,
    /// What was said of machines that somebody else is to repair.
    pub(super) external: Vec<Finding>,
}

/// Marks all machines. `allowed`: whether anything is to be done about the unhealthy ones.
pub(super) async fn all(
    context: &Arc<Context>,
    turn: &Turn,
    check: &MachineHealthCheck,
    judged: &[Judged],
    allowed: bool,
) -> Marked {
    let repairs = match check.spec.remediation.template_ref.as_ref() {
        Some(reference) => match requests(context, reference).await {
            Ok(requests) => Repairs::External(requests),
            Err(error) => Repairs::Nobody(error),
        },
        None => Repairs::Owner,
    };
    let mut marked = Marked { outcome: Ok(()), external: Vec::new() };
    for one in judged {
        // One machine that cannot be marked does not keep others from it.
        match mark(context, turn, one, allowed, &repairs).await {
            Ok(said) => marked.external.extend(said),
            Err(error) => marked.outcome = marked.outcome.and(Err(error)),
        }
    }
    if let Repairs::Nobody(error) = repairs {
        marked.outcome = marked.outcome.and(Err(error));
    }
    marked
}

/// For old readers: whether the template of repairs is there, and whether they could be asked for.
pub(super) fn show_legacy(list: &mut Vec<v1beta1::Condition>, external: &[Finding], now: jiff::Timestamp) {
    let failed = |reason: &str| external.iter().find(|said| said.reason == reason);
    let mut show = |type_, failure: Option<&Finding>, reason| match failure {
        Some(said) => legacy::mark_false(list, type_, Legacy::Error, reason, &said.message, now),
        None => legacy::mark_true(list, type_, now),
    };
    if external.is_empty() {
        return;
    }
    let template = failed(reasons::REMEDIATION_TEMPLATE_NOT_FOUND);
    let type_ = types::EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE;
    show(type_, template, reasons::EXTERNAL_REMEDIATION_TEMPLATE_NOT_FOUND);
    if template.is_none() {
        let request = failed(reasons::REMEDIATION_REQUEST_CREATION_FAILED);
        let type_ = types::EXTERNAL_REMEDIATION_REQUEST_AVAILABLE;
        show(type_, request, reasons::EXTERNAL_REMEDIATION_REQUEST_CREATION_FAILED);
    }
}

/// Who repairs machines.
enum Repairs {
    /// Whoever owns them replaces them.
    Owner,
    /// Somebody else, who is asked by an object.
    External(Requests),
    /// Somebody else, and it cannot be told who.
    Nobody(Error),
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
    repairs: &Repairs,
) -> Result<Option<Finding>, Error> {
    let mut external = None;
    let mut edit: Edit<Machine> = Edit::begin(&context.machines, &one.object)?;
    let (now, generation) = (context.now(), one.object.meta().generation.unwrap_or_default());
    let status = edit.status.get_or_insert_default();
    match &one.verdict {
        Verdict::Pending(_) => return Ok(None),
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
            if let Repairs::External(requests) = repairs
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
                external = match repairs {
                    Repairs::External(requests) => Some(request(context, turn, one, requests).await?),
                    Repairs::Nobody(why) => Some(no_template(&why.to_string())),
                    Repairs::Owner if !one.object.deleting() => {
                        ask_owner(&mut edit, generation, now);
                        None
                    }
                    Repairs::Owner => None,
                };
                if let Some(finding) = external.clone() {
                    let status = edit.status.get_or_insert_default();
                    conditions::set(&mut status.conditions, finding, generation, now);
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
    Ok(external)
}

fn no_template(why: &str) -> Finding {
    Finding::no(types::EXTERNALLY_REMEDIATED, reasons::REMEDIATION_TEMPLATE_NOT_FOUND).saying(why)
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
        return Ok(no_template(&message));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_readers_are_told_of_repairs() {
        let said = |reason| Finding::no(types::EXTERNALLY_REMEDIATED, reason).saying("m");
        let shown = |external: &[Finding]| -> Vec<(String, String)> {
            let mut list = Vec::new();
            show_legacy(&mut list, external, "2026-01-01T00:00:00Z".parse().unwrap());
            list.into_iter().map(|one: v1beta1::Condition| (one.type_, one.status)).collect()
        };
        let (template, request) =
            (types::EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE, types::EXTERNAL_REMEDIATION_REQUEST_AVAILABLE);
        let pair = |type_: &str, status: &str| (type_.to_owned(), status.to_owned());
        assert_eq!(shown(&[]), []);
        let waiting = said(reasons::WAITING_FOR_REMEDIATION);
        let mut all = shown(std::slice::from_ref(&waiting));
        all.sort();
        assert_eq!(all, [pair(request, "True"), pair(template, "True")]);
        let lost = said(reasons::REMEDIATION_TEMPLATE_NOT_FOUND);
        assert_eq!(shown(&[waiting.clone(), lost]), [pair(template, "False")]);
        let mut all = shown(&[waiting, said(reasons::REMEDIATION_REQUEST_CREATION_FAILED)]);
        all.sort();
        assert_eq!(all, [pair(request, "False"), pair(template, "True")]);
    }
}
