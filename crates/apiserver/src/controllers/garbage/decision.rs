//! What becomes of one object.

use kubeapi::meta::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use kubeapi::request::Propagation;

use super::super::metadata::{Metadata, OwnerReference};

/// What there is at the place that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The owner.
    Solid,
    /// The owner, which is going and waits for its dependents to go first.
    Waiting,
    /// Nothing, or another object of that name.
    Absent,
    /// There is no such kind.
    UnknownKind,
    /// The kind is in namespaces, the dependent is not: there is no telling which one is meant.
    OutOfReach,
}

/// What is known of an object's own dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dependents {
    /// There are some.
    pub(super) any: bool,
    /// Some have to go before it.
    pub(super) blocking: bool,
    /// Some wait for their own dependents.
    pub(super) waiting: bool,
}

/// What is to be done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing.
    Keep,
    /// Nothing before the kind of an owner exists.
    AwaitKind,
    /// Nothing; but somebody should be told about this reference.
    Complain(OwnerReference),
    /// Its dependents lose their references to it, then it goes.
    Orphan,
    /// Nothing holds it any more: this finalizer goes.
    Release(&'static str),
    /// The references to these owners go.
    Disown(Vec<String>),
    /// Its references stop blocking, for else it and its owner might wait for one another. Then decide again.
    Unblock,
    /// It goes.
    Delete(Propagation),
}

/// Decides. `owner` looks up what a reference names.
pub(super) fn decide(
    object: &Metadata,
    dependents: Dependents,
    owner: impl Fn(&OwnerReference) -> Owner,
) -> Decision {
    if object.orphans_dependents() {
        return Decision::Orphan;
    }
    if object.waits_for_dependents() {
        return match dependents.blocking {
            true => Decision::Keep,
            false => Decision::Release(FOREGROUND_FINALIZER),
        };
    }
    if object.is_being_deleted() || object.owners.is_empty() {
        return Decision::Keep;
    }
    let (mut solid, mut waiting, mut lost) = (false, false, Vec::new());
    for reference in &object.owners {
        match owner(reference) {
            Owner::UnknownKind => return Decision::AwaitKind,
            Owner::OutOfReach => return Decision::Complain(reference.clone()),
            Owner::Solid => solid = true,
            Owner::Waiting => {
                waiting = true;
                lost.push(reference.uid.clone());
            }
            Owner::Absent => lost.push(reference.uid.clone()),
        }
    }
    match solid {
        true if lost.is_empty() => Decision::Keep,
        true => Decision::Disown(lost),
        false if waiting && dependents.any => {
            let blocks = object.owners.iter().any(|owner| owner.blocks);
            match dependents.waiting && blocks {
                true => Decision::Unblock,
                false => Decision::Delete(Propagation::Foreground),
            }
        }
        false => Decision::Delete(own_wish(object)),
    }
}

/// What the object's finalizers ask for.
fn own_wish(object: &Metadata) -> Propagation {
    if object.has_finalizer(ORPHAN_FINALIZER) {
        Propagation::Orphan
    } else if object.has_finalizer(FOREGROUND_FINALIZER) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NONE: Dependents = Dependents { any: false, blocking: false, waiting: false };
    const SOME: Dependents = Dependents { any: true, blocking: false, waiting: false };
    const BLOCKING: Dependents = Dependents { any: true, blocking: true, waiting: false };
    const CIRCLE: Dependents = Dependents { any: true, blocking: true, waiting: true };

    /// What a reference finds is told by its UID.
    fn found(reference: &OwnerReference) -> Owner {
        match &reference.uid[..1] {
            "s" => Owner::Solid,
            "w" => Owner::Waiting,
            "a" => Owner::Absent,
            "u" => Owner::UnknownKind,
            _ => Owner::OutOfReach,
        }
    }

    fn object(owners: &[&str], more: Value) -> Metadata {
        let refs: Vec<Value> =
            owners.iter().map(|uid| json!({"uid": uid, "blockOwnerDeletion": uid.ends_with('!')})).collect();
        let mut metadata = json!({"uid": "x", "ownerReferences": refs});
        for (field, value) in more.as_object().into_iter().flatten() {
            metadata[field] = value.clone();
        }
        Metadata::from_json(metadata)
    }

    #[test]
    fn decisions() {
        use Propagation::{Background, Foreground, Orphan};
        let disown = |uids: &[&str]| Decision::Disown(uids.iter().map(|uid| (*uid).to_owned()).collect());
        let plain = || json!({});
        let going = || json!({"deletionTimestamp": "t"});
        let with = |finalizer: &str| json!({"finalizers": [finalizer]});
        let going_with = |finalizer: &str| json!({"deletionTimestamp": "t", "finalizers": [finalizer]});
        let cases: Vec<(&str, &[&str], Value, Dependents, Decision)> = vec![
            ("no owners", &[], plain(), SOME, Decision::Keep),
            ("one that is there", &["s"], plain(), NONE, Decision::Keep),
            ("one that is not", &["a"], plain(), NONE, Decision::Delete(Background)),
            ("one is, one is not", &["a1", "s", "a2"], plain(), NONE, disown(&["a1", "a2"])),
            ("one is, one waits", &["s", "w", "a"], plain(), NONE, disown(&["w", "a"])),
            ("one waits", &["w!"], plain(), NONE, Decision::Delete(Background)),
            ("one waits, there are more", &["w!"], plain(), BLOCKING, Decision::Delete(Foreground)),
            ("in a circle", &["w!"], plain(), CIRCLE, Decision::Unblock),
            ("in a circle that does not block", &["w"], plain(), CIRCLE, Decision::Delete(Foreground)),
            ("absent, and there are more", &["a"], plain(), CIRCLE, Decision::Delete(Background)),
            ("wants to orphan", &["a"], with("orphan"), SOME, Decision::Delete(Orphan)),
            ("wants to wait", &["a"], with("foregroundDeletion"), SOME, Decision::Delete(Foreground)),
            ("a kind that is not there", &["a", "u", "s"], plain(), NONE, Decision::AwaitKind),
            ("goes already", &["a"], going(), NONE, Decision::Keep),
            ("goes, held by another", &["a"], going_with("x/y"), NONE, Decision::Keep),
            ("orphans", &["a"], going_with("orphan"), SOME, Decision::Orphan),
            ("waits", &["a"], going_with("foregroundDeletion"), BLOCKING, Decision::Keep),
            (
                "has waited",
                &["a"],
                going_with("foregroundDeletion"),
                SOME,
                Decision::Release("foregroundDeletion"),
            ),
        ];
        for (case, owners, more, dependents, wanted) in cases {
            assert_eq!(decide(&object(owners, more), dependents, found), wanted, "{case}");
        }
        let reached = decide(&object(&["s", "o"], plain()), NONE, found);
        assert!(matches!(reached, Decision::Complain(owner) if owner.uid == "o"));
    }
}
