//! ValidatingAdmissionPolicies.

use serde::Deserialize;
use serde_json::Value;

use super::conditions::{Condition, Conditions, Matching};
use super::{FailurePolicy, MatchResources};
use crate::schema::cel::BUDGET;
use crate::schema::cel::expression::{Expression, Failure, Gives, Inputs, Names, Outcome, Session, Variable};

pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// A message that an expression makes may not be longer.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The spec of a policy as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    failure_policy: FailurePolicy,
    param_kind: Option<Value>,
    match_constraints: MatchResources,
    match_conditions: Vec<Condition>,
    variables: Vec<Condition>,
    validations: Vec<Validation>,
    audit_annotations: Vec<Annotation>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Validation {
    expression: String,
    message: String,
    message_expression: String,
    reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Annotation {
    key: String,
    value_expression: String,
}

/// A policy, ready to be asked.
#[derive(Debug)]
pub struct Policy {
    /// What becomes of writes that cannot be judged.
    pub failure: FailurePolicy,
    /// What writes it is about.
    pub constraints: MatchResources,
    conditions: Conditions,
    variables: Vec<(String, Expression)>,
    validations: Vec<Check>,
    annotations: Vec<(Annotation, Result<Expression, String>)>,
}

#[derive(Debug)]
struct Check {
    validation: Validation,
    expression: Result<Expression, String>,
    message: Option<Expression>,
}

/// What a policy looks at. Objects are null where there are none.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInputs<'a> {
    /// The AdmissionRequest without its objects.
    pub request: &'a Value,
    /// What will be there.
    pub object: &'a Value,
    /// What is there.
    pub old_object: &'a Value,
    /// The namespace that it is in.
    pub namespace: &'a Value,
    /// What the policy is given by its binding.
    pub params: &'a Value,
}

/// What one validation says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is content.
    Admit,
    /// It is not.
    Deny {
        /// Why.
        message: String,
        /// A Status' reason.
        reason: String,
    },
}

/// What a policy says of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluated {
    /// One for each validation.
    pub decisions: Vec<Decision>,
    /// For the audit log, by key.
    pub annotations: Vec<(String, String)>,
    /// Why an annotation could not be made, where that refuses the write.
    pub failed_annotations: Vec<String>,
}

/// A part of a policy that has an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Of a validation.
    Validation,
    /// Of a validation's message.
    Message,
    /// Of an annotation's value.
    Annotation,
}

/// The names that the expressions of a policy may use, before its variables are declared.
pub(crate) fn names(spec: &Value) -> Names {
    let variables = spec["variables"].as_array().is_some_and(|all| !all.is_empty());
    Names { params: !spec["paramKind"].is_null(), variables: variables.then(Vec::new) }
}

impl Names {
    /// Makes a variable known to all expressions that come after it. Gives what is wrong with its own.
    pub(crate) fn declare(&mut self, name: &str, source: &str) -> Option<String> {
        let compiled = Expression::compile(source, self);
        let gives = compiled.as_ref().map_or(Gives::Unknown, Expression::gives);
        self.variables.get_or_insert_default().push(Variable { name: name.to_owned(), gives });
        compiled.err()
    }
}

/// What is wrong with an expression of a policy.
pub(crate) fn wrong_part(part: Part, source: &str, names: &Names) -> Option<String> {
    let gives = match Expression::compile(source, names) {
        Ok(compiled) => compiled.gives(),
        Err(why) => return Some(why),
    };
    match (part, gives.type_name()) {
        (Part::Validation, _) => not_bool(gives),
        (Part::Message, Some(found @ ("bool" | "dyn"))) => {
            Some(format!("must evaluate to string but got {found}"))
        }
        (Part::Annotation, Some(found @ ("bool" | "dyn"))) => {
            Some(format!("must evaluate to one of [string null_type] but got {found}"))
        }
        _ => None,
    }
}

pub(super) fn not_bool(gives: Gives) -> Option<String> {
    match (gives, gives.type_name()) {
        (Gives::Bool | Gives::Unknown, _) => None,
        (_, Some(found)) => Some(format!("must evaluate to bool but got {found}")),
        (_, None) => Some("must evaluate to bool".into()),
    }
}

impl Policy {
    /// A stored policy. Expressions that cannot be compiled fail when they are asked.
    ///
    /// # Errors
    /// If it has no spec that could be read.
    pub fn read(policy: &Value) -> Result<Self, serde_json::Error> {
        let spec = Spec::deserialize(&policy["spec"])?;
        let mut names = Names { params: spec.param_kind.is_some(), variables: Some(Vec::new()) };
        let mut variables = Vec::new();
        for variable in &spec.variables {
            let compiled = Expression::compile(&variable.expression, &names);
            let gives = compiled.as_ref().map_or(Gives::Unknown, Expression::gives);
            names.variables.get_or_insert_default().push(Variable { name: variable.name.clone(), gives });
            // Who uses one that does not compile is told that there is no such thing.
            variables.extend(compiled.ok().map(|compiled| (variable.name.clone(), compiled)));
        }
        let compile = |source: &str| Expression::compile(source, &names);
        let validations = spec.validations.into_iter().map(|validation| {
            let message = match validation.message_expression.trim() {
                "" => None,
                _ => compile(&validation.message_expression).ok(),
            };
            Check { expression: compile(&validation.expression), message, validation }
        });
        let annotations = spec.audit_annotations.into_iter().map(|annotation| {
            let compiled = compile(annotation.value_expression.trim());
            (annotation, compiled)
        });
        Ok(Policy {
            failure: spec.failure_policy,
            constraints: spec.match_constraints,
            conditions: Conditions::compile(&spec.match_conditions, &names),
            validations: validations.collect(),
            annotations: annotations.collect(),
            variables,
        })
    }

    /// What the policy says of a write that it is about.
    pub fn evaluate(&self, inputs: PolicyInputs<'_>) -> Evaluated {
        let PolicyInputs { request, object, old_object, namespace, params } = inputs;
        let inputs = Inputs { object, old_object, request, namespace, params };
        let unseen = Inputs { namespace: &Value::Null, ..inputs };
        match self.conditions.ask(unseen, &self.variables, self.failure) {
            Matching::Yes => {}
            Matching::No => return Evaluated::default(),
            Matching::Failed(why) => return self.failed(why),
        }
        let validated = Session::run(inputs, &self.variables, BUDGET, |session| {
            let asked: Result<Vec<_>, Failure> =
                self.validations.iter().map(|check| self.decide(check, session)).collect();
            asked
        });
        let Ok(decisions) = validated else { return self.failed(OUT_OF_BUDGET.into()) };
        let mut evaluated = Evaluated { decisions, ..Evaluated::default() };
        let annotated = Session::run(inputs, &self.variables, BUDGET, |session| {
            self.annotations.iter().try_for_each(|one| self.annotate(one, session, &mut evaluated))
        });
        match annotated {
            Ok(()) => evaluated,
            Err(_) => self.failed(OUT_OF_BUDGET.into()),
        }
    }

    /// Nothing can be said of the write.
    fn failed(&self, message: String) -> Evaluated {
        Evaluated { decisions: vec![self.unknown(message)], ..Evaluated::default() }
    }

    fn unknown(&self, message: String) -> Decision {
        match self.failure {
            FailurePolicy::Ignore => Decision::Admit,
            FailurePolicy::Fail => Decision::Deny { message, reason: String::new() },
        }
    }

    fn decide(&self, check: &Check, session: &mut Session<'_>) -> Result<Decision, Failure> {
        let expression = match &check.expression {
            Ok(expression) => expression,
            Err(why) => return Ok(self.unknown(format!("compilation error: {why}"))),
        };
        match session.evaluate(expression) {
            Ok(Outcome::Bool(true)) => Ok(Decision::Admit),
            Ok(_) => {
                let message = message(check, session);
                let reason = check.validation.reason.clone().unwrap_or_else(|| "Invalid".into());
                Ok(message.map_or_else(
                    || self.unknown(format!("failed messageExpression: {OUT_OF_BUDGET}")),
                    |message| Decision::Deny { message, reason },
                ))
            }
            Err(Failure::Failed(why)) => Ok(self.unknown(why)),
            Err(exhausted) => Err(exhausted),
        }
    }

    fn annotate(
        &self,
        (annotation, expression): &(Annotation, Result<Expression, String>),
        session: &mut Session<'_>,
        evaluated: &mut Evaluated,
    ) -> Result<(), Failure> {
        let outcome = match expression {
            Ok(expression) => session.evaluate(expression),
            Err(why) => Err(Failure::Failed(format!("compilation error: {why}"))),
        };
        let failed = match outcome {
            Ok(Outcome::Text(text)) => {
                let text = text.trim();
                if !text.is_empty() {
                    evaluated.annotations.push((annotation.key.clone(), text.to_owned()));
                }
                return Ok(());
            }
            Ok(Outcome::Null) => return Ok(()),
            Ok(Outcome::Bool(_)) => wrong_type(annotation, "bool"),
            Ok(Outcome::Other(found)) => wrong_type(annotation, &found),
            Err(Failure::Failed(_)) if self.failure == FailurePolicy::Ignore => return Ok(()),
            Err(Failure::Failed(why)) => why,
            Err(exhausted) => return Err(exhausted),
        };
        evaluated.failed_annotations.push(failed);
        Ok(())
    }
}

fn wrong_type(annotation: &Annotation, found: &str) -> String {
    format!(
        "valueExpression '{}' resulted in unsupported return type: {found}. Return type must be either string or null.",
        annotation.value_expression
    )
}

/// The validation's own words if it has an expression for them that works, else the fixed ones. `None` if nothing
/// more can be asked.
fn message(check: &Check, session: &mut Session<'_>) -> Option<String> {
    let validation = &check.validation;
    let usual = || match validation.message.trim() {
        "" => format!("failed expression: {}", validation.expression.trim()),
        message => message.to_owned(),
    };
    let Some(expression) = &check.message else { return Some(usual()) };
    match session.evaluate(expression) {
        Ok(Outcome::Text(text)) => match text.trim() {
            text if text.is_empty() || text.len() > LONGEST_MESSAGE || text.contains('\n') => Some(usual()),
            text => Some(text.to_owned()),
        },
        Ok(_) | Err(Failure::Failed(_)) => Some(usual()),
        Err(Failure::OutOfBudget) => None,
    }
}

#[cfg(test)]
mod tests;
