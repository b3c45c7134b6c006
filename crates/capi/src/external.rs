//! What the conditions say of a provider's object that ours refers to.

use api::capi::v1beta1;
use api::catalogue::reasons;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::conditions::legacy::{self, Severity};
use kit::conditions::{self, Finding, Provided, Status};

use crate::context::Found;
use crate::contract::Breach;

/// How a provider's object is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    /// Our condition.
    pub(crate) target: &'a str,
    /// Theirs.
    pub(crate) source: &'a str,
    /// Kind and name of the object.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    /// The reasons of our condition if they say nothing: all is well, or not yet.
    pub(crate) well: &'static str,
    pub(crate) not_yet: &'static str,
    /// Whether it was there once: `status.initialization` says so.
    pub(crate) was_there: bool,
    /// Whether our object is being deleted.
    pub(crate) deleting: bool,
}

/// Shows the condition of the object that a reference means. `done` is whether it does what it is for, by its contract,
/// and where it says so.
pub(crate) fn show(
    conditions: &mut Vec<Condition>,
    shown: Shown<'_>,
    found: &Found,
    done: Result<bool, &Breach>,
    path: &str,
    (generation, now): (i64, Timestamp),
) {
    let set =
        |conditions: &mut Vec<Condition>, finding| conditions::set(conditions, finding, generation, now);
    match found {
        Found::NotAsked => {}
        Found::Unknown(why) => {
            let finding = Finding::unknown(shown.target, reasons::INTERNAL_ERROR).saying(why.to_string());
            set(conditions, finding);
        }
        Found::Missing if shown.was_there || shown.deleting => {
            let finding = Finding::no(shown.target, reasons::OBJECT_DELETED).saying(format!(
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
            let finding = Finding::no(shown.target, reasons::OBJECT_DOES_NOT_EXIST)
                .saying(format!("{} {} does not exist", shown.kind, shown.name));
            set(conditions, finding);
        }
        Found::There(provider) => {
            let fallback = match done {
                Ok(true) => Finding::yes(shown.target, shown.well),
                Ok(false) => {
                    Finding::no(shown.target, shown.not_yet).saying(format!("{} {path} is false", shown.kind))
                }
                Err(breach) => {
                    Finding::unknown(shown.target, reasons::INTERNAL_ERROR).saying(breach.to_string())
                }
            };
            let said = match done {
                Err(_) => Provided::Missing,
                Ok(_) => conditions::provided(provider.object.document(), shown.source),
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
