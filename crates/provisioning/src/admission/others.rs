//! Other objects that are checked at the door.

use std::collections::BTreeMap;

use api::catalogue::secrets::keys;
use kubeapi::{FieldError, Path};

use super::name::creator_errors;
use crate::Object;

/// What is wrong with the note of who made a machine config or a cloud credential: it is the user who makes it, and stays. Without a
/// user, somebody writes who may note anybody.
pub fn creator_of(old: Option<&Object>, new: &Object, user: Option<&str>) -> Vec<FieldError> {
    let marks = |object: &Object| -> BTreeMap<String, String> {
        serde_json::from_value(object.document()["metadata"]["annotations"].clone()).unwrap_or_default()
    };
    let old = old.map(marks);
    creator_errors(old.as_ref().map(Some), Some(&marks(new)), user)
}

/// A plan in a plan Secret has to be one: the agent would refuse it, and nobody would see why.
///
/// # Errors
/// If there is a plan and it is none.
pub fn plan_secret(plan: Option<&[u8]>) -> Result<(), FieldError> {
    let Some(bytes) = plan.filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
    match plan::Document::parse(bytes.to_vec()) {
        Ok(_) => Ok(()),
        Err(error) => {
            let path = Path::new("data").key(keys::PLAN);
            Err(FieldError::invalid(&path, "(plan)", format!("must be the JSON of a plan: {error}")))
        }
    }
}

/// A driver that machines still need can neither be switched off nor deleted.
pub fn driver_in_use(driver: &str, machines: &[Object]) -> Option<FieldError> {
    let mut users = machines.iter().filter(|machine| {
        let kind = api::machine::Driver::of_machine_kind(machine.kind());
        kind.is_some_and(|one| one.name() == driver)
    });
    let first = users.next()?;
    let why = match users.count() {
        0 => format!("{} uses it", first.id()),
        more => format!("{} and {more} more machines use it", first.id()),
    };
    Some(FieldError::forbidden(&Path::new("spec").child("active"), why))
}
