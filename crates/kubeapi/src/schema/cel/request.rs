//! What expressions about a request see of it, and of its namespace.

use super::check::Form::{self, Any, Bool, List, Map, Plain, Struct, Text};

const KIND: Form = Struct(&[("group", Text), ("version", Text), ("kind", Text)]);
const RESOURCE: Form = Struct(&[("group", Text), ("version", Text), ("resource", Text)]);
const USER: Form =
    Struct(&[("username", Text), ("uid", Text), ("groups", List(&Text)), ("extra", Map(&List(&Text)))]);

/// `request`: an AdmissionRequest without its UID and objects.
pub(super) const REQUEST: Form = Struct(&[
    ("kind", KIND),
    ("resource", RESOURCE),
    ("subResource", Text),
    ("requestKind", KIND),
    ("requestResource", RESOURCE),
    ("requestSubResource", Text),
    ("name", Text),
    ("namespace", Text),
    ("operation", Text),
    ("userInfo", USER),
    ("dryRun", Bool),
    ("options", Any),
]);

const METADATA: Form = Struct(&[
    ("name", Text),
    ("generateName", Text),
    ("namespace", Text),
    ("labels", Map(&Text)),
    ("annotations", Map(&Text)),
    ("UID", Text),
    ("creationTimestamp", Plain),
    ("deletionGracePeriodSeconds", Plain),
    ("deletionTimestamp", Plain),
    ("generation", Plain),
    ("resourceVersion", Text),
    ("finalizers", List(&Text)),
]);

const CONDITION: Form = Struct(&[
    ("status", Text),
    ("type", Text),
    ("lastTransitionTime", Plain),
    ("message", Text),
    ("reason", Text),
]);

/// `namespaceObject`: a Namespace without owners and managed fields.
pub(super) const NAMESPACE: Form = Struct(&[
    ("metadata", METADATA),
    ("spec", Struct(&[("finalizers", List(&Text))])),
    ("status", Struct(&[("conditions", List(&CONDITION)), ("phase", Text)])),
]);
