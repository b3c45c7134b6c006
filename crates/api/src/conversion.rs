//! Conversion between the versions of `cluster.x-k8s.io` and `ipam.cluster.x-k8s.io`.
//!
//! v1beta2 is the hub: it is stored, and every other version is converted to and from it. What differs between two
//! versions of a kind is a table of rules, each good for both directions (`conversion/tables.rs`); types at both ends
//! normalise what goes in and check what comes out.
//!
//! What an older version cannot express travels in the annotation `cluster.x-k8s.io/conversion-data`, and only
//! objects that need it carry it. See `docs/adr/0005-conversion-by-difference.md`, and `docs/conversion.md` for what
//! v1beta1 -> v1beta2 -> v1beta1 normalises.

mod path;
mod rule;
mod tables;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::Kind;
use crate::catalogue::annotations;
use crate::overlay::{self, Removal};
use rule::Rule;

/// Where a hub object is kept while it is in the shape of an older version. The name and format are upstream's.
pub const DATA_ANNOTATION: &str = annotations::CONVERSION_DATA;

/// The version that everything is converted through.
const HUB: &str = "v1beta2";

/// Finds the API version of a provider's kind. The contract labels on its CRD tell.
pub trait ApiVersions {
    /// The `apiVersion` (group and version) of `kind` in `group`.
    ///
    /// # Errors
    /// A sentence that says what is missing: the CRD, or its label.
    fn api_version(&self, group: &str, kind: &str) -> Result<String, String>;
}

/// Why an object cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a kind and version that can be converted.
    #[error("{kind} cannot be converted from {from} to {to}")]
    Unknown {
        /// The object's kind.
        kind: String,
        /// The object's apiVersion.
        from: String,
        /// The apiVersion asked for.
        to: String,
    },
    /// The object does not fit its own version.
    #[error("the object is not a {kind} of {api_version}: {problem}")]
    Shape {
        /// The object's kind.
        kind: String,
        /// The version that it should fit.
        api_version: String,
        /// What does not fit.
        problem: serde_json::Error,
    },
    /// A reference to another object cannot be written in the other version.
    #[error("{path}: {problem}")]
    Reference {
        /// The reference's field.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The annotation that carries the hub object does not hold one.
    #[error("metadata.annotations[{DATA_ANNOTATION}] is not what a conversion wrote, remove it: {0}")]
    Annotation(serde_json::Error),
}

impl Error {
    /// The same error, found in the object that the annotation holds.
    fn in_annotation(self) -> Self {
        match self {
            Error::Shape { problem, .. } => Error::Annotation(problem),
            other => other,
        }
    }

    /// The same error, with the path of what surrounds the place where it was found.
    fn inside(self, outer: &str) -> Self {
        match self {
            Error::Reference { path, problem } => {
                Error::Reference { path: format!("{outer}.{path}"), problem }
            }
            other => other,
        }
    }
}

/// Converts an object to another version of its group.
///
/// # Guarantees
/// - v1beta2 to an older version and back gives the same object, also if the older version cannot express it.
/// - What a client of the older version changed on the way is changed in the result, and nothing else is.
/// - Metadata is left alone, but for [`DATA_ANNOTATION`] and, for v1alpha1 claims, the cluster name's label.
///
/// # Errors
/// See [`Error`]; the object is not changed in part.
pub fn convert(object: Value, to: &str, versions: &dyn ApiVersions) -> Result<Value, Error> {
    let from = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    if from == to {
        return Ok(object);
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let unknown = || Error::Unknown { kind: kind.clone(), from: from.clone(), to: to.into() };
    let (group, from_version) = from.split_once('/').ok_or_else(unknown)?;
    let (to_group, to_version) = to.split_once('/').ok_or_else(unknown)?;
    if group != to_group {
        return Err(unknown());
    }
    let find = |version: &str| tables::find(group, version, &kind).ok_or_else(unknown);
    let hub = match from_version {
        HUB => object,
        _ => find(from_version)?.restore_hub(object)?,
    };
    match to_version {
        HUB => Ok(hub),
        _ => find(to_version)?.down_with_data(hub, versions),
    }
}

/// How one older version of a kind relates to the hub.
struct Converter {
    group: &'static str,
    kind: &'static str,
    version: &'static str,
    rules: &'static [Rule],
    /// Reads and writes a document by the older version's type.
    old_shape: fn(Value) -> Result<Value, serde_json::Error>,
    /// Reads and writes a document by the hub's type.
    hub_shape: fn(Value) -> Result<Value, serde_json::Error>,
}

impl Converter {
    /// The converter between two versions of a kind, whose differences are `rules`.
    fn between<Old, Hub>(rules: &'static [Rule]) -> Self
    where
        Old: Kind + Serialize + DeserializeOwned,
        Hub: Kind + Serialize + DeserializeOwned,
    {
        Converter {
            group: Old::GROUP,
            kind: Old::KIND,
            version: Old::VERSION,
            rules,
            old_shape: through::<Old>,
            hub_shape: through::<Hub>,
        }
    }

    /// The hub object that an older object stands for.
    fn restore_hub(&self, mut old: Value) -> Result<Value, Error> {
        let Some(data) = take_annotation(&mut old) else { return self.up(old) };
        let stored: Map<String, Value> = serde_json::from_str(&data).map_err(Error::Annotation)?;
        let mut stored = Value::Object(stored);
        stored["metadata"] = old["metadata"].clone();
        stored["kind"] = self.kind.into();
        self.labelled(&mut stored, HUB);
        let unchanged = self.down(stored.clone(), &AnyVersion).and_then(|old| self.up(old));
        let unchanged = unchanged.map_err(Error::in_annotation)?;
        let given = self.up(old)?;
        let mut hub = overlay::carry(&stored, &unchanged, &given, Removal::OfTheWhole);
        hub["metadata"] = given["metadata"].clone();
        Ok(hub)
    }

    /// The older object for a hub object, with the hub object inside if it cannot be told from the older one.
    fn down_with_data(&self, hub: Value, versions: &dyn ApiVersions) -> Result<Value, Error> {
        let hub = self.shaped(self.hub_shape, HUB, hub)?;
        let mut old = self.down(hub.clone(), versions)?;
        if self.up(old.clone())? != hub {
            put_annotation(&mut old, data_of(hub));
        }
        Ok(old)
    }

    fn up(&self, old: Value) -> Result<Value, Error> {
        let mut document = self.shaped(self.old_shape, self.version, old)?;
        for rule in self.rules {
            rule.up(&mut document)?;
        }
        self.labelled(&mut document, HUB);
        self.shaped(self.hub_shape, HUB, document)
    }

    fn down(&self, hub: Value, versions: &dyn ApiVersions) -> Result<Value, Error> {
        let mut document = self.shaped(self.hub_shape, HUB, hub)?;
        let namespace = document["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        for rule in self.rules.iter().rev() {
            rule.down(&mut document, &rule::Down { namespace: &namespace, versions })?;
        }
        self.labelled(&mut document, self.version);
        self.shaped(self.old_shape, self.version, document)
    }

    fn labelled(&self, document: &mut Value, version: &str) {
        document["apiVersion"] = format!("{}/{version}", self.group).into();
    }

    /// Passes a document through its type. Metadata is the API server's: it comes back as it was.
    fn shaped(
        &self,
        shape: fn(Value) -> Result<Value, serde_json::Error>,
        version: &str,
        mut document: Value,
    ) -> Result<Value, Error> {
        let metadata = document["metadata"].take();
        document["metadata"] = Value::Object(Map::new());
        let mut shaped = shape(document).map_err(|problem| Error::Shape {
            kind: self.kind.into(),
            api_version: format!("{}/{version}", self.group),
            problem,
        })?;
        shaped["metadata"] = metadata;
        Ok(shaped)
    }
}

/// Reads a document as `K` and writes it again: empty values go, wrong ones are an error.
fn through<K: Serialize + DeserializeOwned>(document: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(K::deserialize(document)?)
}

/// For a conversion that only [`Converter::restore_hub`] looks at: a version is not part of the hub's references.
struct AnyVersion;

impl ApiVersions for AnyVersion {
    fn api_version(&self, group: &str, _: &str) -> Result<String, String> {
        Ok(format!("{group}/v0"))
    }
}

fn take_annotation(object: &mut Value) -> Option<String> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let data = annotations.remove(DATA_ANNOTATION)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    data.as_str().map(str::to_owned)
}

fn put_annotation(object: &mut Value, data: String) {
    object["metadata"]["annotations"][DATA_ANNOTATION] = data.into();
}

/// What upstream stores, too: everything but the metadata.
fn data_of(mut hub: Value) -> String {
    if let Some(hub) = hub.as_object_mut() {
        hub.remove("metadata");
    }
    hub.to_string()
}
