//! Asking the rules of a schema about an object.

use std::sync::Arc;

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use serde_json::Value;

use super::super::correlate::{OldItems, Pair, old_field};
use super::super::node::Node;
use super::super::trail::Trail;
use super::{PER_CALL, Rule, convert, meter};
use crate::field::Problem;
use crate::{FieldError, Path};

/// A message that an expression makes may not be longer.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// Checks an object's rules. Of an update, rules that do not look at the old object tolerate what has not changed.
/// Returns what is left of the budget, or `None` if it is used up: then not all rules were asked.
pub(crate) fn validate(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    base: &Path,
    budget: u64,
) -> (Vec<FieldError>, Option<u64>) {
    let mut walk = Walk { base, left: budget, errors: Vec::new() };
    let pair = old.map(|old| Pair { new: value, old, node });
    let result = walk.value(node, value, old, Ratchet { current: pair, parent: None }, &Trail::ROOT);
    (walk.errors, result.ok().map(|()| walk.left))
}

/// The budget is used up.
struct Exhausted;

/// What decides whether an error may be tolerated: the value's own past, or its nearest parent's.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    current: Option<Pair<'a>>,
    parent: Option<Pair<'a>>,
}

impl<'a> Ratchet<'a> {
    fn tolerates(&self) -> bool {
        self.current.or(self.parent).is_some_and(|pair| pair.is_equal())
    }

    fn key(self, name: &str) -> Ratchet<'a> {
        match self.current {
            None => self,
            // Both objects were converted to one version: a change of these is not visible.
            Some(_) if self.parent.is_none() && (name == "apiVersion" || name == "kind") => {
                Ratchet { current: None, parent: None }
            }
            Some(pair) => Ratchet { current: pair.key(name), parent: Some(pair) },
        }
    }

    fn index(self, index: usize) -> Ratchet<'a> {
        match self.current {
            None => self,
            Some(pair) => Ratchet { current: pair.index(index), parent: Some(pair) },
        }
    }
}

struct Walk<'a> {
    base: &'a Path,
    left: u64,
    errors: Vec<FieldError>,
}

impl Walk<'_> {
    fn value(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        trail: &Trail<'_>,
    ) -> Result<(), Exhausted> {
        if !node.has_rules || value.is_null() {
            return Ok(());
        }
        self.rules(node, value, old.filter(|old| !old.is_null()), ratchet, trail)?;
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = old_field(old, name);
                    if let Some(schema) = node.properties.get(name) {
                        self.value(schema, value, old, ratchet.key(name), &trail.field(name))?;
                    } else if let Some(schema) = node.additional_schema() {
                        self.value(schema, value, old, ratchet.key(name), &trail.key(name))?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = node.items.as_deref().filter(|schema| schema.has_rules) else {
                    return Ok(());
                };
                let old_items = OldItems::new(node, old);
                for (index, item) in items.iter().enumerate() {
                    let old = old_items.of(item);
                    self.value(schema, item, old, ratchet.index(index), &trail.index(index))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        trail: &Trail<'_>,
    ) -> Result<(), Exhausted> {
        if node.rules.is_empty() {
            return Ok(());
        }
        let functions = meter::context();
        let mut plain = functions.new_inner_scope();
        let this = convert::to_cel(value, Some(node));
        plain.add_variable_from_value("self", this.clone());
        let mut optional = functions.new_inner_scope();
        if node.rules.iter().any(Rule::uses_old_self) {
            let past = old.map(|old| convert::to_cel(old, Some(node)));
            if let Some(past) = &past {
                plain.add_variable_from_value("oldSelf", past.clone());
            }
            let past = past.map_or_else(OptionalValue::none, OptionalValue::of);
            optional.add_variable_from_value("self", this);
            optional.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(past)));
        }
        let place = trail.path(self.base);
        for rule in &node.rules {
            if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
                continue;
            }
            let scope = if rule.optional_old_self { &optional } else { &plain };
            self.rule(rule, node, scope, &plain, ratchet, &place)?;
        }
        Ok(())
    }

    fn rule(
        &mut self,
        rule: &Rule,
        node: &Node,
        scope: &Context<'_>,
        message_scope: &Context<'_>,
        ratchet: Ratchet<'_>,
        place: &Path,
    ) -> Result<(), Exhausted> {
        let invalid = |detail: String| FieldError::invalid(place, node.type_name(), detail);
        let limit = self.left.min(PER_CALL);
        let (result, cost) = meter::metered_run(limit, rule.steps, || scope.resolve(&rule.expression));
        let Some(cost) = cost else {
            self.errors.push(invalid(match limit < PER_CALL {
                true => OUT_OF_BUDGET.into(),
                false => format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    rule.name()
                ),
            }));
            return Err(Exhausted);
        };
        self.left -= cost;
        match result {
            Ok(Cel::Bool(true)) => {}
            Ok(_) => {
                let tolerated = !rule.uses_old_self && ratchet.tolerates();
                let message = self.message(rule, message_scope);
                let place = rule.field_path.as_ref().map_or_else(|| place.clone(), |path| place.child(path));
                let (text, exhausted) = match message {
                    Ok(text) => (text, Ok(())),
                    Err(exhausted) => (OUT_OF_MESSAGE.into(), Err(exhausted)),
                };
                if !tolerated {
                    self.errors.push(refusal(rule, node, &place, text));
                }
                return exhausted;
            }
            Err(error) => self.errors.push(invalid(evaluation_error(&error, rule))),
        }
        Ok(())
    }

    /// The rule's own words if it has an expression for them that works, else the fixed ones.
    fn message(&mut self, rule: &Rule, scope: &Context<'_>) -> Result<String, Exhausted> {
        let Some(expression) = &rule.message_expression else { return Ok(rule.refusal()) };
        let (result, cost) =
            meter::metered_run(self.left.min(PER_CALL), rule.message_steps, || scope.resolve(expression));
        self.left -= cost.ok_or(Exhausted)?;
        Ok(match result {
            Ok(Cel::String(text)) => match text.trim() {
                text if text.is_empty() || text.len() > LONGEST_MESSAGE || text.contains('\n') => {
                    rule.refusal()
                }
                text => text.to_owned(),
            },
            _ => rule.refusal(),
        })
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const OUT_OF_MESSAGE: &str = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";

fn refusal(rule: &Rule, node: &Node, place: &Path, message: String) -> FieldError {
    let (problem, value) = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => (Problem::Forbidden, Value::Null),
        Some("FieldValueRequired") => (Problem::Required, Value::Null),
        Some("FieldValueDuplicate") => return FieldError::duplicate(place, node.type_name()),
        _ => (Problem::Invalid, node.type_name().into()),
    };
    FieldError { path: place.clone(), problem, value, detail: message }
}

fn evaluation_error(error: &ExecutionError, rule: &Rule) -> String {
    let overload = |what: String| {
        format!(
            "'{what}': call arguments did not match a supported operator, function or macro signature for rule: {}",
            rule.name()
        )
    };
    let text = match error {
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..) => return overload("no such overload".into()),
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".into(),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    format!("{text} evaluating rule: {}", rule.name())
}
