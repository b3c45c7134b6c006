//! Single expressions about a request, as admission has them.

use std::collections::{BTreeMap, BTreeSet};

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value as Cel};
use serde_json::Value;

use super::check::{self, Kind, Scope};
use super::{PER_CALL, convert, meter, one_line, request};

/// What the variables of a policy are found under.
const VARIABLES: &str = "variables";

/// The names that an expression may use beside `object`, `oldObject`, `request` and `namespaceObject`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Whether there is `params`.
    pub(crate) params: bool,
    /// What there is in `variables`; `None` if there is no such thing.
    pub(crate) variables: Option<Vec<Variable>>,
}

/// A variable that expressions may use.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) gives: Gives,
}

/// What is known of an expression's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    Bool,
    Text,
    Other,
    /// It is part of an object: only the object says.
    Dynamic,
    Unknown,
}

/// An expression, ready to be asked.
pub(crate) struct Expression {
    ast: IdedExpr,
    /// Steps that are taken once, outside of loops.
    steps: u64,
    source: String,
    variables: BTreeSet<String>,
    gives: Gives,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expression").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Expression {
    /// Compiles an expression. Whatever cannot be evaluated later is an error now.
    pub(crate) fn compile(source: &str, names: &Names) -> Result<Self, String> {
        let failed = |why: String| format!("compilation failed: {why}");
        let parser = Parser::new().enable_optional_syntax(true);
        let ast = parser.parse(source).map_err(|error| failed(one_line(&error.to_string())))?;
        let kinds: Vec<(String, Kind)> =
            names.variables.iter().flatten().map(|one| (one.name.clone(), kind_of(one.gives))).collect();
        let mut scope = Scope::empty()
            .with_any("object")
            .with_any("oldObject")
            .with_form("request", &request::REQUEST)
            .with_form("namespaceObject", &request::NAMESPACE);
        if names.params {
            scope = scope.with_any("params");
        }
        if names.variables.is_some() {
            scope = scope.with_fields(VARIABLES, &kinds);
        }
        let kind = check::check(&ast, &scope).map_err(failed)?;
        let gives = gives(&ast, kind, names);
        let steps = meter::steps(&ast);
        let mut rewriting = Rewriting::default();
        let ast = rewriting.expression(ast);
        if rewriting.bare {
            return Err(failed(format!("'{VARIABLES}' has to be followed by the name of a variable")));
        }
        let variables = rewriting.used;
        Ok(Expression { ast: meter::metered(ast), steps, source: source.to_owned(), variables, gives })
    }

    pub(crate) fn gives(&self) -> Gives {
        self.gives
    }
}

/// Whether a text can be a name in expressions.
pub(crate) fn is_identifier(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && text.chars().all(plain) && !convert::RESERVED.contains(&text)
}

fn kind_of(gives: Gives) -> Kind {
    match gives {
        Gives::Bool => Kind::Bool,
        Gives::Text => Kind::Text,
        Gives::Other => Kind::Other,
        Gives::Dynamic | Gives::Unknown => Kind::Any,
    }
}

fn gives(ast: &IdedExpr, kind: Kind, names: &Names) -> Gives {
    match kind {
        Kind::Bool => Gives::Bool,
        Kind::Text => Gives::Text,
        Kind::Other => Gives::Other,
        Kind::Any if is_dynamic(ast, names) => Gives::Dynamic,
        Kind::Any => Gives::Unknown,
    }
}

/// Whether an expression names a part of an object and does nothing more.
fn is_dynamic(ast: &IdedExpr, names: &Names) -> bool {
    match &ast.expr {
        Expr::Ident(name) => matches!(name.as_str(), "object" | "oldObject" | "params"),
        Expr::Select(select) => match &select.operand.expr {
            Expr::Ident(name) if name == VARIABLES => names
                .variables
                .iter()
                .flatten()
                .any(|one| one.name == select.field && one.gives == Gives::Dynamic),
            _ => !select.test && is_dynamic(&select.operand, names),
        },
        Expr::Call(call) => call.func_name == operators::INDEX && is_dynamic(&call.args[0], names),
        _ => false,
    }
}

/// Makes an expression one that the evaluator understands as upstream's does:
/// - `variables.x` is a variable of that name, which is there only if its own expression gave something;
/// - `a.b` is `a['b']`: the evaluator takes the former for false if `a` is null.
#[derive(Default)]
struct Rewriting {
    /// Names that loops give to something else.
    hidden: Vec<String>,
    used: BTreeSet<String>,
    /// Whether all variables are used as one thing.
    bare: bool,
}

fn variable(name: &str) -> String {
    // No expression can say this.
    format!("@{VARIABLES}.{name}")
}

impl Rewriting {
    fn is_variables(&self, expression: &IdedExpr) -> bool {
        matches!(&expression.expr, Expr::Ident(name) if name == VARIABLES)
            && !self.hidden.iter().any(|name| name == VARIABLES)
    }

    fn expression(&mut self, mut expression: IdedExpr) -> IdedExpr {
        let id = expression.id;
        self.bare |= self.is_variables(&expression);
        expression.expr = match expression.expr {
            Expr::Select(select) if self.is_variables(&select.operand) => {
                if select.test {
                    Expr::Literal(LiteralValue::Boolean(true.into()))
                } else {
                    self.used.insert(select.field.clone());
                    Expr::Ident(variable(&select.field))
                }
            }
            Expr::Select(mut select) if select.test => {
                *select.operand = self.expression(*select.operand);
                Expr::Select(select)
            }
            Expr::Select(select) => {
                let field = Expr::Literal(LiteralValue::String(select.field.into()));
                let args = vec![self.expression(*select.operand), IdedExpr { id, expr: field }];
                Expr::Call(CallExpr { func_name: operators::INDEX.into(), target: None, args })
            }
            Expr::Call(mut call) => {
                call.target = call.target.map(|target| Box::new(self.expression(*target)));
                call.args = call.args.into_iter().map(|one| self.expression(one)).collect();
                Expr::Call(call)
            }
            Expr::Comprehension(loops) => Expr::Comprehension(Box::new(self.comprehension(*loops))),
            Expr::List(mut list) => {
                list.elements = list.elements.into_iter().map(|one| self.expression(one)).collect();
                Expr::List(list)
            }
            Expr::Map(mut map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        entry.key = self.expression(std::mem::take(&mut entry.key));
                        entry.value = self.expression(std::mem::take(&mut entry.value));
                    }
                }
                Expr::Map(map)
            }
            other => other,
        };
        expression
    }

    fn comprehension(&mut self, loops: ComprehensionExpr) -> ComprehensionExpr {
        let iter_range = self.expression(loops.iter_range);
        let accu_init = self.expression(loops.accu_init);
        let before = self.hidden.len();
        self.hidden.extend([loops.iter_var.clone(), loops.accu_var.clone()]);
        self.hidden.extend(loops.iter_var2.clone());
        let loop_cond = self.expression(loops.loop_cond);
        let loop_step = self.expression(loops.loop_step);
        let result = self.expression(loops.result);
        self.hidden.truncate(before);
        ComprehensionExpr { iter_range, accu_init, loop_cond, loop_step, result, ..loops }
    }
}

/// What an expression gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Bool(bool),
    Text(String),
    Null,
    /// A value of this type.
    Other(String),
}

/// Why an expression gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// All expressions together cost too much: nothing more may be asked.
    OutOfBudget,
    /// In words.
    Failed(String),
}

/// Everything that expressions are about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) object: &'a Value,
    pub(crate) old_object: &'a Value,
    pub(crate) request: &'a Value,
    pub(crate) namespace: &'a Value,
    pub(crate) params: &'a Value,
}

/// Evaluations that share their inputs and a budget.
pub(crate) struct Session<'a> {
    scope: Context<'a>,
    variables: &'a [(String, Expression)],
    /// Those that were asked; why, if they gave nothing.
    done: BTreeMap<String, Option<String>>,
    left: u64,
}

impl Session<'_> {
    /// Evaluates with these inputs.
    pub(crate) fn run<T>(
        inputs: Inputs<'_>,
        variables: &[(String, Expression)],
        budget: u64,
        ask: impl FnOnce(&mut Session<'_>) -> T,
    ) -> T {
        let functions = meter::context();
        let mut scope = functions.new_inner_scope();
        for (name, value) in [
            ("object", inputs.object),
            ("oldObject", inputs.old_object),
            ("request", inputs.request),
            ("namespaceObject", inputs.namespace),
            ("params", inputs.params),
        ] {
            scope.add_variable_from_value(name, convert::to_cel(value, None));
        }
        ask(&mut Session { scope, variables, done: BTreeMap::new(), left: budget })
    }

    pub(crate) fn evaluate(&mut self, expression: &Expression) -> Result<Outcome, Failure> {
        let failed = |why: String| {
            Failure::Failed(format!("expression '{}' resulted in error: {why}", expression.source))
        };
        let value = self.value(expression)?.map_err(failed)?;
        Ok(match value {
            Cel::Bool(value) => Outcome::Bool(value),
            Cel::String(text) => Outcome::Text(text.to_string()),
            Cel::Null => Outcome::Null,
            other => Outcome::Other(other.type_of().to_string()),
        })
    }

    fn value(&mut self, expression: &Expression) -> Result<Result<Cel, String>, Failure> {
        for name in &expression.variables {
            self.define(name)?;
        }
        let limit = self.left.min(PER_CALL);
        let (result, cost) =
            meter::metered_run(limit, expression.steps, || self.scope.resolve(&expression.ast));
        match cost {
            Some(cost) => self.left -= cost,
            None if limit < PER_CALL => return Err(Failure::OutOfBudget),
            None => {
                self.left -= limit;
                return Ok(Err("operation cancelled: actual cost limit exceeded".into()));
            }
        }
        Ok(result.map_err(|error| self.text(&error)))
    }

    /// Makes a variable known, if it has a value. Those that have none fail whoever looks at them, not whoever names
    /// them.
    fn define(&mut self, name: &str) -> Result<(), Failure> {
        if self.done.contains_key(name) {
            return Ok(());
        }
        let variables = self.variables;
        let Some((_, expression)) = variables.iter().find(|(known, _)| known == name) else { return Ok(()) };
        let failed = match self.value(expression)? {
            Ok(value) => {
                self.scope.add_variable_from_value(variable(name), value);
                None
            }
            Err(why) => Some(format!("composited variable {name:?} fails to evaluate: {why}")),
        };
        self.done.insert(name.to_owned(), failed);
        Ok(())
    }

    fn text(&self, error: &ExecutionError) -> String {
        match error {
            ExecutionError::UndeclaredReference(name) => {
                let known = self.done.iter().find(|(known, _)| variable(known) == **name);
                known.and_then(|(_, failed)| failed.clone()).unwrap_or_else(|| error.to_string())
            }
            ExecutionError::NoSuchOverload
            | ExecutionError::UnsupportedBinaryOperator(..)
            | ExecutionError::UnsupportedUnaryOperator(..)
            | ExecutionError::ValuesNotComparable(..) => "no such overload".into(),
            ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
            ExecutionError::DivisionByZero(_) => "division by zero".into(),
            ExecutionError::FunctionError { message, .. } => message.clone(),
            other => other.to_string(),
        }
    }
}
