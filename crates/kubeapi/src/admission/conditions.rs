//! Match conditions: expressions that say whether a webhook or policy is asked at all.

use serde::Deserialize;
use serde_json::Value;

use super::FailurePolicy;
use crate::schema::cel::expression::{Expression, Failure, Gives, Inputs, Names, Outcome, Session};

/// What all conditions of one webhook or policy may cost together.
const BUDGET: u64 = 2_500_000;

/// A condition as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Its name.
    pub name: String,
    /// What has to be true.
    pub expression: String,
}

/// Conditions, ready to be asked.
#[derive(Debug, Default)]
pub struct Conditions {
    /// Why one cannot be used, if so.
    compiled: Vec<Result<Expression, String>>,
}

/// What conditions say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matching {
    /// All are true.
    Yes,
    /// One is false, or could not be evaluated and need not be.
    No,
    /// One could not be evaluated: why.
    Failed(String),
}

/// What is wrong with a condition; `params` if it may use them.
pub(crate) fn wrong_condition(expression: &str, params: bool) -> Option<String> {
    let names = Names { params, variables: None };
    match Expression::compile(expression, &names).map(|compiled| compiled.gives()) {
        Ok(gives) => super::policy::not_bool(gives),
        Err(why) => Some(why),
    }
}

impl Conditions {
    /// Conditions of a webhook: they see nothing but the request and its objects.
    pub fn of_webhook(conditions: &[Condition]) -> Self {
        Conditions::compile(conditions, &Names::default())
    }

    pub(super) fn compile(conditions: &[Condition], names: &Names) -> Self {
        let compiled = conditions.iter().map(|one| Expression::compile(&one.expression, names));
        Conditions { compiled: compiled.collect() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.compiled.is_empty()
    }

    /// What they say of a request, whose objects are null where there are none.
    pub fn verdict(
        &self,
        request: &Value,
        object: &Value,
        old_object: &Value,
        failure: FailurePolicy,
    ) -> Matching {
        let null = &Value::Null;
        let inputs = Inputs { object, old_object, request, namespace: null, params: null };
        self.ask(inputs, &[], failure)
    }

    pub(super) fn ask(
        &self,
        inputs: Inputs<'_>,
        variables: &[(String, Expression)],
        failure: FailurePolicy,
    ) -> Matching {
        if self.is_empty() {
            return Matching::Yes;
        }
        let failed = match Session::run(inputs, variables, BUDGET, |session| self.all(session)) {
            Ok(errors) if errors.is_empty() => return Matching::Yes,
            Ok(errors) => errors,
            Err(None) => return Matching::No,
            Err(Some(exhausted)) => vec![exhausted],
        };
        match (failure, failed.as_slice()) {
            (FailurePolicy::Ignore, _) => Matching::No,
            (FailurePolicy::Fail, [one]) => Matching::Failed(one.clone()),
            (FailurePolicy::Fail, more) => Matching::Failed(format!("[{}]", more.join(", "))),
        }
    }

    /// Why some could not be evaluated if none is false. The error is none if one is, else why no more can be asked.
    fn all(&self, session: &mut Session<'_>) -> Result<Vec<String>, Option<String>> {
        let mut errors = Vec::new();
        for condition in &self.compiled {
            let condition = match condition {
                Ok(condition) => condition,
                Err(why) => {
                    errors.push(format!("compilation error: {why}"));
                    continue;
                }
            };
            match session.evaluate(condition) {
                Ok(Outcome::Bool(false)) => return Err(None),
                Ok(_) => {}
                Err(Failure::OutOfBudget) => return Err(Some(super::policy::OUT_OF_BUDGET.into())),
                Err(Failure::Failed(why)) => errors.push(why),
            }
        }
        Ok(errors)
    }
}

impl Gives {
    /// As upstream names the type.
    pub(super) fn type_name(self) -> Option<&'static str> {
        match self {
            Gives::Bool => Some("bool"),
            Gives::Text => Some("string"),
            Gives::Dynamic => Some("dyn"),
            Gives::Other | Gives::Unknown => None,
        }
    }
}
