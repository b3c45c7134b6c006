//! Counting what an evaluation costs, and ending it when it costs too much.
//!
//! The evaluator itself counts nothing, so every loop in an expression is given a condition more: a call that takes
//! the steps of one round from what is left, and ends the loop when there is nothing.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use kube_cel::cel::{Context, IdedExpr, ResolveResult, Value};

/// No expression can name it: `@` is not part of a name.
const TICK: &str = "@tick";

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static FUNCTIONS: Rc<Context<'static>> = Rc::new(functions());
}

fn functions() -> Context<'static> {
    use kube_cel::KubeCelExt;
    let mut context = Context::default().with_all();
    context.add_function(TICK, |steps: i64| {
        let steps = steps.unsigned_abs();
        LEFT.with(|left| {
            let enough = left.get() > steps;
            left.set(left.get().saturating_sub(steps));
            enough
        })
    });
    // Types are values: `type(self) == string`. The evaluator knows none.
    for (name, _) in TYPES {
        context.add_variable_from_value(name, type_value(name));
    }
    context.add_function("type", |value: Value| -> ResolveResult {
        let kind = value.type_of().to_string();
        let name = TYPES.iter().find(|(_, rust)| *rust == kind).map_or(kind.as_str(), |(name, _)| name);
        Ok(type_value(name))
    });
    // Only the type check is different for what it returns.
    context.add_function("dyn", |value: Value| -> ResolveResult { Ok(value) });
    context
}

/// The names of types, in CEL and in the evaluator.
const TYPES: [(&str, &str); 9] = [
    ("int", "int"),
    ("uint", "uint"),
    ("double", "float"),
    ("bool", "bool"),
    ("string", "string"),
    ("bytes", "bytes"),
    ("list", "list"),
    ("map", "map"),
    ("null_type", "null"),
];

/// No text of an object is equal to it by chance.
fn type_value(name: &str) -> Value {
    Value::String(Arc::new(format!("\0type {name}")))
}

/// The functions that rules may call.
pub(super) fn context() -> Rc<Context<'static>> {
    FUNCTIONS.with(Rc::clone)
}

/// Runs an evaluation that may take `budget` steps; how many it took, or `None` if that was not enough.
pub(super) fn metered_run<T>(budget: u64, steps: u64, run: impl FnOnce() -> T) -> (T, Option<u64>) {
    let before = LEFT.with(|left| left.replace(budget.saturating_sub(steps)));
    let result = run();
    let left = LEFT.with(|cell| cell.replace(before));
    (result, (left > 0).then(|| budget - left))
}

/// The steps outside of loops.
pub(super) fn steps(expression: &IdedExpr) -> u64 {
    1 + match &expression.expr {
        Expr::Comprehension(loops) => {
            steps(&loops.iter_range) + steps(&loops.accu_init) + steps(&loops.result)
        }
        other => children(other).into_iter().map(steps).sum(),
    }
}

/// The expressions directly inside of one.
pub(super) fn children(expr: &Expr) -> Vec<&IdedExpr> {
    match expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(loops) => {
            vec![&loops.iter_range, &loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| parts(&entry.expr)).collect(),
        Expr::Struct(record) => record.entries.iter().flat_map(|entry| parts(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
    }
}

fn parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// The same expression, with its loops counted.
pub(super) fn metered(mut expression: IdedExpr) -> IdedExpr {
    expression.expr = match expression.expr {
        Expr::Call(mut call) => {
            // The evaluator fails on `a.?b` if there is no `b`; `a[?'b']` means the same and works.
            if call.func_name == operators::OPT_SELECT {
                call.func_name = operators::OPT_INDEX.into();
            }
            call.target = call.target.map(|target| Box::new(metered(*target)));
            call.args = call.args.into_iter().map(metered).collect();
            Expr::Call(call)
        }
        Expr::Comprehension(loops) => Expr::Comprehension(Box::new(metered_loop(*loops))),
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(metered).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                meter_entry(&mut entry.expr);
            }
            Expr::Map(map)
        }
        Expr::Struct(mut record) => {
            for entry in &mut record.entries {
                meter_entry(&mut entry.expr);
            }
            Expr::Struct(record)
        }
        Expr::Select(mut select) => {
            select.operand = Box::new(metered(*select.operand));
            Expr::Select(select)
        }
        other => other,
    };
    expression
}

fn meter_entry(entry: &mut EntryExpr) {
    match entry {
        EntryExpr::StructField(field) => field.value = metered(std::mem::take(&mut field.value)),
        EntryExpr::MapEntry(entry) => {
            entry.key = metered(std::mem::take(&mut entry.key));
            entry.value = metered(std::mem::take(&mut entry.value));
        }
    }
}

fn metered_loop(loops: ComprehensionExpr) -> ComprehensionExpr {
    let round = steps(&loops.loop_cond) + steps(&loops.loop_step);
    let id = loops.loop_cond.id;
    let node = |expr| IdedExpr { id, expr };
    let literal = LiteralValue::Int(i64::try_from(round).unwrap_or(i64::MAX).into());
    let tick = node(Expr::Call(CallExpr {
        func_name: TICK.into(),
        target: None,
        args: vec![node(Expr::Literal(literal))],
    }));
    let stop = node(Expr::Literal(LiteralValue::Boolean(false.into())));
    let condition = CallExpr {
        func_name: operators::CONDITIONAL.into(),
        target: None,
        args: vec![tick, metered(loops.loop_cond), stop],
    };
    ComprehensionExpr {
        iter_range: metered(loops.iter_range),
        accu_init: metered(loops.accu_init),
        loop_cond: node(Expr::Call(condition)),
        loop_step: metered(loops.loop_step),
        result: metered(loops.result),
        ..loops
    }
}

/// Whether rules can call a function of this name.
pub(super) fn has_function(name: &str) -> bool {
    use kube_cel::cel::{ExecutionError, Program};
    let unknown = |source: String| match Program::compile(&source).map(|program| program.execute(&context()))
    {
        Ok(Err(ExecutionError::UndeclaredReference(_))) => true,
        Ok(_) => false,
        Err(_) => true,
    };
    !unknown(format!("{name}()")) || !unknown(format!("''.{name}()"))
}
