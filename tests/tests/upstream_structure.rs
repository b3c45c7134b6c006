//! Our definitions of Cluster API's kinds have the structure of upstream's, read from upstream's Go module.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use suites::schema_diff::differences;

/// Where the module keeps its definitions.
const DIRECTORIES: [&str; 2] = ["core/config/crd/bases", "cmd/clusterctl/config/crd/bases"];
/// Groups of which every kind that we have has to be upstream's too.
const GROUPS: [&str; 3] = ["cluster.x-k8s.io", "ipam.cluster.x-k8s.io", "clusterctl.cluster.x-k8s.io"];

/// A difference that stays.
struct Kept {
    /// The difference, without the kind's plural at its beginning.
    difference: &'static str,
    /// The kinds that have it, by their plurals.
    kinds: &'static [&'static str],
    /// Why it stays.
    reason: &'static str,
}

const KEPT: [Kept; 3] = [
    Kept {
        difference: r#" v1beta1 .status.nodeInfo.runningInUserNamespace: field ours="boolean" upstream=absent"#,
        kinds: &["machines"],
        reason: NODE_INFO,
    },
    Kept {
        difference: r#" v1beta2 .status.nodeInfo.runningInUserNamespace: field ours="boolean" upstream=absent"#,
        kinds: &["machines"],
        reason: NODE_INFO,
    },
    Kept {
        difference: r#" v1beta1: version ours=absent upstream="served""#,
        kinds: &["machinepools"],
        reason: "known for clients that list it in the present version; nothing looks after it",
    },
];

const NODE_INFO: &str =
    "copied from the Node, which has it from Kubernetes 1.37 on; upstream is built with an older one";

#[test]
#[ignore = "default: cluster-api"]
fn definitions_have_the_structure_of_upstreams() -> Result<()> {
    if peers::skip("upstream-structure") {
        return Ok(());
    }
    let upstream = upstream_definitions(&peers::go_module("cluster-api")?)?;
    let mut kept: BTreeMap<String, &str> = kept_lines();
    let mut unexpected = Vec::new();
    let ours = our_definitions()?;
    ensure!(ours.contains_key("clusters.cluster.x-k8s.io"), "nothing to compare");
    for (name, ours) in &ours {
        let upstream = upstream.get(name).with_context(|| format!("upstream has no {name}"))?;
        for line in differences(ours, upstream) {
            match kept.remove(&line) {
                Some(reason) => println!("kept ({reason}): {line}"),
                None => unexpected.push(line),
            }
        }
    }
    unexpected
        .extend(kept.keys().map(|line| format!("listed as kept, but there is no such difference: {line}")));
    ensure!(unexpected.is_empty(), "{} differences:\n{}", unexpected.len(), unexpected.join("\n"));
    Ok(())
}

fn kept_lines() -> BTreeMap<String, &'static str> {
    let lines =
        |kept: Kept| kept.kinds.iter().map(move |kind| (format!("{kind}{}", kept.difference), kept.reason));
    KEPT.into_iter().flat_map(lines).collect()
}

/// Upstream's definitions by name.
fn upstream_definitions(module: &Path) -> Result<BTreeMap<String, Value>> {
    let mut definitions = BTreeMap::new();
    for directory in DIRECTORIES.map(|directory| module.join(directory)) {
        for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let definition: Value =
                serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
            let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            definitions.insert(name, definition);
        }
    }
    Ok(definitions)
}

/// Our definitions of upstream's groups, by name.
fn our_definitions() -> Result<BTreeMap<String, Value>> {
    let ours =
        api::crd::all().into_iter().filter(|definition| GROUPS.contains(&definition.spec.group.as_str()));
    ours.map(|definition| {
        let name = definition.metadata.name.clone().unwrap_or_default();
        Ok((name, serde_json::to_value(definition)?))
    })
    .collect()
}
