//! Objects as caches keep them.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use api::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::{ApiResource, DynamicObject};
use packing::{Packed, Packer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind in one version, as URLs and objects have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindId {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural, as in URLs.
    pub plural: String,
}

impl KindId {
    /// A kind whose every part is known.
    pub fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        KindId { group: group.into(), version: version.into(), kind: kind.into(), plural: plural.into() }
    }

    /// A kind of ours.
    pub fn of<K: Kind>() -> Self {
        KindId::new(K::GROUP, K::VERSION, K::KIND, K::PLURAL)
    }

    /// Group and version in one word.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The same for the client library.
    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version: self.api_version(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }
}

impl fmt::Display for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind, self.api_version())
    }
}

/// Which object of a kind. The namespace is empty for kinds without one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Where it is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
}

impl Key {
    /// The key of an object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Key { namespace: namespace.into(), name: name.into() }
    }

    /// The key that metadata names.
    pub fn of(meta: &ObjectMeta) -> Self {
        Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// An object does not fit the type that it is to be read as.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind} {key} cannot be read: {problem}")]
pub struct Unreadable {
    /// Its kind.
    pub kind: String,
    /// Which one.
    pub key: Key,
    /// What does not fit.
    pub problem: String,
}

/// An object as it was last seen. It never changes: a newer state is another one.
///
/// Caches fold objects that nobody looks at: such a one is opened again by whoever asks it for more than [`Object::key`],
/// [`Object::uid`], [`Object::revision`] and [`Object::deleting`].
pub struct Object {
    head: Head,
    /// What it was folded into.
    folded: Option<Packed>,
    /// Boxed: most objects are folded most of the time.
    open: OnceLock<Box<Open>>,
    /// Whether it was asked for anything since the cache last looked.
    asked: AtomicBool,
}

/// What is at hand of every object.
#[derive(Clone)]
struct Head {
    key: Arc<Key>,
    /// The uid, and then the version.
    marks: Box<str>,
    uid_length: usize,
    deleting: bool,
}

/// What has been asked for of an object, each made when it is first asked for: few ask for all of it.
#[derive(Default)]
struct Open {
    meta: OnceLock<Box<ObjectMeta>>,
    document: OnceLock<Value>,
    typed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// No more of an object than its metadata.
#[derive(Deserialize)]
struct MetaOnly {
    metadata: Box<ObjectMeta>,
}

/// How many objects there are in the process, and how many are open.
static ALL: AtomicUsize = AtomicUsize::new(0);
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// So many open objects, or this part of all if that is more, are enough: caches fold without waiting those that were not asked for
/// anything lately. Twice as many are too many, and they fold the others, too: whoever needs one opens it again.
const ENOUGH: usize = 500;
const PART: usize = 32;

/// Which objects are to be folded, by how many are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    /// Those that nobody has asked for anything for a while.
    Low,
    /// Those that nobody has asked for anything lately, at once.
    High,
    /// All.
    Highest,
}

impl Pressure {
    /// Now.
    pub(crate) fn now() -> Self {
        Pressure::of(OPEN.load(Ordering::Relaxed), ALL.load(Ordering::Relaxed))
    }

    fn of(open: usize, all: usize) -> Self {
        let enough = ENOUGH.max(all / PART);
        match open {
            _ if open <= enough => Pressure::Low,
            _ if open <= enough * 2 => Pressure::High,
            _ => Pressure::Highest,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Open {
    fn new() -> Self {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Open::default()
    }
}

/// Which others an object resembles: those of its kind, of Secrets those of its type, and of about the same length.
fn group(document: &Value, length: usize) -> String {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    format!("{} {} {}", text("kind"), text("type"), length.checked_ilog2().unwrap_or_default())
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.document()["kind"].as_str().unwrap_or_default(), self.key())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        ALL.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Object {
    fn new(head: Head, folded: Option<Packed>, open: OnceLock<Box<Open>>) -> Self {
        ALL.fetch_add(1, Ordering::Relaxed);
        Object { head, folded, open, asked: true.into() }
    }

    /// An object from its document.
    ///
    /// # Errors
    /// If its metadata has no meaning.
    pub fn from_document(document: Value) -> Result<Self, serde_json::Error> {
        let meta: Box<ObjectMeta> = Deserialize::deserialize(&document["metadata"])?;
        let uid = meta.uid.as_deref().unwrap_or_default();
        let version = meta.resource_version.as_deref().unwrap_or_default();
        let head = Head {
            key: Arc::new(Key::of(&meta)),
            marks: format!("{uid}{version}").into(),
            uid_length: uid.len(),
            deleting: meta.deletion_timestamp.is_some(),
        };
        let mut open = Open::new();
        (open.meta, open.document) = (meta.into(), document.into());
        Ok(Object::new(head, None, Box::new(open).into()))
    }

    pub(crate) fn from_dynamic(
        object: DynamicObject,
        kind: &KindId,
        trim: fn(&mut Value),
    ) -> Result<Self, serde_json::Error> {
        let mut document = serde_json::to_value(object)?;
        // Lists of built-in kinds leave out what every item is.
        document["apiVersion"] = kind.api_version().into();
        document["kind"] = kind.kind.clone().into();
        trim(&mut document);
        Object::from_document(document)
    }

    /// The same in little room, if it is open and nobody has asked it for anything since this was last called, or whether anybody has does not
    /// matter any more; or in another place, if it is folded already and where it is should be cleared.
    pub(crate) fn fold(&self, packer: &Mutex<Packer>, pressure: Pressure) -> Option<Object> {
        let packer = || packer.lock().unwrap_or_else(PoisonError::into_inner);
        let packed = match (self.open.get(), &self.folded) {
            (Some(_), _) if self.asked.swap(false, Ordering::Relaxed) && pressure < Pressure::Highest => {
                return None;
            }
            (Some(_), Some(folded)) => folded.clone(),
            (Some(open), None) => {
                let document = open.document.get()?;
                let text = serde_json::to_vec(document).ok()?;
                packer().pack(&group(document, text.len()), &text)
            }
            (None, folded) => packer().moved(folded.as_ref()?)?,
        };
        let folded = Object::new(self.head.clone(), Some(packed), OnceLock::new());
        folded.asked.store(false, Ordering::Relaxed);
        Some(folded)
    }

    fn open(&self) -> &Open {
        if !self.asked.load(Ordering::Relaxed) {
            self.asked.store(true, Ordering::Relaxed);
        }
        self.open.get_or_init(|| Box::new(Open::new()))
    }

    /// Reads what it was folded into.
    fn unfold<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.folded.as_ref().map(Packed::open).unwrap_or_default())
    }

    /// Its metadata.
    pub fn meta(&self) -> &ObjectMeta {
        let made = || self.unfold::<MetaOnly>().expect("it had metadata before it was folded").metadata;
        self.open().meta.get_or_init(made)
    }

    /// The whole object.
    pub fn document(&self) -> &Value {
        self.open().document.get_or_init(|| self.unfold().expect("it was a document before it was folded"))
    }

    /// Which one it is.
    pub fn key(&self) -> Key {
        Key::clone(&self.head.key)
    }

    /// The same, shared.
    pub(crate) fn shared_key(&self) -> &Arc<Key> {
        &self.head.key
    }

    /// Takes another copy of its key for its own.
    pub(crate) fn share_key(&mut self, key: &Arc<Key>) {
        if self.head.key == *key {
            self.head.key = key.clone();
        }
    }

    /// Whether it takes the room of a whole document.
    pub(crate) fn is_open(&self) -> bool {
        self.open.get().is_some()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.head.key.name
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.head.key.namespace
    }

    /// What tells it from another one of the same name.
    pub fn uid(&self) -> &str {
        &self.head.marks[..self.head.uid_length]
    }

    /// Whether it is being deleted.
    pub fn deleting(&self) -> bool {
        self.head.deleting
    }

    /// What tells this state of it from others.
    pub fn version(&self) -> &str {
        &self.head.marks[self.head.uid_length..]
    }

    /// The revision of the store in which it was written.
    pub fn revision(&self) -> u64 {
        self.version().parse().unwrap_or_default()
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.meta().annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Its owners.
    pub fn owners(&self) -> &[OwnerReference] {
        self.meta().owner_references.as_deref().unwrap_or_default()
    }

    /// The object as a type; made once, however often it is asked for. Always ask an object for the same type.
    ///
    /// # Errors
    /// If a field has another type than `T` says.
    pub fn view<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<T>, Unreadable> {
        let open = self.open();
        if let Some(known) = open.typed.get().and_then(|known| known.clone().downcast::<T>().ok()) {
            return Ok(known);
        }
        let unreadable = |problem: serde_json::Error| Unreadable {
            kind: self.document()["kind"].as_str().unwrap_or_default().into(),
            key: self.key(),
            problem: problem.to_string(),
        };
        // A whole document is many times what is in it: none is made for this.
        let value = match open.document.get() {
            Some(document) => T::deserialize(document),
            None => self.unfold(),
        };
        let value = Arc::new(value.map_err(unreadable)?);
        let _ = open.typed.set(value.clone());
        Ok(value)
    }
}

pub(crate) fn revision(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// What caches do not keep of objects: who wrote which field, but for the metadata that `managers` wrote.
pub(crate) fn trim(document: &mut Value) {
    let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(Value::Array(fields)) = metadata.remove("managedFields") else { return };
    let kept: Vec<Value> = fields.into_iter().filter_map(own_metadata).collect();
    if !kept.is_empty() {
        metadata.insert("managedFields".into(), kept.into());
    }
}

/// The prefix of the field managers under which controllers propagate metadata. Upstream's names, so that what it
/// propagated is taken over.
const MANAGERS: &str = "capi-";

fn own_metadata(entry: Value) -> Option<Value> {
    let ours = entry["manager"].as_str()?.starts_with(MANAGERS) && entry.get("subresource").is_none();
    let fields = entry.pointer("/fieldsV1/f:metadata").filter(|_| ours)?;
    let mut kept = serde_json::Map::new();
    for part in ["f:labels", "f:annotations"] {
        if let Some(keys) = fields.get(part) {
            kept.insert(part.into(), keys.clone());
        }
    }
    let manager = entry["manager"].clone();
    Some(serde_json::json!({"manager": manager, "fieldsV1": {"f:metadata": kept}}))
}

/// The labels or annotations that a manager wrote.
pub fn written_by<'a>(document: &'a Value, manager: &str, part: &str) -> Vec<&'a str> {
    let entries = document.pointer("/metadata/managedFields").and_then(Value::as_array);
    let ours = entries.into_iter().flatten().filter(|entry| entry["manager"] == manager);
    let keys = ours.filter_map(|entry| entry["fieldsV1"]["f:metadata"][part].as_object());
    keys.flat_map(|keys| keys.keys()).filter_map(|key| key.strip_prefix("f:")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn documents() -> impl Strategy<Value = Value> {
        let leaves = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaves.prop_recursive(4, 32, 5, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from);
            let map = prop::collection::btree_map(".*", inner, 0..5);
            prop_oneof![list, map.prop_map(|map| Value::Object(map.into_iter().collect()))]
        })
    }

    proptest! {
        #[test]
        fn folding_loses_nothing(spec in prop::collection::vec(documents(), 1..6)) {
            let packer = Mutex::new(Packer::new());
            for spec in spec {
                let document = json!({"metadata": {"name": "x"}, "spec": spec});
                let object = Object::from_document(document.clone()).unwrap();
                prop_assert!(object.fold(&packer, Pressure::Low).is_none(), "it was just made");
                let folded = object.fold(&packer, Pressure::Low).unwrap();
                prop_assert!(!folded.is_open());
                prop_assert_eq!(folded.document(), &document);
            }
        }
    }

    #[test]
    fn the_pressure_grows_with_what_is_open() {
        use Pressure::{High, Highest, Low};
        for (open, all, pressure) in [
            (500, 500, Low),
            (501, 600, High),
            (1000, 10_000, High),
            (1001, 10_000, Highest),
            (1001, 170_000, Low),
            (10_000, 170_000, High),
            (11_000, 170_000, Highest),
        ] {
            assert_eq!(Pressure::of(open, all), pressure, "{open} of {all}");
        }
    }

    #[test]
    fn where_far_too_many_are_open_it_does_not_matter_who_is_asked() {
        let (packer, document) = (Mutex::new(Packer::new()), json!({"metadata": {"name": "x", "uid": "u"}}));
        let object = Object::from_document(document.clone()).unwrap();
        assert!(object.fold(&packer, Pressure::High).is_none(), "it was just made");
        object.document();
        let folded = object.fold(&packer, Pressure::Highest).unwrap();
        assert!(!folded.is_open());
        assert_eq!((folded.uid(), folded.version(), folded.document()), ("u", "", &document));
    }

    #[test]
    fn only_our_own_marks_are_kept() {
        let mut document = json!({"metadata": {"managedFields": [
            {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:labels": {"f:theirs": {}}}}},
            {"manager": "capi-machineset", "operation": "Apply", "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:ours": {}}, "f:finalizers": {}}, "f:spec": {"f:version": {}}
            }},
            {"manager": "capi-machineset", "subresource": "status", "fieldsV1": {"f:status": {}}}
        ]}});
        trim(&mut document);
        assert_eq!(written_by(&document, "capi-machineset", "f:labels"), ["ours"]);
        assert!(written_by(&document, "capi-machineset", "f:annotations").is_empty());
        assert_eq!(document["metadata"]["managedFields"].as_array().unwrap().len(), 1);
        let mut plain = json!({"metadata": {"name": "x", "managedFields": []}});
        trim(&mut plain);
        assert_eq!(plain, json!({"metadata": {"name": "x"}}));
    }
}
