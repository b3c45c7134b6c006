//! What can be said about an expression before it is ever evaluated.
//!
//! This is less than kube-apiserver's type checker: names, functions and fields are checked, operators and arguments
//! are not. A rule that adds a number to a text is refused there when the CRD is created, here when it is asked.

use std::collections::BTreeSet;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};

use super::super::node::{Node, Type};
use super::{convert, meter};

/// Types and the prefixes of functions.
const NAMES: [&str; 26] = [
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "dyn",
    "optional",
    "optional_type",
    "duration",
    "timestamp",
    "sets",
    "math",
    "lists",
    "strings",
    "format",
    "ip",
    "cidr",
    "quantity",
    "base64",
    "jsonpatch",
    "google",
];

const NO_AUTHORIZER: &str = "undeclared reference to 'authorizer' (in container ''): this server's expressions cannot ask who may do what";

/// The names that an expression may use, and what they stand for.
#[derive(Clone)]
pub(super) struct Scope<'a> {
    names: Vec<(String, Type_<'a>)>,
}

/// What is known of an expression's value.
#[derive(Clone, Copy, Debug)]
enum Type_<'a> {
    Any,
    Bool,
    Text,
    Other,
    /// A value of this schema; of a whole object if so marked.
    Of(&'a Node, bool),
    /// An object's metadata, of which only the names can be seen.
    Metadata(Option<&'a Node>),
    /// A value of this form.
    Known(&'static Form),
    /// What has fields of these kinds.
    Fields(&'a [(String, Kind)]),
}

/// The form of something that has no schema.
#[derive(Debug)]
pub(super) enum Form {
    Any,
    Bool,
    Text,
    /// A number or a time.
    Plain,
    List(&'static Form),
    Map(&'static Form),
    Struct(&'static [(&'static str, Form)]),
}

/// The kind of an expression's value, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    Bool,
    Text,
    Other,
}

impl<'a> Scope<'a> {
    /// For a rule about values of `node`.
    pub(super) fn new(node: &'a Node, is_object: bool, optional_old_self: bool) -> Self {
        let this = Type_::Of(node, is_object);
        let old = if optional_old_self { Type_::Any } else { this };
        Scope { names: vec![("self".into(), this), ("oldSelf".into(), old)] }
    }

    /// For an expression about nothing in particular.
    pub(super) fn empty() -> Self {
        Scope { names: Vec::new() }
    }

    /// The same with a name that anything can be behind.
    pub(super) fn with_any(mut self, name: &str) -> Self {
        self.names.push((name.into(), Type_::Any));
        self
    }

    /// The same with a name for something whose form is known.
    pub(super) fn with_form(mut self, name: &str, form: &'static Form) -> Self {
        self.names.push((name.into(), Type_::Known(form)));
        self
    }

    /// The same with a name for something that has fields.
    pub(super) fn with_fields(mut self, name: &str, fields: &'a [(String, Kind)]) -> Self {
        self.names.push((name.into(), Type_::Fields(fields)));
        self
    }
}

/// Whether an expression uses a variable.
pub(super) fn uses(expression: &IdedExpr, name: &str) -> bool {
    match &expression.expr {
        Expr::Ident(ident) => ident == name,
        other => meter::children(other).into_iter().any(|child| uses(child, name)),
    }
}

/// Checks names, functions and fields.
pub(super) fn check(expression: &IdedExpr, scope: &Scope<'_>) -> Result<Kind, String> {
    let mut scope = scope.clone();
    let mut functions = BTreeSet::new();
    let found = type_of(expression, &mut scope, &mut functions)?;
    match functions.into_iter().find(|name| !is_operator(name) && !meter::has_function(name)) {
        Some(name) => Err(format!(
            "undeclared reference to '{name}': this server has no such function (of Kubernetes' own, sortBy, cel.bind, comprehensions with two variables and authorizer are missing)"
        )),
        None => Ok(kind(found)),
    }
}

fn is_operator(name: &str) -> bool {
    name.starts_with(['_', '@', '!', '-']) || name.is_empty()
}

fn kind(found: Type_<'_>) -> Kind {
    match found {
        Type_::Any => Kind::Any,
        Type_::Bool => Kind::Bool,
        Type_::Text => Kind::Text,
        Type_::Known(Form::Any) => Kind::Any,
        Type_::Known(Form::Bool) => Kind::Bool,
        Type_::Known(Form::Text) => Kind::Text,
        Type_::Other | Type_::Metadata(_) | Type_::Fields(_) | Type_::Known(_) => Kind::Other,
        Type_::Of(node, _) => match node.kind {
            Some(Type::Boolean) => Kind::Bool,
            Some(Type::String) if node.checks().format.is_none() => Kind::Text,
            Some(Type::String) | None => Kind::Any,
            Some(_) => Kind::Other,
        },
    }
}

fn type_of<'a>(
    expression: &IdedExpr,
    scope: &mut Scope<'a>,
    functions: &mut BTreeSet<String>,
) -> Result<Type_<'a>, String> {
    Ok(match &expression.expr {
        Expr::Ident(name) => variable(name, scope)?,
        Expr::Select(select) => {
            let operand = match &select.operand.expr {
                // The prefix of a function or a type, not a value.
                Expr::Ident(name) if NAMES.contains(&name.as_str()) && !is_known(name, scope) => {
                    return Ok(Type_::Any);
                }
                _ => type_of(&select.operand, scope, functions)?,
            };
            let found = field(operand, &select.field)?;
            if select.test { Type_::Bool } else { found }
        }
        Expr::Call(call) => {
            functions.insert(match call.target.as_deref().map(|target| &target.expr) {
                Some(Expr::Ident(prefix)) if NAMES.contains(&prefix.as_str()) && !is_known(prefix, scope) => {
                    format!("{prefix}.{}", call.func_name)
                }
                _ => call.func_name.clone(),
            });
            let mut operands = Vec::new();
            for operand in call.target.as_deref().into_iter().chain(&call.args) {
                operands.push(type_of(operand, scope, functions)?);
            }
            call_type(&call.func_name, &operands, call.args.get(1))?
        }
        Expr::Comprehension(loops) => comprehension(loops, scope, functions)?,
        Expr::List(list) => {
            for element in &list.elements {
                type_of(element, scope, functions)?;
            }
            Type_::Other
        }
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    type_of(&entry.key, scope, functions)?;
                    type_of(&entry.value, scope, functions)?;
                }
            }
            Type_::Other
        }
        // There are none, and the evaluator has no way to fail on them.
        Expr::Struct(made) => {
            return Err(format!("undeclared reference to '{}' (in container '')", made.type_name));
        }
        Expr::Unspecified => return Err("an expression is empty".into()),
        Expr::Literal(LiteralValue::Boolean(_)) => Type_::Bool,
        Expr::Literal(LiteralValue::String(_)) => Type_::Text,
        Expr::Literal(_) => Type_::Other,
    })
}

fn is_known(name: &str, scope: &Scope<'_>) -> bool {
    scope.names.iter().any(|(known, _)| known == name)
}

fn variable<'a>(name: &str, scope: &Scope<'a>) -> Result<Type_<'a>, String> {
    if let Some((_, found)) = scope.names.iter().rev().find(|(known, _)| known == name) {
        return Ok(*found);
    }
    match name {
        "authorizer" => Err(NO_AUTHORIZER.into()),
        _ if name.starts_with('@') || NAMES.contains(&name) => Ok(Type_::Any),
        _ => Err(format!("undeclared reference to '{name}' (in container '')")),
    }
}

fn field<'a>(operand: Type_<'a>, name: &str) -> Result<Type_<'a>, String> {
    let unknown = || Err(format!("undefined field '{name}'"));
    match operand {
        Type_::Of(node, is_object) => {
            let named =
                node.properties.iter().find(|(key, _)| convert::escaped(key).as_deref() == Some(name));
            if is_object {
                match name {
                    "metadata" => return Ok(Type_::Metadata(named.map(|(_, schema)| &**schema))),
                    "apiVersion" | "kind" => return Ok(Type_::Text),
                    _ => {}
                }
            }
            match (named, node.additional_schema()) {
                (Some((_, schema)), _) => Ok(Type_::Of(schema, schema.embedded)),
                (None, Some(schema)) => Ok(Type_::Of(schema, schema.embedded)),
                (None, None) if node.int_or_string || node.kind.is_none() || node.additional.is_some() => {
                    Ok(Type_::Any)
                }
                (None, None) if node.checks().format.is_some() => Ok(Type_::Any),
                (None, None) => unknown(),
            }
        }
        Type_::Metadata(node) => match name {
            "name" | "generateName" => Ok(Type_::Text),
            _ => match node.and_then(|node| node.properties.get(name)) {
                Some(schema) => Ok(Type_::Of(schema, false)),
                None => unknown(),
            },
        },
        Type_::Known(Form::Struct(fields)) => match fields.iter().find(|(known, _)| *known == name) {
            Some((_, form)) => Ok(Type_::Known(form)),
            None => unknown(),
        },
        Type_::Known(Form::Map(form)) => Ok(Type_::Known(form)),
        Type_::Known(Form::Any) => Ok(Type_::Any),
        Type_::Known(_) => unknown(),
        Type_::Fields(fields) => match fields.iter().find(|(known, _)| known == name) {
            Some((_, Kind::Bool)) => Ok(Type_::Bool),
            Some((_, Kind::Text)) => Ok(Type_::Text),
            Some((_, Kind::Other)) => Ok(Type_::Other),
            Some((_, Kind::Any)) => Ok(Type_::Any),
            None => unknown(),
        },
        Type_::Any | Type_::Other => Ok(Type_::Any),
        Type_::Bool | Type_::Text => unknown(),
    }
}

fn call_type<'a>(name: &str, operands: &[Type_<'a>], second: Option<&IdedExpr>) -> Result<Type_<'a>, String> {
    const BOOLS: [&str; 16] = [
        operators::LOGICAL_AND,
        operators::LOGICAL_OR,
        operators::LOGICAL_NOT,
        operators::EQUALS,
        operators::NOT_EQUALS,
        operators::GREATER,
        operators::GREATER_EQUALS,
        operators::LESS,
        operators::LESS_EQUALS,
        operators::IN,
        operators::NOT_STRICTLY_FALSE,
        "startsWith",
        "endsWith",
        "matches",
        "hasValue",
        "contains",
    ];
    Ok(match (name, operands) {
        (name, _) if BOOLS.contains(&name) => Type_::Bool,
        ("size", _) => Type_::Other,
        ("string", _) => Type_::Text,
        (operators::CONDITIONAL, [_, yes, no]) => match (kind(*yes), kind(*no)) {
            (Kind::Bool, Kind::Bool) => Type_::Bool,
            (Kind::Text, Kind::Text) => Type_::Text,
            _ => Type_::Any,
        },
        (operators::INDEX, [Type_::Of(node, is_object), _]) => match (&node.items, literal(second)) {
            (Some(items), _) => Type_::Of(items, items.embedded),
            (None, Some(key)) if node.additional.is_none() && !node.properties.is_empty() => {
                return field(Type_::Of(node, *is_object), key);
            }
            (None, _) => {
                node.additional_schema().map_or(Type_::Any, |schema| Type_::Of(schema, schema.embedded))
            }
        },
        (operators::INDEX, [Type_::Known(Form::List(form) | Form::Map(form)), _]) => Type_::Known(form),
        // The field is named by a text; what comes out is optional.
        (operators::OPT_SELECT, [operand, _]) => {
            if let Some(key) = literal(second) {
                field(*operand, key)?;
            }
            Type_::Any
        }
        _ => Type_::Any,
    })
}

fn literal(expression: Option<&IdedExpr>) -> Option<&str> {
    match &expression?.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

fn comprehension<'a>(
    loops: &ComprehensionExpr,
    scope: &mut Scope<'a>,
    functions: &mut BTreeSet<String>,
) -> Result<Type_<'a>, String> {
    let range = type_of(&loops.iter_range, scope, functions)?;
    let start = type_of(&loops.accu_init, scope, functions)?;
    let item = match range {
        Type_::Of(node, _) => match (&node.items, node.kind) {
            (Some(items), _) => Type_::Of(items, items.embedded),
            (None, Some(Type::Object)) => Type_::Text,
            _ => Type_::Any,
        },
        Type_::Known(Form::List(form)) => Type_::Known(form),
        Type_::Known(Form::Map(_)) => Type_::Text,
        _ => Type_::Any,
    };
    let before = scope.names.len();
    scope.names.push((loops.iter_var.clone(), item));
    if let Some(second) = &loops.iter_var2 {
        scope.names.push((second.clone(), Type_::Any));
    }
    scope.names.push((loops.accu_var.clone(), start));
    let inside = (|| {
        type_of(&loops.loop_cond, scope, functions)?;
        type_of(&loops.loop_step, scope, functions)?;
        type_of(&loops.result, scope, functions)
    })();
    scope.names.truncate(before);
    inside
}
