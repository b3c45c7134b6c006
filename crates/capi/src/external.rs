//! What the conditions say of a provider's object that ours refers to.

use api::capi::v1beta1;
use api::catalogue::{conditions as types, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self, Finding, Provided, Status};

use crate::context::Found;
use crate::contract::{Breach, External};

/// What a provider's object is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Infrastructure,
    Bootstrap,
    ControlPlane,
}

impl Part {
    /// Our condition, and theirs.
    fn conditions(self) -> (&'static str, &'static str) {
        match self {
            Part::Infrastructure => (types::INFRASTRUCTURE_READY, types::READY),
            Part::Bootstrap => (types::BOOTSTRAP_CONFIG_READY, types::READY),
            Part::ControlPlane => (types::CONTROL_PLANE_AVAILABLE, types::AVAILABLE),
        }
    }

    /// The reasons of our condition if they say nothing: all is well, and not yet.
    fn reasons(self) -> (&'static str, &'static str) {
        match self {
            Part::Infrastructure | Part::Bootstrap => (reasons::READY, reasons::NOT_READY),
            Part::ControlPlane => (reasons::AVAILABLE, reasons::NOT_AVAILABLE),
        }
    }

    /// Whether it does what it is for, by its contract.
    fn done(self, object: External<'_>) -> Result<bool, Breach> {
        match self {
            Part::Infrastructure => object.provisioned(),
            Part::Bootstrap => object.data_secret_created(),
            Part::ControlPlane => object.initialized(),
        }
    }

    /// Where it says so.
    fn path(self, object: External<'_>) -> &'static str {
        match self {
            Part::Infrastructure => object.provisioned_path(),
            Part::Bootstrap => object.data_secret_created_path(),
            Part::ControlPlane => "status.initialization.controlPlaneInitialized",
        }
    }
}

/// How a provider's object is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) part: Part,
    /// Kind and name of the object.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    /// Whether it was there once: `status.initialization` says so.
    pub(crate) was_there: Option<bool>,
    /// Whether our object is being deleted.
    pub(crate) deleting: bool,
}

/// Shows the condition of the object that a reference means.
pub(crate) fn show(
    conditions: &mut Vec<Condition>,
    shown: Shown<'_>,
    found: &Found,
    (generation, now): (i64, Timestamp),
) {
    let (target, source) = shown.part.conditions();
    let set =
        |conditions: &mut Vec<Condition>, finding| conditions::set(conditions, finding, generation, now);
    match found {
        Found::NotAsked => {}
        Found::Unknown(why) => {
            set(conditions, Finding::unknown(target, reasons::INTERNAL_ERROR).saying(why.to_string()));
        }
        Found::Missing if shown.was_there == Some(true) || shown.deleting => {
            let finding = Finding::no(target, reasons::OBJECT_DELETED).saying(format!(
                "{} has been deleted{}",
                shown.kind,
                match shown.deleting {
                    true => "",
                    false => " while the object that it belongs to still exists",
                }
            ));
            set(conditions, finding);
        }
        Found::Missing => {
            let finding = Finding::no(target, reasons::OBJECT_DOES_NOT_EXIST)
                .saying(format!("{} {} does not exist", shown.kind, shown.name));
            set(conditions, finding);
        }
        Found::There(provider) => {
            let (external, (well, not_yet)) = (provider.read(), shown.part.reasons());
            let document = provider.object.document();
            let (said, fallback) = match shown.part.done(external) {
                Ok(true) => (conditions::provided(document, source), Finding::yes(target, well)),
                Ok(false) => {
                    let message = format!("{} {} is false", shown.kind, shown.part.path(external));
                    let finding = Finding::no(target, not_yet).saying(message);
                    (conditions::provided(document, source), finding)
                }
                Err(breach) => {
                    let finding = Finding::unknown(target, reasons::INTERNAL_ERROR);
                    (Provided::Missing, finding.saying(breach.to_string()))
                }
            };
            conditions::mirror(conditions, said, fallback, generation, now);
        }
    }
}

/// The same for old readers: mirrors `Ready`, or says what is waited for.
pub(crate) fn show_legacy(
    conditions: &mut Vec<v1beta1::Condition>,
    target: &str,
    found: &Found,
    done: bool,
    waiting: &str,
    now: Timestamp,
) {
    match found {
        Found::NotAsked => {}
        Found::There(provider) => {
            if legacy::mirror(conditions, provider.object.document(), "Ready", target, now) {
                return;
            }
            match (done, provider.object.deleting()) {
                (_, true) => {
                    legacy::mark_false(conditions, target, Severity::Info, reasons::DELETING, "", now)
                }
                (true, _) => legacy::mark_true(conditions, target, now),
                (false, _) => legacy::mark_false(conditions, target, Severity::Info, waiting, "", now),
            }
        }
        Found::Missing | Found::Unknown(_) if done => {
            legacy::mark_false(conditions, target, Severity::Info, reasons::DELETED, "", now);
        }
        Found::Missing | Found::Unknown(_) => {
            legacy::mark_false(conditions, target, Severity::Info, waiting, "", now);
        }
    }
}

/// A gate of a summary that is no bad news while our object is being deleted: what it refers to goes first.
pub(crate) fn softened(conditions: &[Condition], type_: &str, deleting: bool) -> Option<Finding> {
    let condition = conditions::find(conditions, type_).filter(|_| deleting)?;
    let gone = [reasons::OBJECT_DELETED, reasons::OBJECT_DOES_NOT_EXIST].contains(&condition.reason.as_str());
    gone.then(|| Finding { status: Status::True, ..Finding::from(condition) })
}
