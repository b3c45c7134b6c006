//! `herdsman describe cluster/NAME`: everything that a cluster is made of, as a tree, with what is not well.

use std::collections::BTreeMap;

use api::catalogue::annotations;
use kit::KindId;
use serde_json::Value;

use super::ask::Ask;
use super::kinds;
use super::output::{self, Paint, paint};
use super::target::{self, Target, block_on};

/// The label that ties objects to their cluster.
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// The label that ties machines to their pool.
const DEPLOYMENT_LABEL: &str = "cluster.x-k8s.io/deployment-name";

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which cluster: NAME or cluster/NAME
    #[arg(value_parser = target::cluster)]
    cluster: String,
    #[command(flatten)]
    target: Target,
    /// Also conditions that are as they should be
    #[arg(long)]
    all_conditions: bool,
}

/// Prints the tree.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        let facts = gather(&ask, &arguments.cluster).await?;
        let style = Style { colours: output::colours(), all: arguments.all_conditions };
        output::print(&render(&facts, style))
    })
}

/// What a cluster is made of.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) cluster: Value,
    pub(crate) control_plane: Option<Value>,
    pub(crate) capi: Option<Value>,
    pub(crate) pools: Vec<Value>,
    pub(crate) machines: Vec<Value>,
    /// Fingerprints of the host keys by which hosts of the driver `ssh` are known, by infrastructure machine.
    pub(crate) host_keys: BTreeMap<String, String>,
}

async fn gather(ask: &Ask, name: &str) -> anyhow::Result<Facts> {
    let of = format!("{CLUSTER_LABEL}={name}");
    let kind = |word: &str| kinds::find(word).map(kinds::Word::id);
    let machines = ask.list(&kind("machine")?, &of).await?;
    Ok(Facts {
        host_keys: host_keys(ask, &machines).await?,
        cluster: ask.object(kinds::find("cluster")?, name).await?,
        control_plane: ask.find(&kind("controlplane")?, name).await?,
        capi: ask.find(&kind("capicluster")?, name).await?,
        pools: ask.list(&kind("pool")?, &of).await?,
        machines,
    })
}

/// By which keys the hosts of machines are known; nothing of machines that are no hosts.
async fn host_keys(ask: &Ask, machines: &[Value]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let Some(driver) = api::machine::Driver::named("ssh") else { return Ok(found) };
    let served = driver.machine_resource();
    let kind = KindId::new(&served.group, &served.version, &served.kind, &served.plural);
    for reference in machines.iter().map(|machine| &machine["spec"]["infrastructureRef"]) {
        let Some(name) = reference["name"].as_str().filter(|_| reference["kind"] == served.kind.as_str())
        else {
            continue;
        };
        let host = ask.find(&kind, name).await?.unwrap_or_default();
        if let Some(key) = host["metadata"]["annotations"][annotations::HERDSMAN_SSH_HOST_KEY].as_str() {
            found.insert(name.to_owned(), key.to_owned());
        }
    }
    Ok(found)
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    colours: bool,
    all: bool,
}

/// A line of the tree and what hangs from it.
struct Branch {
    text: String,
    under: Vec<Branch>,
}

/// The tree as text.
pub(crate) fn render(facts: &Facts, style: Style) -> String {
    let version = text(&facts.cluster["spec"]["kubernetesVersion"]);
    let mut root = branch("cluster", &facts.cluster, &version, style);
    if let Some(one) = &facts.capi {
        root.under.push(branch("infrastructure and nodes", one, &text(&one["status"]["phase"]), style));
    }
    if let Some(one) = &facts.control_plane {
        root.under.push(branch("control plane", one, "", style));
    }
    for pool in &facts.pools {
        root.under.push(pool_branch(pool, facts, style));
    }
    let known: Vec<&str> = facts.pools.iter().map(name).collect();
    let loose = |machine: &&Value| !known.contains(&label(machine, DEPLOYMENT_LABEL));
    root.under
        .extend(facts.machines.iter().filter(loose).map(|machine| machine_branch(machine, facts, style)));
    let mut lines = String::new();
    draw(&root, "", "", &mut lines);
    lines
}

fn pool_branch(pool: &Value, facts: &Facts, style: Style) -> Branch {
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let ready =
        format!("{}/{} ready", number(&pool["status"]["readyReplicas"]), number(&pool["spec"]["replicas"]));
    let mut found = branch("pool", pool, &ready, style);
    let mine = facts.machines.iter().filter(|machine| label(machine, DEPLOYMENT_LABEL) == name(pool));
    found.under.extend(mine.map(|machine| machine_branch(machine, facts, style)));
    found
}

fn machine_branch(machine: &Value, facts: &Facts, style: Style) -> Branch {
    let node = text(&machine["status"]["nodeRef"]["name"]);
    let node = if node.is_empty() { String::new() } else { format!("node {node}") };
    let more = format!("{} {node}", text(&machine["status"]["phase"]));
    let mut found = branch("machine", machine, more.trim(), style);
    let host = machine["spec"]["infrastructureRef"]["name"].as_str().unwrap_or_default();
    let key =
        facts.host_keys.get(host).map(|key| Branch { text: format!("host key {key}"), under: Vec::new() });
    found.under.extend(key);
    found
}

fn branch(what: &str, object: &Value, more: &str, style: Style) -> Branch {
    let (word, colour) = state(object);
    let word = paint(word, colour, style.colours);
    let more = if more.is_empty() { String::new() } else { format!("  {more}") };
    let under = conditions(object, style).into_iter().map(|text| Branch { text, under: Vec::new() });
    Branch { text: format!("{what} {}  {word}{more}", name(object)), under: under.collect() }
}

/// One word for an object.
fn state(object: &Value) -> (&'static str, Paint) {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return ("Deleting", Paint::Waiting);
    }
    let found = find(object, "Ready").or_else(|| find(object, "Available"));
    match found.and_then(|one| one["status"].as_str()) {
        Some("True") => ("Ready", Paint::Good),
        Some("False") => ("NotReady", Paint::Bad),
        _ => ("Waiting", Paint::Waiting),
    }
}

fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// The conditions worth a line: those that are not as they should be.
fn conditions(object: &Value, style: Style) -> Vec<String> {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    let line = |one: &Value| {
        let (kind, status) = (text(&one["type"]), text(&one["status"]));
        let message = [text(&one["message"]), text(&one["reason"])].into_iter().find(|text| !text.is_empty());
        let well = status == good(&kind);
        let worth = style.all || (!well && message.is_some());
        let colour = if well { Paint::Faint } else { Paint::Waiting };
        let shown = format!("{kind}={status}: {}", message.unwrap_or_default().replace('\n', " "));
        worth.then(|| paint(shown.trim_end_matches(": "), colour, style.colours))
    };
    all.filter_map(line).collect()
}

/// What a condition says when all is well: these tell of something that goes on.
fn good(kind: &str) -> &'static str {
    const ABOUT_TROUBLE: [&str; 9] = [
        "Deleting",
        "Paused",
        "Remediating",
        "ScalingDown",
        "ScalingUp",
        "RollingOut",
        "Stalled",
        "Removed",
        "Updating",
    ];
    if ABOUT_TROUBLE.contains(&kind) { "False" } else { "True" }
}

fn draw(branch: &Branch, first: &str, rest: &str, out: &mut String) {
    out.push_str(&format!("{first}{}\n", branch.text));
    let last = branch.under.len().saturating_sub(1);
    for (at, one) in branch.under.iter().enumerate() {
        let (head, tail) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        draw(one, &format!("{rest}{head}"), &format!("{rest}{tail}"), out);
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn label<'a>(object: &'a Value, label: &str) -> &'a str {
    object["metadata"]["labels"][label].as_str().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tree_shows_what_is_not_well() {
        let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "message": message});
        let machine = |name: &str, pool: &str, ready: &str| {
            json!({"metadata": {"name": name, "labels": {DEPLOYMENT_LABEL: pool}}, "spec": {"infrastructureRef": {"name": name}},
                "status": {"phase": "Running", "nodeRef": {"name": name}, "conditions": [condition("Ready", ready, "the agent\nwaits")]}})
        };
        let facts = Facts {
            cluster: json!({"metadata": {"name": "c"}, "spec": {"kubernetesVersion": "v1"},
                "status": {"conditions": [condition("Ready", "True", ""), condition("Paused", "False", "no")]}}),
            control_plane: Some(json!({"metadata": {"name": "c"}})),
            capi: None,
            pools: vec![
                json!({"metadata": {"name": "c-p"}, "spec": {"replicas": 2}, "status": {"readyReplicas": 1}}),
            ],
            machines: vec![
                machine("a", "c-p", "True"),
                machine("b", "c-p", "False"),
                machine("x", "", "True"),
            ],
            host_keys: [("x".to_owned(), "ssh-ed25519 SHA256:abc".to_owned())].into(),
        };
        let expected = "cluster c  Ready  v1\n\
            ├─ control plane c  Waiting\n\
            ├─ pool c-p  Waiting  1/2 ready\n\
            │  ├─ machine a  Ready  Running node a\n\
            │  └─ machine b  NotReady  Running node b\n\
            │     └─ Ready=False: the agent waits\n\
            └─ machine x  Ready  Running node x\n   └─ host key ssh-ed25519 SHA256:abc\n";
        assert_eq!(render(&facts, Style::default()), expected);
    }
}
