//! `herdsman get`: objects in columns, as the server lays them out, or as they are.

use anyhow::Context as _;
use serde_json::Value;

use super::ask::{Ask, explained};
use super::kinds::{self, Word};
use super::output::{self, Format};
use super::target::{Target, block_on};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to list (cluster, machine, pool, ...), or KIND/NAME
    kind: String,
    /// Only this one
    name: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Every namespace
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    /// Only objects with these labels, as kubectl takes them
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// How to print it
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Prints what was asked for.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    block_on(get(arguments))
}

async fn get(arguments: &Arguments) -> anyhow::Result<()> {
    let (kind, name) = match (&arguments.name, arguments.kind.split_once('/')) {
        (None, Some((kind, name))) => (kind, Some(name)),
        (name, _) => (arguments.kind.as_str(), name.as_deref()),
    };
    let word = kinds::find(kind)?;
    let ask = Ask::new(&arguments.target).await?;
    if let Some(name) = name {
        // Its absence is told with the nearest name.
        let mut object = ask.object(word, name).await?;
        trim(&mut object);
        if matches!(arguments.output, Format::Json | Format::Yaml) {
            return output::print(&output::document(&object, arguments.output)?);
        }
    }
    let path = path(word, &ask.namespace, arguments.all_namespaces, name, arguments.selector.as_deref());
    let as_table = matches!(arguments.output, Format::Table | Format::Wide);
    let mut answer = request(&ask, &path, as_table).await?;
    let text = match arguments.output {
        Format::Json | Format::Yaml => {
            answer["items"].as_array_mut().into_iter().flatten().for_each(trim);
            output::document(&answer, arguments.output)?
        }
        Format::Name => names(word, &answer),
        format => table(&answer, format == Format::Wide, arguments.all_namespaces && word.namespaced),
    };
    if text.is_empty() {
        eprintln!("there is no {}", word.name());
    }
    output::print(&text)
}

/// Takes away what is long and says who wrote what.
fn trim(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Where the server has it.
fn path(word: &Word, namespace: &str, all: bool, name: Option<&str>, selector: Option<&str>) -> String {
    let id = word.id();
    let base = if id.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", id.group) };
    let inside = if word.namespaced && !all { format!("/namespaces/{namespace}") } else { String::new() };
    let mut query = Vec::new();
    if let Some(name) = name {
        query.push(format!("fieldSelector=metadata.name%3D{name}"));
    }
    if let Some(selector) = selector {
        let encoded: String = http_encode(selector);
        query.push(format!("labelSelector={encoded}"));
    }
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    format!("{base}/{}{inside}/{}{query}", id.version, id.plural)
}

/// Everything but letters, digits and a few signs, as percent and hex.
fn http_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

pub(crate) async fn request(ask: &Ask, path: &str, as_table: bool) -> anyhow::Result<Value> {
    let accept = match as_table {
        true => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        false => "application/json",
    };
    let request = http::Request::get(path).header("accept", accept).body(Vec::new()).context("a request")?;
    ask.client.request::<Value>(request).await.map_err(explained)
}

/// A Table in columns; empty if it has no rows.
pub(crate) fn table(answer: &Value, wide: bool, namespaces: bool) -> String {
    let definitions = answer["columnDefinitions"].as_array().cloned().unwrap_or_default();
    let shown: Vec<usize> = (0..definitions.len())
        .filter(|at| wide || definitions[*at]["priority"].as_i64() == Some(0))
        .collect();
    let title = |at: &usize| definitions[*at]["name"].as_str().unwrap_or_default().to_uppercase();
    let mut head: Vec<String> = shown.iter().map(title).collect();
    if namespaces {
        head.insert(0, "NAMESPACE".into());
    }
    let row = |row: &Value| {
        let mut cells: Vec<String> = shown.iter().map(|at| cell(&row["cells"][*at])).collect();
        if namespaces {
            cells.insert(0, cell(&row["object"]["metadata"]["namespace"]));
        }
        cells
    };
    let rows: Vec<Vec<String>> = answer["rows"].as_array().into_iter().flatten().map(row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => output::columns(&head.iter().map(String::as_str).collect::<Vec<_>>(), &rows),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn names(word: &Word, answer: &Value) -> String {
    let items = answer["items"].as_array().into_iter().flatten();
    let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
    items.filter_map(name).map(|name| format!("{}/{name}\n", word.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths() {
        let cluster = kinds::find("cluster").unwrap();
        assert_eq!(
            path(cluster, "n", false, None, None),
            "/apis/provisioning.cattle.io/v1/namespaces/n/clusters"
        );
        assert_eq!(
            path(cluster, "n", true, Some("x"), Some("a=b")),
            "/apis/provisioning.cattle.io/v1/clusters?fieldSelector=metadata.name%3Dx&labelSelector=a%3Db"
        );
        assert_eq!(
            path(kinds::find("event").unwrap(), "n", false, None, None),
            "/api/v1/namespaces/n/events"
        );
    }

    #[test]
    fn tables_show_what_matters_unless_all_is_asked_for() {
        let answer = json!({
            "columnDefinitions": [{"name": "Name", "priority": 0}, {"name": "Age", "priority": 1}],
            "rows": [{"cells": ["a", null], "object": {"metadata": {"namespace": "n"}}}],
        });
        assert_eq!(table(&answer, false, false), "NAME\na\n");
        assert_eq!(table(&answer, true, true), "NAMESPACE   NAME   AGE\nn           a      <none>\n");
        assert_eq!(table(&json!({"columnDefinitions": [], "rows": []}), false, false), "");
    }
}
