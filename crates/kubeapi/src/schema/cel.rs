//! CEL rules of a schema (`x-kubernetes-validations`), and expressions about requests.
//!
//! Functions and the evaluator are `kube-cel`'s; the walk through the object is our own, because its places, its
//! pairing of old and new items and its ratcheting have to be kube-apiserver's.
//!
//! Cost: kube-apiserver counts an evaluation's steps with a model of every function. Here a step is one node of the
//! expression that is looked at, counted each time that a loop passes it; work inside of one function call (a regular
//! expression on a long text) is one step. The limits are the same numbers.

mod check;
mod convert;
mod depth;
mod evaluate;
pub(crate) mod expression;
mod meter;
mod request;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::parser::Parser;

use super::fieldpath;
use super::node::Node;
use super::props::RuleProps;
pub(crate) use evaluate::validate;

/// What one object's rules may cost together.
pub(crate) const BUDGET: u64 = 10_000_000;
/// What one evaluation of a rule may cost.
const PER_CALL: u64 = 1_000_000;

/// A rule, ready to be asked.
pub(crate) struct Rule {
    expression: IdedExpr,
    message_expression: Option<IdedExpr>,
    /// Steps that are taken once, outside of loops.
    steps: u64,
    message_steps: u64,
    text: String,
    message: String,
    reason: Option<String>,
    /// Where an error is shown, seen from the value that the rule is about.
    field_path: Option<String>,
    uses_old_self: bool,
    optional_old_self: bool,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rule").field("rule", &self.text).finish_non_exhaustive()
    }
}

/// Why a rule cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RuleError {
    /// It is the rule itself.
    Rule(String),
    /// It is the expression of its message.
    Message(String),
}

impl Rule {
    /// Compiles a rule about values of `node`. Whatever cannot be evaluated later is an error now. `is_object` if
    /// they are whole objects, whose metadata is implied.
    pub(crate) fn compile(props: &RuleProps, node: &Node, is_object: bool) -> Result<Rule, RuleError> {
        let optional_old_self = props.optional_old_self == Some(true);
        let scope = check::Scope::new(node, is_object, optional_old_self);
        let (expression, kind) = parse(&props.rule, &scope).map_err(RuleError::Rule)?;
        if !matches!(kind, check::Kind::Bool | check::Kind::Any) {
            return Err(RuleError::Rule("cel expression must evaluate to a bool".into()));
        }
        let message_expression = match props.message_expression.trim() {
            "" => None,
            source => {
                let scope = check::Scope::new(node, is_object, false);
                let (expression, kind) = parse(source, &scope).map_err(RuleError::Message)?;
                if !matches!(kind, check::Kind::Text | check::Kind::Any) {
                    return Err(RuleError::Message("messageExpression must evaluate to a string".into()));
                }
                Some(expression)
            }
        };
        let field_path = match props.field_path.is_empty() {
            true => None,
            false => fieldpath::resolve(&props.field_path, node, true)
                .ok()
                .map(|(path, _)| path.as_str().to_owned()),
        };
        Ok(Rule {
            steps: meter::steps(&expression),
            message_steps: message_expression.as_ref().map_or(0, meter::steps),
            uses_old_self: check::uses(&expression, "oldSelf"),
            expression: meter::metered(expression),
            message_expression: message_expression.map(meter::metered),
            text: props.rule.trim().to_owned(),
            message: props.message.trim().to_owned(),
            reason: props.reason.clone(),
            field_path,
            optional_old_self,
        })
    }

    pub(crate) fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// How errors about the rule itself name it.
    fn name(&self) -> &str {
        if self.message.is_empty() { &self.text } else { &self.message }
    }

    /// What an object that breaks the rule is told.
    fn refusal(&self) -> String {
        match self.message.is_empty() {
            true => format!("failed rule: {}", self.text),
            false => self.message.clone(),
        }
    }
}

fn parse(source: &str, scope: &check::Scope<'_>) -> Result<(IdedExpr, check::Kind), String> {
    let work = || {
        let parser = Parser::new().enable_optional_syntax(true);
        let expression = parser.parse(source).map_err(|error| one_line(&error.to_string()))?;
        depth::check(&expression)?;
        let kind = check::check(&expression, scope)?;
        Ok::<_, String>((expression, kind))
    };
    let parsed = depth::with_room(source, work).and_then(|parsed| parsed);
    parsed.map_err(|why| format!("compilation failed: {why}"))
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
