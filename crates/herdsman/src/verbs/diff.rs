//! `herdsman diff -f FILE`: what applying a file would change.

use std::path::PathBuf;

use anyhow::Context as _;
use kit::KindId;
use kube::api::{Patch, PatchParams};
use kube::discovery;
use serde_json::Value;
use similar::TextDiff;

use super::ask::{Ask, MANAGER, explained};
use super::output::{self, Format, Paint, paint};
use super::target::{Target, block_on};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file; `-` reads stdin
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Prints the differences; nothing if there are none.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let documents = documents(&read(&arguments.file)?)?;
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        for document in documents {
            output::print(&one(&ask, &document).await?)?;
        }
        Ok(())
    })
}

/// A file's text, or stdin's.
pub(crate) fn read(path: &std::path::Path) -> anyhow::Result<String> {
    let text = match path.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(path),
    };
    text.with_context(|| format!("cannot read {}", path.display()))
}

/// The objects of a YAML or JSON stream.
pub(crate) fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).context("the file is no YAML")?;
    Ok(all.into_iter().filter(|one| !one.is_null()).collect())
}

async fn one(ask: &Ask, document: &Value) -> anyhow::Result<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&document["apiVersion"]), text(&document["kind"]));
    let name = text(&document["metadata"]["name"]);
    let (group, short) = version.split_once('/').unwrap_or(("", &version));
    let gvk = kube::core::GroupVersionKind::gvk(group, short, &kind);
    let (resource, capabilities) = discovery::pinned_kind(&ask.client, &gvk).await.map_err(explained)?;
    let id = KindId::new(group, short, &kind, &resource.plural);
    let namespace = document["metadata"]["namespace"].as_str().unwrap_or(&ask.namespace).to_owned();
    let there = Ask { namespace, ..ask.clone() };
    let api = there.api(&id, capabilities.scope == discovery::Scope::Namespaced);
    let live = api.get_opt(&name).await.map_err(explained)?;
    let options = PatchParams { dry_run: true, ..PatchParams::apply(MANAGER).force() };
    let merged = api.patch(&name, &options, &Patch::Apply(document)).await.map_err(explained)?;
    let before = live.map(serde_json::to_value).transpose()?.unwrap_or_default();
    difference(&format!("{kind}/{name}"), before, serde_json::to_value(merged)?)
}

/// Two states as a difference of lines; empty if nobody would notice one.
fn difference(title: &str, before: Value, after: Value) -> anyhow::Result<String> {
    let (before, after) = (shown(before)?, shown(after)?);
    if before == after {
        return Ok(String::new());
    }
    let diff = TextDiff::from_lines(&before, &after);
    let text = diff.unified_diff().header(&format!("live {title}"), &format!("applied {title}")).to_string();
    let on = output::colours();
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'+') => paint(line, Paint::Good, on),
        Some(b'-') => paint(line, Paint::Bad, on),
        _ => line.to_owned(),
    };
    Ok(text.lines().map(|one| line(one) + "\n").collect())
}

/// An object without what the server writes at every turn.
fn shown(mut object: Value) -> anyhow::Result<String> {
    if object.is_null() {
        return Ok(String::new());
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    output::document(&object, Format::Yaml)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_users_write_counts() {
        let object = |version: &str, revision: &str| json!({"metadata": {"name": "x", "resourceVersion": revision}, "spec": {"v": version}, "status": {"r": revision}});
        assert_eq!(difference("X/x", object("1", "1"), object("1", "2")).unwrap(), "");
        let told = difference("X/x", object("1", "1"), object("2", "2")).unwrap();
        assert!(told.contains("--- live X/x") && told.lines().any(|line| line.starts_with('-')), "{told}");
    }

    #[test]
    fn files_have_many_documents() {
        assert_eq!(documents("a: 1\n---\n---\nb: 2\n").unwrap(), [json!({"a": 1}), json!({"b": 2})]);
        assert!(documents("a: [").is_err());
    }
}
