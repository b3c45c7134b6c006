//! The structure of the built-in kinds, out of `data/builtin-types.json` (whose format `data/generate.py` describes).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::GroupVersionKind;

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A value of a type with this name.
    Ref(String),
    /// A list of these.
    List(Box<Shape>),
    /// A map from texts to these.
    Map(Box<Shape>),
    /// A value without parts.
    Scalar(Scalar),
}

/// A value without parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A text, with its format: `byte`, `date-time`, `quantity`, or none.
    Text(Option<String>),
    /// A whole number: `int32` or `int64`.
    Integer(Option<String>),
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A whole number or a text.
    IntOrString,
    /// Any JSON.
    Any,
}

/// How server-side apply merges a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListType {
    /// As one value.
    Atomic,
    /// As a set of scalars.
    Set,
    /// By the items' keys.
    Map,
}

/// How server-side apply merges a map or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MapType {
    /// As one value.
    Atomic,
    /// Field by field.
    Granular,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PatchStrategy {
    /// Lists are merged, not replaced.
    Merge,
    /// Objects are replaced, not merged.
    Replace,
    /// Patches may say which fields stay.
    RetainKeys,
}

/// A field of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// What it is.
    pub shape: Shape,
    /// How server-side apply merges the list.
    pub list_type: Option<ListType>,
    /// By which fields of its items.
    pub list_map_keys: Vec<String>,
    /// How server-side apply merges the map.
    pub map_type: Option<MapType>,
    /// How a strategic merge patch treats it.
    pub patch_strategy: Vec<PatchStrategy>,
    /// By which field such a patch merges a list's items.
    pub patch_merge_key: Option<String>,
    /// The value that it has if none is given.
    pub default: Option<Value>,
}

/// A type: an object with fields, or another name for something without.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// Such as `io.k8s.api.core.v1.Pod`.
    pub name: String,
    /// The kinds that it is; most types are parts of kinds and none themselves.
    pub kinds: Vec<GroupVersionKind>,
    /// What it is, if it has no fields.
    pub alias: Option<Shape>,
    /// Its fields.
    pub fields: BTreeMap<String, Field>,
    /// The fields that have to be there.
    pub required: BTreeSet<String>,
    /// How server-side apply merges it.
    pub map_type: Option<MapType>,
}

/// All types.
#[derive(Clone, Debug)]
pub struct Types {
    /// The version of Kubernetes whose types these are.
    pub kubernetes: String,
    by_name: BTreeMap<String, Type>,
    by_kind: BTreeMap<GroupVersionKind, String>,
}

impl Types {
    /// The type with this name.
    pub fn by_name(&self, name: &str) -> Option<&Type> {
        self.by_name.get(name)
    }

    /// The type of a kind (or of its list).
    pub fn by_kind(&self, kind: &GroupVersionKind) -> Option<&Type> {
        self.by_name(self.by_kind.get(kind)?)
    }

    /// All types by name.
    pub fn iter(&self) -> impl Iterator<Item = &Type> {
        self.by_name.values()
    }
}

/// A place in the structure of a kind, to walk beside an object.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    types: &'a Types,
    at: Place<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Object(&'a Type),
    Shape(&'a Shape),
    Unknown,
}

impl<'a> Node<'a> {
    /// The object of a kind; nothing is known about a kind that is not built in.
    pub fn of_kind(types: &'a Types, kind: &GroupVersionKind) -> Self {
        Node { types, at: types.by_kind(kind).map_or(Place::Unknown, Place::Object) }.resolved()
    }

    /// The object's type, if this is an object with fields.
    pub fn object(&self) -> Option<&'a Type> {
        match self.at {
            Place::Object(object) => Some(object),
            _ => None,
        }
    }

    /// What it is, if it is not an object with fields.
    pub fn shape(&self) -> Option<&'a Shape> {
        match self.at {
            Place::Shape(shape) => Some(shape),
            _ => None,
        }
    }

    /// What is known about a field of the object here; `None` in a map, where every key is a field.
    pub fn field(&self, name: &str) -> Option<&'a Field> {
        self.object()?.fields.get(name)
    }

    /// The value of a field or of a map's key.
    pub fn child(&self, name: &str) -> Self {
        let shape = match self.at {
            Place::Object(object) => object.fields.get(name).map(|field| &field.shape),
            Place::Shape(Shape::Map(value)) => Some(&**value),
            _ => None,
        };
        Node { types: self.types, at: shape.map_or(Place::Unknown, Place::Shape) }.resolved()
    }

    /// An item of the list here.
    pub fn item(&self) -> Self {
        let at = match self.at {
            Place::Shape(Shape::List(item)) => Place::Shape(item),
            _ => Place::Unknown,
        };
        Node { types: self.types, at }.resolved()
    }

    /// Follows names to what they stand for.
    fn resolved(self) -> Self {
        let mut at = self.at;
        loop {
            at = match at {
                Place::Shape(Shape::Ref(name)) => {
                    self.types.by_name(name).map_or(Place::Unknown, Place::Object)
                }
                Place::Object(Type { alias: Some(shape), .. }) => Place::Shape(shape),
                other => return Node { types: self.types, at: other },
            };
        }
    }
}

/// An object of a kind as Go writes one that nothing was set in: what a new object is compared with. Kinds that are
/// not built in have nothing but their name.
pub fn empty(kind: &GroupVersionKind) -> Value {
    static EMPTY: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    let all = EMPTY.get_or_init(|| {
        serde_json::from_str(include_str!("../../data/builtin-empty.json")).expect("our own data is sound")
    });
    let mut object = all.get(&kind.to_string()).cloned().unwrap_or_else(|| json!({}));
    object["apiVersion"] = json!(kind.group_version().to_string());
    object["kind"] = json!(kind.kind);
    object
}

/// The types of the built-in kinds. They are read once.
pub fn types() -> &'static Types {
    static TYPES: OnceLock<Types> = OnceLock::new();
    TYPES.get_or_init(|| {
        // The file is part of the program, and a test reads all of it.
        let raw: RawTypes = serde_json::from_str(include_str!("../../data/builtin-types.json"))
            .expect("the table of built-in types is well-formed");
        Types::from(raw)
    })
}

#[derive(Deserialize)]
struct RawTypes {
    kubernetes: String,
    types: BTreeMap<String, RawType>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawType {
    #[serde(default)]
    kinds: Vec<RawKind>,
    #[serde(rename = "type")]
    type_: Option<String>,
    format: Option<String>,
    #[serde(default)]
    fields: BTreeMap<String, RawField>,
    #[serde(default)]
    required: BTreeSet<String>,
    map_type: Option<MapType>,
}

#[derive(Deserialize)]
struct RawKind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawField {
    #[serde(rename = "ref")]
    ref_: Option<String>,
    list: Option<Box<RawField>>,
    map: Option<Box<RawField>>,
    #[serde(rename = "type")]
    type_: Option<String>,
    format: Option<String>,
    list_type: Option<ListType>,
    #[serde(default)]
    list_map_keys: Vec<String>,
    map_type: Option<MapType>,
    #[serde(default)]
    patch_strategy: Vec<PatchStrategy>,
    patch_merge_key: Option<String>,
    default: Option<Value>,
}

fn scalar(type_: Option<&str>, format: Option<String>) -> Scalar {
    match type_ {
        Some("string") => Scalar::Text(format),
        Some("integer") => Scalar::Integer(format),
        Some("number") => Scalar::Number,
        Some("boolean") => Scalar::Boolean,
        Some("int-or-string") => Scalar::IntOrString,
        _ => Scalar::Any,
    }
}

fn shape(raw: &RawField) -> Shape {
    match (&raw.ref_, &raw.list, &raw.map) {
        (Some(name), _, _) => Shape::Ref(name.clone()),
        (_, Some(item), _) => Shape::List(Box::new(shape(item))),
        (_, _, Some(value)) => Shape::Map(Box::new(shape(value))),
        _ => Shape::Scalar(scalar(raw.type_.as_deref(), raw.format.clone())),
    }
}

impl From<RawField> for Field {
    fn from(raw: RawField) -> Self {
        Field {
            shape: shape(&raw),
            list_type: raw.list_type,
            list_map_keys: raw.list_map_keys,
            map_type: raw.map_type,
            patch_strategy: raw.patch_strategy,
            patch_merge_key: raw.patch_merge_key,
            default: raw.default,
        }
    }
}

impl From<RawTypes> for Types {
    fn from(raw: RawTypes) -> Self {
        let mut types =
            Types { kubernetes: raw.kubernetes, by_name: BTreeMap::new(), by_kind: BTreeMap::new() };
        for (name, raw) in raw.types {
            let kinds: Vec<GroupVersionKind> = raw
                .kinds
                .into_iter()
                .map(|RawKind { group, version, kind }| GroupVersionKind { group, version, kind })
                .collect();
            types.by_kind.extend(kinds.iter().map(|kind| (kind.clone(), name.clone())));
            let alias = raw.type_.map(|type_| Shape::Scalar(scalar(Some(&type_), raw.format)));
            let fields = raw.fields.into_iter().map(|(field, raw)| (field, raw.into())).collect();
            let (required, map_type) = (raw.required, raw.map_type);
            types.by_name.insert(name.clone(), Type { name, kinds, alias, fields, required, map_type });
        }
        types
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupVersion;

    fn pod() -> Node<'static> {
        Node::of_kind(types(), &GroupVersion::new("", "v1").kind("Pod"))
    }

    #[test]
    fn every_name_leads_somewhere() {
        fn follow(shape: &Shape) {
            match shape {
                Shape::Ref(name) => assert!(types().by_name(name).is_some(), "{name}"),
                Shape::List(inner) | Shape::Map(inner) => follow(inner),
                Shape::Scalar(_) => {}
            }
        }
        for one in types().iter() {
            one.fields.values().for_each(|field| follow(&field.shape));
            assert!(one.required.iter().all(|field| one.fields.contains_key(field)), "{}", one.name);
            for field in one.fields.values() {
                let keyed = field.list_type == Some(ListType::Map);
                assert_eq!(keyed, !field.list_map_keys.is_empty(), "{}", one.name);
            }
        }
        assert_eq!(types().kubernetes, "1.34.4");
    }

    #[test]
    fn the_structure_is_walked_beside_an_object() {
        let ports = pod().child("spec").child("containers").item().object().unwrap().fields["ports"].clone();
        assert_eq!(ports.list_type, Some(ListType::Map));
        assert_eq!(ports.list_map_keys, ["containerPort", "protocol"]);
        assert_eq!(ports.patch_merge_key.as_deref(), Some("containerPort"));
        assert_eq!(ports.patch_strategy, [PatchStrategy::Merge]);
        let volumes = pod().child("spec").field("volumes").unwrap().clone();
        assert_eq!(volumes.patch_strategy, [PatchStrategy::Merge, PatchStrategy::RetainKeys]);
        let labels = pod().child("metadata").child("labels");
        assert_eq!(labels.child("any").shape(), Some(&Shape::Scalar(Scalar::Text(None))));
        let limits = pod().child("spec").child("containers").item().child("resources").child("limits");
        assert_eq!(limits.child("cpu").shape(), Some(&Shape::Scalar(Scalar::Text(Some("quantity".into())))));
        assert!(pod().child("spek").object().is_none());
    }

    #[test]
    fn types_carry_what_validation_needs() {
        let service = types().by_kind(&GroupVersion::new("", "v1").kind("Service")).unwrap();
        assert_eq!(service.kinds.len(), 1);
        let port = types().by_name("io.k8s.api.core.v1.ServicePort").unwrap();
        assert!(port.required.contains("port"));
        assert_eq!(port.fields["protocol"].default, Some("TCP".into()));
        let target =
            Node::of_kind(types(), &service.kinds[0]).child("spec").child("ports").item().child("targetPort");
        assert_eq!(target.shape(), Some(&Shape::Scalar(Scalar::IntOrString)));
        let selector = types().by_name("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").unwrap();
        assert_eq!(selector.map_type, Some(MapType::Atomic));
    }
}
