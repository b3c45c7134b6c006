//! Everything else that is checked at the door.

use ::provisioning::Object;
use ::provisioning::admission::{
    Operation, agent_change, creator_of, driver_checksum, driver_in_use, is_agent_of, plan_secret,
};
use api::catalogue::annotations;
use api::catalogue::secrets::{keys, types};
use api::machine::{self, Driver};
use kube::Api;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kubeapi::{FieldError, Path};
use serde_json::{Value, json};

use super::{Answer, Door, Write, refused, unknown};

/// Notes who made an object, unless somebody says otherwise.
pub(super) fn note_creator(write: Write<'_>, object: &mut Value) {
    if write.operation != Operation::Create {
        return;
    }
    let marks = &object["metadata"]["annotations"];
    let said = [annotations::CREATOR_ID, annotations::NO_CREATOR_RBAC];
    if said.iter().all(|key| marks.get(*key).is_none()) {
        if !marks.is_object() {
            object["metadata"]["annotations"] = json!({});
        }
        object["metadata"]["annotations"][annotations::CREATOR_ID] = json!(write.asker.name);
    }
}

/// Who made an object is said once and stays said.
pub(super) fn creator(write: Write<'_>, object: &Value) -> Answer {
    let old = write.old.map(|old| Object::from_document(old.clone()));
    let user = Some(write.asker.name.as_str()).filter(|_| !write.asker.is_master());
    let errors = creator_of(old.as_ref(), &Object::from_document(object.clone()), user);
    match errors.is_empty() {
        true => Ok(Vec::new()),
        false => Err(refused(&write, 422, &errors)),
    }
}

pub(super) fn is_credential(secret: &Value) -> bool {
    secret["type"] == types::CLOUD_CREDENTIAL
}

/// Plans have to be plans, credentials keep their maker, and agents change their own report.
pub(super) fn secret(write: Write<'_>, secret: &Value) -> Answer {
    if is_agent_of(&write.asker.name, write.namespace, write.name) {
        return report(write, secret);
    }
    if is_credential(secret) {
        return creator(write, secret);
    }
    let plan = &secret["data"][keys::PLAN];
    // Agents write to plan Secrets all the time, and never the plan.
    let unchanged = write.old.is_some_and(|old| old["data"][keys::PLAN] == *plan);
    if secret["type"] != types::MACHINE_PLAN || unchanged {
        return Ok(Vec::new());
    }
    let plan: Option<k8s_openapi::ByteString> = serde_json::from_value(plan.clone()).ok();
    match plan_secret(plan.as_ref().map(|plan| plan.0.as_slice())) {
        Ok(()) => Ok(Vec::new()),
        Err(error) => Err(refused(&write, 422, &[error])),
    }
}

/// A write by the account of the plan Secret's own agent.
fn report(write: Write<'_>, secret: &Value) -> Answer {
    let old = write.old.filter(|_| write.operation == Operation::Update);
    let errors = match old.map(|old| Object::from_document(old.clone())) {
        Some(old) => agent_change(&old, &Object::from_document(secret.clone())),
        None => vec![FieldError::forbidden(
            &Path::new("metadata").child("name"),
            "a node's agent makes no plan Secret",
        )],
    };
    match errors.is_empty() {
        true => Ok(Vec::new()),
        false => Err(refused(&write, 403, &errors)),
    }
}

/// A driver that is downloaded has a checksum, and one that machines need stays on.
pub(super) async fn driver(door: &Door, write: Write<'_>, object: Option<&Value>) -> Answer {
    if let Some(error) = object.and_then(|object| driver_checksum(write.old, object)) {
        return Err(refused(&write, 422, &[error]));
    }
    let was = write.old.is_some_and(|old| old["spec"]["active"] == true);
    let stays = object.is_some_and(|object| object["spec"]["active"] == true);
    if write.operation == Operation::Create || !was || stays {
        return Ok(Vec::new());
    }
    let shown = write.old.and_then(|old| old["spec"]["displayName"].as_str());
    let names = shown.into_iter().chain([write.name]).filter(|name| !name.is_empty());
    for name in names {
        let Some(driver) = Driver::named(name) else { continue };
        let resource = driver.machine_resource();
        let machines: Api<DynamicObject> = Api::all_with(door.client()?.clone(), &resource);
        let found = match machines.list(&ListParams::default()).await {
            Ok(list) => list.items,
            // No kind, no machines.
            Err(error) if kit::write::code(&error) == Some(404) => continue,
            Err(error) => return Err(unknown("the driver's machines", &error)),
        };
        let found: Vec<Object> = found.iter().map(|one| machine_document(one, &driver)).collect();
        if let Some(mut error) = driver_in_use(&driver.name(), &found) {
            if door.anybody_asks {
                error.detail = "machines use it".into();
            }
            let detail = format!("{}: delete those clusters or pools first", error.detail);
            return Err(refused(&write, 422, &[FieldError { detail, ..error }]));
        }
    }
    Ok(Vec::new())
}

/// Lists leave out what every item is.
fn machine_document(machine: &DynamicObject, driver: &Driver) -> Object {
    let mut document = serde_json::to_value(machine).unwrap_or_default();
    document["apiVersion"] = json!(format!("{}/{}", machine::GROUP, machine::VERSION));
    document["kind"] = json!(driver.machine_kind());
    Object::from_document(document)
}
