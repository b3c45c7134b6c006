//! How long decisions take: `cargo xtask bench planner` runs it and holds the figures against their bars.
//!
//! A cluster at rest: one machine with all roles, every tenth of the others a control plane, the rest workers. Cold is
//! everything from the bytes of the plan Secrets to the decision; warm is what one changed Secret costs.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

use std::collections::BTreeMap;
use std::sync::Arc;

use api::catalogue::{annotations, labels};
use api::rke::v1::RKEControlPlaneSpec;
use clock::{Clock, SystemClock};
use plan::probe::{self, ProbeStatus};
use plan::secret::{self, Data};
use planner::{
    Address, Bootstrap, CapiCluster, Cluster, ClusterAgent, Decision, Epoch, Machine, MachineName, Memo,
    Node, Placement, PlanView, Snapshot, State, Tokens, Version, decide_with, render,
};

/// A plan Secret as it comes from the API.
struct Raw {
    name: MachineName,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    data: Data,
}

const VERSION: &str = "v1.34.2+rke2r1";

fn cluster() -> Cluster {
    let global = serde_json::json!({"tls-san": ["prod.example.com"], "kubelet-arg": ["max-pods=200"], "profile": "cis"});
    let mut spec = RKEControlPlaneSpec {
        kubernetes_version: VERSION.into(),
        cluster_name: "prod".into(),
        ..Default::default()
    };
    spec.configuration.machine_global_config = serde_json::from_value(global).unwrap();
    spec.configuration.additional_manifest = "kind: ConfigMap\n".repeat(50);
    Cluster {
        namespace: "fleet-default".into(),
        name: "prod".into(),
        spec,
        cluster_spec: "H4sI".repeat(500),
        tokens: Some(Tokens { server: "s".repeat(54), agent: "a".repeat(54) }),
        agent: Some(ClusterAgent {
            image: "agent:v1".into(),
            server_url: "https://h".into(),
            ..ClusterAgent::default()
        }),
        ..Cluster::default()
    }
}

fn roles(index: usize) -> &'static [&'static str] {
    match index {
        0 => &[labels::ETCD_ROLE, labels::CONTROL_PLANE_ROLE, labels::WORKER_ROLE],
        _ if index.is_multiple_of(10) => &[labels::CONTROL_PLANE_ROLE],
        _ => &[labels::WORKER_ROLE],
    }
}

fn url(index: usize) -> String {
    format!("https://10.{}.{}.1:9345", index / 250, index % 250)
}

fn read(raw: &Raw, index: usize) -> Machine {
    let address = url(index).trim_start_matches("https://").trim_end_matches(":9345").to_owned();
    Machine {
        id: format!("uid-{index:06}"),
        labels: raw.labels.clone(),
        infrastructure_ready: true,
        node: Some(Node {
            name: raw.name.to_string(),
            kubelet_version: VERSION.into(),
            addresses: vec![Address { kind: "InternalIP".into(), address }],
            ready: Some(true),
            lost: false,
            ..Node::default()
        }),
        bootstrap: Bootstrap { labels: raw.labels.clone(), annotations: raw.annotations.clone() },
        plan: PlanView::read(raw.annotations.clone(), &raw.data),
        ..Machine::default()
    }
}

/// A machine's Secret after its agent has applied the desired plan and every probe is well.
fn raw(cluster: &Cluster, version: &Version, index: usize) -> Raw {
    let name = MachineName::from(format!("machine-{index:06}").as_str());
    let mut words: BTreeMap<String, String> =
        roles(index).iter().map(|role| ((*role).into(), "true".into())).collect();
    let mut notes = BTreeMap::from([(annotations::JOINED_TO.to_owned(), url(0))]);
    if roles(index).contains(&labels::CONTROL_PLANE_ROLE) {
        notes.insert(annotations::JOIN_URL.into(), url(index));
    }
    if index == 0 {
        words.insert(labels::INIT_NODE.into(), "true".into());
        notes.remove(annotations::JOINED_TO);
    }
    notes.insert(annotations::PLAN_PROBES_PASSED.into(), "2026-01-01T00:00:00Z".into());
    let mut raw = Raw { name, labels: words, annotations: notes, data: Data::new() };
    let init = index == 0;
    let placement = Placement { init, server: (!init).then(|| url(0)), fresh: false };
    let machine = read(&raw, index);
    let rendered = render(Epoch::NEWEST, cluster, version, &raw.name, &machine, &placement).unwrap();
    let document = &rendered.document;
    let well = ProbeStatus { healthy: true, success_count: 1, ..ProbeStatus::default() };
    let statuses = document.plan().probes.keys().map(|name| (name.clone(), well.clone())).collect();
    for (key, value) in [
        (secret::PLAN, document.bytes().to_vec()),
        (secret::APPLIED_PLAN, document.bytes().to_vec()),
        (secret::PLAN_STATE, b"succeeded".to_vec()),
        (secret::APPLIED_CHECKSUM, document.checksum().to_string().into_bytes()),
        (secret::PROBE_STATUSES, probe::encode(&statuses)),
    ] {
        raw.data.insert(key.into(), value);
    }
    raw
}

fn snapshot(cluster: &Arc<Cluster>, raws: &[Raw]) -> Snapshot {
    let capi = CapiCluster { infrastructure_provisioned: true, ..CapiCluster::default() };
    let machines = raws.iter().enumerate().map(|(index, raw)| (raw.name.clone(), Arc::new(read(raw, index))));
    Snapshot {
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
        cluster: cluster.clone(),
        state: State {
            capi: Some(capi),
            initialized: true,
            bootstrapped: true,
            agent_connected: true,
            spec_is_applied: true,
            epoch: Some(Epoch::NEWEST),
            has_kubeconfig: true,
            ..State::default()
        },
        machines: machines.collect(),
    }
}

fn at_rest(decision: &Decision) {
    assert!(
        decision.writes.is_empty() && decision.waits.is_empty(),
        "{:?} {:?}",
        decision.writes.keys(),
        decision.waits
    );
}

/// The quickest of several measurements, in milliseconds: what else runs on the machine only ever adds.
fn quickest(rounds: usize, mut measure: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = SystemClock.monotonic();
    let result = work();
    (SystemClock.monotonic().since(start).as_secs_f64() * 1e3, result)
}

/// One decision for each of several clusters.
fn cold(cluster: &Arc<Cluster>, clusters: &[Vec<Raw>]) -> f64 {
    let (time, ()) = timed(|| {
        for raws in clusters {
            at_rest(&decide_with(&snapshot(cluster, raws), &mut Memo::default()));
        }
    });
    time
}

fn warm(cluster: &Arc<Cluster>, raws: &[Raw], rounds: usize) -> f64 {
    let mut memo = Memo::default();
    let mut seen = snapshot(cluster, raws);
    at_rest(&decide_with(&seen, &mut memo));
    let mut index = raws.len() / 2;
    quickest(rounds, || {
        index = (index + 1) % raws.len();
        let (time, decision) = timed(|| {
            let machine = Arc::new(read(&raws[index], index));
            seen.machines.insert(raws[index].name.clone(), machine);
            decide_with(&seen, &mut memo)
        });
        at_rest(&decision);
        time
    })
}

fn main() {
    let cluster = Arc::new(cluster());
    let version: Version = VERSION.parse().unwrap();
    let make =
        |count: usize| -> Vec<Raw> { (0..count).map(|index| raw(&cluster, &version, index)).collect() };
    // As many machines in both, so that both are as much disturbed by what else runs.
    let small: Vec<_> = (0..100).map(|_| make(10)).collect();
    let large = make(1_000);
    let (mut cold_small, mut cold_large) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..51 {
        cold_small = cold_small.min(cold(&cluster, &small));
        cold_large = cold_large.min(cold(&cluster, std::slice::from_ref(&large)));
    }
    println!("measured cold_1000 {cold_large:.3}");
    println!("measured warm_1000 {:.3}", warm(&cluster, &large, 201));
    println!("measured growth {:.3}", cold_large / cold_small);
    println!("per machine: {cold_small:.1} us at 10, {cold_large:.1} us at 1000");
}
