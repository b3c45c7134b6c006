//! How values are put together, as far as ownership goes: what is owned piece by piece, and what as a whole.

use serde_json::Value;

use crate::builtin::{self, Field, ListType, MapType, Node, Scalar, Shape};
use crate::schema::Structural;
use crate::schema::node;
use crate::{GroupVersion, GroupVersionKind};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub struct Type<'a>(Kind<'a>);

#[derive(Clone, Copy, Debug)]
enum Kind<'a> {
    /// Of a built-in kind; the field says how its list or map is owned.
    Builtin(Node<'a>, Option<&'a Field>),
    /// Of a custom resource; with whether it is an object of its own, with metadata.
    Custom(&'a node::Node, bool),
    /// Nothing is said: objects are owned field by field, lists as a whole.
    Deduced,
    /// No such field is declared.
    Undeclared,
}

/// What ownership makes of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Atom<'a> {
    /// It has no parts.
    Scalar,
    /// An object, owned field by field.
    Map(Type<'a>),
    /// A list, owned item by item; with the type of its items.
    List(Items<'a>),
    /// An object or list that is owned as a whole.
    Whole,
}

impl Atom<'_> {
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What a schema expects a value to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Map,
    List,
    Text,
    Number,
    Boolean,
    /// A text that is read as something else, or may be written as a number.
    AnyScalar,
}

/// Items that are told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items<'a> {
    /// By these of their fields; if there are none, by their values.
    pub(super) keys: &'a [String],
    pub(super) item: Type<'a>,
}

impl<'a> Type<'a> {
    /// The type of a built-in kind.
    pub fn builtin(kind: &GroupVersionKind) -> Type<'static> {
        Type(Kind::Builtin(Node::of_kind(builtin::types(), kind), None))
    }

    /// The type of a custom resource; without a schema nothing is said.
    pub fn custom(schema: Option<&'a Structural>) -> Type<'a> {
        Type(schema.map_or(Kind::Deduced, |schema| Kind::Custom(schema.root(), true)))
    }

    /// Whether this is a built-in kind's.
    pub(super) fn is_builtin(self) -> bool {
        matches!(self.0, Kind::Builtin(..))
    }

    fn object_meta() -> Type<'static> {
        // Every object has the same metadata; a ConfigMap's is as good as any.
        let config_map = GroupVersion::new("", "v1").kind("ConfigMap");
        Type::builtin(&config_map).field("metadata")
    }

    /// The type of a field or of a map's key.
    pub(super) fn field(self, name: &str) -> Type<'a> {
        Type(match self.0 {
            Kind::Builtin(node, _) => match (node.object(), node.shape()) {
                (Some(_), _) => match node.field(name) {
                    Some(field) => Kind::Builtin(node.child(name), Some(field)),
                    None => Kind::Undeclared,
                },
                (None, Some(Shape::Map(_))) => Kind::Builtin(node.child(name), None),
                _ => Kind::Deduced,
            },
            Kind::Custom(_, true) if name == "metadata" => return Type::object_meta(),
            Kind::Custom(_, true) if matches!(name, "apiVersion" | "kind") => Kind::Deduced,
            Kind::Custom(schema, _) => match schema.field(name) {
                Some(field) => Kind::Custom(field, field.embedded),
                None if schema.preserve_unknown => Kind::Deduced,
                None if matches!(schema.additional, Some(node::Additional::Allowed(true))) => Kind::Deduced,
                None => Kind::Undeclared,
            },
            Kind::Deduced | Kind::Undeclared => Kind::Deduced,
        })
    }

    /// Whether the schema names this field; keys of maps are not named.
    pub(super) fn names(self, field: &str) -> bool {
        match self.0 {
            Kind::Builtin(node, _) => node.field(field).is_some(),
            Kind::Custom(_, true) if matches!(field, "metadata" | "apiVersion" | "kind") => true,
            Kind::Custom(schema, _) => schema.properties.contains_key(field),
            Kind::Deduced | Kind::Undeclared => false,
        }
    }

    /// Whether the schema has no place for this value.
    pub(super) fn is_undeclared(self) -> bool {
        matches!(self.0, Kind::Undeclared)
    }

    /// The default of a field, for keys of items that leave it out.
    pub(super) fn default_of(self, field: &str) -> Option<&'a Value> {
        match self.0 {
            Kind::Builtin(node, _) => node.field(field)?.default.as_ref(),
            Kind::Custom(schema, _) => schema.properties.get(field)?.default.as_ref(),
            Kind::Deduced | Kind::Undeclared => None,
        }
    }

    /// What ownership makes of a value of this type. Where a value is not what the schema says, the value counts.
    pub(super) fn atom(self, value: &Value) -> Atom<'a> {
        match value {
            Value::Object(_) if self.is_whole_map() => Atom::Whole,
            Value::Object(_) => Atom::Map(self),
            Value::Array(_) => self.items().map_or(Atom::Whole, Atom::List),
            // Null takes the place of whatever could be here.
            Value::Null => match self.items() {
                Some(items) => Atom::List(items),
                None if self.is_map() && !self.is_whole_map() => Atom::Map(self),
                None => Atom::Scalar,
            },
            _ => Atom::Scalar,
        }
    }

    fn is_map(self) -> bool {
        match self.0 {
            Kind::Builtin(node, _) => node.object().is_some() || matches!(node.shape(), Some(Shape::Map(_))),
            Kind::Custom(schema, _) => schema.kind == Some(node::Type::Object),
            Kind::Deduced | Kind::Undeclared => false,
        }
    }

    fn is_whole_map(self) -> bool {
        match self.0 {
            Kind::Builtin(node, field) => {
                let of_field = field.and_then(|field| field.map_type.as_ref());
                let of_type = node.object().and_then(|object| object.map_type.as_ref());
                matches!(of_field.or(of_type), Some(MapType::Atomic))
            }
            Kind::Custom(schema, _) => schema.atomic_map,
            Kind::Deduced | Kind::Undeclared => false,
        }
    }

    /// Whether lists (or else objects) of this type are owned as a whole, by what the schema says.
    pub(super) fn owns_as_whole(self, list: bool) -> bool {
        match (self.0, list) {
            (Kind::Deduced | Kind::Undeclared, _) => false,
            (_, false) => self.is_whole_map(),
            (Kind::Builtin(node, _), true) => {
                matches!(node.shape(), Some(Shape::List(_))) && self.items().is_none()
            }
            (Kind::Custom(schema, _), true) => schema.items.is_some() && self.items().is_none(),
        }
    }

    /// The items of a list that is owned item by item.
    pub(super) fn items(self) -> Option<Items<'a>> {
        match self.0 {
            Kind::Builtin(node, Some(field)) if matches!(node.shape(), Some(Shape::List(_))) => {
                let item = Type(Kind::Builtin(node.item(), None));
                match field.list_type.as_ref()? {
                    ListType::Atomic => None,
                    ListType::Set => Some(Items { keys: &[], item }),
                    ListType::Map => Some(Items { keys: &field.list_map_keys, item }),
                }
            }
            Kind::Custom(schema, _) => {
                let node = schema.items.as_deref()?;
                let item = Type(Kind::Custom(node, node.embedded));
                match schema.list_type? {
                    node::ListType::Atomic => None,
                    node::ListType::Set => Some(Items { keys: &[], item }),
                    node::ListType::Map => Some(Items { keys: &schema.list_map_keys, item }),
                }
            }
            _ => None,
        }
    }

    /// The items of a list, told apart or not.
    pub(super) fn item(self) -> Type<'a> {
        match self.0 {
            Kind::Builtin(node, _) if matches!(node.shape(), Some(Shape::List(_))) => {
                Type(Kind::Builtin(node.item(), None))
            }
            Kind::Custom(schema, _) => match schema.items.as_deref() {
                Some(node) => Type(Kind::Custom(node, node.embedded)),
                None => Type(Kind::Deduced),
            },
            _ => Type(Kind::Deduced),
        }
    }

    /// What a value has to be; `None` if anything goes.
    pub(super) fn expected(self) -> Option<Expected> {
        match self.0 {
            Kind::Builtin(node, _) if node.object().is_some() => Some(Expected::Map),
            Kind::Builtin(node, _) => match node.shape()? {
                Shape::List(_) => Some(Expected::List),
                Shape::Map(_) => Some(Expected::Map),
                Shape::Scalar(scalar) => expected_scalar(scalar),
                Shape::Ref(_) => None,
            },
            Kind::Custom(schema, _) => Some(match schema.kind? {
                node::Type::Object => Expected::Map,
                node::Type::Array => Expected::List,
                node::Type::String if schema.checks().format.is_some() => Expected::AnyScalar,
                node::Type::String => Expected::Text,
                node::Type::Integer | node::Type::Number => Expected::Number,
                node::Type::Boolean => Expected::Boolean,
            }),
            Kind::Deduced | Kind::Undeclared => None,
        }
    }
}

fn expected_scalar(scalar: &Scalar) -> Option<Expected> {
    match scalar {
        Scalar::Text(None) => Some(Expected::Text),
        Scalar::Text(Some(format)) if format == "byte" => Some(Expected::Text),
        Scalar::Text(Some(_)) | Scalar::IntOrString => Some(Expected::AnyScalar),
        Scalar::Integer(_) | Scalar::Number => Some(Expected::Number),
        Scalar::Boolean => Some(Expected::Boolean),
        Scalar::Any => None,
    }
}
