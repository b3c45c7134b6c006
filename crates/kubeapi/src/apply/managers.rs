//! `metadata.managedFields`: who owns which fields.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::set::Set;

/// How many entries of updates an object keeps; the oldest beyond that are put together.
const MOST_UPDATERS: usize = 10;
/// Who owns what the oldest updates set.
const ANCIENT: &str = "ancient-changes";

/// What an owner did to get its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It applied a configuration.
    Apply,
    /// Anything else.
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Who owns fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// What it calls itself.
    pub manager: String,
    /// How it came to own.
    pub operation: Operation,
    /// The version it wrote in; empty for who applies, which is one owner whatever the version.
    pub version: String,
    /// The subresource it wrote to.
    pub subresource: String,
}

/// What an owner owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The version that the paths are of.
    pub version: String,
    /// The paths.
    pub fields: Set,
    /// When that last changed.
    pub time: Option<String>,
}

/// All owners of an object's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(pub BTreeMap<Owner, Owned>);

impl Managers {
    /// Reads `managedFields`.
    ///
    /// # Errors
    /// What is wrong with an entry.
    pub fn decode(entries: &Value) -> Result<Self, String> {
        let mut managers = BTreeMap::new();
        for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let operation = match entry["operation"].as_str() {
                Some("Apply") => Operation::Apply,
                Some("Update") => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".into()),
            };
            let version = text("apiVersion");
            if version.is_empty() {
                return Err("apiVersion must not be empty".into());
            }
            match entry["fieldsType"].as_str().unwrap_or_default() {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
            }
            let fields = match &entry["fieldsV1"] {
                Value::Null => Set::default(),
                fields => Set::from_json(fields).ok_or("error decoding set: fieldsV1 is malformed")?,
            };
            let owner = Owner {
                manager: text("manager"),
                operation,
                version: if operation == Operation::Apply { String::new() } else { version.clone() },
                subresource: text("subresource"),
            };
            let time = entry["time"].as_str().map(str::to_owned);
            managers.insert(owner, Owned { version, fields, time });
        }
        Ok(Managers(managers))
    }

    /// Writes `managedFields`; null if there are none.
    pub fn encode(&self) -> Value {
        if self.0.is_empty() {
            return Value::Null;
        }
        let mut entries: Vec<_> = self.0.iter().collect();
        entries.sort_by_key(|(owner, owned)| {
            let time = seconds(owned);
            (owner.operation, time, owner.manager.clone(), owned.version.clone(), owner.subresource.clone())
        });
        entries.into_iter().map(|(owner, owned)| entry(owner, owned)).collect()
    }

    /// Puts the oldest entries of updates together if there are too many.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<Owner> =
            self.0.keys().filter(|owner| owner.operation == Operation::Update).cloned().collect();
        let mut count = updaters.len();
        updaters.sort_by_key(|owner| (self.0.get(owner).map(seconds), owner.clone()));
        let mut first_of_version: BTreeMap<String, Owner> = BTreeMap::new();
        for owner in updaters {
            if count <= MOST_UPDATERS {
                return;
            }
            let Some(owned) = self.0.get(&owner).cloned() else { continue };
            let Some(first) = first_of_version.get(&owned.version) else {
                first_of_version.insert(owned.version.clone(), owner);
                continue;
            };
            let bucket = Owner {
                manager: ANCIENT.into(),
                operation: Operation::Update,
                version: owned.version.clone(),
                subresource: String::new(),
            };
            let before = self.0.remove(&bucket).or_else(|| self.0.remove(first));
            let fields = before.map(|before| before.fields.union(&owned.fields));
            self.0.remove(&owner);
            self.0.insert(bucket, Owned { fields: fields.unwrap_or(owned.fields.clone()), ..owned });
            count -= 1;
        }
    }
}

fn seconds(owned: &Owned) -> i64 {
    owned.time.as_ref().and_then(|time| time.parse::<Timestamp>().ok()).map_or(0, Timestamp::as_second)
}

fn entry(owner: &Owner, owned: &Owned) -> Value {
    let mut entry = json!({
        "manager": owner.manager, "operation": owner.operation.as_str(), "apiVersion": owned.version,
        "fieldsType": "FieldsV1", "fieldsV1": owned.fields.to_json(),
    });
    if owner.manager.is_empty()
        && let Some(fields) = entry.as_object_mut()
    {
        fields.remove("manager");
    }
    if let Some(time) = &owned.time {
        entry["time"] = json!(time);
    }
    if !owner.subresource.is_empty() {
        entry["subresource"] = json!(owner.subresource);
    }
    entry
}
