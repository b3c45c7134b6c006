//! A schema made ready for use: patterns and rules compiled, formats looked up.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::cel::{Rule, RuleError};
use super::fieldpath;
use super::format::Format;
use super::pattern;
use super::props::{Props, PropsOrBool};
use crate::{FieldError, Path};

/// The JSON type that a schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }
}

/// What happens to fields of an object that `properties` does not name.
#[derive(Debug)]
pub(crate) enum Additional {
    Allowed(bool),
    Schema(Box<Node>),
}

/// How items of a list are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    Map,
}

/// A pattern, and how it was written: messages show the latter.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) source: String,
    pub(crate) regex: Regex,
}

/// One node of a compiled schema. The branches of `allOf` and its like are nodes, too.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    /// Boxed: there are ten thousands of them, and a map has room for more than are in it.
    pub(crate) properties: BTreeMap<String, Box<Node>>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_type: Option<ListType>,
    pub(crate) list_map_keys: Vec<String>,
    /// Whether an object is owned as a whole.
    pub(crate) atomic_map: bool,
    /// Most have none.
    checks: Option<Box<Checks>>,
    pub(crate) rules: Vec<Rule>,
    /// Whether there are rules here or anywhere below.
    pub(crate) has_rules: bool,
}

/// What a value has to be besides its type.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) format: Option<Format>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<usize>,
    pub(crate) min_length: Option<usize>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) max_items: Option<usize>,
    pub(crate) min_items: Option<usize>,
    pub(crate) max_properties: Option<usize>,
    pub(crate) min_properties: Option<usize>,
    pub(crate) required: Vec<String>,
    pub(crate) choices: Vec<Value>,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

/// What a node's rules depend on besides the node.
struct Surroundings<'a> {
    path: &'a Path,
    is_root: bool,
    /// The list that hides the old value of what is here.
    uncorrelatable: Option<&'a Path>,
}

impl Node {
    /// Compiles a schema that has passed the structural rules. Errors are about its CEL rules: what cannot be asked
    /// later is refused now.
    pub(crate) fn compile(props: &Props, path: &Path, errors: &mut Vec<FieldError>) -> Node {
        Node::compile_in(props, &Surroundings { path, is_root: true, uncorrelatable: None }, errors)
    }

    fn compile_in(props: &Props, around: &Surroundings<'_>, errors: &mut Vec<FieldError>) -> Node {
        let path = around.path;
        let mut child = |props: &Props, path: Path, uncorrelatable: Option<&Path>| {
            let around = Surroundings { path: &path, is_root: false, uncorrelatable };
            Node::compile_in(props, &around, errors)
        };
        let above = around.uncorrelatable;
        let properties = props.properties.iter().map(|(name, props)| {
            (name.clone(), Box::new(child(props, path.child("properties").key(name), above)))
        });
        let properties = properties.collect();
        let additional = props.additional_properties.as_ref().map(|additional| match additional {
            PropsOrBool::Allowed(allowed) => Additional::Allowed(*allowed),
            PropsOrBool::Schema(props) => {
                Additional::Schema(Box::new(child(props, path.child("additionalProperties"), above)))
            }
        });
        let has_keys = props.list_type.as_deref() == Some("map");
        let items = props.item_schema().map(|props| {
            let uncorrelatable = above.or((!has_keys).then_some(path));
            Box::new(child(props, path.child("items"), uncorrelatable))
        });
        let mut node = Node {
            kind: Type::parse(&props.kind),
            nullable: props.nullable,
            default: props.default.clone(),
            properties,
            additional,
            items,
            preserve_unknown: props.preserve_unknown == Some(true),
            embedded: props.embedded,
            int_or_string: props.int_or_string,
            list_type: props.list_type.as_deref().map(|name| match name {
                "set" => ListType::Set,
                "map" => ListType::Map,
                _ => ListType::Atomic,
            }),
            list_map_keys: props.list_map_keys.clone(),
            atomic_map: props.map_type.as_deref() == Some("atomic"),
            checks: Checks::compile(props),
            rules: Vec::new(),
            has_rules: false,
        };
        node.rules = node.compile_rules(props, around, errors);
        node.has_rules = !node.rules.is_empty() || node.structural_children().any(|child| child.has_rules);
        node
    }

    fn compile_rules(
        &self,
        props: &Props,
        around: &Surroundings<'_>,
        errors: &mut Vec<FieldError>,
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (index, rule) in props.rules.iter().enumerate() {
            let path = around.path.child("x-kubernetes-validations").index(index);
            if !rule.field_path.is_empty() && fieldpath::resolve(&rule.field_path, self, true).is_err() {
                let path = path.child("fieldPath");
                errors.push(FieldError::invalid(&path, rule.field_path.as_str(), "must be a valid path"));
            }
            let compiled = match Rule::compile(rule, self, around.is_root || self.embedded) {
                Ok(compiled) => compiled,
                Err(RuleError::Rule(why)) => {
                    errors.push(FieldError::invalid(&path.child("rule"), rule.to_json(), why));
                    continue;
                }
                Err(RuleError::Message(why)) => {
                    errors.push(FieldError::invalid(&path.child("messageExpression"), rule.to_json(), why));
                    continue;
                }
            };
            match (compiled.uses_old_self(), around.uncorrelatable, rule.optional_old_self) {
                (true, Some(list), _) => {
                    let why = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                    );
                    errors.push(FieldError::invalid(&path.child("rule"), rule.rule.as_str(), why));
                }
                (false, _, Some(optional)) => {
                    let why = "may not be set if oldSelf is not used in rule";
                    errors.push(FieldError::invalid(&path.child("optionalOldSelf"), optional, why));
                }
                _ => {}
            }
            rules.push(compiled);
        }
        rules
    }

    /// A branch of `allOf` and its like: value validations only.
    fn branch(props: &Props) -> Node {
        Node::compile_in(
            props,
            &Surroundings { path: &Path::root(), is_root: false, uncorrelatable: None },
            &mut Vec::new(),
        )
    }

    /// What a value has to be besides its type.
    pub(crate) fn checks(&self) -> &Checks {
        static NONE: LazyLock<Checks> = LazyLock::new(Checks::default);
        self.checks.as_deref().unwrap_or(&NONE)
    }

    /// The names of the types that a value may have, as messages list them.
    pub(crate) fn type_names(&self) -> String {
        match (self.int_or_string, self.kind) {
            (true, _) => "integer,string".into(),
            (false, kind) => kind.map(Type::name).unwrap_or_default().into(),
        }
    }

    /// The type as CEL errors show it.
    pub(crate) fn type_name(&self) -> &'static str {
        self.kind.map(Type::name).unwrap_or_default()
    }

    pub(crate) fn additional_schema(&self) -> Option<&Node> {
        match &self.additional {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// The schema of an object's field, named or not.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).map(|node| &**node).or_else(|| self.additional_schema())
    }

    fn structural_children(&self) -> impl Iterator<Item = &Node> {
        let named = self.properties.values().map(|node| &**node);
        named.chain(self.additional_schema()).chain(self.items.as_deref())
    }
}

impl Checks {
    /// None if there is nothing to check.
    fn compile(props: &Props) -> Option<Box<Checks>> {
        let checks = Checks::of(props);
        (!checks.is_empty()).then(|| Box::new(checks))
    }

    fn is_empty(&self) -> bool {
        let Checks { format, maximum, exclusive_maximum, minimum, exclusive_minimum, multiple_of, .. } = self;
        let Checks { max_length, min_length, pattern, max_items, min_items, max_properties, .. } = self;
        let Checks { min_properties, required, choices, all_of, any_of, one_of, not, .. } = self;
        let numbers = [maximum, minimum, multiple_of];
        let sizes = [max_length, min_length, max_items, min_items, max_properties, min_properties];
        format.is_none()
            && numbers.iter().all(|number| number.is_none())
            && !exclusive_maximum
            && !exclusive_minimum
            && sizes.iter().all(|size| size.is_none())
            && pattern.is_none()
            && required.is_empty()
            && choices.is_empty()
            && [all_of, any_of, one_of].iter().all(|branches| branches.is_empty())
            && not.is_none()
    }

    fn of(props: &Props) -> Checks {
        let branches = |schemas: &[Props]| schemas.iter().map(Node::branch).collect();
        let size = |limit: Option<i64>| limit.map(|limit| usize::try_from(limit).unwrap_or(0));
        Checks {
            format: Format::parse(&props.format),
            maximum: props.maximum,
            exclusive_maximum: props.exclusive_maximum,
            minimum: props.minimum,
            exclusive_minimum: props.exclusive_minimum,
            multiple_of: props.multiple_of,
            max_length: size(props.max_length),
            min_length: size(props.min_length),
            pattern: (!props.pattern.is_empty())
                .then(|| pattern::compile(&props.pattern).ok())
                .flatten()
                .map(|regex| Pattern { source: props.pattern.clone(), regex }),
            max_items: size(props.max_items),
            min_items: size(props.min_items),
            max_properties: size(props.max_properties),
            min_properties: size(props.min_properties),
            required: props.required.clone(),
            choices: props.choices.clone(),
            all_of: branches(&props.all_of),
            any_of: branches(&props.any_of),
            one_of: branches(&props.one_of),
            not: props.not.as_deref().map(|schema| Box::new(Node::branch(schema))),
        }
    }
}
