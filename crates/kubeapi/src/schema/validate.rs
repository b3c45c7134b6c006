//! Whether a value is what its schema says, in the words of kube-apiserver.
//!
//! The messages and their order follow its validator: type first, then `anyOf` and its like, strings, formats,
//! numbers, lists, enumerations, objects. Where it walks a Go map at random, fields come in alphabetical order here.

use serde_json::{Map, Value, json};

use super::correlate::Pair;
use super::node::{Additional, Node, Type};
use super::number::{self, Num};
use super::trail::{Trail, below};
use crate::{FieldError, Path};

/// Checks `value` below `base`. Of an update, what was wrong before and has not changed is tolerated.
pub(crate) fn validate(node: &Node, value: &Value, old: Option<&Value>, base: &Path) -> Vec<FieldError> {
    let validator = Validator { base };
    let plain = validator.check(node, value, None, &Trail::ROOT);
    match old {
        // Only now is it worth the time to look for the old values.
        Some(old) if !plain.errors.is_empty() => {
            let pair = Pair { new: value, old, node };
            validator.ratcheted(node, value, Some(pair), &Trail::ROOT).errors
        }
        _ => plain.errors,
    }
}

/// What a check found, and how many checks passed: of several failed branches, the one with most is reported.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    passed: usize,
}

impl Outcome {
    fn merge(&mut self, other: Outcome) {
        self.errors.extend(other.errors);
        self.passed += other.passed;
    }

    /// Branches of `allOf` find the same errors again.
    fn merge_new(&mut self, other: Outcome) {
        for error in other.errors {
            if !self.errors.contains(&error) {
                self.errors.push(error);
            }
        }
        self.passed += other.passed;
    }
}

struct Validator<'a> {
    base: &'a Path,
}

impl Validator<'_> {
    /// Checks a field or an item: errors count only if it has changed.
    fn ratcheted(&self, node: &Node, value: &Value, pair: Option<Pair<'_>>, trail: &Trail<'_>) -> Outcome {
        let mut outcome = self.check(node, value, pair, trail);
        if !outcome.errors.is_empty() && pair.is_some_and(|pair| pair.is_equal()) {
            outcome.errors.clear();
        }
        outcome
    }

    fn check(&self, node: &Node, value: &Value, pair: Option<Pair<'_>>, trail: &Trail<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        self.check_type(node, value, trail, &mut outcome);
        if value.is_null() {
            self.check_choices(node, value, trail, &mut outcome);
            return outcome;
        }
        self.check_branches(node, value, pair, trail, &mut outcome);
        match value {
            Value::String(text) => self.check_string(node, text, trail, &mut outcome),
            Value::Number(number) => self.check_number(node, Num::of(number), trail, &mut outcome),
            Value::Array(items) => self.check_list(node, items, pair, trail, &mut outcome),
            _ => {}
        }
        self.check_choices(node, value, trail, &mut outcome);
        outcome.passed += 1;
        if let Value::Object(fields) = value {
            self.check_object(node, fields, pair, trail, &mut outcome);
        }
        outcome.passed += 1;
        outcome
    }

    fn check_type(&self, node: &Node, value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        if node.kind.is_none() && !node.int_or_string && node.checks().format.is_none() {
            return;
        }
        match type_problem(node, value) {
            Some((wanted, found)) => outcome.errors.push(self.wrong_type(trail, &wanted, found)),
            None => outcome.passed += 1,
        }
        if !value.is_null() {
            outcome.passed += 1;
        }
    }

    fn wrong_type(&self, trail: &Trail<'_>, wanted: &str, found: &str) -> FieldError {
        let name = trail.dotted();
        let detail = format!("{name} in body must be of type {wanted}: {found:?}");
        FieldError::wrong_type(&below(self.base, &name), found, detail)
    }

    fn invalid(&self, trail: &Trail<'_>, value: impl Into<Value>, what: &str) -> FieldError {
        let name = trail.dotted();
        FieldError::invalid(&below(self.base, &name), value, format!("{name} in body {what}"))
    }

    fn check_string(&self, node: &Node, text: &str, trail: &Trail<'_>, outcome: &mut Outcome) {
        let checks = node.checks();
        let length = || text.chars().count();
        if let Some(most) = checks.max_length.filter(|most| text.len() > *most && length() > *most) {
            outcome.errors.push(FieldError::too_long(&trail.dotted_path(self.base), most));
        } else if let Some(least) = checks.min_length.filter(|least| length() < *least) {
            outcome.errors.push(self.invalid(trail, text, &format!("should be at least {least} chars long")));
        } else if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.regex.is_match(text))
        {
            outcome.errors.push(self.invalid(trail, text, &format!("should match '{}'", pattern.source)));
        }
        outcome.passed += 1;
        if let Some(format) = checks.format {
            if !format.accepts(text) {
                outcome.errors.push(self.wrong_type(trail, format.name(), text));
            }
            outcome.passed += 1;
        }
    }

    fn check_number(&self, node: &Node, number: Num, trail: &Trail<'_>, outcome: &mut Outcome) {
        for (shown, detail) in number::check(number, node.checks(), || trail.dotted()) {
            outcome.errors.push(FieldError::invalid(&trail.dotted_path(self.base), shown, detail));
        }
        outcome.passed += 2;
    }

    fn check_list(
        &self,
        node: &Node,
        items: &[Value],
        pair: Option<Pair<'_>>,
        trail: &Trail<'_>,
        outcome: &mut Outcome,
    ) {
        if let Some(schema) = &node.items {
            for (index, item) in items.iter().enumerate() {
                let item_pair = pair.and_then(|pair| pair.index(index));
                outcome.merge(self.ratcheted(schema, item, item_pair, &trail.index(index)));
            }
        }
        if let Some(least) = node.checks().min_items.filter(|least| items.len() < *least) {
            outcome.errors.push(self.invalid(
                trail,
                items.len(),
                &format!("should have at least {least} items"),
            ));
        }
        if let Some(most) = node.checks().max_items.filter(|most| items.len() > *most) {
            outcome.errors.push(FieldError::too_many(&trail.dotted_path(self.base), items.len(), most));
        }
        outcome.passed += 2;
    }

    /// `null` is never one of the choices, not even where it is listed.
    fn check_choices(&self, node: &Node, value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        let choices = &node.checks().choices;
        if choices.is_empty() || choices.iter().any(|choice| is_choice(value, choice)) {
            return;
        }
        let shown: Vec<String> = choices
            .iter()
            .map(|choice| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned))
            .collect();
        let value = match value {
            Value::Number(number) => Num::of(number).shown(),
            other => other.clone(),
        };
        let path = trail.dotted_path(self.base);
        outcome.errors.push(FieldError::not_supported(&path, value, shown.iter().map(String::as_str)));
    }

    fn check_object(
        &self,
        node: &Node,
        fields: &Map<String, Value>,
        pair: Option<Pair<'_>>,
        trail: &Trail<'_>,
        outcome: &mut Outcome,
    ) {
        outcome.passed += 1;
        self.check_field_count(node, fields.len(), trail, outcome);
        for (name, value) in fields {
            if let Some(schema) = node.properties.get(name) {
                // Both objects were converted to one version: a change of these is not visible.
                let is_type_meta = trail.is_root() && (name == "apiVersion" || name == "kind");
                let pair = pair.filter(|_| !is_type_meta).and_then(|pair| pair.key(name));
                outcome.merge(self.ratcheted(schema, value, pair, &trail.field(name)));
            } else if let Some(Additional::Schema(schema)) = &node.additional {
                let pair = pair.and_then(|pair| pair.key(name));
                outcome.merge(self.ratcheted(schema, value, pair, &trail.key(name)));
            } else if let Some(Additional::Allowed(false)) = &node.additional {
                let path = trail.dotted();
                let detail = format!("{path}.{name} in body is a forbidden property");
                outcome.errors.push(FieldError::invalid(&below(self.base, &path), name.as_str(), detail));
            }
        }
        for name in node.checks().required.iter().filter(|name| !fields.contains_key(*name)) {
            outcome.errors.push(FieldError::required(&trail.field(name).dotted_path(self.base), ""));
        }
    }

    fn check_field_count(&self, node: &Node, count: usize, trail: &Trail<'_>, outcome: &mut Outcome) {
        if let Some(least) = node.checks().min_properties.filter(|least| count < *least) {
            outcome.errors.push(self.invalid(
                trail,
                count,
                &format!("should have at least {least} properties"),
            ));
        }
        if let Some(most) = node.checks().max_properties.filter(|most| count > *most) {
            outcome.errors.push(FieldError::too_many(&trail.dotted_path(self.base), count, most));
        }
    }

    fn check_branches(
        &self,
        node: &Node,
        value: &Value,
        pair: Option<Pair<'_>>,
        trail: &Trail<'_>,
        outcome: &mut Outcome,
    ) {
        outcome.passed += 2;
        let checks = node.checks();
        if !checks.any_of.is_empty() {
            self.any_of(&checks.any_of, value, pair, trail, outcome);
        }
        if !checks.one_of.is_empty() {
            self.one_of(&checks.one_of, value, pair, trail, outcome);
        }
        if !checks.all_of.is_empty() {
            self.all_of(&checks.all_of, value, pair, trail, outcome);
        }
        if let Some(not) = &checks.not
            && self.check(not, value, pair, trail).errors.is_empty()
        {
            outcome.errors.push(self.whole(trail, "must not validate the schema (not)"));
        }
    }

    /// Such errors have no place of their own.
    fn whole(&self, trail: &Trail<'_>, what: &str) -> FieldError {
        FieldError::invalid(self.base, "", format!("{:?} {what}", trail.dotted()))
    }

    fn any_of(
        &self,
        branches: &[Node],
        value: &Value,
        pair: Option<Pair<'_>>,
        trail: &Trail<'_>,
        outcome: &mut Outcome,
    ) {
        let mut best: Option<Outcome> = None;
        for branch in branches {
            let result = self.check(branch, value, pair, trail);
            if result.errors.is_empty() {
                outcome.passed += result.passed;
                return;
            }
            if best.as_ref().is_none_or(|best| result.passed > best.passed) {
                best = Some(result);
            }
        }
        outcome.errors.push(self.whole(trail, "must validate at least one schema (anyOf)"));
        outcome.merge_new(best.unwrap_or_default());
    }

    fn one_of(
        &self,
        branches: &[Node],
        value: &Value,
        pair: Option<Pair<'_>>,
        trail: &Trail<'_>,
        outcome: &mut Outcome,
    ) {
        let mut valid = Vec::new();
        let mut best: Option<Outcome> = None;
        for branch in branches {
            let result = self.check(branch, value, pair, trail);
            if result.errors.is_empty() {
                valid.push(result.passed);
                best = None;
            } else if valid.is_empty() && best.as_ref().is_none_or(|best| result.passed > best.passed) {
                best = Some(result);
            }
        }
        match valid[..] {
            [passed] => outcome.passed += passed,
            _ => {
                let found = match valid.len() {
                    0 => "Found none valid".to_owned(),
                    count => format!("Found {count} valid alternatives"),
                };
                let what = format!("must validate one and only one schema (oneOf). {found}");
                outcome.errors.push(self.whole(trail, &what));
                outcome.merge_new(best.unwrap_or_default());
            }
        }
    }

    fn all_of(
        &self,
        branches: &[Node],
        value: &Value,
        pair: Option<Pair<'_>>,
        trail: &Trail<'_>,
        outcome: &mut Outcome,
    ) {
        let mut valid = 0;
        for branch in branches {
            let result = self.check(branch, value, pair, trail);
            valid += usize::from(result.errors.is_empty());
            outcome.merge_new(result);
        }
        if valid != branches.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.errors.push(self.whole(trail, &format!("must validate all the schemas (allOf){none}")));
        }
    }
}

/// The type that was wanted and the one that was found, if they differ.
fn type_problem(node: &Node, value: &Value) -> Option<(String, &'static str)> {
    let untyped = node.kind.is_none() && !node.int_or_string;
    let wants = |kind: Type| {
        node.kind == Some(kind) || (node.int_or_string && matches!(kind, Type::Integer | Type::String))
    };
    let (fits, found, go_format) = match value {
        Value::Null => return (!untyped && !node.nullable).then(|| (node.type_names(), "null")),
        Value::Bool(_) => (wants(Type::Boolean), "boolean", ""),
        Value::String(_) => (wants(Type::String), "string", ""),
        Value::Array(_) => (wants(Type::Array), "array", ""),
        Value::Object(_) => (wants(Type::Object), "object", ""),
        Value::Number(number) => match Num::of(number) {
            Num::Int(_) => (wants(Type::Integer) || wants(Type::Number), "integer", "int64"),
            float => (wants(Type::Number) || (float.is_whole() && wants(Type::Integer)), "number", "float64"),
        },
    };
    match node.checks().format {
        // A format is only of strings, and says what was wanted where there is something else.
        Some(_) if matches!(value, Value::String(_) | Value::Array(_)) => {
            let numeric = wants(Type::Integer) || wants(Type::Number);
            (numeric && !fits).then(|| (node.type_names(), found))
        }
        Some(format) if !fits => Some((format.name().to_owned(), go_format)),
        _ => (!fits).then(|| (node.type_names(), found)),
    }
}

/// Numbers are compared by value, whichever way they are written.
fn is_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(choice)) => match (Num::of(value), Num::of(choice)) {
            (Num::Int(value), Num::Int(choice)) => value == choice,
            _ => value.as_f64() == choice.as_f64(),
        },
        _ => value == choice,
    }
}

/// CEL rules are not asked about an object with such errors; the error that says so.
pub(crate) fn blocks_rules(errors: &[FieldError]) -> Option<FieldError> {
    use crate::field::Problem;
    let blocking = |error: &FieldError| {
        matches!(
            error.problem,
            Problem::NotSupported
                | Problem::Required
                | Problem::TooLong
                | Problem::TooMany
                | Problem::TypeInvalid
        )
    };
    errors.iter().any(blocking).then(|| {
        FieldError::invalid(
            &Path::root(),
            json!(null),
            "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        )
    })
}

#[cfg(test)]
mod tests;
