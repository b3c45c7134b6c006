//! Our conversion does what upstream's own code does: random objects of every kind through both, both ways.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, ensure};
use api::conversion::{ApiVersions, DATA_ANNOTATION, convert};
use peers::Peer;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use samples::cluster_api_fields;
use serde_json::Value;

/// Objects per kind and direction.
const OBJECTS: usize = 300;
/// Our groups that are converted, and the version that upstream's program converts to and from.
const GROUPS: [&str; 2] = ["cluster.x-k8s.io", "ipam.cluster.x-k8s.io"];
const DIRECTIONS: [(&str, &str); 2] = [("v1beta1", "v1beta2"), ("v1beta2", "v1beta1")];

/// What upstream's program answers as well.
struct Beta1;

impl ApiVersions for Beta1 {
    fn api_version(&self, group: &str, _: &str) -> Result<String, String> {
        Ok(if group.is_empty() { "v1beta1".into() } else { format!("{group}/v1beta1") })
    }
}

#[test]
#[ignore = "peers: cluster-api, capi-convert"]
fn conversion_does_what_upstreams_does() -> Result<()> {
    if peers::skip("upstream-conversion") {
        return Ok(());
    }
    let mut differences: BTreeMap<String, String> = BTreeMap::new();
    // A kind of one version is not converted.
    for crd in api::crd::all()
        .iter()
        .filter(|crd| GROUPS.contains(&crd.spec.group.as_str()) && crd.spec.versions.len() > 1)
    {
        for (from, to) in DIRECTIONS {
            let objects = objects(&serde_json::to_value(crd)?, from)?;
            let to = format!("{}/{to}", crd.spec.group);
            for (object, theirs) in objects.iter().zip(upstream(&objects)?) {
                ensure!(theirs.get("error").is_none(), "upstream refuses {object}: {theirs}");
                let (ours, theirs) = (comparable(convert(object.clone(), &to, &Beta1)?), comparable(theirs));
                let kind = object["kind"].as_str().unwrap_or_default();
                for difference in differing_fields(&format!("{kind} to {to}"), &ours, &theirs) {
                    differences
                        .entry(difference)
                        .or_insert_with(|| format!("{object}\nours {ours}\ntheirs {theirs}"));
                }
            }
        }
    }
    let report: Vec<String> =
        differences.iter().map(|(field, example)| format!("{field}\n{example}")).collect();
    ensure!(report.is_empty(), "{} differences:\n{}", report.len(), report.join("\n\n"));
    Ok(())
}

fn objects(crd: &Value, version: &str) -> Result<Vec<Value>> {
    let strategy = samples::custom_objects(crd, version, cluster_api_fields).context("no such version")?;
    // The same objects every time: this test compares, the property tests explore.
    let mut runner = TestRunner::deterministic();
    let object = |_| Ok(strategy.new_tree(&mut runner).map_err(anyhow::Error::msg)?.current());
    (0..OBJECTS).map(object).collect()
}

/// The objects as upstream's code converts them.
fn upstream(objects: &[Value]) -> Result<Vec<Value>> {
    let program = Peer::CapiConvert.provide()?.path.join("capi-convert");
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut input, output) =
        (child.stdin.take().context("no stdin")?, child.stdout.take().context("no stdout")?);
    let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
    let writer = thread::spawn(move || input.write_all(lines.as_bytes()));
    let answers: Result<Vec<Value>> =
        BufReader::new(output).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect();
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    ensure!(child.wait()?.success(), "capi-convert failed");
    let answers = answers?;
    ensure!(answers.len() == objects.len(), "{} answers to {} objects", answers.len(), objects.len());
    Ok(answers)
}

/// What is compared: no annotation that carries the hub, no kind (upstream's program leaves it out), and no empty
/// values: in Go those and absent ones are the same, and each side leaves out some that the other writes.
fn comparable(mut object: Value) -> Value {
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(DATA_ANNOTATION);
    }
    object["kind"].take();
    // Kubernetes 1.37's nodes have it; upstream is built with an older one and drops it.
    if let Some(node_info) = object.pointer_mut("/status/nodeInfo/runningInUserNamespace") {
        node_info.take();
    }
    remove_empty(&mut object);
    object
}

fn remove_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(remove_empty);
            fields.retain(|_, field| !is_empty(field));
        }
        Value::Array(items) => items.iter_mut().for_each(remove_empty),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    ["null", "0", "false", "\"\"", "{}", "[]"].contains(&value.to_string().as_str())
}

/// The paths at which two documents differ, list positions left out so that like differences are told once.
fn differing_fields(path: &str, ours: &Value, theirs: &Value) -> Vec<String> {
    match (ours, theirs) {
        _ if ours == theirs => Vec::new(),
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
            let field = |key: &String| differing_fields(&format!("{path}.{key}"), &ours[key], &theirs[key]);
            keys.into_iter().flat_map(field).collect()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            left.iter().zip(right).flat_map(|(a, b)| differing_fields(&format!("{path}[]"), a, b)).collect()
        }
        _ => vec![path.to_owned()],
    }
}
