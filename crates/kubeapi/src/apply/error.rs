use super::element::display;
use super::managers::Operation;
use super::ownership::Conflict;
use crate::Status;
use crate::status::{Cause, Details};

/// Why a configuration was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Others own what it would change.
    Conflicts(Vec<Conflict>),
    /// The configuration does not fit the schema, or cannot be applied at all.
    Config(String),
    /// The object's own managed fields cannot be read.
    ManagedFields(String),
    /// An object could not be had in a version that is needed.
    Conversion(String),
    /// The request is wrong.
    Request(String),
}

impl Error {
    /// As it is answered.
    pub fn status(&self) -> Status {
        match self {
            Error::Conflicts(conflicts) => conflict_status(conflicts),
            Error::Request(why) => Status::bad_request(why.clone()),
            Error::Config(why) | Error::Conversion(why) => plain(why.clone()),
            Error::ManagedFields(why) => plain(format!("failed to decode managed fields: {why}")),
        }
    }
}

/// Upstream gives these without a reason.
fn plain(message: String) -> Status {
    Status { message, reason: String::new(), details: None, ..Status::internal("") }
}

fn conflict_status(conflicts: &[Conflict]) -> Status {
    let causes: Vec<Cause> = conflicts
        .iter()
        .map(|conflict| Cause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {}", describe(conflict)),
            field: display(&conflict.path),
        })
        .collect();
    let message = match causes.as_slice() {
        [one] => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        many => format!("Apply failed with {} conflicts: {}", many.len(), by_owner(conflicts)),
    };
    let details = Details { causes, ..Details::default() };
    Status { message, reason: "Conflict".into(), code: 409, details: Some(details), ..Status::internal("") }
}

/// `"kubectl" with subresource "status" using v1`
fn describe(conflict: &Conflict) -> String {
    let mut text = format!("{:?}", conflict.owner.manager);
    if !conflict.owner.subresource.is_empty() {
        text += &format!(" with subresource {:?}", conflict.owner.subresource);
    }
    if conflict.owner.operation == Operation::Update {
        text += &format!(" using {}", conflict.version);
    }
    text
}

/// What upstream sorts owners by: their entries as JSON.
fn identifier(conflict: &Conflict) -> String {
    let owner = &conflict.owner;
    let mut fields = vec![format!("\"manager\":{:?}", owner.manager)];
    match owner.operation {
        Operation::Apply => fields.push("\"operation\":\"Apply\"".into()),
        Operation::Update => {
            fields.push(format!("\"operation\":\"Update\",\"apiVersion\":{:?}", conflict.version));
        }
    }
    if !owner.subresource.is_empty() {
        fields.push(format!("\"subresource\":{:?}", owner.subresource));
    }
    format!("{{{}}}", fields.join(","))
}

/// A paragraph for each owner.
fn by_owner(conflicts: &[Conflict]) -> String {
    let mut lines = Vec::new();
    let mut last = None;
    let mut sorted: Vec<&Conflict> = conflicts.iter().collect();
    sorted.sort_by_cached_key(|conflict| identifier(conflict));
    for conflict in sorted {
        if last != Some(&conflict.owner) {
            lines.push(format!("conflicts with {}:", describe(conflict)));
            last = Some(&conflict.owner);
        }
        lines.push(format!("- {}", display(&conflict.path)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{Element, Owner};

    #[test]
    fn owners_come_in_the_order_of_their_entries() {
        let conflict = |manager: &str, operation: Operation, subresource: &str| Conflict {
            owner: Owner {
                manager: manager.into(),
                operation,
                version: String::new(),
                subresource: subresource.into(),
            },
            version: "v1".into(),
            path: vec![Element::field("a")],
        };
        let (apply, update) = (Operation::Apply, Operation::Update);
        let conflicts = [
            conflict("b", update, ""),
            conflict("b", apply, ""),
            conflict("b", apply, "status"),
            conflict("b c", update, ""),
            conflict("a", update, ""),
        ];
        let message = conflict_status(&conflicts).message;
        assert_eq!(
            message,
            "Apply failed with 5 conflicts: conflicts with \"a\" using v1:\n- .a\nconflicts with \"b c\" using v1:\n- .a\nconflicts with \"b\" with subresource \"status\":\n- .a\nconflicts with \"b\":\n- .a\nconflicts with \"b\" using v1:\n- .a"
        );
    }
}
