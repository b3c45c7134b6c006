use serde_json::{Value, json};

use super::{Report, text};

/// Compares printer columns by position: that is how they are shown, and names may be given twice.
pub(super) fn compare(report: &mut Report, ours: &Value, upstream: &Value) {
    let (ours, upstream) = (described(ours), described(upstream));
    for position in 0..ours.len().max(upstream.len()) {
        let at = |columns: &[Value]| columns.get(position).cloned().unwrap_or_default();
        report.add(&format!("column {}", position + 1), &at(&ours), &at(&upstream));
    }
}

fn described(columns: &Value) -> Vec<Value> {
    columns.as_array().into_iter().flatten().map(described_column).collect()
}

fn described_column(column: &Value) -> Value {
    let priority = column["priority"].as_i64().unwrap_or_default();
    let (name, kind) = (text(&column["name"]), text(&column["type"]));
    let format = column["format"].as_str().map(|format| format!("/{format}")).unwrap_or_default();
    json!(format!("{name} {kind}{format} {} {priority}", text(&column["jsonPath"])))
}
