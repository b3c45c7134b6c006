//! Structural schemas of custom resources: what an API server checks, drops and fills in because of one.
//!
//! A CRD version's `openAPIV3Schema` is compiled once ([`Structural::compile`]) and then used for every object:
//! [`Structural::prune`], [`Structural::default`], [`Structural::validate`].
//!
//! Patterns are Go's (RE2) syntax on the `regex` crate, translated where the two differ (ASCII classes, literal
//! braces and brackets, `\Q..\E`); octal escapes and `\C` are refused. CEL is `kube-cel`'s; rules that it cannot
//! evaluate are refused when the schema is compiled.

pub(crate) mod cel;
mod correlate;
mod default;
mod defaults_check;
mod fieldpath;
mod format;
mod lists;
mod metadata;
pub(crate) mod node;
mod number;
mod openapi;
mod pattern;
mod props;
mod prune;
mod structural;
mod trail;
mod validate;

use serde_json::Value;

use crate::{FieldError, Path};
use node::Node;
use props::Props;

pub(crate) use fieldpath::resolve as resolve_field_path;
pub(crate) use node::Type;

/// A schema that is known to be structural, ready for use. Cheap to share behind an `Arc`; nothing in it changes.
#[derive(Debug)]
pub struct Structural {
    root: Node,
}

impl Structural {
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// Reads an `openAPIV3Schema`. Errors are those of creating a CRD with it, as seen from the schema itself
    /// (`openAPIV3Schema.properties[spec].type: Required value: ..`).
    pub fn compile(schema: &Value) -> Result<Structural, Vec<FieldError>> {
        Structural::compile_at(schema, &Path::new("openAPIV3Schema"))
    }

    /// As [`Structural::compile`], for a schema at `path` of its CRD.
    pub fn compile_at(schema: &Value, path: &Path) -> Result<Structural, Vec<FieldError>> {
        let props: Props = serde_json::from_value(schema.clone())
            .map_err(|error| vec![FieldError::invalid(path, "", format!("is no schema: {error}"))])?;
        let unreadable = first_unsupported(&props);
        let mut errors = match unreadable {
            None => structural::check(&props, path),
            Some(_) => Vec::new(),
        };
        errors.extend(openapi::check(&props, path));
        if let Some(why) = unreadable.filter(|_| errors.is_empty()) {
            errors.push(FieldError::invalid(path, "", why));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let root = Node::compile(&props, path, &mut errors);
        errors.extend(defaults_check::check(&root, path));
        match errors.is_empty() {
            true => Ok(Structural { root }),
            false => Err(errors),
        }
    }

    /// Drops fields that the schema does not know, and of `metadata` those that no object has. Returns their paths,
    /// in order; [`unknown_field`] makes a message of one. Goes after [`Structural::default`].
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object, true)
    }

    /// Fills in defaults. What is null but may not be gets its default or, without one, is dropped.
    pub fn default(&self, object: &mut Value) {
        default::apply(&self.root, object);
    }

    /// Checks a whole object against types and value validations, embedded objects, uniqueness in lists, and CEL
    /// rules. With `old` it is an update: what was wrong before and has not changed is tolerated (ratcheting), and
    /// transition rules are asked.
    ///
    /// Not looked at: the object's own `apiVersion`, `kind` and `metadata`, which are the same for all kinds.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors = validate::validate(&self.root, object, old, &Path::root());
        self.validate_rest(object, old, errors)
    }

    /// Checks an object whose `status` alone is updated: as [`Structural::validate`], but types and value validations
    /// of the status only.
    pub fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors = match (self.root.properties.get("status"), object.get("status")) {
            (Some(schema), Some(status)) => {
                let old = old.map(|old| old.get("status").unwrap_or(&Value::Null));
                validate::validate(schema, status, old, &Path::new("status"))
            }
            _ => Vec::new(),
        };
        self.validate_rest(object, old, errors)
    }

    fn validate_rest(
        &self,
        object: &Value,
        old: Option<&Value>,
        mut errors: Vec<FieldError>,
    ) -> Vec<FieldError> {
        let root = Path::root();
        errors.extend(metadata::validate(&self.root, object, &root));
        // Doubles that were there before are kept, all or none.
        if old.is_none_or(|old| lists::validate(&self.root, old, &root).is_empty()) {
            errors.extend(lists::validate(&self.root, object, &root));
        }
        if self.root.has_rules {
            match validate::blocks_rules(&errors) {
                Some(unchecked) => errors.push(unchecked),
                None => errors.extend(cel::validate(&self.root, object, old, &root, cel::BUDGET).0),
            }
        }
        errors
    }

    /// Whether the schema has CEL rules.
    pub fn has_rules(&self) -> bool {
        self.root.has_rules
    }

    pub(crate) fn node(&self) -> &Node {
        &self.root
    }
}

/// What a client is told about a field that was dropped: `unknown field "spec.foo"`.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

fn first_unsupported(props: &Props) -> Option<&'static str> {
    props.unsupported().or_else(|| props.children().find_map(first_unsupported))
}

/// Fields that the root of a schema may have where the status is a subresource, as the message lists them.
const ROOT_FIELDS: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

/// What is wrong with a schema at `path` if its kind has a status subresource: then the root may say only so much.
pub(crate) fn check_root_with_status(schema: &Value, path: &Path) -> Option<FieldError> {
    let props: Props = serde_json::from_value(schema.clone()).ok()?;
    if !props.kind.is_empty() && props.kind != "object" {
        let why = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        return Some(FieldError::invalid(&path.child("type"), props.kind.as_str(), why));
    }
    let allowed = Props {
        description: props.description.clone(),
        kind: props.kind.clone(),
        format: props.format.clone(),
        title: props.title.clone(),
        maximum: props.maximum,
        exclusive_maximum: props.exclusive_maximum,
        minimum: props.minimum,
        exclusive_minimum: props.exclusive_minimum,
        max_length: props.max_length,
        min_length: props.min_length,
        pattern: props.pattern.clone(),
        max_items: props.max_items,
        min_items: props.min_items,
        unique_items: props.unique_items,
        multiple_of: props.multiple_of,
        required: props.required.clone(),
        items: props.items.clone(),
        properties: props.properties.clone(),
        external_docs: props.external_docs.clone(),
        example: props.example.clone(),
        preserve_unknown: props.preserve_unknown,
        rules: props.rules.clone(),
        ..Props::default()
    };
    (props != allowed).then(|| {
        let why = format!(
            "only {ROOT_FIELDS} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        FieldError::invalid(path, schema.clone(), why)
    })
}
